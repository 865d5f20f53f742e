//! Database options of a process: connections and migration at startup.

/// Whether to migrate the schema at startup.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    clap::ValueEnum,
    serde::Deserialize,
    serde::Serialize,
)]
#[serde(rename_all = "snake_case")]
pub enum MigrationMode {
    /// Every process that finds it outdated migrates it.
    #[default]
    Auto,
    /// Only mediagate migrate does.
    Never,
}

/// How a process uses its database.
#[derive(Debug, Clone, Copy)]
pub struct DatabaseOptions {
    /// Connections of this process, at least two; one is reserved for the heartbeat.
    pub connections: usize,
    pub migrate: MigrationMode,
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        Self {
            connections: 8,
            migrate: MigrationMode::Auto,
        }
    }
}
