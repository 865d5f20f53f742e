//! `[moderation]` of the file: which orders are refused for their content.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use merge::Merge;
use serde::{Deserialize, Serialize};

use super::file_only;
use crate::values::{address_if_set, duration, long_secret_if_set};
use mediagate_model::secret::SecretSource;

/// What becomes of an order that a check could not judge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ModerationFallback {
    /// It is refused.
    #[default]
    Refuse,
    /// The other checks decide.
    Allow,
}

/// `[moderation]`: checks of the content of orders.
#[derive(Debug, Clone, Default, Args, Deserialize, Merge)]
#[serde(deny_unknown_fields, default)]
#[merge(strategy = merge::option::overwrite_none)]
pub struct ModerationSettings {
    /// What happens to an order that a check could not judge [default: refuse]
    #[arg(
        id = "moderation_on_error",
        long = "moderation-on-error",
        env = "MEDIAGATE_MODERATION_ON_ERROR",
        value_name = "WAY",
        global = true
    )]
    pub on_error: Option<ModerationFallback>,
    /// Check results too; not possible in this version [default: false]
    #[arg(
        id = "moderation_results",
        long = "moderation-results",
        env = "MEDIAGATE_MODERATION_RESULTS",
        value_name = "BOOL",
        global = true
    )]
    pub results: Option<bool>,
    /// Keep the texts of orders with their verdicts in the audit log [default: false]
    #[arg(
        id = "moderation_keep",
        long = "moderation-keep",
        env = "MEDIAGATE_MODERATION_KEEP",
        value_name = "BOOL",
        global = true
    )]
    pub keep: Option<bool>,
    /// How long a moderation service may take to respond [default: 5s]
    #[arg(id = "moderation_timeout", long = "moderation-timeout", env = "MEDIAGATE_MODERATION_TIMEOUT", value_name = "TIME", value_parser = humantime::parse_duration, global = true)]
    #[serde(deserialize_with = "duration")]
    pub timeout: Option<Duration>,
    #[arg(skip)]
    #[merge(strategy = file_only)]
    pub checks: Vec<CheckSettings>,
}

/// How a check judges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckProtocol {
    /// By a list of words and patterns.
    Terms,
    /// By a service with the moderation API of `OpenAI`.
    #[serde(rename = "openai")]
    OpenAi,
    /// By a receiver of signed posts.
    Webhook,
    /// By a classifier of pictures on this machine.
    Pictures,
}

/// What a check is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckStage {
    /// An order, before its price is held.
    Order,
    /// A result, before it is handed out.
    Result,
}

/// An entry of `[[moderation.checks]]`, as written.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CheckSettings {
    pub protocol: CheckProtocol,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stages: Option<Vec<CheckStage>>,
    #[serde(
        default,
        serialize_with = "address_if_set",
        skip_serializing_if = "Option::is_none"
    )]
    pub endpoint: Option<SecretSource>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<SecretSource>,
    #[serde(
        default,
        serialize_with = "long_secret_if_set",
        skip_serializing_if = "Option::is_none"
    )]
    pub secret: Option<SecretSource>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
}
