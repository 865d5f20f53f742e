//! The rows of the vocabulary, and what their phrases can mean.

use crate::direction::kinds::{
    FilmLook, FrameShape, MoveKind, MovePace, ParticleAmount, ParticleKind,
};
use crate::direction::phrases::PhraseContext;
use crate::scene::{SceneElement, ScenePlace, SkyCondition, TimeOfDay};
use crate::sound::Ambience;

/// The languages of a row's phrases, in order.
#[cfg(test)]
pub(super) const LANGUAGES: [&str; 6] = [
    "English", "German", "Spanish", "French", "Japanese", "Chinese",
];

/// Phrases of the same meaning.
pub(super) struct VocabularyRow {
    /// Empty for phrases that only look like scenery, such as "depth of field".
    pub(super) meanings: &'static [Meaning],
    pub(super) context: PhraseContext,
    /// In the six languages, separated by `|` within one.
    pub(super) phrases: [&'static str; 6],
}

/// One thing that a phrase asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    Place(ScenePlace),
    Hour(TimeOfDay),
    Sky(SkyCondition),
    Particles(ParticleKind, ParticleAmount),
    Look(FilmLook),
    Sound(Ambience),
    Move(MoveKind),
    /// The pace of the moves in the same clause.
    Pace(MovePace),
    /// From black.
    FadeIn,
    /// To black.
    FadeOut,
    Shape(FrameShape),
}

impl Meaning {
    /// What it asks of a drawn scene.
    pub(crate) fn scene_element(self) -> Option<SceneElement> {
        match self {
            Self::Place(place) => Some(SceneElement::Place(place)),
            Self::Hour(hour) => Some(SceneElement::Hour(hour)),
            Self::Sky(sky) => Some(SceneElement::Sky(sky)),
            _ => None,
        }
    }
}

/// Phrases that count anywhere.
pub(super) const fn row(meanings: &'static [Meaning], phrases: [&'static str; 6]) -> VocabularyRow {
    ambiguous(PhraseContext::Always, meanings, phrases)
}

/// Phrases that count only in a context.
pub(super) const fn ambiguous(
    context: PhraseContext,
    meanings: &'static [Meaning],
    phrases: [&'static str; 6],
) -> VocabularyRow {
    VocabularyRow {
        meanings,
        context,
        phrases,
    }
}
