//! Examples of prompts and their meanings, and texts too strange to mean anything.

use proptest::prelude::*;

use super::*;
use crate::options::{RenderOptions, RequestedOptions};
use crate::plan::PromptReading;

/// What a film over a picture is said to show.
fn lines(prompt: &str) -> Vec<String> {
    let direction = Direction::parse(prompt);
    let options = RenderOptions::resolve(&RequestedOptions::default(), &direction).unwrap();
    let lines = PromptReading::of(prompt, &options, true).direction;
    let is_direction = |line: &String| line != "nothing in the prompt was understood";
    lines.into_iter().filter(is_direction).collect()
}

fn interpretation(prompt: &str) -> String {
    lines(prompt).join("; ")
}

#[test]
fn moves_are_read_in_many_forms() {
    for (prompt, expected) in [
        ("zoom in", "zoom in"),
        ("Slowly ZOOM IN on the old man's face", "slow zoom in"),
        ("push-in", "push in"),
        ("the camera slowly pushes in", "slow push in"),
        ("dolly out", "pull out"),
        ("the camera pulls back to reveal the valley", "pull out"),
        ("pan left", "pan left"),
        ("panning slowly to the right", "slow pan right"),
        ("a fast left pan", "fast pan left"),
        ("pan from left to right", "pan right"),
        ("whip pan right", "fast pan right"),
        ("tilt up", "tilt up"),
        ("camera tilts down gently", "slow tilt down"),
        ("truck left along the fence", "truck left"),
        ("tracking shot", "truck right"),
        ("pedestal up", "pedestal up"),
        ("crane down slowly", "slow pedestal down"),
        ("roll clockwise", "roll clockwise"),
        ("camera rolls counter-clockwise", "roll counterclockwise"),
        ("rotate ccw", "roll counterclockwise"),
        ("roll", "roll clockwise"),
        ("a lake at dawn, slow roll", "slow roll clockwise"),
        (
            "a fast camera roll, 4 seconds",
            "fast roll clockwise; 4 seconds",
        ),
        ("orbit around the statue", "orbit right"),
        ("the camera orbits left", "orbit left"),
        ("hand-held", "handheld camera"),
        (
            "handheld camera, quick zoom in",
            "handheld camera with fast zoom in",
        ),
        ("static shot of a lighthouse", "static camera"),
        ("locked-off", "static camera"),
        ("a still camera", "static camera"),
        ("still", "static camera"),
        ("no camera movement", "static camera"),
        ("slow zoom", "slow zoom in"),
        ("the camera moves forward", "push in"),
        ("pan towards the left", "pan left"),
        ("left pan pan", "pan left"),
        (
            "a slow static shot, vertical",
            "static camera; vertical 9:16",
        ),
        ("Ken Burns", "push in"),
    ] {
        assert_eq!(interpretation(prompt), expected, "{prompt}");
    }
}

#[test]
fn legs_follow_each_other_and_moves_join() {
    for (prompt, expected) in [
        ("pan left then zoom in", "pan left; then zoom in"),
        (
            "slow pan left, then fast zoom in, and finally tilt up",
            "slow pan left; then fast zoom in; then tilt up",
        ),
        ("pan left while zooming in", "pan left with zoom in"),
        (
            "slow pan left and fast zoom in",
            "slow pan left with fast zoom in",
        ),
        ("zoom in and zoom out", "zoom in; then zoom out"),
        ("static, then push in", "static camera; then push in"),
        (
            "keep the frame static while the camera pans left",
            "pan left",
        ),
    ] {
        assert_eq!(interpretation(prompt), expected, "{prompt}");
    }
}

