//! Effects: what a prompt says about looks, weather, fades, easing and sounds, and what it asks
//! for that can't be done.

use super::kinds::{Easing, FadeColour, FilmLook, ParticleAmount, ParticleKind, WeatherEffect};
use super::phrases::{PhraseMatch, TablePhrase, find, is_heavy, is_light};
use super::tables::{EASING, FADES, LOOKS, SOUNDS, UNSUPPORTED, WEATHER};
use super::tokens::Clause;
use super::vocabulary::{Meaning, VocabularyMatch};
use super::word_uses::WordUses;
use crate::sound::Ambience;

/// What a prompt asks for besides its moves and its scenery.
#[derive(Debug, Default)]
pub(super) struct Effects {
    pub(super) looks: Vec<FilmLook>,
    pub(super) weather: Vec<WeatherEffect>,
    pub(super) fade_in: Option<FadeColour>,
    pub(super) fade_out: Option<FadeColour>,
    pub(super) easing: Option<Easing>,
    pub(super) ambience: Vec<Ambience>,
    /// Names of what cannot be done, as in the table.
    pub(super) unsupported: Vec<&'static str>,
}

impl Effects {
    /// Finds the effects in a prompt, and marks their words as used.
    pub(super) fn find(
        clauses: &[Clause],
        vocabulary: &[VocabularyMatch],
        uses: &mut WordUses,
    ) -> Self {
        let (fade_in, fade_out) = fades(clauses, uses);
        let easing = find(clauses, EASING);
        uses.mark_all(&easing);
        let mut effects = Self {
            looks: meanings(clauses, LOOKS, uses),
            weather: weather(clauses, uses),
            fade_in,
            fade_out,
            easing: easing.first().map(|hit| hit.meaning),
            ambience: meanings(clauses, SOUNDS, uses),
            unsupported: meanings(clauses, UNSUPPORTED, uses),
        };
        for hit in vocabulary.iter().filter(|hit| !hit.is_denied) {
            for meaning in hit.meanings {
                effects.add(*meaning);
            }
        }
        effects
    }

    /// Adds what a phrase of the vocabulary asks for, unless it was named before.
    fn add(&mut self, meaning: Meaning) {
        match meaning {
            Meaning::Look(look) => add_new(&mut self.looks, look),
            Meaning::Sound(sound) => add_new(&mut self.ambience, sound),
            Meaning::Particles(particles, amount)
                if self.weather.iter().all(|w| w.particles != particles) =>
            {
                self.weather.push(WeatherEffect { particles, amount });
            }
            Meaning::FadeIn => self.fade_in = self.fade_in.or(Some(FadeColour::Black)),
            Meaning::FadeOut => self.fade_out = self.fade_out.or(Some(FadeColour::Black)),
            _ => {}
        }
    }
}

/// The meanings of a table's phrases, each once.
fn meanings<T: Copy + PartialEq>(
    clauses: &[Clause],
    table: &[TablePhrase<T>],
    uses: &mut WordUses,
) -> Vec<T> {
    let hits = find(clauses, table);
    uses.mark_all(&hits);
    let mut unique = Vec::new();
    for hit in hits {
        add_new(&mut unique, hit.meaning);
    }
    unique
}

/// The weather named, each kind once.
fn weather(clauses: &[Clause], uses: &mut WordUses) -> Vec<WeatherEffect> {
    let mut effects: Vec<WeatherEffect> = Vec::new();
    for hit in find(clauses, WEATHER) {
        uses.mark_hit(&hit);
        let (particles, default_amount) = hit.meaning;
        if effects.iter().all(|w| w.particles != particles) {
            // The prompt's own word wins over what the phrase implies: "heavy drizzle".
            let amount = amount_before(&hit).unwrap_or(default_amount);
            effects.push(WeatherEffect { particles, amount });
        }
    }
    effects
}

fn amount_before<T>(hit: &PhraseMatch<'_, T>) -> Option<ParticleAmount> {
    hit.clause[hit.start.saturating_sub(2)..hit.start]
        .iter()
        .rev()
        .find_map(|word| {
            if is_light(word) {
                Some(ParticleAmount::Light)
            } else if is_heavy(word) {
                Some(ParticleAmount::Heavy)
            } else {
                None
            }
        })
}

/// The fades at the beginning and the end.
fn fades(clauses: &[Clause], uses: &mut WordUses) -> (Option<FadeColour>, Option<FadeColour>) {
    let mut fades = (None, None);
    for hit in find(clauses, FADES) {
        uses.mark_hit(&hit);
        // Six words reach the colour in "fade in very slowly from white".
        let reach = hit.start..hit.clause.len().min(hit.start + 6);
        for index in reach.clone() {
            if matches!(hit.clause[index].as_str(), "white" | "black" | "out") {
                uses.mark(hit.clause_index, index..index + 1);
            }
        }
        let rest = hit.clause[reach].iter();
        let colour = if rest.clone().any(|word| word == "white") {
            FadeColour::White
        } else {
            FadeColour::Black
        };
        let (first, last) = hit.meaning;
        if first {
            fades.0 = fades.0.or(Some(colour));
        }
        // "Fade in and out"
        if last || rest.clone().any(|word| word == "out") {
            fades.1 = fades.1.or(Some(colour));
        }
    }
    fades
}

fn add_new<T: PartialEq>(values: &mut Vec<T>, value: T) {
    if !values.contains(&value) {
        values.push(value);
    }
}

impl FilmLook {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::BlackAndWhite => "black and white",
            Self::Sepia => "sepia",
            Self::Vintage => "vintage colours",
            Self::Warm => "warm colours",
            Self::Cold => "cold colours",
            Self::HighContrast => "high contrast",
            Self::Vignette => "vignette",
            Self::FilmGrain => "film grain",
            Self::DayForNight => "day for night",
        }
    }
}

impl WeatherEffect {
    pub(crate) fn words(self) -> String {
        let amount = match self.amount {
            ParticleAmount::Light => "light ",
            ParticleAmount::Usual => "",
            ParticleAmount::Heavy => "heavy ",
        };
        let particles = match self.particles {
            ParticleKind::Rain => "rain",
            ParticleKind::Snow => "falling snow",
            ParticleKind::Fog => "fog",
            ParticleKind::Dust => "dust",
            ParticleKind::Embers => "embers",
            ParticleKind::Stars => "twinkling stars",
            ParticleKind::Confetti => "confetti",
        };
        format!("{amount}{particles}")
    }
}

impl FadeColour {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Black => "black",
            Self::White => "white",
        }
    }
}

impl Easing {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Smooth => "smooth start and end",
            Self::Linear => "constant speed",
            Self::In => "gathering speed",
            Self::Out => "slowing down",
        }
    }
}
