//! The vocabulary of direction: what a single word may mean.
//!
//! This module knows no grammar. Words arrive as the tokeniser leaves them: in lower case, without
//! accents.

use super::kinds::MovePace;

/// The family of a camera verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CameraVerb {
    Zoom,
    Dolly,
    Push,
    Pull,
    Pan,
    Tilt,
    Truck,
    Pedestal,
    Roll,
    Orbit,
    /// Any kind of travel; counts only next to a camera word.
    Travel,
}

/// The direction of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MoveDirection {
    In,
    Out,
    Left,
    Right,
    Up,
    Down,
    Clockwise,
    Counterclockwise,
}

pub(super) fn verb(word: &str) -> Option<CameraVerb> {
    Some(match word {
        "zoom" | "zooms" | "zooming" | "zoomed" => CameraVerb::Zoom,
        "dolly" | "dollies" | "dollying" | "dollied" => CameraVerb::Dolly,
        "push" | "pushes" | "pushing" | "creep" | "creeps" | "creeping" => CameraVerb::Push,
        "pull" | "pulls" | "pulling" | "back" | "backs" | "backing" => CameraVerb::Pull,
        "pan" | "pans" | "panning" | "panned" => CameraVerb::Pan,
        "tilt" | "tilts" | "tilting" | "tilted" => CameraVerb::Tilt,
        "truck" | "trucks" | "trucking" | "track" | "tracks" | "tracking" | "slide" | "slides"
        | "sliding" => CameraVerb::Truck,
        "pedestal" | "pedestals" | "crane" | "cranes" | "craning" | "boom" | "booms"
        | "booming" | "jib" | "jibs" => CameraVerb::Pedestal,
        "roll" | "rolls" | "rolling" | "rotate" | "rotates" | "rotating" | "spin" | "spins"
        | "spinning" | "twist" | "twists" => CameraVerb::Roll,
        "orbit" | "orbits" | "orbiting" | "arc" | "arcs" | "arcing" | "circle" | "circles"
        | "circling" => CameraVerb::Orbit,
        "move" | "moves" | "moving" | "glide" | "glides" | "gliding" | "drift" | "drifts"
        | "drifting" | "fly" | "flies" | "flying" | "float" | "floats" | "floating" | "travel"
        | "travels" | "rise" | "rises" | "rising" | "go" | "goes" => CameraVerb::Travel,
        _ => return None,
    })
}

pub(super) fn move_direction(word: &str) -> Option<MoveDirection> {
    Some(match word {
        "in" | "into" | "inward" | "inwards" | "forward" | "forwards" | "closer" | "toward"
        | "towards" => MoveDirection::In,
        "out" | "outward" | "outwards" | "back" | "backward" | "backwards" | "away" => {
            MoveDirection::Out
        }
        "left" | "leftward" | "leftwards" => MoveDirection::Left,
        "right" | "rightward" | "rightwards" => MoveDirection::Right,
        "up" | "upward" | "upwards" => MoveDirection::Up,
        "down" | "downward" | "downwards" => MoveDirection::Down,
        "clockwise" | "cw" => MoveDirection::Clockwise,
        "counterclockwise" | "anticlockwise" | "ccw" => MoveDirection::Counterclockwise,
        _ => return None,
    })
}

pub(super) fn pace(word: &str) -> Option<MovePace> {
    Some(match word {
        "slow" | "slowly" | "gentle" | "gently" | "subtle" | "subtly" | "slight" | "slightly"
        | "soft" | "softly" | "gradual" | "gradually" | "calm" | "calmly" | "lazy" | "lazily"
        | "leisurely" | "langsam" | "langsame" | "langsamer" | "langsamen" | "sanft" | "sanfte"
        | "lento" | "lenta" | "lentamente" | "suave" | "suavemente" | "lent" | "lente"
        | "lentement" | "doucement" => MovePace::Slow,
        // Whip pans and crash zooms are named after their pace.
        "fast" | "quick" | "quickly" | "rapid" | "rapidly" | "swift" | "swiftly" | "whip"
        | "crash" | "sudden" | "suddenly" | "speedy" | "schnell" | "schnelle" | "schneller"
        | "schnellen" | "rapido" | "rapida" | "rapidamente" | "rapide" | "rapidement" => {
            MovePace::Fast
        }
        _ => return None,
    })
}

/// Words allowed between a verb and its direction.
pub(super) fn is_filler(word: &str) -> bool {
    // "Counter" and "anti" are the first halves of "counter-clockwise", split at the hyphen.
    pace(word).is_some()
        || matches!(
            word,
            "toward"
                | "towards"
                | "the"
                | "to"
                | "from"
                | "a"
                | "bit"
                | "little"
                | "very"
                | "smooth"
                | "smoothly"
                | "camera"
                | "steady"
                | "steadily"
                | "straight"
                | "way"
                | "counter"
                | "anti"
        )
}