#[test]
fn everyday_words_are_not_direction() {
    let default = "slow push in (no camera move named)";
    for prompt in [
        "",
        "a panda company in Japan",
        "an egg in a frying pan",
        "a red truck on a country road",
        "rolling hills of Tuscany",
        "a sushi roll",
        "a still life with apples",
        "still water at dawn",
        "a satellite in orbit",
        "a crane over the harbour",
        "children pushing a cart",
        "no zoom",
        "without panning left",
        "a train moving forward",
        "a town square at noon",
        "portrait of a woman",
        "a mountain landscape",
        "cinematic lighting",
        "neon of the 80s",
        "a 1980s arcade",
    ] {
        assert_eq!(interpretation(prompt), default, "{prompt}");
    }
}

#[test]
fn lengths_and_shapes() {
    for (prompt, seconds, shape) in [
        ("static, 6 seconds", Some(6.0), None),
        ("static, 20s", Some(20.0), None),
        ("static 6s vertical", Some(6.0), Some(FrameShape::Vertical)),
        (
            "for six seconds, square",
            Some(6.0),
            Some(FrameShape::Square),
        ),
        (
            "a 10-second clip in portrait",
            Some(10.0),
            Some(FrameShape::Vertical),
        ),
        ("2.5 sec, 9:16", Some(2.5), Some(FrameShape::Vertical)),
        ("one minute of rain", Some(60.0), None),
        ("16:9 for 8 secs", Some(8.0), Some(FrameShape::Wide)),
        ("a fox, cinematic, 4 s", Some(4.0), Some(FrameShape::Cinema)),
        ("landscape format", None, Some(FrameShape::Wide)),
        ("after 2 seconds a bird lands", None, None),
        ("0 seconds", None, None),
    ] {
        let direction = Direction::parse(prompt);
        assert_eq!(
            (direction.seconds, direction.shape),
            (seconds, shape),
            "{prompt}"
        );
    }
}

/// What a prompt is understood to say besides its camera move.
fn effects_of(prompt: &str) -> String {
    lines(&format!("dolly in. {prompt}"))[1..].join("; ")
}

#[test]
fn effects_are_read_in_many_forms() {
    for (prompt, expected) in [
        ("black and white", "black and white"),
        ("a harbour in B&W", "black and white"),
        ("film noir", "black and white"),
        ("sepia", "sepia"),
        ("vintage film look", "vintage colours"),
        ("warm light", "warm colours"),
        ("cold tones, high contrast", "cold colours; high contrast"),
        ("subtle vignette and film grain", "vignette; film grain"),
        ("grainy 16mm", "film grain"),
        ("day for night", "day for night"),
        ("heavy rain", "heavy rain"),
        ("rain", "rain"),
        ("a rainy street", "rain"),
        ("light drizzle", "light rain"),
        ("a thunderstorm", "heavy rain"),
        ("snow falling on cedars", "falling snow"),
        ("gentle snowfall", "light falling snow"),
        ("blizzard", "heavy falling snow"),
        ("thick fog", "heavy fog"),
        ("misty valley", "light fog"),
        ("dust motes in the air", "dust"),
        ("a dune, thin dust in the air", "light dust"),
        ("glowing embers", "embers"),
        ("twinkling stars", "twinkling stars"),
        ("confetti", "confetti"),
        ("rain and fog", "rain; fog"),
        ("fade in", "fade in from black"),
        ("fade in from white", "fade in from white"),
        ("fade to black", "fade out to black"),
        ("fade in and out", "fade in from black; fade out to black"),
        ("fades out to white", "fade out to white"),
        ("ease in", "gathering speed"),
        ("ease in and out", "smooth start and end"),
        ("constant speed", "constant speed"),
        ("slowing down at the end", "slowing down"),
        ("sound of rain", "rain; sound of rain"),
        ("with the sound of wind", "sound of wind"),
        ("sea ambience", "sound of sea"),
        ("room tone", "sound of room tone"),
        ("birds chirping", "sound of birds"),
        ("a crackling fire", "sound of fire"),
        ("city noise", "sound of city"),
        ("\"Night Train\"", "title “Night Train”"),
        ("“Dusk”, “a film”", "title “Dusk”; subtitle “a film”"),
        ("slow motion", "not done: slow motion"),
        ("rack focus to the bottle", "not done: rack focus"),
        ("lens flare, bokeh", "not done: lens flare; not done: bokeh"),
        ("timelapse in 4k", "not done: time-lapse; not done: 4K"),
    ] {
        assert_eq!(effects_of(prompt), expected, "{prompt}");
    }
}

