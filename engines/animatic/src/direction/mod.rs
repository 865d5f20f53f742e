//! Direction: what the prompt says about the camera, the length and the shape of the picture.
//!
//! A prompt is prose about a scene with a few words of direction in it. This module finds those
//! words and leaves the rest alone. Case does not matter, only whole words count ("panda" is no
//! pan), and nothing in a prompt is an error: what is not understood is not direction.
//!
//! ```text
//! prompt    = clause *( ("," | "." | ";" | line end) clause )
//! sequence  = move *( ("then" | "after" | "next" | "finally" | "before" | …) move )
//! move      = [pace] verb [filler] [towards]          "slowly pan to the left"
//!           | [pace] towards verb                     "a left pan"
//! verb      = zoom | dolly | push | pull | pan | tilt | truck | track | slide | pedestal | crane
//!           | boom | jib | roll | rotate | orbit | arc | circle | move | glide | drift
//!           | "handheld" | "static" | "still" | "locked" …
//! towards   = in | out | forward | back | left | right | up | down | clockwise | counterclockwise
//! pace      = slow | gentle | subtle | …  |  fast | quick | rapid | whip | …
//! length    = number ("s" | "sec" | "second" | "seconds" | "minute")      "6s", "six seconds"
//! easing    = "ease in" | "ease out" | "constant speed" | "slowing down" …
//! look      = "black and white" | sepia | vintage | warm | cold | "high contrast" | vignette
//!           | "film grain" | "day for night"
//! weather   = [amount] ( rain | drizzle | downpour | snowfall | blizzard | fog | mist | dust
//!           | embers | stars | confetti )                "heavy rain", "light snowfall"
//! amount    = light | gentle | few | …  |  heavy | thick | dense | pouring | …
//! fade      = "fade in" ["from" colour] | "fade out" | "fade to" colour      colour: black, white
//! title     = words in quotes: the first a title, the second and third lines below it
//! sound     = "sound of" place | place "ambience" | "room tone" | birdsong | …
//! shape     = "16:9" | "9:16" | "1:1" | "4:3" | "3:4" | "21:9" | vertical | portrait | square
//!           | landscape | widescreen | cinematic
//! ```
//!
//! * Moves joined by a comma, "and" or "while" happen together; a sequencer starts the next leg
//!   of the shot, and so does a second move on the same axis ("zoom in and zoom out").
//! * A verb that is also an everyday noun (a *truck*, rolling hills, a frying *pan*) counts only
//!   with a direction, next to a camera word or a pace, or at the start of a clause.
//! * A shape word that also describes scenes (a town *square*, a *portrait* of a man) counts only
//!   alone in its clause, after "in", or next to a word like "format" or "video".
//! * A look, weather or sound that is also an everyday word (*warm* bread, a field of *dust*, a
//!   *fire*) counts only alone in its clause or next to a word that makes it one ("warm light",
//!   "dust in the air", "sound of a fire").
//! * "no zoom", "without panning", "after the rain" ask for nothing.
//! * Phrases of German, Spanish, French, Japanese and Chinese, and all phrases of scenery, are in
//!   `vocabulary`.
//! * What is known and can't be done ("rack focus", "slow motion") is reported as not done.
//! * When no move is named the camera pushes in slowly.
//!
//! This module does not know how a move looks; the camera does.

mod effects;
mod kinds;
mod parse;
mod phrases;
mod quotes;
mod small_words;
mod tables;
mod tokens;
mod vocabulary;
mod word_uses;
mod words;

use crate::scene::Scenery;
use crate::sound::Ambience;
pub(crate) use kinds::MoveAxis;
pub use kinds::{
    CameraMove, Easing, FadeColour, FilmLook, FrameShape, MoveKind, MovePace, ParticleAmount,
    ParticleKind, ShotLeg, WeatherEffect,
};
pub(crate) use word_uses::{PromptWord, WordTaker};

/// What a prompt says about the shot.
#[derive(Debug, Clone, PartialEq)]
pub struct Direction {
    /// The legs of the shot, one after the other; never empty.
    pub legs: Vec<ShotLeg>,
    /// Whether `legs` is the default, because the prompt names no move.
    pub assumed: bool,
    /// How the moves start and end, if the prompt says so.
    pub easing: Option<Easing>,
    /// The length in the prompt, in seconds; may be out of range.
    pub seconds: Option<f64>,
    /// The shape named.
    pub shape: Option<FrameShape>,
    /// The looks named, each once, in the order of the prompt.
    pub looks: Vec<FilmLook>,
    /// The weather named, each kind once.
    pub weather: Vec<WeatherEffect>,
    /// What the first frames come out of.
    pub fade_in: Option<FadeColour>,
    /// What the last frames go into.
    pub fade_out: Option<FadeColour>,
    /// The words in quotes: the title, then smaller lines below it.
    pub titles: Vec<String>,
    /// The sounds named.
    pub ambience: Vec<Ambience>,
    /// What the prompt asks for that is known but cannot be done.
    pub unsupported: Vec<&'static str>,
    /// What the prompt asks of a drawn scene.
    pub(crate) scenery: Scenery,
    /// The words of the prompt that mean something, in its order, without those in quotes.
    pub(crate) words: Vec<PromptWord>,
}

impl Direction {
    /// Whether the camera travels, so that near things move past far ones.
    pub(crate) fn travels(&self) -> bool {
        // Zooms, pans, tilts and rolls are missing here: the camera stays where it is, so near and
        // far things move alike.
        let mut moves = self.legs.iter().flat_map(|leg| &leg.moves);
        moves.any(|m| {
            matches!(
                m.kind,
                MoveKind::PushIn
                    | MoveKind::PullOut
                    | MoveKind::TruckLeft
                    | MoveKind::TruckRight
                    | MoveKind::PedestalUp
                    | MoveKind::PedestalDown
                    | MoveKind::OrbitLeft
                    | MoveKind::OrbitRight
                    | MoveKind::Handheld
            )
        })
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod docs_page;
