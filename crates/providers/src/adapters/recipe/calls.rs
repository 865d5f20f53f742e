//! The calls of a recipe: the sections that describe a call, each with its additional lines.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::body::BodyNode;
use super::call_template::CallTemplate;
use super::pointer::{AnswerCondition, PointerList};
use super::refusals::RefusalSection;
use super::schema::TemplateMap;
use super::template::Template;

/// A section that describes a call with the five common lines and some additional ones. Its path is
/// below the base URL, or a complete URL that was kept from an answer.
// Not `#[serde(flatten)]`: it does not work with `deny_unknown_fields`, and loses the spans that
// give faults their line numbers.
macro_rules! call {
    ($(#[$about:meta])* $name:ident, $method:literal { $($own:tt)* }) => {
        $(#[$about])*
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $name {
            #[serde(default = $method)]
            pub(super) method: HttpMethod,
            pub(super) path: Spanned<Template>,
            #[serde(default)]
            pub(super) query: TemplateMap,
            #[serde(default)]
            pub(super) headers: TemplateMap,
            pub(super) body: Option<Spanned<BodyNode>>,
            $($own)*
        }

        impl $name {
            /// The call, with a JSON body.
            pub(super) fn request(&self) -> CallTemplate<'_> {
                CallTemplate {
                    method: self.method,
                    path: &self.path,
                    query: &self.query,
                    headers: &self.headers,
                    encoding: BodyEncoding::Json,
                    body: self.body.as_ref(),
                }
            }
        }
    };
}
pub(super) use call;

call! {
    /// `[upload]`: the call that uploads a file before the order.
    Upload, "post" {
        /// The base URL of uploads, if it differs from that of other calls. If the operator sets
        /// another base URL for the provider, that URL is used for uploads too.
        pub(super) base_url: Option<Spanned<String>>,
        /// The order's values that are uploaded in this way.
        pub(super) files: Vec<Spanned<String>>,
        #[serde(default)]
        pub(super) encoding: BodyEncoding,
        /// The place of the file's id in the answer.
        pub(super) id: PointerList,
    }
}

call! {
    /// `[submit]`: the call that submits an order.
    Submit, "post" {
        #[serde(default)]
        pub(super) encoding: BodyEncoding,
        /// Values to keep from the answer, by name.
        pub(super) keep: Spanned<BTreeMap<String, PointerList>>,
        /// Values to keep from the order, by name.
        #[serde(default)]
        pub(super) remember: TemplateMap,
        /// Variants for orders that are submitted in another way; the first match is used.
        #[serde(default)]
        pub(super) variant: Vec<SubmitVariant>,
        /// Answers that prove that the order was not accepted.
        #[serde(default)]
        pub(super) refusal: Vec<RefusalSection>,
    }
}

/// `[[submit.variant]]`: replaces lines of `[submit]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SubmitVariant {
    /// The values that the order must have.
    pub(super) when: Spanned<VariantCondition>,
    pub(super) method: Option<HttpMethod>,
    pub(super) path: Option<Spanned<Template>>,
    pub(super) query: Option<TemplateMap>,
    pub(super) headers: Option<TemplateMap>,
    pub(super) encoding: Option<BodyEncoding>,
    pub(super) body: Option<Spanned<BodyNode>>,
    pub(super) remember: Option<TemplateMap>,
}

/// A value of an order, or several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum VariantCondition {
    One(String),
    All(Vec<String>),
}

impl VariantCondition {
    pub(super) fn names(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::All(names) => names,
        }
    }
}

impl SubmitVariant {
    /// Whether it is for orders that have this value.
    pub(super) fn is_for(&self, name: &str) -> bool {
        self.when
            .get_ref()
            .names()
            .iter()
            .any(|value_name| value_name == name)
    }

    /// Whether an order has all the values of this condition.
    pub(super) fn fits(&self, has: impl Fn(&str) -> bool) -> bool {
        self.when.get_ref().names().iter().all(|name| has(name))
    }
}

/// The encoding of a body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum BodyEncoding {
    #[default]
    Json,
    Multipart,
    Form,
}

/// A method.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum HttpMethod {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

const fn get() -> HttpMethod {
    HttpMethod::Get
}

pub(super) const fn post() -> HttpMethod {
    HttpMethod::Post
}

call! {
    /// `[poll]`: the call that polls a job.
    Poll, "get" {}
}

call! {
    /// `[cancel]`: the call that cancels a job.
    Cancel, "post" {
        /// Whether a success proves that the job is cancelled.
        #[serde(default = "default_true")]
        pub(super) certain: bool,
    }
}

const fn default_true() -> bool {
    true
}

call! {
    /// `[find]`: the call that looks for the job of a submission whose answer was lost.
    Find, "get" {
        /// The place of the list of jobs; without it the answer is the job.
        pub(super) items: Option<PointerList>,
        /// The place of `{key}` in a job.
        pub(super) reference: Option<PointerList>,
        /// The places of the prompt and the model in a job.
        pub(super) prompt: Option<PointerList>,
        pub(super) model: Option<PointerList>,
        pub(super) created_at: Option<PointerList>,
        /// Values to keep from a job; if omitted, those of the submission's answer.
        pub(super) keep: Option<Spanned<BTreeMap<String, PointerList>>>,
        /// The place of the next page's URL, or of its cursor if there is `next_query`.
        pub(super) next: Option<PointerList>,
        pub(super) next_query: Option<String>,
        /// The condition for a next page.
        pub(super) more: Option<AnswerCondition>,
    }
}
