//! Scenes: the picture to move over when the caller sent none, drawn from the prompt's words.
//!
//! A scene is a backdrop in layers: a sky of the hour named, then land from far to near, each
//! layer with less haze than the one behind it, and water that mirrors what stands behind it; or a
//! room, with some of that outside its window. What is drawn is decided once, when the scene is
//! made ([`SceneSetting`]), and told from the same values. Every detail comes from noise seeded by
//! the prompt and the seed, so two prompts look different and one prompt with one seed always
//! looks the same.
//!
//! Subjects are not drawn: a prompt about a fox on a hill gets the hill.

mod ground;
mod hour;
mod land;
mod light;
pub(crate) mod noise;
mod paint;
mod room;
mod scenery;
mod sky;
mod space;
mod stage;

use crate::layer::LayerSheet;
pub(crate) use hour::{SkyCondition, TimeOfDay};
use light::SceneLight;
pub(crate) use scenery::{SceneElement, ScenePlace, Scenery};
use stage::SceneStage;

/// Everything to draw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scene {
    setting: SceneSetting,
    hour: TimeOfDay,
    sky: SkyCondition,
    /// Whether the prompt names no place that can be drawn.
    is_assumed: bool,
    seed: u64,
}

/// Where a scene is, and what of it is in the picture, back to front.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SceneSetting {
    /// Space has no horizon on which other places could stand, so it is drawn alone.
    Space,
    /// A room; outside its window are far places only.
    Indoors {
        view: Vec<ScenePlace>,
    },
    Outdoors {
        places: Vec<ScenePlace>,
    },
}

impl SceneSetting {
    fn of(named: &[ScenePlace]) -> Self {
        let has = |place| named.contains(&place);
        let with = |places: &[ScenePlace]| -> Vec<ScenePlace> {
            let kept = places.iter().filter(|place| has(**place));
            kept.copied().collect()
        };
        if has(ScenePlace::Space) {
            return Self::Space;
        }
        if has(ScenePlace::Room) {
            let mut view = if has(ScenePlace::City) {
                vec![ScenePlace::City]
            } else if has(ScenePlace::Forest) {
                vec![ScenePlace::Forest]
            } else if has(ScenePlace::Snow) {
                vec![ScenePlace::Mountains, ScenePlace::Snow]
            } else {
                vec![ScenePlace::Mountains]
            };
            view.extend(with(&[ScenePlace::Sea]));
            view.sort_unstable();
            return Self::Indoors { view };
        }
        let mut places = with(&[
            ScenePlace::Mountains,
            ScenePlace::City,
            ScenePlace::Forest,
            ScenePlace::Sea,
        ]);
        // The nearest ground covers all others, so only one is drawn. Snow lies on meadows.
        let grounds = [ScenePlace::Snow, ScenePlace::Desert, ScenePlace::Meadow];
        let ground = grounds.into_iter().find(|ground| has(*ground));
        places.extend(ground);
        if ground == Some(ScenePlace::Snow) {
            places.extend(with(&[ScenePlace::Meadow]));
        }
        // Mountains alone would stand on nothing.
        if places.is_empty() || places == [ScenePlace::Mountains] {
            places = vec![ScenePlace::Mountains, ScenePlace::Meadow];
        }
        Self::Outdoors { places }
    }

    /// The places in the picture, back to front; a room is in front of its view.
    fn places(&self) -> &[ScenePlace] {
        match self {
            Self::Space => &[ScenePlace::Space],
            Self::Indoors { view } => view,
            Self::Outdoors { places } => places,
        }
    }
}

impl Scene {
    /// Decides what is drawn of a prompt's scenery.
    pub(crate) fn new(scenery: &Scenery, seed: u64) -> Self {
        Self {
            setting: SceneSetting::of(&scenery.places),
            hour: scenery.hour.unwrap_or(TimeOfDay::Day),
            sky: scenery.sky.unwrap_or(SkyCondition::Fair),
            is_assumed: scenery.places.is_empty(),
            seed: seed_of(&scenery.words, seed),
        }
    }

    /// What is drawn, in words: `drawn scene: mountains and water at sunset`.
    pub(crate) fn describe(&self) -> String {
        let list = names(self.setting.places());
        let place = match &self.setting {
            SceneSetting::Space => return format!("drawn scene: {list}"),
            SceneSetting::Indoors { .. } => format!("room with {list} outside its window"),
            SceneSetting::Outdoors { .. } => list,
        };
        let hour = match self.hour {
            TimeOfDay::Dawn => "at dawn",
            TimeOfDay::Day => "by day",
            TimeOfDay::Sunset => "at sunset",
            TimeOfDay::Night => "at night",
        };
        let sky = match self.sky {
            SkyCondition::Fair => "",
            SkyCondition::Cloudy => ", cloudy",
            SkyCondition::Stormy => ", stormy",
            SkyCondition::Foggy => ", foggy",
        };
        let note = if self.is_assumed {
            " (no place named)"
        } else {
            ""
        };
        format!("drawn scene: {place} {hour}{sky}{note}")
    }

