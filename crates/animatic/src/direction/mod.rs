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
//! * What is known and can't be done ("rack focus", "slow motion") is reported as not done.
//! * When no move is named the camera pushes in slowly.
//!
//! It does not know how a move looks; that is the camera's business.

mod effects;
mod parse;
mod phrases;
mod quotes;
mod tables;
mod words;

use crate::options::{MAX_SECONDS, MIN_SECONDS};
use crate::sound::Ambience;
pub use effects::{Amount, Easing, Fade, Look, Particles, Weather};

/// What a prompt says about the shot.
#[derive(Debug, Clone, PartialEq)]
pub struct Direction {
    /// The legs of the shot, one after the other; never empty.
    pub legs: Vec<Leg>,
    /// Whether the legs are the default because the prompt names no move.
    pub assumed: bool,
    /// How the moves get under way and end, where the prompt says so.
    pub easing: Option<Easing>,
    /// The length named, in seconds, as it was named: it may be outside the offer.
    pub seconds: Option<f64>,
    /// The shape named.
    pub shape: Option<Shape>,
    /// The looks named, each once, in the order of the prompt.
    pub looks: Vec<Look>,
    /// The weather named, each kind once.
    pub weather: Vec<Weather>,
    /// What the first frames come out of.
    pub fade_in: Option<Fade>,
    /// What the last frames go into.
    pub fade_out: Option<Fade>,
    /// The words in quotes: the title, then smaller lines below it.
    pub titles: Vec<String>,
    /// The sounds named.
    pub ambience: Vec<Ambience>,
    /// What the prompt asks for by a known name and this engine can't do.
    pub refused: Vec<&'static str>,
    /// The prompt without the words in quotes: what a scene is drawn from.
    pub(crate) scenery: String,
}

/// Moves that happen together; at most one per axis, never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leg {
    /// The moves, in the order in which the prompt names them.
    pub moves: Vec<Move>,
}

/// One camera move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// Which move.
    pub kind: MoveKind,
    /// How fast.
    pub pace: Pace,
}

/// The camera moves that are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MoveKind {
    /// The camera travels towards the scene (dolly in, push in).
    PushIn,
    /// The camera travels away (dolly out, pull back).
    PullOut,
    /// The lens closes in.
    ZoomIn,
    /// The lens widens.
    ZoomOut,
    /// The camera turns to its left.
    PanLeft,
    /// The camera turns to its right.
    PanRight,
    /// The camera looks up.
    TiltUp,
    /// The camera looks down.
    TiltDown,
    /// The camera travels sideways to the left.
    TruckLeft,
    /// The camera travels sideways to the right.
    TruckRight,
    /// The camera rises.
    PedestalUp,
    /// The camera sinks.
    PedestalDown,
    /// The camera rolls clockwise about its line of sight.
    RollClockwise,
    /// The camera rolls counterclockwise.
    RollCounterclockwise,
    /// The camera circles the scene to the left.
    OrbitLeft,
    /// The camera circles the scene to the right.
    OrbitRight,
    /// The camera is held by hand.
    Handheld,
    /// The camera does not move.
    Static,
}

/// What a move changes. Two moves on one axis can't happen together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Axis {
    Depth,
    Side,
    Height,
    Roll,
    Orbit,
    Shake,
    Nothing,
}

/// How fast a move is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pace {
    /// Barely noticed.
    Slow,
    /// Plainly a move.
    #[default]
    Medium,
    /// Quick.
    Fast,
}

/// The shape of the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    /// 16:9.
    Wide,
    /// 9:16.
    Vertical,
    /// 1:1.
    Square,
    /// 4:3.
    Classic,
    /// 3:4.
    ClassicVertical,
    /// 21:9.
    Cinema,
}

impl Direction {
    /// Reads a prompt. Takes any text, and time linear in its length.
    pub fn parse(prompt: &str) -> Self {
        parse::direction(prompt)
    }