/// Words that make a neighbouring verb a camera move.
pub(super) fn is_camera_word(word: &str) -> bool {
    matches!(
        word,
        "camera"
            | "cam"
            | "shot"
            | "shots"
            | "lens"
            | "view"
            | "viewpoint"
            | "drone"
            | "frame"
            | "movement"
            | "cinematography"
    )
}

/// Words that start the next leg of the shot.
pub(super) fn is_sequencer(word: &str) -> bool {
    matches!(
        word,
        "then"
            | "after"
            | "afterwards"
            | "followed"
            | "next"
            | "finally"
            | "before"
            | "later"
            | "subsequently"
    )
}

/// Words that join two moves of one leg; a pace does not reach across them.
pub(super) fn is_joiner(word: &str) -> bool {
    is_sequencer(word)
        || matches!(
            word,
            "and" | "while" | "with" | "as" | "plus" | "but" | "by"
        )
}

pub(super) fn is_negation(word: &str) -> bool {
    matches!(
        word,
        "no" | "not"
            | "never"
            | "without"
            | "dont"
            | "avoid"
            | "zero"
            | "doesnt"
            | "nor"
            | "ohne"
            | "kein"
            | "keine"
            | "keinen"
            | "sin"
            | "sans"
    )
}

/// Words next to which a word like "square" means the frame.
pub(super) fn is_format_word(word: &str) -> bool {
    matches!(
        word,
        "format"
            | "video"
            | "aspect"
            | "ratio"
            | "mode"
            | "orientation"
            | "crop"
            | "clip"
            | "widescreen"
            | "framing"
            | "reel"
            | "reels"
            | "output"
    )
}

/// A whole number in words.
pub(super) fn number_word(word: &str) -> Option<f64> {
    const WORDS: [&str; 21] = [
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
        "twenty",
    ];
    if let Some(n) = WORDS.iter().position(|w| *w == word) {
        return u32::try_from(n).ok().map(f64::from);
    }
    match word {
        "thirty" => Some(30.0),
        "sixty" => Some(60.0),
        // German, Spanish and French.
        "zwei" | "dos" | "deux" => Some(2.0),
        "drei" | "tres" | "trois" => Some(3.0),
        "vier" | "cuatro" | "quatre" => Some(4.0),
        "funf" | "cinco" | "cinq" => Some(5.0),
        "sechs" | "seis" => Some(6.0),
        "sieben" | "siete" | "sept" => Some(7.0),
        "acht" | "ocho" | "huit" => Some(8.0),
        "neun" | "nueve" | "neuf" => Some(9.0),
        "zehn" | "diez" | "dix" => Some(10.0),
        _ => None,
    }
}

/// The value of a digit of Chinese and Japanese numbers.
pub(super) fn han_digit(word: &str) -> Option<u32> {
    const DIGITS: [&str; 10] = ["〇", "一", "二", "三", "四", "五", "六", "七", "八", "九"];
    let digit = match word {
        "两" => 2,
        "十" => 10,
        _ => DIGITS.iter().position(|digit| *digit == word)?,
    };
    u32::try_from(digit).ok()
}

/// The seconds in a unit of time.
pub(super) fn unit(word: &str) -> Option<f64> {
    match word {
        "s" | "sec" | "secs" | "second" | "seconds" | "sek" | "sekunde" | "sekunden"
        | "segundo" | "segundos" | "seconde" | "secondes" | "秒" => Some(1.0),
        "minute" | "minutes" | "minuten" | "minuto" | "minutos" => Some(60.0),
        _ => None,
    }
}

/// Words that may stand in a clause that only gives directions ("a slow static shot, vertical,
/// 6s").
pub(super) fn is_direction_word(word: &str) -> bool {
    // Small words count as well: "make it vertical" is only about the film.
    verb(word).is_some()
        || move_direction(word).is_some()
        || is_filler(word)
        || is_joiner(word)
        || is_camera_word(word)
        || is_format_word(word)
        || is_length_word(word)
        || matches!(
            word,
            "static"
                | "still"
                | "locked"
                | "lock"
                | "off"
                | "fixed"
                | "stationary"
                | "motionless"
                | "handheld"
                | "vertical"
                | "vertically"
                | "portrait"
                | "square"
                | "landscape"
                | "horizontal"
                | "cinematic"
                | "cinema"
                | "make"
                | "an"
                | "it"
        )
}

fn is_length_word(word: &str) -> bool {
    unit(word).is_some()
        || number_word(word).is_some()
        || word == "for"
        || word.starts_with(|c: char| c.is_ascii_digit())
}