    /// Whether an element is in the picture.
    pub(crate) fn shows(&self, element: SceneElement) -> bool {
        let is_space = self.setting == SceneSetting::Space;
        match element {
            SceneElement::Place(ScenePlace::Room) => {
                matches!(self.setting, SceneSetting::Indoors { .. })
            }
            SceneElement::Place(place) => self.setting.places().contains(&place),
            SceneElement::Hour(hour) => !is_space && self.hour == hour,
            SceneElement::Sky(sky) => !is_space && self.sky == sky,
        }
    }

    /// Draws the scene in sheets, farthest first.
    pub(crate) fn draw(&self, width: u32, height: u32) -> Vec<LayerSheet> {
        let mut stage = SceneStage::new(width.max(2), height.max(2), self.seed);
        if self.setting == SceneSetting::Space {
            space::draw(&mut stage, self.seed);
            return stage.into_sheets();
        }
        let light = SceneLight::for_hour(self.hour, self.sky, self.seed);
        let indoors = matches!(self.setting, SceneSetting::Indoors { .. });
        let horizon = if indoors {
            room::HORIZON
        } else {
            self.horizon()
        };
        sky::draw(stage.canvas_at(0.0), &light, horizon, self.seed);
        self.draw_places(&mut stage, &light, horizon, indoors);
        if indoors {
            room::draw(&mut stage, &light, self.seed);
        }
        stage.into_sheets()
    }

    fn has(&self, place: ScenePlace) -> bool {
        self.setting.places().contains(&place)
    }

    /// Where the sky ends, as a share of the height from the top.
    fn horizon(&self) -> f32 {
        let base = if self.has(ScenePlace::Sea) {
            0.58
        } else if self.has(ScenePlace::City) {
            0.7
        } else {
            0.6
        };
        base + 0.04 * (noise::lattice(1, 1, self.seed) - 0.5)
    }

    fn draw_places(
        &self,
        stage: &mut SceneStage,
        light: &SceneLight,
        horizon: f32,
        is_window: bool,
    ) {
        let seed = self.seed;
        // With water, a skyline stands on the far shore and the ground begins near the lower edge,
        // so that the water between them is not covered.
        let has_water = self.has(ScenePlace::Sea);
        let is_far = has_water || is_window;
        let snowy = self.has(ScenePlace::Snow);
        for place in self.setting.places() {
            match place {
                ScenePlace::Mountains => land::mountains(stage, light, horizon, snowy, seed),
                ScenePlace::City => land::city(stage, light, horizon, is_far, seed),
                ScenePlace::Forest => land::forest(stage, light, horizon, is_far, seed),
                ScenePlace::Sea => ground::water(stage, light, horizon, seed),
                ScenePlace::Desert => ground::dunes(stage, light, horizon, has_water, seed),
                // Outside a window, snow is on the mountains only.
                ScenePlace::Snow if is_window => {}
                ScenePlace::Snow => ground::snow(stage, light, horizon, has_water, seed),
                ScenePlace::Meadow if snowy => {}
                ScenePlace::Meadow => ground::meadow(stage, light, horizon, has_water, seed),
                ScenePlace::Space | ScenePlace::Room => {}
            }
        }
    }
}

/// The places as a list in a sentence.
fn names(places: &[ScenePlace]) -> String {
    let is_snowy = places.contains(&ScenePlace::Snow);
    let mut names = Vec::new();
    for place in places {
        match place {
            ScenePlace::Meadow if is_snowy => names.push("snow-covered meadows"),
            ScenePlace::Snow if places.contains(&ScenePlace::Meadow) => {}
            other => names.push(other.name()),
        }
    }
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

impl ScenePlace {
    fn name(self) -> &'static str {
        match self {
            Self::Space => "space",
            Self::Mountains => "mountains",
            Self::City => "city",
            Self::Forest => "forest",
            Self::Sea => "water",
            Self::Desert => "desert",
            Self::Snow => "snow",
            Self::Meadow => "meadows",
            Self::Room => "room",
        }
    }
}

