//! Recipes that are part of the program: `protocol = "recipe:openrouter"`.

use std::sync::Arc;

use crate::adapters::Protocol;
use crate::port::Adapter;
use crate::settings::{ProviderSettings, SettingsError};

macro_rules! shipped {
    ($($name:literal)*) => {
        &[$(Protocol {
            name: concat!("recipe:", $name),
            base_url: None,
            options: &[],
            anonymous: false,
            build: |settings| build(
                settings,
                include_str!(concat!("../../../../../recipes/", $name, ".toml")),
            ),
        }),*]
    };
}

/// Every recipe that is named without a file.
pub(crate) const SHIPPED_RECIPES: &[Protocol] = shipped!(
    "openrouter" "wavespeed" "kie" "pixverse" "hunyuan" "vidu" "ltx" "mureka" "kie-suno"
);

fn build(settings: &ProviderSettings, text: &str) -> Result<Arc<dyn Adapter>, SettingsError> {
    Ok(Arc::new(super::build_adapter(text, settings)?))
}
