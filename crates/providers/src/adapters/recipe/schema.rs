//! The recipe language: the contents of a recipe, as read from TOML. `docs/providers/recipe.md`
//! explains each line to operators.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use toml::Spanned;

use super::calls::{Cancel, Find, Poll, Submit, Upload};
use super::media_sections::{MusicSection, VideoSection};
use super::persona::PersonaSection;
use super::pointer::{AnswerCondition, PointerList};
use super::sign::SignatureMethod;
use super::songs::ClipPointers;
use super::template::Template;
use crate::cost::CostUnit;
use crate::error::ErrorClass;

/// A set of named templates.
pub(super) type TemplateMap = BTreeMap<String, Spanned<Template>>;

/// A recipe.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recipe {
    /// The provider's base URL, unless the operator sets another.
    pub(super) base_url: Option<Spanned<String>>,
    /// Other hosts that may be sent the credential.
    #[serde(default)]
    pub(super) hosts: Vec<String>,
    /// An example of a model's name. If it has an owner (`owner/model`), other names must have one
    /// too.
    pub(super) model_like: Option<String>,
    #[serde(default)]
    pub(super) auth: AuthSection,
    #[serde(default)]
    pub(super) pace: PaceSection,
    pub(super) video: Option<Spanned<VideoSection>>,
    pub(super) music: Option<Spanned<MusicSection>>,
    pub(super) persona: Option<PersonaSection>,
    #[serde(default)]
    pub(super) maps: ValueMaps,
    pub(super) submit: Submit,
    /// Places of strings that contain JSON, which is parsed.
    #[serde(default)]
    pub(super) json_texts: Vec<PointerList>,
    /// A condition that every answer meets unless it is the envelope of an error.
    pub(super) ok: Option<AnswerCondition>,
    /// Files that are handed over before the order.
    pub(super) upload: Option<Upload>,
    pub(super) poll: Poll,
    #[serde(default)]
    pub(super) state: StateSection,
    pub(super) result: ResultSection,
    pub(super) cancel: Option<Cancel>,
    pub(super) find: Option<Find>,
    pub(super) cost: Option<CostSection>,
    #[serde(default)]
    pub(super) errors: ErrorsSection,
}

/// `[cost]`: the place of the job's cost in the last answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CostSection {
    pub(super) at: PointerList,
    pub(super) unit: CostUnit,
}

/// `[maps.NAME]`: replacements of values; `*` matches any value that is not listed.
pub(super) type ValueMaps = BTreeMap<String, BTreeMap<String, Value>>;

/// `[auth]`: `Authorization: Bearer KEY` when left out.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AuthSection {
    /// The header for the key, without a word before it.
    pub(super) header: Option<Spanned<String>>,
    /// The word before the key.
    pub(super) scheme: Option<String>,
    /// The key is a pair, and each call is signed with it.
    pub(super) sign: Option<SignatureMethod>,
    /// No credential is sent.
    pub(super) none: bool,
}

/// `[pace]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PaceSection {
    pub(super) floor_seconds: u16,
    pub(super) ceiling_seconds: u16,
    pub(super) usual_seconds: u16,
    /// A header with the time until the next poll.
    pub(super) after_ms_header: Option<String>,
}

impl Default for PaceSection {
    fn default() -> Self {
        Self {
            floor_seconds: 5,
            ceiling_seconds: 30,
            usual_seconds: 60,
            after_ms_header: None,
        }
    }
}

/// `[state]`: how the answer to a poll is read.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
pub(super) struct StateSection {
    /// The place of the status word.
    pub(super) word: Option<Spanned<PointerList>>,
    pub(super) queued: Vec<Spanned<String>>,
    pub(super) running: Vec<Spanned<String>>,
    pub(super) done: Vec<Spanned<String>>,
    pub(super) failed: Vec<Spanned<String>>,
    pub(super) refused: Vec<Spanned<String>>,
    pub(super) lost: Vec<Spanned<String>>,
    pub(super) refused_when: Option<AnswerCondition>,
    pub(super) failed_when: Option<AnswerCondition>,
    pub(super) done_when: Option<AnswerCondition>,
    pub(super) progress: Option<PointerList>,
    /// The progress of a completed job, in the provider's scale.
    pub(super) progress_full: Option<f64>,
}

/// `[result]`: where the result is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResultSection {
    /// The list of clips; places of URLs and clips are then relative to its items.
    pub(super) items: Option<PointerList>,
    #[serde(default)]
    pub(super) clip: ClipPointers,
    /// Places of the URL.
    pub(super) address: Option<PointerList>,
    /// Whether the provider's own URLs are fetched with the credential.
    #[serde(default)]
    pub(super) with_credential: bool,
    /// A path whose answer is the result itself.
    pub(super) content: Option<Spanned<Template>>,
    #[serde(default)]
    pub(super) content_query: TemplateMap,
}

/// `[errors]`: how errors are read.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ErrorsSection {
    /// A condition for answers that are errors, whatever their status.
    pub(super) when: Option<AnswerCondition>,
    pub(super) code: PointerList,
    pub(super) message: PointerList,
    /// Classes of the provider's codes; `*` at either end matches any text.
    pub(super) codes: BTreeMap<String, ErrorClassName>,
    /// Classes of words in messages, in lower case, if no code decides.
    pub(super) words: BTreeMap<String, ErrorClassName>,
}

/// A class by its name.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ErrorClassName {
    RateLimited,
    Unavailable,
    Unclear,
    Credentials,
    Account,
    Rejected,
    Refused,
    Failed,
    Unfit,
    Lost,
    Missing,
}

impl From<ErrorClassName> for ErrorClass {
    fn from(name: ErrorClassName) -> Self {
        match name {
            ErrorClassName::RateLimited => Self::RateLimited,
            ErrorClassName::Unavailable => Self::Unavailable,
            ErrorClassName::Unclear => Self::Unclear,
            ErrorClassName::Credentials => Self::Credentials,
            ErrorClassName::Account => Self::Account,
            ErrorClassName::Rejected => Self::Rejected,
            ErrorClassName::Refused => Self::Refused,
            ErrorClassName::Failed => Self::Failed,
            ErrorClassName::Unfit => Self::Unfit,
            ErrorClassName::Lost => Self::Lost,
            ErrorClassName::Missing => Self::Missing,
        }
    }
}
