//! Plans: they are told as they are shown; prompts in six languages.

use proptest::prelude::*;

use super::*;
use crate::options::{RequestedOptions, SIZES};

fn options(prompt: &str, size: Option<(u32, u32)>, seconds: Option<f64>) -> RenderOptions {
    let requested = RequestedOptions {
        size,
        seconds,
        ..RequestedOptions::default()
    };
    RenderOptions::resolve(&requested, &Direction::parse(prompt)).unwrap()
}

fn reading(prompt: &str) -> PromptReading {
    PromptReading::of(prompt, &options(prompt, None, None), false)
}

/// What is drawn of a prompt.
fn scene(prompt: &str) -> String {
    let lines = reading(prompt).direction;
    lines.last().unwrap().replace("drawn scene: ", "")
}

const ASSUMED: &str = "mountains and meadows by day (no place named)";

#[test]
fn words_make_the_scene() {
    for (prompt, expected) in [
        ("A lighthouse by the SEA at sunset", "water at sunset"),
        ("snowy mountains at dawn", "mountains and snow at dawn"),
        ("neon city", "city at night"),
        (
            "misty pine forest by a lake",
            "forest and water by day, foggy",
        ),
        ("a galaxy far away over a forest", "space"),
        (
            "a quiet room at night",
            "room with mountains outside its window at night",
        ),
        (
            "a garden in a room by the sea",
            "room with mountains and water outside its window by day",
        ),
        ("hills with room tone", "meadows by day"),
        ("hills in winter", "snow-covered meadows by day"),
        ("mountains", "mountains and meadows by day"),
        ("a fox", ASSUMED),
        ("no trees, a lake", "water by day"),
        ("a lake after the rain", "water by day"),
        ("a storm at sea", "water by day, stormy"),
        (
            "a road before sunrise",
            "mountains and meadows at dawn (no place named)",
        ),
    ] {
        assert_eq!(scene(prompt), expected, "{prompt}");
    }
}

/// Everyday phrases that contain words of scenery.
#[test]
fn phrases_are_read_as_phrases() {
    for prompt in [
        "an espresso cup, shallow depth of field",
        "a modern office space with plants",
        "a girl waves at the camera",
        "a golden retriever puppy",
        "a scoop of ice cream",
        "a glass of water on a table",
        "a mountain bike race",
        "he waves goodbye",
        "parking space number nine",
        "snow white and the apple",
        "a Christmas tree",
        "an iced tea and a neon green straw",
    ] {
        let drawn = scene(prompt);
        let is_room = drawn.starts_with("room");
        assert!(
            drawn == ASSUMED || (prompt.contains("office") && is_room),
            "{prompt}: {drawn}"
        );
    }
    assert_eq!(
        scene("a dark room with a candle"),
        "room with mountains outside its window at night"
    );
    assert_eq!(scene("astronaut floating in space"), "space");
    assert_eq!(scene("a frozen lake"), "water and snow by day");
    assert_eq!(scene("big waves in the golden hour"), "water at sunset");
}

