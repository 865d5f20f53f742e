//! Scenery: what a prompt asks a drawn scene to show.

use super::hour::{SkyCondition, TimeOfDay};

/// What a scene can contain, back to front.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// One thing that a phrase asks of a scene.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SceneElement {
    Place(ScenePlace),
    Hour(TimeOfDay),
    Sky(SkyCondition),
}

/// Everything that a prompt asks of a scene.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Scenery {
    /// Each at most once, in the order of [`ScenePlace`].
    pub(crate) places: Vec<ScenePlace>,
    /// The first hour that is named.
    pub(crate) hour: Option<TimeOfDay>,
    /// The first sky that is named.
    pub(crate) sky: Option<SkyCondition>,
    /// All words of the prompt, which vary the drawing.
    pub(crate) words: Vec<String>,
}

impl Scenery {
    /// Collects the elements of a prompt, in its order.
    pub(crate) fn new(elements: impl Iterator<Item = SceneElement>, text: &str) -> Self {
        let mut scenery = Self {
            words: words_of(text),
            ..Self::default()
        };
        for element in elements {
            match element {
                SceneElement::Place(place) => scenery.places.push(place),
                SceneElement::Hour(hour) => scenery.hour = scenery.hour.or(Some(hour)),
                SceneElement::Sky(sky) => scenery.sky = scenery.sky.or(Some(sky)),
            }
        }
        scenery.places.sort_unstable();
        scenery.places.dedup();
        scenery
    }
}

fn words_of(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}
