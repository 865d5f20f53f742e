//! The recipes that are shipped, and the adapter of a recipe.

use providers::{Adapter, ProviderSettings, SettingsError};
use serde_json::{Map, json};
use std::sync::Arc;

/// The adapter of a recipe.
pub(crate) fn read(text: &str) -> Result<Arc<dyn Adapter>, SettingsError> {
    // `file:` would make the recipe read from this machine, which no case may do.
    let text = text.trim_start_matches("file:");
    let settings =
        ProviderSettings::new("any", Map::from_iter([("recipe".to_owned(), json!(text))]));
    (providers::protocol("recipe").unwrap().build)(&settings)
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
