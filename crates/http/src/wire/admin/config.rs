//! The settings in effect.

use serde::Serialize;
use utoipa::ToSchema;

use mediagate_core::app::AppParts;

/// The settings in effect, and how the last reload went.
#[derive(Debug, Serialize, ToSchema)]
pub struct ConfigObject {
    /// Always `config`.
    pub object: &'static str,
    /// All settings as TOML, secrets masked.
    pub toml: String,
    /// The last reload since the process started.
    #[schema(required = true)]
    pub last_reload: Option<ReloadObject>,
}

/// How reading the settings anew went.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReloadObject {
    /// When they were read.
    pub at: String,
    /// Whether they are in effect; otherwise the old ones stayed.
    pub applied: bool,
    /// What is wrong with them.
    #[schema(required = true)]
    pub error: Option<String>,
}

impl ConfigObject {
    pub fn new(app: &AppParts) -> Self {
        let reload = app.models.settings.last_reload();
        Self {
            object: "config",
            toml: app.models.settings.show(&app.config),
            last_reload: reload.map(|reload| ReloadObject {
                at: reload.at.rfc3339(),
                applied: reload.error.is_none(),
                error: reload.error,
            }),
        }
    }
}