/// Forty prompts, half of them with a subject: what is drawn, and what is not.
const PROMPTS: &[(&str, &str, &str)] = &[
    // English
    (
        "an old tram climbs a street at dusk",
        "city at sunset",
        "old tram climbs",
    ),
    ("two otters in a river", "water by day", "otters"),
    (
        "a violin on a windowsill in the evening",
        "room with mountains outside its window at sunset",
        "violin",
    ),
    (
        "fog over the moor, a lone pine",
        "forest by day, foggy",
        "moor lone",
    ),
    ("the milky way above desert dunes", "desert at night", ""),
    ("a vineyard in late afternoon", "meadows by day", "late"),
    ("a chess board", ASSUMED, "chess board"),
    // German
    (
        "Ein Fuchs läuft durch den verschneiten Wald",
        "forest and snow by day",
        "Fuchs",
    ),
    (
        "Segelboot auf der Ostsee bei Sonnenuntergang, langsamer Schwenk nach links",
        "water at sunset",
        "",
    ),
    (
        "Nebel über den Feldern am Morgen",
        "meadows at dawn, foggy",
        "",
    ),
    ("eine Hütte am See, 6 Sekunden", "water by day", "Hütte"),
    (
        "Gewitter über der Großstadt bei Nacht",
        "city at night, stormy",
        "",
    ),
    ("ein Mädchen isst Eis", ASSUMED, "Mädchen isst Eis"),
    ("Weltraum, ein Raumschiff", "space", ""),
    // Spanish
    (
        "un perro corre por la playa al atardecer",
        "water at sunset",
        "perro",
    ),
    (
        "niebla en el bosque, plano fijo",
        "forest by day, foggy",
        "",
    ),
    (
        "montañas nevadas bajo un cielo estrellado",
        "mountains and snow at night",
        "cielo",
    ),
    (
        "una guitarra en la cocina",
        "room with mountains outside its window by day",
        "guitarra",
    ),
    (
        "lluvia fuerte en la ciudad de noche, 8 segundos",
        "city at night, cloudy",
        "",
    ),
    ("un desierto con dunas, blanco y negro", "desert by day", ""),
    ("un dragón rojo", ASSUMED, "dragón rojo"),
    // French
    (
        "un phare au bord de la mer, travelling avant lent",
        "water by day",
        "bord",
    ),
    (
        "une rue de Lyon sous la pluie",
        "city by day, cloudy",
        "Lyon",
    ),
    (
        "le bruit d'une cuisine la nuit",
        "room with mountains outside its window at night",
        "bruit",
    ),
    (
        "un renard dans la forêt enneigée",
        "forest and snow by day",
        "renard",
    ),
    (
        "coucher de soleil sur les champs, noir et blanc",
        "meadows at sunset",
        "",
    ),
    ("une danseuse sur scène", ASSUMED, "danseuse scène"),
    // Japanese
    ("雪の降る森の中の狐", "forest and snow by day", "狐"),
    ("夕焼けの海、左にパン", "water at sunset", ""),
    ("夜の東京、大雨", "city at night, cloudy", ""),
    ("猫がピアノを弾いている", ASSUMED, "猫 ピアノ"),
    (
        "霧の山、ゆっくりズームイン、6秒",
        "mountains and meadows by day, foggy",
        "",
    ),
    ("砂漠のラクダ", "desert by day", "ラクダ"),
    ("朝の草原", "meadows at dawn", ""),
    // Chinese
    ("一只猫在弹钢琴", ASSUMED, "猫 钢琴"),
    ("雪山日出，镜头推近", "mountains and snow at dawn", ""),
    ("上海的夜晚，下着雨", "city at night, cloudy", ""),
    ("竹林里的熊猫，六秒", "forest by day", "熊猫"),
    ("沙滩上的海豚，黄昏", "water at sunset", "海豚"),
    ("太空中的宇航员", "space", "宇航员"),
];

#[test]
fn prompts_of_six_languages_are_understood() {
    for (prompt, drawn, left) in PROMPTS {
        let found = reading(prompt);
        assert_eq!(scene(prompt), *drawn, "{prompt}: {:?}", found.direction);
        assert_eq!(found.not_understood.join(" "), *left, "{prompt}");
    }
}