/// FNV-1a over the words, so that spacing, case and punctuation do not change the picture.
fn seed_of(words: &[String], seed: u64) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for byte in words.iter().flat_map(|word| word.bytes().chain([b' '])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scene of these places, at an hour.
    fn scene(places: &[ScenePlace], hour: TimeOfDay, words: &str, seed: u64) -> Scene {
        let places = places.iter().copied().map(SceneElement::Place);
        let elements = places.chain([SceneElement::Hour(hour)]);
        Scene::new(&Scenery::new(elements, words), seed)
    }

    const PLACES: [ScenePlace; 9] = [
        ScenePlace::Space,
        ScenePlace::Mountains,
        ScenePlace::City,
        ScenePlace::Forest,
        ScenePlace::Sea,
        ScenePlace::Desert,
        ScenePlace::Snow,
        ScenePlace::Meadow,
        ScenePlace::Room,
    ];

    #[test]
    fn same_prompt_and_seed_same_picture_and_else_another() {
        let meadow = |words, seed| scene(&[ScenePlace::Meadow], TimeOfDay::Day, words, seed);
        let draw = |words, seed| meadow(words, seed).draw(96, 54);
        assert!(draw("hills", 1) == draw("  Hills!", 1));
        assert!(draw("hills", 1) != draw("hills", 2));
        assert!(draw("a red fox", 1) != draw("a grey wolf", 1));
    }

    #[test]
    fn every_place_and_hour_draws_something_with_depth() {
        for place in PLACES {
            for hour in [
                TimeOfDay::Dawn,
                TimeOfDay::Day,
                TimeOfDay::Sunset,
                TimeOfDay::Night,
            ] {
                let sheets = scene(&[place], hour, "", 3).draw(160, 90);
                let solid = |sheet: &LayerSheet| sheet.rgba.chunks_exact(4).all(|p| p[3] == 255);
                assert!(solid(&sheets[0]), "{place:?} {hour:?} has a hole");
                let is_ordered = sheets.windows(2).all(|w| w[0].parallax < w[1].parallax);
                assert!(is_ordered, "{place:?} {hour:?}");
                let values: Vec<f64> = composite(&sheets).into_iter().map(f64::from).collect();
                let count = f64::from(160 * 90 * 4);
                let mean = values.iter().sum::<f64>() / count;
                let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count;
                assert!(variance > 100.0, "{place:?} {hour:?} is flat: {variance}");
            }
        }
    }

    /// Each place that a scene is said to show changes the picture, and no other one does.
    #[test]
    fn a_scene_shows_what_it_says() {
        for first in PLACES {
            for second in PLACES {
                // Meadows under snow are the snowfield that is drawn anyway.
                if (first, second) == (ScenePlace::Snow, ScenePlace::Meadow) {
                    continue;
                }
                let draw = |places: &[ScenePlace]| {
                    let scene = scene(places, TimeOfDay::Day, "", 5);
                    let is_shown = scene.shows(SceneElement::Place(second));
                    (composite(&scene.draw(96, 54)), is_shown, scene)
                };
                let (without, was_shown, _) = draw(&[first]);
                let (with, is_shown, scene) = draw(&[first, second]);
                let is_changed = without != with;
                let is_newly_shown = is_shown && !was_shown;
                assert!(
                    !is_newly_shown || is_changed,
                    "{first:?} and {second:?}: {}",
                    scene.describe()
                );
                if !is_shown {
                    assert!(!is_changed, "{first:?} hides {second:?}");
                }
            }
        }
    }

    #[test]
    fn a_stormy_sky_is_not_blue() {
        let blueness = |sky| {
            let elements = [SceneElement::Place(ScenePlace::Sea), SceneElement::Sky(sky)];
            let scene = Scene::new(&Scenery::new(elements.into_iter(), "storm"), 2);
            let picture = composite(&scene.draw(160, 90));
            let sky = &picture[..160 * 40 * 4];
            let blue_excess = sky
                .chunks_exact(4)
                .map(|p| i32::from(p[2]) - i32::from(p[0]));
            blue_excess.sum::<i32>() / (160 * 40)
        };
        assert!(blueness(SkyCondition::Fair) > 40);
        assert!(blueness(SkyCondition::Stormy) < 20);
    }

    /// The sheets composited.
    fn composite(sheets: &[LayerSheet]) -> Vec<u8> {
        let mut below = sheets[0].rgba.clone();
        for sheet in &sheets[1..] {
            for (under, over) in below.chunks_exact_mut(4).zip(sheet.rgba.chunks_exact(4)) {
                let transparency = u32::from(255 - over[3]);
                for (u, o) in under.iter_mut().zip(over) {
                    let sum = u32::from(*u) * transparency / 255 + u32::from(*o);
                    *u = u8::try_from(sum.min(255)).unwrap();
                }
            }
        }
        below
    }

    #[test]
    fn odd_sizes_are_drawn() {
        for (width, height) in [(2, 2), (2, 900), (900, 2), (0, 0)] {
            for sheet in scene(&PLACES[1..7], TimeOfDay::Day, "", 1).draw(width, height) {
                assert_eq!((sheet.width, sheet.height), (width.max(2), height.max(2)));
            }
        }
    }
}
