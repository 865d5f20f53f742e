//! Scenes: the picture to move over when the caller sent none, drawn from the prompt's words.
//!
//! A scene is a backdrop in layers: a sky of the hour named, then land from far to near, each
//! layer with less haze than the one behind it, and water that mirrors what stands behind it; or a
//! room, with some of that outside its window. Every detail comes from noise seeded by the prompt
//! and the seed, so two prompts look different and one prompt with one seed always looks the same.
//!
//! Subjects are not drawn: a prompt about a fox on a hill gets the hill.

mod ground;
mod hour;
mod land;
mod light;
pub(crate) mod noise;
mod paint;
mod room;
mod sky;
mod space;
mod stage;

use crate::layer::LayerSheet;
use hour::{SkyCondition, TimeOfDay};
use light::SceneLight;
use stage::SceneStage;

/// Everything to draw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scene {
    hour: TimeOfDay,
    weather: SkyCondition,
    /// Each at most once, in the order of [`ScenePlace`].
    places: Vec<ScenePlace>,
    seed: u64,
}

/// What a scene can contain, back to front.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ScenePlace {
    Space,
    Mountains,
    City,
    Forest,
    Sea,
    Desert,
    Snow,
    Meadow,
    Room,
}

impl Scene {
    /// Reads a scene from a prompt. Other words still vary the picture.
    pub(crate) fn from_prompt(prompt: &str, seed: u64) -> Self {
        let words = words_of(prompt);
        // "Room tone" is a sound.
        let is_room_tone =
            |i: usize| words[i] == "room" && words.get(i + 1).is_some_and(|w| w == "tone");
        let mut places: Vec<ScenePlace> = (0..words.len())
            .filter(|i| !is_room_tone(*i))
            .filter_map(|i| place(&words[i]))
            .collect();
        places.sort_unstable();
        places.dedup();
        if places.is_empty() {
            places = vec![ScenePlace::Mountains, ScenePlace::Meadow];
        }
        Self {
            hour: words.iter().find_map(|w| hour(w)).unwrap_or(TimeOfDay::Day),
            weather: words
                .iter()
                .find_map(|w| weather(w))
                .unwrap_or(SkyCondition::Fair),
            places,
            seed: seed_of(&words, seed),
        }
    }

