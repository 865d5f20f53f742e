//! The grammar of direction over the words of a prompt.
//!
//! One pass from left to right. Every decision looks only at a few neighbouring words of its
//! clause, so the time is linear in the length of the prompt. The order of the checks matters: a
//! direction after the verb ("pan left") wins over one before it ("left pan"). A verb with neither
//! counts only in some contexts, because most verbs are also everyday words.

use std::ops::Range;

use super::effects::Effects;
use super::quotes;
use super::tokens::{Clause, TokenisedPrompt};
use super::vocabulary::{self, Meaning, VocabularyMatch};
use super::word_uses::WordUses;
use super::words::{
    self, CameraVerb, MoveDirection, is_camera_word, is_direction_word, is_filler, is_format_word,
    is_joiner, is_negation, is_sequencer,
};
use super::{CameraMove, Direction, FrameShape, MoveAxis, MoveKind, MovePace, ShotLeg};
use crate::scene::Scenery;

impl Direction {
    /// Parses a prompt. Accepts any text; takes linear time.
    pub fn parse(prompt: &str) -> Self {
        direction(prompt)
    }
}

fn direction(prompt: &str) -> Direction {
    // Quoted words go first: a title that says "zoom in" must neither move the camera nor draw a
    // scene.
    let (text, titles) = quotes::extract_quotes(prompt);
    let tokens = TokenisedPrompt::new(&text);
    let clauses = &tokens.clauses;
    let vocabulary = vocabulary::find(clauses);
    let mut uses = WordUses::new(clauses);
    let mut legs = legs(clauses, &vocabulary, &mut uses);
    // Negated moves make no leg, so "no zoom" gets the default too. Only words for a static camera,
    // such as "no camera movement", keep it still.
    let assumed = legs.is_empty();
    if assumed {
        let moves = vec![CameraMove {
            kind: MoveKind::PushIn,
            pace: MovePace::Slow,
        }];
        legs.push(ShotLeg { moves });
    }
    let effects = Effects::find(clauses, &vocabulary, &mut uses);
    let seconds = first_in(clauses, seconds, &mut uses);
    let shape = first_in(clauses, shape, &mut uses);
    let asked = || vocabulary.iter().filter(|hit| !hit.is_denied);
    let meanings = || asked().flat_map(|hit| hit.meanings);
    let named_shape = meanings().find_map(|meaning| match meaning {
        Meaning::Shape(shape) => Some(*shape),
        _ => None,
    });
    let elements = meanings().filter_map(|meaning| meaning.scene_element());
    Direction {
        legs,
        assumed,
        easing: effects.easing,
        seconds,
        shape: shape.or(named_shape),
        looks: effects.looks,
        weather: effects.weather,
        fade_in: effects.fade_in,
        fade_out: effects.fade_out,
        titles,
        ambience: effects.ambience,
        unsupported: effects.unsupported,
        scenery: Scenery::new(elements, &text),
        words: uses.words(&tokens, &vocabulary),
    }
}

/// A value and the words of a clause that say it.
type WordValue<T> = Option<(T, Range<usize>)>;

/// The first value in a prompt; its words are marked as used.
fn first_in<T>(
    clauses: &[Clause],
    read: impl Fn(&[String]) -> WordValue<T>,
    uses: &mut WordUses,
) -> Option<T> {
    let mut hits = clauses.iter().enumerate();
    let (clause_index, (value, words)) = hits.find_map(|(i, clause)| Some((i, read(clause)?)))?;
    uses.mark(clause_index, words);
    Some(value)
}

/// A move found in a clause, and the words it uses up.
struct MoveMatch {
    kind: MoveKind,
    start: usize,
    end: usize,
}

