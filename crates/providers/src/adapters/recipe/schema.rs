//! The recipe language: what a recipe may say, as it is read from TOML.
//! `docs/providers/recipe.md` explains each line to operators.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use toml::Spanned;

use super::body::Node;
use super::pointer::{Condition, Places};
use super::template::Template;
use crate::cost::Unit;
use crate::error::Class;
use crate::limits::Durations;

/// A set of named templates.
pub(super) type Templates = BTreeMap<String, Spanned<Template>>;

/// A recipe.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recipe {
    /// Where the provider is, unless the operator says otherwise.
    pub(super) base_url: Option<Spanned<String>>,
    /// Other hosts that may be sent the credential.
    #[serde(default)]
    pub(super) hosts: Vec<String>,
    /// Whether the provider makes one job of two submissions with one `{key}`.
    #[serde(default)]
    pub(super) deduplicates: Option<Spanned<bool>>,
    #[serde(default)]
    pub(super) auth: Auth,
    #[serde(default)]
    pub(super) pace: Pacing,
    pub(super) video: Option<Spanned<VideoSection>>,
    pub(super) stems: Option<Spanned<StemsSection>>,
    pub(super) music: Option<Spanned<MusicSection>>,
    #[serde(default)]
    pub(super) maps: Maps,
    pub(super) submit: Submit,
    /// Places whose text is JSON, and is read as that.
    #[serde(default)]
    pub(super) json_texts: Vec<Places>,
    /// What is true of every answer that is none but an error's envelope.
    pub(super) ok: Option<Condition>,
    pub(super) poll: Poll,
    pub(super) state: State,
    pub(super) result: ResultSection,
    pub(super) cancel: Option<Cancel>,
    pub(super) find: Option<Find>,
    pub(super) cost: Option<CostSection>,
    #[serde(default)]
    pub(super) errors: Errors,
}

/// `[cost]`: what the answer that tells the end says that the job cost.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CostSection {
    pub(super) at: Places,
    pub(super) unit: Unit,
}

/// `[maps.NAME]`: what a value becomes; `*` is for any that is not listed.
pub(super) type Maps = BTreeMap<String, BTreeMap<String, Value>>;

/// `[auth]`: `Authorization: Bearer KEY` when left out.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Auth {
    /// The header that holds the key, without a word before it.
    pub(super) header: Option<Spanned<String>>,
    /// The word before the key.
    pub(super) scheme: Option<String>,
    /// No credential is sent.
    pub(super) none: bool,
}

/// `[pace]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Pacing {
    pub(super) floor_seconds: u16,
    pub(super) ceiling_seconds: u16,
    pub(super) usual_seconds: u16,
    /// A header by which the provider says when it wants to be asked next.
    pub(super) after_ms_header: Option<String>,
}

impl Default for Pacing {
    fn default() -> Self {
        Self {
            floor_seconds: 5,
            ceiling_seconds: 30,
            usual_seconds: 60,
            after_ms_header: None,
        }
    }
}

/// `[video]`: what may be asked of every model.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VideoSection {
    pub(super) sizes: Vec<Size>,
    pub(super) seconds: Spanned<Durations>,
    pub(super) default_seconds: Option<u32>,
    #[serde(default)]
    pub(super) pictures: PicturesSection,
    #[serde(default)]
    pub(super) negative_prompt: bool,
    #[serde(default)]
    pub(super) seed: bool,
    /// Greater seeds are folded into the range.
    #[serde(default = "usual_seed")]
    pub(super) max_seed: u64,
    #[serde(default = "usual_prompt")]
    pub(super) max_prompt: usize,
    /// Models that differ.
    #[serde(default)]
    pub(super) model: Vec<VideoModel>,
}

/// What fits a signed number of 32 bits, as most providers have it.
const fn usual_seed() -> u64 {
    2_147_483_647
}

const fn usual_prompt() -> usize {
    2_000
}

/// `[[video.model]]`: what differs for models of this name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VideoModel {
    /// With `*` at either end for any rest.
    pub(super) name: String,
    pub(super) sizes: Option<Vec<Size>>,
    pub(super) seconds: Option<Spanned<Durations>>,
    pub(super) default_seconds: Option<u32>,
    pub(super) pictures: Option<PicturesSection>,
    pub(super) negative_prompt: Option<bool>,
    pub(super) seed: Option<bool>,
    pub(super) max_prompt: Option<usize>,
}