#[test]
fn everyday_words_are_no_effects() {
    for prompt in [
        "a warm loaf of bread",
        "a cold beer on a table",
        "a vintage car",
        "a field of grain under the moon",
        "snowy mountains",
        "a dusty road",
        "a rainforest",
        "stars of the stage",
        "a wind turbine",
        "a campfire by the sea",
        "no rain",
        "without a vignette",
        "the street after the rain",
        "not in black and white",
        "it's the dog's cafe",
    ] {
        assert_eq!(effects_of(prompt), "", "{prompt}");
    }
}

#[test]
fn quoted_words_are_shown_and_do_not_direct() {
    let direction = Direction::parse("pan left, \"Zoom in, rain, 9 seconds\", fade out");
    assert_eq!(direction.titles, ["Zoom in, rain, 9 seconds"]);
    assert_eq!(
        interpretation("pan left, \"Zoom in, rain, 9 seconds\", fade out"),
        "pan left; fade out to black; title “Zoom in, rain, 9 seconds”"
    );
    let many = interpretation("\"a\" \"b\" \"c\" \"d\"");
    assert!(many.contains("not shown, too many titles: “d”"), "{many}");
}

#[test]
fn a_length_outside_the_offer_is_said_to_be_cut() {
    assert!(interpretation("static, 45 seconds").ends_with("20 seconds, the longest offered"));
    assert!(interpretation("static, 0.2 seconds").ends_with("1 second, the shortest offered"));
}

#[test]
fn a_very_long_prompt_stays_bounded() {
    let direction = Direction::parse(&"then pan left then pan right ".repeat(20_000));
    assert!(direction.legs.len() <= 8);
    let same = Direction::parse(&"static square back ".repeat(60_000));
    assert_eq!(same.legs.len(), 1);
}

/// Words from which a random prompt often makes direction.
const WORDS: &[&str] = &[
    "pan",
    "zoom",
    "left",
    "right",
    "in",
    "out",
    "then",
    "and",
    "camera",
    "slow",
    "fast",
    "to",
    "the",
    "no",
    "roll",
    "counter",
    "clockwise",
    "6s",
    "six",
    "seconds",
    "16:9",
    "square",
    "static",
    "still",
    "orbit",
    "around",
    ",",
    ".",
    "-",
    "from",
    "tilt",
    "up",
    "ken",
    "burns",
    "shot",
    "back",
    "fade",
    "rain",
    "heavy",
    "sound",
    "sea",
    "\"",
    "“",
    "light",
    "warm",
];

proptest! {
    #[test]
    fn any_text_gives_a_shot(prompt in any::<String>()) {
        let direction = Direction::parse(&prompt);
        prop_assert!(!direction.legs.is_empty());
        prop_assert_eq!(lines(&prompt), lines(&prompt));
    }

    #[test]
    fn any_heap_of_direction_words_gives_a_sound_shot(
        picks in prop::collection::vec(0..WORDS.len(), 0..40)
    ) {
        let prompt: Vec<&str> = picks.iter().map(|i| WORDS[*i]).collect();
        let direction = Direction::parse(&prompt.join(" "));
        for leg in &direction.legs {
            prop_assert!(!leg.moves.is_empty());
            for (i, a) in leg.moves.iter().enumerate() {
                let twice = leg.moves[..i].iter().any(|b| a.kind.axis() == b.kind.axis());
                prop_assert!(!twice, "{:?}", leg);
            }
        }
        prop_assert!(direction.seconds.is_none_or(|s| s.is_finite() && s > 0.0));
    }
}