fn legs(clauses: &[Clause], vocabulary: &[VocabularyMatch], uses: &mut WordUses) -> Vec<ShotLeg> {
    let mut legs: Vec<ShotLeg> = Vec::new();
    let mut next_leg = false;
    for (clause_index, clause) in clauses.iter().enumerate() {
        let foreign = ForeignMoves::in_clause(vocabulary, clause_index);
        let mut index = 0;
        let mut used_end = 0;
        while index < clause.len() {
            if is_sequencer(&clause[index]) {
                // A sequencer holds until the next move, which may stand in a later clause: "then,
                // slowly, pan left".
                next_leg = true;
            }
            let move_match = foreign.move_at(index);
            let move_match = move_match.or_else(|| move_at(clause, used_end, index));
            let Some(move_match) = move_match else {
                index += 1;
                continue;
            };
            let pace = pace_around(clause, used_end, &move_match);
            let pace = pace.or(foreign.pace).unwrap_or_default();
            uses.mark(clause_index, move_match.start..move_match.end);
            // A negated move uses up its words as well. Otherwise they could become part of the
            // next move.
            (index, used_end) = (move_match.end, move_match.end);
            if !is_negated(clause, move_match.start) {
                add_move(
                    &mut legs,
                    CameraMove {
                        kind: move_match.kind,
                        pace,
                    },
                    next_leg,
                );
                next_leg = false;
            }
        }
    }
    legs
}

/// Puts a move into the current leg, or into a new one.
fn add_move(legs: &mut Vec<ShotLeg>, camera_move: CameraMove, next_leg: bool) {
    // Nothing in a prompt is an error, so further legs are left out without a message.
    if next_leg && legs.len() >= MAX_LEGS {
        return;
    }
    let axis = camera_move.kind.axis();
    match legs.last_mut() {
        Some(leg) if !next_leg => {
            // A static camera never joins a move: "the camera pans left with the frame static" is a
            // pan.
            if axis == MoveAxis::Nothing {
                return;
            }
            // The same in the other order: "keep the ground static while the camera pans" is a pan.
            leg.moves.retain(|m| m.kind != MoveKind::Static);
            // A move that is named twice is still one move. Without this check its axis would be
            // taken, and it would start a separate leg.
            if leg.moves.iter().any(|m| m.kind == camera_move.kind) {
                return;
            }
            // Two moves on one axis would add up or cancel each other, so the second one comes
            // later.
            if leg.moves.iter().any(|m| m.kind.axis() == axis) {
                add_move(legs, camera_move, true);
            } else {
                leg.moves.push(camera_move);
            }
        }
        _ => legs.push(ShotLeg {
            moves: vec![camera_move],
        }),
    }
}

fn move_at(clause: &[String], used_end: usize, index: usize) -> Option<MoveMatch> {
    handheld_at(clause, index)
        .or_else(|| static_at(clause, index))
        .or_else(|| verb_at(clause, used_end, index))
}

fn handheld_at(clause: &[String], index: usize) -> Option<MoveMatch> {
    let end = match (clause[index].as_str(), word(clause, index + 1)) {
        ("handheld", _) => index + 1,
        // The tokeniser splits at hyphens: "hand-held" arrives as two words.
        ("hand", "held") | ("shaky", "cam" | "camera") => index + 2,
        _ => return None,
    };
    Some(MoveMatch {
        kind: MoveKind::Handheld,
        start: index,
        end,
    })
}

fn static_at(clause: &[String], index: usize) -> Option<MoveMatch> {
    let next = word(clause, index + 1);
    let end = match (clause[index].as_str(), next) {
        // Here "no" is part of the phrase and not a negation of it: `is_negated` looks only at the
        // words before the phrase.
        ("locked" | "lock", "off" | "down") | ("no", "movement" | "motion") => index + 2,
        ("static" | "still" | "locked" | "fixed" | "stationary" | "motionless", _) => index + 1,
        ("no", "camera") if matches!(word(clause, index + 2), "movement" | "move" | "motion") => {
            index + 3
        }
        _ => return None,
    };
    // "Still life" and "static on the radio" are subjects: the word must be next to a camera word
    // or a word of holding, or alone in its clause. Three words back reach "the camera is almost
    // still".
    let is_context = |i: Option<&String>| {
        i.is_some_and(|w| {
            is_camera_word(w) || matches!(w.as_str(), "hold" | "stay" | "stays" | "keep" | "tripod")
        })
    };
    let is_alone = clause.iter().all(|w| is_direction_word(w));
    let has_context = (index.saturating_sub(3)..index).any(|i| is_context(clause.get(i)))
        || is_context(clause.get(end));
    (is_alone || has_context || clause[index] == "no").then_some(MoveMatch {
        kind: MoveKind::Static,
        start: index,
        end,
    })
}