#[test]
fn moves_lengths_and_effects_are_read_in_six_languages() {
    for (prompt, expected) in [
        (
            "langsamer Schwenk nach links, 6 Sekunden",
            "slow pan left; 6 seconds",
        ),
        (
            "Kamera fährt heran, Schwarz-Weiß",
            "push in; black and white",
        ),
        (
            "Hochformat, statische Kamera, zwölf",
            "static camera; vertical 9:16",
        ),
        ("2,5 Sekunden, Handkamera", "handheld camera; 2.5 seconds"),
        ("paneo a la derecha, seis segundos", "pan right; 6 seconds"),
        (
            "cámara fija, grano de película, fundido a negro",
            "static camera; film grain; fade out to black",
        ),
        ("travelling arrière rapide", "fast pull out"),
        (
            "plan fixe, bruit des vagues, 10 secondes",
            "static camera; 10 seconds; sound of sea",
        ),
        ("ゆっくりズームアウト、７秒", "slow zoom out; 7 seconds"),
        (
            "固定カメラ、白黒、波の音",
            "static camera; black and white; sound of sea",
        ),
        ("缓慢向右摇，十五秒", "slow pan right; 15 seconds"),
        (
            "竖屏，手持，大雨",
            "handheld camera; vertical 9:16; heavy rain",
        ),
    ] {
        let options = options(prompt, None, None);
        let lines = PromptReading::of(prompt, &options, true).direction;
        assert_eq!(lines.join("; "), expected, "{prompt}");
    }
}

#[test]
fn words_that_nothing_took_are_told() {
    let found = reading("a cat playing piano");
    assert_eq!(found.not_understood, ["cat", "piano"]);
    assert_eq!(found.direction[0], "nothing in the prompt was understood");
    let found = reading("a cat in the rain, slow push in, no people");
    assert_eq!(found.not_understood, ["cat"]);
    assert_eq!(found.direction[0], "slow push in");
    assert!(reading("").not_understood.is_empty());
    let title = reading("\"Night Train\" a cat");
    assert_eq!(title.direction[0], "slow push in (no camera move named)");
    // Over a picture no scene is drawn.
    let prompt = "a forest at dawn, truck left";
    let found = PromptReading::of(prompt, &options(prompt, None, None), true);
    assert_eq!(found.not_understood, ["forest", "dawn"]);
    let long = reading(&"zebra1 ".repeat(9)).not_understood;
    assert_eq!(long, ["zebra1"]);
    let many: Vec<String> = (0..500).map(|i| format!("zebra{i}")).collect();
    assert_eq!(reading(&many.join(" ")).not_understood.len(), 50);
}

#[test]
fn an_order_that_overrides_the_prompt_is_told() {
    let prompt = "static, vertical, 8 seconds";
    let told = |size, seconds| {
        let options = options(prompt, size, seconds);
        PromptReading::of(prompt, &options, true).direction[1..].join("; ")
    };
    assert_eq!(told(None, None), "8 seconds; vertical 9:16");
    assert_eq!(
        told(Some((1280, 720)), Some(3.0)),
        "3 seconds (the order's length, instead of the prompt's); \
         landscape 16:9 (the order's size, instead of the prompt's shape)"
    );
}

#[test]
fn a_title_is_told_as_it_is_shown() {
    let told = |prompt: &str| reading(prompt).direction[1].clone();
    assert_eq!(
        told("\"Café 夜\""),
        "title “Café” (the title font has no 夜)"
    );
    assert_eq!(told("\"夜夜\""), "not shown, the title font has no 夜");
}

#[test]
fn every_example_on_the_page_is_understood() {
    const PAGE: &str = include_str!("../../../../docs/models/animatic-1.md");
    let over_picture =
        |prompt: &str| PromptReading::of(prompt, &options(prompt, None, None), true).direction;
    let default_lines = over_picture("");
    let section = PAGE.split("## Direction").nth(1).unwrap_or_default();
    let lines = section.lines().skip_while(|line| !line.starts_with("|---"));
    let rows: Vec<&str> = lines
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .collect();
    assert!(rows.len() > 8);
    for row in rows {
        // The words in backquotes of the last column.
        let examples = row.rsplit('|').nth(1).unwrap_or_default();
        let examples: Vec<&str> = examples.split('`').skip(1).step_by(2).collect();
        assert!(!examples.is_empty(), "{row}");
        for example in examples {
            let told = over_picture(example);
            assert_ne!(told, default_lines, "{example}");
            let is_refused = told.iter().any(|line| line.starts_with("not "));
            assert!(!is_refused, "{example}: {told:?}");
        }
    }
}