    /// What will be drawn, in words: `drawn scene: mountains and water at sunset`.
    pub(crate) fn describe(&self) -> String {
        let names: Vec<&str> = self.places.iter().map(|p| p.name()).collect();
        let list = match names.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
            None => String::new(),
        };
        if self.has(ScenePlace::Space) {
            return format!("drawn scene: {list}");
        }
        let hour = match self.hour {
            TimeOfDay::Dawn => "at dawn",
            TimeOfDay::Day => "by day",
            TimeOfDay::Sunset => "at sunset",
            TimeOfDay::Night => "at night",
        };
        let weather = match self.weather {
            SkyCondition::Fair => "",
            SkyCondition::Cloudy => ", cloudy",
            SkyCondition::Foggy => ", foggy",
        };
        format!("drawn scene: {list} {hour}{weather}")
    }

    /// Draws the scene in sheets, farthest first.
    pub(crate) fn draw(&self, width: u32, height: u32) -> Vec<LayerSheet> {
        let mut stage = SceneStage::new(width.max(2), height.max(2), self.seed);
        // Space has no horizon on which other places could stand, so it is drawn alone.
        if self.has(ScenePlace::Space) {
            space::draw(&mut stage, self.seed);
        } else {
            let light = SceneLight::for_hour(self.hour, self.weather, self.seed);
            let indoors = self.has(ScenePlace::Room);
            let horizon = if indoors {
                room::HORIZON
            } else {
                self.horizon()
            };
            sky::draw(stage.canvas_at(0.0), &light, horizon, self.seed);
            if indoors {
                self.draw_view(&mut stage, &light, horizon);
                room::draw(&mut stage, &light, self.seed);
            } else {
                self.draw_land(&mut stage, &light, horizon);
            }
        }
        stage.into_sheets()
    }

    fn has(&self, place: ScenePlace) -> bool {
        self.places.contains(&place)
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

    /// What is outside a room's window: far things only.
    fn draw_view(&self, stage: &mut SceneStage, light: &SceneLight, horizon: f32) {
        let snowy = self.has(ScenePlace::Snow);
        if self.has(ScenePlace::City) {
            land::city(stage, light, horizon, true, self.seed);
        } else if self.has(ScenePlace::Forest) {
            land::forest(stage, light, horizon, true, self.seed);
        } else {
            land::mountains(stage, light, horizon, snowy, self.seed);
        }
        if self.has(ScenePlace::Sea) {
            ground::water(stage, light, horizon, self.seed);
        }
    }

    fn draw_land(&self, stage: &mut SceneStage, light: &SceneLight, horizon: f32) {
        // With water, a skyline stands on the far shore and the ground begins near the lower edge,
        // so that the water between them is not covered.
        let has_water = self.has(ScenePlace::Sea);
        for place in &self.places {
            let snowy = self.has(ScenePlace::Snow);
            match place {
                ScenePlace::Mountains => land::mountains(stage, light, horizon, snowy, self.seed),
                ScenePlace::City => land::city(stage, light, horizon, has_water, self.seed),
                ScenePlace::Forest => land::forest(stage, light, horizon, has_water, self.seed),
                ScenePlace::Sea => ground::water(stage, light, horizon, self.seed),
                ScenePlace::Desert => ground::dunes(stage, light, horizon, has_water, self.seed),
                ScenePlace::Snow => ground::snow(stage, light, horizon, has_water, self.seed),
                ScenePlace::Meadow => ground::meadow(stage, light, horizon, has_water, self.seed),
                ScenePlace::Space | ScenePlace::Room => {}
            }
        }
        // Mountains alone would stand on nothing.
        if self.places == [ScenePlace::Mountains] {
            ground::meadow(stage, light, horizon, false, self.seed);
        }
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

fn words_of(prompt: &str) -> Vec<String> {
    prompt
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// FNV-1a over the words, so that spacing, case and punctuation do not change the picture.
fn seed_of(words: &[String], seed: u64) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for byte in words.iter().flat_map(|word| word.bytes().chain([b' '])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash
}

fn hour(word: &str) -> Option<TimeOfDay> {
    Some(match word {
        "dawn" | "sunrise" | "morning" | "daybreak" => TimeOfDay::Dawn,
        "day" | "noon" | "midday" | "afternoon" | "sunny" | "daylight" => TimeOfDay::Day,
        "sunset" | "dusk" | "evening" | "twilight" | "golden" => TimeOfDay::Sunset,
        "night" | "midnight" | "moonlight" | "moonlit" | "moon" | "starry" | "stars"
        | "nighttime" | "nocturnal" | "neon" => TimeOfDay::Night,
        _ => return None,
    })
}

fn weather(word: &str) -> Option<SkyCondition> {
    Some(match word {
        "cloudy" | "clouds" | "overcast" | "storm" | "stormy" | "rain" | "rainy" | "thunder" => {
            SkyCondition::Cloudy
        }
        "fog" | "foggy" | "mist" | "misty" | "haze" | "hazy" => SkyCondition::Foggy,
        _ => return None,
    })
}

fn place(word: &str) -> Option<ScenePlace> {
    Some(match word {
        "space" | "galaxy" | "nebula" | "cosmos" | "cosmic" | "planet" | "planets" | "universe"
        | "asteroid" | "spaceship" | "starship" | "orbital" | "interstellar" => ScenePlace::Space,
        "mountain" | "mountains" | "peak" | "peaks" | "alps" | "alpine" | "ridge" | "summit"
        | "cliff" | "cliffs" | "canyon" | "himalaya" | "volcano" => ScenePlace::Mountains,
        "city" | "cities" | "skyline" | "town" | "street" | "streets" | "skyscraper"
        | "skyscrapers" | "downtown" | "urban" | "neon" | "building" | "buildings"
        | "metropolis" | "tokyo" | "manhattan" | "cyberpunk" => ScenePlace::City,
        "forest" | "forests" | "woods" | "woodland" | "tree" | "trees" | "pine" | "pines"
        | "jungle" | "rainforest" | "taiga" => ScenePlace::Forest,
        "sea" | "ocean" | "beach" | "coast" | "shore" | "waves" | "lake" | "river" | "water"
        | "harbor" | "harbour" | "bay" | "island" | "islands" | "fjord" | "lighthouse" | "boat"
        | "ship" | "sailing" => ScenePlace::Sea,
        "desert" | "deserts" | "dune" | "dunes" | "sahara" | "sand" | "sands" => ScenePlace::Desert,
        "snow" | "snowy" | "winter" | "ice" | "icy" | "arctic" | "antarctic" | "glacier"
        | "frozen" | "tundra" => ScenePlace::Snow,
        "meadow" | "meadows" | "field" | "fields" | "grass" | "prairie" | "hill" | "hills"
        | "valley" | "countryside" | "farm" | "steppe" | "savanna" | "garden" | "park" => {
            ScenePlace::Meadow
        }
        "room" | "bedroom" | "livingroom" | "interior" | "indoors" | "kitchen" | "office"
        | "apartment" | "attic" | "parlour" | "windowsill" => ScenePlace::Room,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_make_the_scene() {
        for (prompt, expected) in [
            (
                "A lighthouse by the SEA at sunset",
                "drawn scene: water at sunset",
            ),
            (
                "snowy mountains at dawn",
                "drawn scene: mountains and snow at dawn",
            ),
            ("neon city", "drawn scene: city at night"),
            (
                "misty pine forest by a lake",
                "drawn scene: forest and water by day, foggy",
            ),
            ("a galaxy far away", "drawn scene: space"),
            ("a quiet room at night", "drawn scene: room at night"),
            ("hills with room tone", "drawn scene: meadows by day"),
            ("a fox", "drawn scene: mountains and meadows by day"),
        ] {
            assert_eq!(
                Scene::from_prompt(prompt, 0).describe(),
                expected,
                "{prompt}"
            );
        }
    }

    #[test]
    fn same_prompt_and_seed_same_picture_and_else_another() {
        let draw = |prompt: &str, seed| Scene::from_prompt(prompt, seed).draw(96, 54);
        assert!(draw("hills", 1) == draw("  Hills!", 1));
        assert!(draw("hills", 1) != draw("hills", 2));
        assert!(draw("a red fox", 1) != draw("a grey wolf", 1));
    }

    #[test]
    fn every_place_and_hour_draws_something_with_depth() {
        for place in [
            "sea", "mountain", "forest", "city", "desert", "snow", "space", "meadow", "room",
        ] {
            for hour in ["dawn", "day", "sunset", "night"] {
                let sheets = Scene::from_prompt(&format!("{place} {hour}"), 3).draw(160, 90);
                let solid = |sheet: &LayerSheet| sheet.rgba.chunks_exact(4).all(|p| p[3] == 255);
                assert!(solid(&sheets[0]), "{place} {hour} has a hole");
                let is_ordered = sheets.windows(2).all(|w| w[0].parallax < w[1].parallax);
                assert!(is_ordered, "{place} {hour}");
                let values: Vec<f64> = composite(&sheets).into_iter().map(f64::from).collect();
                let count = f64::from(160 * 90 * 4);
                let mean = values.iter().sum::<f64>() / count;
                let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count;
                assert!(variance > 100.0, "{place} {hour} is flat: {variance}");
            }
        }
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
            let scene = Scene::from_prompt("sea city forest desert snow mountains", 1);
            for sheet in scene.draw(width, height) {
                assert_eq!((sheet.width, sheet.height), (width.max(2), height.max(2)));
            }
        }
    }
}