/// `used_end` is the end of the previous move, whose words are used up.
fn verb_at(clause: &[String], used_end: usize, index: usize) -> Option<MoveMatch> {
    // The Ken Burns effect is a slow move over a still picture. The name gives no direction, so the
    // most usual one is assumed.
    if clause[index] == "ken" && word(clause, index + 1) == "burns" {
        return Some(MoveMatch {
            kind: MoveKind::PushIn,
            start: index,
            end: index + 2,
        });
    }
    let verb = words::verb(&clause[index])?;
    // "Left pan", "a clockwise roll". A word that the previous move used up does not count again:
    // "left pan pan" is one pan.
    let kind_before = index
        .checked_sub(1)
        .filter(|i| *i >= used_end)
        .and_then(|i| words::move_direction(&clause[i]))
        .and_then(|towards| kind(verb, towards));
    let kind_after = direction_after(clause, index, verb);
    match (kind_after, kind_before) {
        // "A train moving forward" is a subject, so verbs of travel need a camera word next to
        // them.
        (Some((kind, end)), _) if verb != CameraVerb::Travel || near_camera(clause, index) => {
            Some(MoveMatch {
                kind,
                start: index,
                end,
            })
        }
        // "Back" counts as a verb like "pull", so "out back" and "away back" would be moves.
        (None, Some(kind)) if verb != CameraVerb::Travel && verb != CameraVerb::Pull => {
            Some(MoveMatch {
                kind,
                start: index - 1,
                end: index + 1,
            })
        }
        _ => {
            let kind = undirected_move(clause, index, verb)?;
            Some(MoveMatch {
                kind,
                start: index,
                end: index + 1,
            })
        }
    }
}

/// Looks after a verb for its direction; "from left to right" means right.
fn direction_after(clause: &[String], index: usize, verb: CameraVerb) -> Option<(MoveKind, usize)> {
    let mut last_match = None;
    // Five words are enough for "pan very slowly to the left". A direction further away belongs to
    // the scene.
    for i in index + 1..(index + 6).min(clause.len()) {
        let w = clause[i].as_str();
        let towards = match w {
            // The tokeniser splits at hyphens: "counter-clockwise" arrives as two words.
            "clockwise" if matches!(clause[i - 1].as_str(), "counter" | "anti") => {
                Some(MoveDirection::Counterclockwise)
            }
            _ => words::move_direction(w),
        };
        match towards.and_then(|t| kind(verb, t)) {
            Some(kind) => last_match = Some((kind, i + 1)),
            // "Towards" is a direction and a filler: a dolly goes towards something, but a pan goes
            // "towards the left".
            None if is_filler(w) => {}
            None => break,
        }
        // Only "left to right" continues after the first word of direction.
        if last_match.is_some() && word(clause, i + 1) != "to" && word(clause, i) != "to" {
            break;
        }
    }
    last_match
}

