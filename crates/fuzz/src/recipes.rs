//! Recipes: what an operator writes, or pastes from somewhere.

use providers::{Adapter, ProviderSettings, SettingsError};
use serde_json::{Map, json};
use std::sync::Arc;

use crate::FuzzTarget;
use crate::answers;

pub(crate) const RECIPE: FuzzTarget = FuzzTarget {
    name: "recipe",
    run: recipe,
    seeds,
    cases: 600,
};

/// A text is a recipe, which can order and read any answer, or is explained.
fn recipe(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(adapter) = read(&text) {
        answers::exercise(&*adapter, 200, bytes);
    }
}

/// The adapter of a recipe.
pub(crate) fn read(text: &str) -> Result<Arc<dyn Adapter>, SettingsError> {
    // Another file is none of its business here.
    let text = text.trim_start_matches("file:");
    let settings = ProviderSettings::new("any", Map::from_iter([("recipe".to_owned(), json!(text))]));
    (providers::protocol("recipe").unwrap().build)(&settings)
}

fn seeds() -> Vec<Vec<u8>> {
    SHIPPED.map(|text| text.as_bytes().to_vec()).into()
}

pub(crate) const SHIPPED: [&str; 10] = [
    include_str!("../../../recipes/hunyuan.toml"),
    include_str!("../../../recipes/kie.toml"),
    include_str!("../../../recipes/kie-suno.toml"),
    include_str!("../../../recipes/ltx.toml"),
    include_str!("../../../recipes/mureka.toml"),
    include_str!("../../../recipes/openai-videos.toml"),
    include_str!("../../../recipes/openrouter.toml"),
    include_str!("../../../recipes/pixverse.toml"),
    include_str!("../../../recipes/vidu.toml"),
    include_str!("../../../recipes/wavespeed.toml"),
];