/// `1280x720`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Size(pub(super) (u32, u32));

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let parts = text.split_once('x');
        let size =
            parts.and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
        size.filter(|(width, height)| *width > 0 && *height > 0)
            .map(Self)
            .ok_or_else(|| format!("{text:?} is no size; write it like \"1280x720\""))
    }
}

/// `pictures = { … }`.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PicturesSection {
    pub(super) max: usize,
    pub(super) needed: bool,
    /// The pictures are references and not the first and last frame.
    pub(super) references: bool,
    /// The provider fetches them itself.
    pub(super) address_only: bool,
}

/// `[stems]`: what may be separated.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StemsSection {
    /// The groups that the provider tells apart, and its words for them.
    pub(super) groups: BTreeMap<Spanned<String>, String>,
    /// Whether it takes one group from the rest.
    #[serde(default)]
    pub(super) two: bool,
    /// Whether it makes all groups in one job.
    #[serde(default)]
    pub(super) full: bool,
    /// The provider fetches the recording itself.
    #[serde(default)]
    pub(super) address_only: bool,
}

/// `[music]`: what songs may be made.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MusicSection {
    /// Tasks of the music dialect.
    #[serde(default = "generate")]
    pub(super) tasks: Vec<String>,
    /// How many clips an order makes.
    #[serde(default = "one_clip")]
    pub(super) clips: usize,
    /// Lengths that may be asked for.
    pub(super) seconds: Option<Spanned<Durations>>,
}

fn generate() -> Vec<String> {
    vec!["generate".into()]
}

const fn one_clip() -> usize {
    1
}

/// `[submit]`: the call that orders.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Submit {
    #[serde(default = "post")]
    pub(super) method: Verb,
    pub(super) path: Spanned<Template>,
    #[serde(default)]
    pub(super) query: Templates,
    #[serde(default)]
    pub(super) headers: Templates,
    #[serde(default)]
    pub(super) encoding: Encoding,
    pub(super) body: Option<Spanned<Node>>,
    /// What to keep of the answer, by name.
    pub(super) keep: Spanned<BTreeMap<String, Places>>,
    /// What to keep of the order, by name.
    #[serde(default)]
    pub(super) remember: Templates,
    /// Orders that are submitted in another way; the first that fits.
    #[serde(default)]
    pub(super) variant: Vec<Variant>,
}

/// `[[submit.variant]]`: replaces lines of `[submit]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Variant {
    /// The value that the order must have.
    pub(super) when: Spanned<String>,
    pub(super) method: Option<Verb>,
    pub(super) path: Option<Spanned<Template>>,
    pub(super) query: Option<Templates>,
    pub(super) headers: Option<Templates>,
    pub(super) encoding: Option<Encoding>,
    pub(super) body: Option<Spanned<Node>>,
}

/// How a body is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Encoding {
    #[default]
    Json,
    Multipart,
    Form,
}

/// A method.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Verb {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

const fn get() -> Verb {
    Verb::Get
}

const fn post() -> Verb {
    Verb::Post
}

/// `[poll]`: the call that asks how a job stands.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Poll {
    #[serde(default = "get")]
    pub(super) method: Verb,
    /// Under the base address, or a whole address that was kept.
    pub(super) path: Spanned<Template>,
    #[serde(default)]
    pub(super) query: Templates,
    #[serde(default)]
    pub(super) headers: Templates,
    pub(super) body: Option<Spanned<Node>>,
    /// What a status alone means.
    #[serde(default)]
    pub(super) statuses: BTreeMap<Spanned<String>, StatusMeaning>,
}

/// What a poll's status alone means.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum StatusMeaning {
    Running,
    Failed,
    Refused,
    Lost,
}

/// `[state]`: how a poll's answer is read.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
pub(super) struct State {
    /// Where the status word is.
    pub(super) word: Option<Spanned<Places>>,
    pub(super) queued: Vec<Spanned<String>>,
    pub(super) running: Vec<Spanned<String>>,
    pub(super) done: Vec<Spanned<String>>,
    pub(super) failed: Vec<Spanned<String>>,
    pub(super) refused: Vec<Spanned<String>>,
    pub(super) lost: Vec<Spanned<String>>,
    pub(super) refused_when: Option<Condition>,
    pub(super) failed_when: Option<Condition>,
    pub(super) done_when: Option<Condition>,
    pub(super) progress: Option<Places>,
    /// What the progress counts when all is done.
    pub(super) progress_full: Option<f64>,
}