/// The move for a verb with a direction; `None` if the two don't go together.
fn kind(verb: CameraVerb, towards: MoveDirection) -> Option<MoveKind> {
    use MoveDirection as T;
    use MoveKind as M;
    Some(match (verb, towards) {
        (CameraVerb::Zoom, T::In) => M::ZoomIn,
        (CameraVerb::Zoom, T::Out) => M::ZoomOut,
        (CameraVerb::Dolly | CameraVerb::Push | CameraVerb::Truck | CameraVerb::Travel, T::In) => {
            M::PushIn
        }
        (CameraVerb::Dolly | CameraVerb::Pull | CameraVerb::Truck | CameraVerb::Travel, T::Out) => {
            M::PullOut
        }
        (CameraVerb::Pan, T::Left) => M::PanLeft,
        (CameraVerb::Pan, T::Right) => M::PanRight,
        // Strictly a pan is sideways only, but people write "pan up" for a tilt.
        (CameraVerb::Pan | CameraVerb::Tilt, T::Up) => M::TiltUp,
        (CameraVerb::Pan | CameraVerb::Tilt, T::Down) => M::TiltDown,
        (CameraVerb::Dolly | CameraVerb::Truck | CameraVerb::Travel, T::Left) => M::TruckLeft,
        (CameraVerb::Dolly | CameraVerb::Truck | CameraVerb::Travel, T::Right) => M::TruckRight,
        (CameraVerb::Dolly | CameraVerb::Pedestal | CameraVerb::Travel, T::Up) => M::PedestalUp,
        (CameraVerb::Dolly | CameraVerb::Pedestal | CameraVerb::Travel, T::Down) => M::PedestalDown,
        // A camera that is tilted to the side is rolled.
        (CameraVerb::Tilt | CameraVerb::Roll, T::Right) | (CameraVerb::Roll, T::Clockwise) => {
            M::RollClockwise
        }
        (CameraVerb::Tilt | CameraVerb::Roll, T::Left)
        | (CameraVerb::Roll, T::Counterclockwise) => M::RollCounterclockwise,
        // Seen from above, a camera that walks to its left around a subject goes clockwise.
        (CameraVerb::Orbit, T::Left | T::Clockwise) => M::OrbitLeft,
        (CameraVerb::Orbit, T::Right | T::Counterclockwise) => M::OrbitRight,
        _ => return None,
    })
}

/// The move for a verb without a direction, if it is clearly meant for the camera.
fn undirected_move(clause: &[String], index: usize, verb: CameraVerb) -> Option<MoveKind> {
    let has_camera_word = near_camera(clause, index);
    let has_pace = (index.saturating_sub(2)..index).any(|i| words::pace(&clause[i]).is_some());
    // At the start of its clause a verb is an instruction; later it may describe the scene.
    let opens_clause = clause[..index].iter().all(|w| is_joiner(w) || is_filler(w));
    let has_around = matches!(
        word(clause, index + 1),
        "around" | "across" | "over" | "along" | "round"
    );
    match verb {
        CameraVerb::Zoom if has_camera_word || has_pace || opens_clause => Some(MoveKind::ZoomIn),
        CameraVerb::Dolly if has_camera_word || has_pace || opens_clause => Some(MoveKind::PushIn),
        // A pan is also a pot: at the start of a clause it must be followed by "around" or
        // "across".
        CameraVerb::Pan
            if has_camera_word || has_pace || clause.len() == 1 || (opens_clause && has_around) =>
        {
            Some(MoveKind::PanRight)
        }
        // "Panning" cannot mean the pot.
        CameraVerb::Pan if matches!(clause[index].as_str(), "panning") => Some(MoveKind::PanRight),
        // Trucks, tracks and cranes are things in the scene; "crane shot" names the move.
        CameraVerb::Truck if word(clause, index + 1) == "shot" => Some(MoveKind::TruckRight),
        CameraVerb::Pedestal if word(clause, index + 1) == "shot" => Some(MoveKind::PedestalUp),
        // Of the verbs of travel, only "rise" contains a direction.
        CameraVerb::Travel if has_camera_word && clause[index].starts_with("ris") => {
            Some(MoveKind::PedestalUp)
        }
        CameraVerb::Tilt if has_camera_word && has_around => Some(MoveKind::TiltUp),
        // A sushi roll is food; in a clause that only gives directions, only the camera can roll.
        CameraVerb::Roll
            if clause[index].starts_with("roll")
                && (has_camera_word || clause.iter().all(|w| is_direction_word(w))) =>
        {
            Some(MoveKind::RollClockwise)
        }
        CameraVerb::Orbit
            if has_camera_word
                || has_pace
                || (opens_clause && (has_around || clause.len() == 1)) =>
        {
            Some(MoveKind::OrbitRight)
        }
        _ => None,
    }
}