/// Words that make a plan, and words that do not.
const WORDS: &[&str] = &[
    "forest",
    "space",
    "room",
    "city",
    "lake",
    "desert",
    "snow",
    "meadow",
    "mountains",
    "night",
    "dawn",
    "fog",
    "storm",
    "rain",
    "vertical,",
    "square,",
    "9:16",
    "6 seconds",
    "45 seconds",
    "pan left",
    "static,",
    "handheld,",
    "ease in",
    "sepia",
    "\"Café 夜\"",
    "\"夜\"",
    "fade in",
    "cat",
    "playing",
    "no",
    "雪山",
    "夕焼け",
    "Wald",
    "d'une",
    "see",
    "sound of rain",
    "4k",
    ",",
];

proptest! {
    /// Every line is checked against the plan, read in another way than it was written.
    #[test]
    fn what_is_told_equals_the_plan(
        picks in prop::collection::vec(0..WORDS.len(), 0..14),
        size in prop::option::of(0..SIZES.len()),
        seconds in prop::option::of(1..20_u32),
        has_picture in any::<bool>(),
    ) {
        let prompt: Vec<&str> = picks.iter().map(|i| WORDS[*i]).collect();
        let prompt = prompt.join(" ");
        let options = options(&prompt, size.map(|i| SIZES[i]), seconds.map(f64::from));
        let plan = ShotPlan::new(&prompt, &options, has_picture);
        let PromptReading { direction, not_understood } = plan.reading();
        let has_line = |start: &str| direction.iter().any(|line| line.starts_with(start));
        // Shape and length.
        for shape in ["landscape 16:9", "vertical 9:16", "square 1:1", "landscape 4:3",
            "vertical 3:4", "cinematic 21:9"]
        {
            let is_size = shape == FrameShape::nearest((options.width, options.height)).words();
            prop_assert!(is_size || !has_line(shape), "{direction:?}");
        }
        for line in &direction {
            if let Some((number, _)) = line.split_once(" second") {
                let told: f64 = number.parse().unwrap();
                prop_assert!((told - options.seconds).abs() < 1e-9);
            }
        }
        // The scene.
        prop_assert_eq!(has_line("drawn scene"), !has_picture);
        for (word, name) in [("forest", "forest"), ("city", "city"), ("lake", "water"),
            ("desert", "desert"), ("space", "space"), ("room", "room")]
        {
            let is_named = direction.iter().any(|l| l.starts_with("drawn") && l.contains(name));
            let is_left = not_understood.iter().any(|w| w == word);
            prop_assert!(!(is_named && is_left), "{prompt}: {direction:?} {not_understood:?}");
        }
        // Titles: what is told in quotes as shown has letters in the picture.
        let shown = plan.titles();
        for line in direction.iter().filter(|line| line.contains("title “")) {
            let text = line.split(['“', '”']).nth(1).unwrap().to_owned();
            prop_assert!(shown.contains(&text));
            prop_assert!(covered_by_font(&text).1.is_empty());
        }
        // A still camera has no easing.
        let moving = plan.direction.legs.iter().flat_map(|leg| &leg.moves);
        let is_moving = moving.clone().any(|m| {
            !matches!(m.kind, MoveKind::Static | MoveKind::Handheld)
        });
        prop_assert!(is_moving || !has_line("gathering speed"));
        let moves: Vec<String> = moving.map(|m| m.words()).collect();
        prop_assert!(moves.iter().all(|m| direction.iter().any(|line| line.contains(m))));
        // What was taken and what was not are disjoint.
        for word in &plan.direction.words {
            let is_told = not_understood.contains(&word.spelling);
            let mut twins = plan.direction.words.iter().filter(|w| w.spelling == word.spelling);
            prop_assert!(is_told != twins.any(|twin| plan.takes(twin)));
        }
    }
}