    /// Whether the camera leaves its place, so that near things move past far ones.
    pub(crate) fn travels(&self) -> bool {
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

    /// What was understood, in the order of the shot: `["slow push in", "then pan left",
    /// "6 seconds", "vertical 9:16"]`.
    pub fn understood(&self) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        for (i, leg) in self.legs.iter().enumerate() {
            let moves: Vec<String> = leg.moves.iter().copied().map(Move::words).collect();
            let then = if i == 0 { "" } else { "then " };
            let note = if self.assumed {
                " (no camera move named)"
            } else {
                ""
            };
            words.push(format!("{then}{}{note}", moves.join(" with ")));
        }
        if let Some(named) = self.seconds {
            words.push(length_words(named));
        }
        if let Some(shape) = self.shape {
            words.push(shape.words().to_owned());
        }
        words.extend(self.easing.map(|easing| easing.words().to_owned()));
        words.extend(self.looks.iter().map(|look| look.words().to_owned()));
        words.extend(self.weather.iter().map(|weather| weather.words()));
        let fade = |fade: &Fade, how: &str| format!("fade {how} {}", fade.words());
        words.extend(self.fade_in.iter().map(|from| fade(from, "in from")));
        words.extend(self.fade_out.iter().map(|to| fade(to, "out to")));
        for (i, title) in self.titles.iter().enumerate() {
            let line = match i {
                0 => "title",
                1..MAX_TITLES => "subtitle",
                _ => "not shown, too many titles:",
            };
            words.push(format!("{line} \u{201c}{title}\u{201d}"));
        }
        words.extend(
            self.ambience
                .iter()
                .map(|sound| format!("sound of {}", sound.name())),
        );
        words.extend(self.refused.iter().map(|what| format!("not done: {what}")));
        words
    }
}

impl Move {
    fn words(self) -> String {
        let pace = match (self.kind, self.pace) {
            // A still camera has no pace.
            (MoveKind::Static, _) | (_, Pace::Medium) => "",
            (_, Pace::Slow) => "slow ",
            (_, Pace::Fast) => "fast ",
        };
        format!("{pace}{}", self.kind.words())
    }
}

impl MoveKind {
    fn words(self) -> &'static str {
        match self {
            Self::PushIn => "push in",
            Self::PullOut => "pull out",
            Self::ZoomIn => "zoom in",
            Self::ZoomOut => "zoom out",
            Self::PanLeft => "pan left",
            Self::PanRight => "pan right",
            Self::TiltUp => "tilt up",
            Self::TiltDown => "tilt down",
            Self::TruckLeft => "truck left",
            Self::TruckRight => "truck right",
            Self::PedestalUp => "pedestal up",
            Self::PedestalDown => "pedestal down",
            Self::RollClockwise => "roll clockwise",
            Self::RollCounterclockwise => "roll counterclockwise",
            Self::OrbitLeft => "orbit left",
            Self::OrbitRight => "orbit right",
            Self::Handheld => "handheld camera",
            Self::Static => "static camera",
        }
    }

    pub(crate) fn axis(self) -> Axis {
        match self {
            Self::PushIn | Self::PullOut | Self::ZoomIn | Self::ZoomOut => Axis::Depth,
            Self::PanLeft | Self::PanRight | Self::TruckLeft | Self::TruckRight => Axis::Side,
            Self::TiltUp | Self::TiltDown | Self::PedestalUp | Self::PedestalDown => Axis::Height,
            Self::RollClockwise | Self::RollCounterclockwise => Axis::Roll,
            Self::OrbitLeft | Self::OrbitRight => Axis::Orbit,
            Self::Handheld => Axis::Shake,
            Self::Static => Axis::Nothing,
        }
    }
}

impl Shape {
    /// The shape nearest to a picture of this size.
    pub fn nearest((width, height): (u32, u32)) -> Self {
        let wanted = (f64::from(width.max(1)) / f64::from(height.max(1))).ln();
        let mut best = Self::Wide;
        for shape in Self::ALL {
            if (shape.ratio().ln() - wanted).abs() < (best.ratio().ln() - wanted).abs() {
                best = shape;
            }
        }
        best
    }

    fn ratio(self) -> f64 {
        match self {
            Self::Wide => 16.0 / 9.0,
            Self::Vertical => 9.0 / 16.0,
            Self::Square => 1.0,
            Self::Classic => 4.0 / 3.0,
            Self::ClassicVertical => 3.0 / 4.0,
            Self::Cinema => 21.0 / 9.0,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Wide => "landscape 16:9",
            Self::Vertical => "vertical 9:16",
            Self::Square => "square 1:1",
            Self::Classic => "landscape 4:3",
            Self::ClassicVertical => "vertical 3:4",
            Self::Cinema => "cinematic 21:9",
        }
    }

    const ALL: [Self; 6] = [
        Self::Wide,
        Self::Vertical,
        Self::Square,
        Self::Classic,
        Self::ClassicVertical,
        Self::Cinema,
    ];
}

/// Lines of title that are shown.
pub(crate) const MAX_TITLES: usize = 3;

fn length_words(named: f64) -> String {
    let taken = named.clamp(MIN_SECONDS, MAX_SECONDS);
    let unit = if (taken - 1.0).abs() < 1e-9 {
        "second"
    } else {
        "seconds"
    };
    if named > MAX_SECONDS {
        format!("{taken} {unit}, the longest offered")
    } else if named < MIN_SECONDS {
        format!("{taken} {unit}, the shortest offered")
    } else {
        format!("{taken} {unit}")
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod page;