fn near_camera(clause: &[String], index: usize) -> bool {
    (index.saturating_sub(3)..index).any(|i| is_camera_word(&clause[i]))
        || is_camera_word(word(clause, index + 1))
}

/// The moves of a clause that the vocabulary names.
struct ForeignMoves<'a> {
    hits: Vec<&'a VocabularyMatch>,
    /// The pace that the clause names for them.
    pace: Option<MovePace>,
}

impl<'a> ForeignMoves<'a> {
    fn in_clause(vocabulary: &'a [VocabularyMatch], clause_index: usize) -> Self {
        let start = vocabulary.partition_point(|hit| hit.clause_index < clause_index);
        let end = vocabulary.partition_point(|hit| hit.clause_index <= clause_index);
        let hits: Vec<&VocabularyMatch> = vocabulary[start..end].iter().collect();
        let mut meanings = hits.iter().flat_map(|hit| hit.meanings);
        let pace = meanings.find_map(|meaning| match meaning {
            Meaning::Pace(pace) => Some(*pace),
            _ => None,
        });
        Self { hits, pace }
    }

    fn move_at(&self, index: usize) -> Option<MoveMatch> {
        let hit = self.hits.iter().find(|hit| hit.start == index)?;
        let mut meanings = hit.meanings.iter();
        let kind = meanings.find_map(|meaning| match meaning {
            Meaning::Move(kind) => Some(*kind),
            _ => None,
        })?;
        Some(MoveMatch {
            kind,
            start: index,
            end: index + hit.length,
        })
    }
}

/// The pace nearest to a move, but not across a joining word or inside the previous move.
fn pace_around(clause: &[String], used_end: usize, move_match: &MoveMatch) -> Option<MovePace> {
    let inside = clause[move_match.start..move_match.end].iter();
    let after = clause[move_match.end..]
        .iter()
        .take(3)
        .take_while(|w| !is_joiner(w));
    let start = used_end.max(move_match.start.saturating_sub(3));
    let before = clause[start..move_match.start]
        .iter()
        .rev()
        .take_while(|w| !is_joiner(w));
    // Words before the move are tried ahead of those after it, which may belong to the next move
    // ("slow pan left fast zoom in").
    inside
        .chain(before)
        .chain(after)
        .find_map(|w| words::pace(w))
}

fn is_negated(clause: &[String], start: usize) -> bool {
    clause[start.saturating_sub(3)..start]
        .iter()
        .rev()
        // A negation does not reach across these words: "not zooming but panning left" asks for the
        // pan.
        .take_while(|w| !matches!(w.as_str(), "but" | "then" | "just" | "only"))
        .any(|w| is_negation(w))
}