/// `[result]`: where the result is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResultSection {
    /// Places of the address.
    pub(super) address: Option<Places>,
    /// Whether the provider's own addresses are fetched with the credential.
    #[serde(default)]
    pub(super) with_credential: bool,
    /// A path whose answer is the result itself.
    pub(super) content: Option<Spanned<Template>>,
    #[serde(default)]
    pub(super) content_query: Templates,
    /// Places of the bytes in base64.
    pub(super) base64: Option<Places>,
    /// Places of each stem's address.
    #[serde(default)]
    pub(super) stems: BTreeMap<Spanned<String>, Places>,
    /// A call that comes between the end of the job and the result.
    pub(super) lookup: Option<Lookup>,
}

/// `[result.lookup]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lookup {
    #[serde(default = "get")]
    pub(super) method: Verb,
    pub(super) path: Spanned<Template>,
    #[serde(default)]
    pub(super) query: Templates,
    #[serde(default)]
    pub(super) headers: Templates,
    pub(super) body: Option<Spanned<Node>>,
    /// What to take from the poll's answer, by name.
    #[serde(default)]
    pub(super) keep: BTreeMap<String, Places>,
}

/// `[cancel]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cancel {
    #[serde(default = "post")]
    pub(super) method: Verb,
    pub(super) path: Spanned<Template>,
    #[serde(default)]
    pub(super) query: Templates,
    #[serde(default)]
    pub(super) headers: Templates,
    pub(super) body: Option<Spanned<Node>>,
    /// Whether a good answer proves that the job is called off.
    #[serde(default = "yes")]
    pub(super) certain: bool,
}

const fn yes() -> bool {
    true
}

/// `[find]`: the call that looks for the job of a submission whose answer was lost.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Find {
    #[serde(default = "get")]
    pub(super) method: Verb,
    pub(super) path: Spanned<Template>,
    #[serde(default)]
    pub(super) query: Templates,
    #[serde(default)]
    pub(super) headers: Templates,
    pub(super) body: Option<Spanned<Node>>,
    /// The list of jobs; without it the answer is the job.
    pub(super) items: Option<Places>,
    /// Where a job repeats `{key}`.
    pub(super) reference: Option<Places>,
    /// Where it repeats the prompt and the model.
    pub(super) prompt: Option<Places>,
    pub(super) model: Option<Places>,
    pub(super) created_at: Option<Places>,
    /// What to keep of a job; as of the submission's answer when left out.
    pub(super) keep: Option<Spanned<BTreeMap<String, Places>>>,
    /// The next page's address, or its mark when there is `next_query`.
    pub(super) next: Option<Places>,
    pub(super) next_query: Option<String>,
    /// The query member for a page's number.
    pub(super) page_query: Option<String>,
    #[serde(default = "one")]
    pub(super) first_page: u16,
    /// What is true when there is a next page.
    pub(super) more: Option<Condition>,
    /// Whether a job that is not found was never taken.
    #[serde(default)]
    pub(super) absence_is_proof: bool,
}

const fn one() -> u16 {
    1
}

/// `[errors]`: how errors are read.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Errors {
    pub(super) code: Places,
    pub(super) message: Places,
    /// Classes of the provider's codes; `*` at the end for any rest.
    pub(super) codes: BTreeMap<String, ClassName>,
    /// Classes of words in messages, in lower case, where no code tells.
    pub(super) words: BTreeMap<String, ClassName>,
    /// Classes of statuses.
    pub(super) statuses: BTreeMap<Spanned<String>, ClassName>,
}

/// A class by its name.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ClassName {
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
}

impl From<ClassName> for Class {
    fn from(name: ClassName) -> Self {
        match name {
            ClassName::RateLimited => Self::RateLimited,
            ClassName::Unavailable => Self::Unavailable,
            ClassName::Unclear => Self::Unclear,
            ClassName::Credentials => Self::Credentials,
            ClassName::Account => Self::Account,
            ClassName::Rejected => Self::Rejected,
            ClassName::Refused => Self::Refused,
            ClassName::Failed => Self::Failed,
            ClassName::Unfit => Self::Unfit,
            ClassName::Lost => Self::Lost,
        }
    }
}
