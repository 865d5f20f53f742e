//! The settings in effect.

use serde::Serialize;
use utoipa::ToSchema;

use mediagate_core::app::AppParts;

/// The settings in effect and the result of the last reload.
#[derive(Debug, Serialize, ToSchema)]
pub struct ConfigObject {
    /// Always `config`.
    pub object: &'static str,
    /// All settings as TOML, with secrets masked.
    pub toml: String,
    /// The last reload since the process started. Null if there was none.
    #[schema(required = true)]
    pub last_reload: Option<ReloadObject>,
}

/// The result of a reload of the settings.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReloadObject {
    /// Time of the reload.
    pub at: String,
    /// Whether the new settings are in effect. If false, the previous settings stay in effect.
    pub applied: bool,
    /// Why the reload failed.
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