/// The first length in a clause, in seconds, and its words.
fn seconds(clause: &[String]) -> Option<(f64, Range<usize>)> {
    (0..clause.len()).find_map(|index| {
        // "after 2 seconds" is a moment, not a length.
        let previous = index.checked_sub(1).map_or("", |i| clause[i].as_str());
        if matches!(
            previous,
            "after" | "at" | "every" | "within" | "last" | "first" | "by"
        ) {
            return None;
        }
        if let Some(number) = han_number(clause, index) {
            let (value, end) = number;
            let unit = words::unit(word(clause, end))?;
            return (value > 0.0).then_some((value * unit, index..end + 1));
        }
        let text = clause[index].as_str();
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let suffix = &text[digits.len()..];
        let value = if suffix.is_empty() {
            number(digits)? * words::unit(word(clause, index + 1))?
        } else if digits.is_empty() {
            words::number_word(text)? * words::unit(word(clause, index + 1))?
        } else {
            let value = number(digits)? * words::unit(suffix)?;
            // "The 80s" and "1980s" are decades, and "20s" may be one. "For 20s" can only be a
            // length, and so is "20s" between two commas.
            let is_alone = previous == "for" || clause.len() == 1;
            let is_decade = suffix == "s"
                && (value > 60.0 || (value >= 20.0 && value % 10.0 == 0.0 && !is_alone));
            if is_decade || matches!(previous, "the" | "early" | "late" | "mid") {
                return None;
            }
            value
        };
        let end =
            (index + 1 + usize::from(suffix.is_empty() || digits.is_empty())).min(clause.len());
        (value.is_finite() && value > 0.0).then_some((value, index..end))
    })
}

/// A number in Chinese characters that begins at this word, and where it ends: 十五.
fn han_number(clause: &[String], index: usize) -> Option<(f64, usize)> {
    let digit = |i: usize| words::han_digit(word(clause, i));
    let first = digit(index)?;
    let inside = index.checked_sub(1).and_then(digit).is_some();
    let (value, length) = match (first, digit(index + 1), digit(index + 2)) {
        (10, Some(ones @ 0..10), _) => (10 + ones, 2),
        (tens, Some(10), Some(ones @ 0..10)) => (tens * 10 + ones, 3),
        (tens, Some(10), _) => (tens * 10, 2),
        (ones, ..) => (ones, 1),
    };
    (!inside).then_some((f64::from(value), index + length))
}

fn number(digits: &str) -> Option<f64> {
    let is_plain = digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    (is_plain && digits.len() <= 8)
        .then(|| digits.parse().ok())
        .flatten()
}

/// The first shape named in a clause, and its word.
fn shape(clause: &[String]) -> Option<(FrameShape, Range<usize>)> {
    (0..clause.len()).find_map(|index| {
        let exact = match clause[index].as_str() {
            "16:9" | "16x9" | "widescreen" => Some(FrameShape::Wide),
            "9:16" | "9x16" => Some(FrameShape::Vertical),
            "1:1" | "1x1" => Some(FrameShape::Square),
            "4:3" | "4x3" => Some(FrameShape::Classic),
            "3:4" | "3x4" => Some(FrameShape::ClassicVertical),
            "21:9" | "21x9" | "2.35:1" | "2.39:1" | "2.40:1" | "2.4:1" | "ultrawide"
            | "anamorphic" => Some(FrameShape::Cinema),
            _ => None,
        };
        let shape = exact.or_else(|| loose_shape(clause, index))?;
        Some((shape, index..index + 1))
    })
}

/// A shape word that counts only next to certain words.
fn loose_shape(clause: &[String], index: usize) -> Option<FrameShape> {
    let shape = match clause[index].as_str() {
        "vertical" | "vertically" | "portrait" => FrameShape::Vertical,
        "square" => FrameShape::Square,
        "landscape" | "horizontal" => FrameShape::Wide,
        "cinematic" | "cinema" => FrameShape::Cinema,
        _ => return None,
    };
    let previous = index.checked_sub(1).map_or("", |i| clause[i].as_str());
    let next = word(clause, index + 1);
    let is_last = index + 1 == clause.len();
    let is_alone = clause.iter().all(|w| is_direction_word(w));
    let is_near_format = is_format_word(next) || is_format_word(previous);
    // "In portrait" at the end is about the frame; "in portrait lighting" is not.
    (is_alone || is_near_format || (is_last && previous == "in")).then_some(shape)
}

fn word(clause: &[String], index: usize) -> &str {
    clause.get(index).map_or("", String::as_str)
}

/// With more legs there is no time for any of them.
const MAX_LEGS: usize = 8;
