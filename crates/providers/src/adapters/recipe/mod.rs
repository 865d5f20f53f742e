//! `recipe`: a provider that the operator describes in TOML, for the usual form of API: a call that
//! submits an order and returns an id, one that polls the job, and a result at a URL or path.
//!
//! ```text
//! schema, media_sections, calls  the sections of a recipe
//! check, limits, fault           errors in a recipe, by line
//! template, placeholder  {seconds:text}, {tier|map}
//! order_values   the values of an order     body      bodies made of templates
//! call_template  calls made of both         sign      calls that are signed
//! pointer        values in answers          answers   the meaning of an answer
//! upload         files before the order     results   handles and results of jobs
//! songs          the orders of [music], and the clips in an answer
//! persona        the call that makes a voice
//! find           the job of a submission whose answer was lost
//! refusals       proofs that an order was not accepted
//! shipped        recipes that are part of the program
//! ```
//!
//! A recipe describes the requests, but it cannot weaken the safety rules: a submission's answer
//! without an id is unclear, an unlisted status word does not end a job, and a 5xx never proves
//! that nothing was accepted.
//!
//! A recipe does not use [`JobApi`](crate::port::jobs::JobApi): its places are lists with `*`, its
//! handle contains the values that the recipe keeps, its results are of several kinds, and all of
//! that is owned data. A `JobApi` that could express this would be longer than both. Status words,
//! lists, uploads and the classes of errors are those of [`jobs`](crate::port::jobs).
//!
//! Deliberately not supported, because a few lines of Rust express it better: uploads in more than
//! one call, results in the answer itself or behind a second call, stems, streams, archives, one
//! poll for many jobs.

mod answers;
mod body;
mod call_template;
mod calls;
mod check;
mod fault;
mod find;
mod limits;
mod media_sections;
mod order_values;
mod persona;
mod placeholder;
mod pointer;
mod refusals;
mod results;
mod schema;
mod shipped;
mod sign;
mod songs;
mod template;
mod upload;

pub(crate) use shipped::SHIPPED_RECIPES;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use locks::lock;
use serde_json::{Map, Value};

use self::answers::{AnswerStage, JobProgress};
use self::persona::PERSONA;
use self::schema::Recipe;
use crate::adapters::Protocol;
use crate::cost::ProviderCost;
use crate::error::ProviderError;
use crate::frame_size;
use crate::limits::ModelLimits;
use crate::order::{MediaKind, Order, WorkSpec};
use crate::port::{
    Adapter, AdapterStep, Authorization, Call, CallContext, JobHandle, LookupPage, PollPace,
    RefusalRule,
};
use crate::response::ProviderResponse;
use crate::secret::Secret;
use crate::settings::{ProviderSettings, SettingsError};

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "recipe",
    base_url: None,
    options: &["recipe"],
    anonymous: true,
    build,
};

/// Reads the recipe, which may be a file. This is the only file access of this adapter; it happens
/// when the settings are read.
fn build(settings: &ProviderSettings) -> Result<Arc<dyn Adapter>, SettingsError> {
    let text = settings.text("recipe")?.ok_or_else(|| {
        SettingsError::at(
            "recipe",
            "is missing; set \"file:PATH\", or the recipe itself",
        )
    })?;
    let text = match text.strip_prefix("file:") {
        None => text.to_owned(),
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| SettingsError::at("recipe", format!("cannot read {path}: {error}")))?,
    };
    let mut adapter = build_adapter(&text, settings)?;
    adapter.job_settings = job_settings(&text);
    Ok(Arc::new(adapter))
}

/// What a recipe says about jobs after their submission.
fn job_settings(text: &str) -> Option<Value> {
    let recipe: Map<String, Value> = toml::from_str(text).ok()?;
    let sections = ["base_url", "poll", "result", "cancel"];
    let mut settings: Map<String, Value> = recipe
        .iter()
        .filter(|(name, _)| sections.contains(&name.as_str()))
        .map(|(name, section)| (name.clone(), section.clone()))
        .collect();
    let keep = recipe.get("submit").and_then(|submit| submit.get("keep"));
    settings.extend(keep.map(|keep| ("keep".to_owned(), keep.clone())));
    Some(Value::Object(settings))
}

/// The adapter for this recipe.
fn build_adapter(text: &str, settings: &ProviderSettings) -> Result<RecipeAdapter, SettingsError> {
    let recipe = check::read(text).map_err(|fault| SettingsError {
        key: Some("recipe".into()),
        line: Some(fault.line(text)),
        message: fault.message,
    })?;
    let header = recipe.auth.header.as_ref();
    let auth_header = header.map_or("authorization", |name| leak_header_name(name.get_ref()));
    Ok(RecipeAdapter {
        recipe,
        auth_header,
        uses_recipe_base_url: settings.base_url.is_none(),
        job_settings: None,
    })
}

/// Leaks a header's name, because the port requires static names. Their number is limited by the
/// recipes loaded.
fn leak_header_name(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = lock(&NAMES);
    let name = name.to_ascii_lowercase();
    if let Some(existing) = names.get(name.as_str()) {
        return existing;
    }
    let leaked: &'static str = Box::leak(name.into_boxed_str());
    names.insert(leaked);
    leaked
}

/// The adapter of a recipe.
#[derive(Debug)]
struct RecipeAdapter {
    recipe: Recipe,
    auth_header: &'static str,
    /// Whether the provider is at the recipe's own base URL.
    uses_recipe_base_url: bool,
    /// [`Adapter::job_settings`]; `None` for a recipe that is part of the program: a newer program
    /// still finds the jobs of an older one.
    job_settings: Option<Value>,
}

impl Adapter for RecipeAdapter {
    fn job_settings(&self) -> Option<&Value> {
        self.job_settings.as_ref()
    }

    fn limits(&self, kind: MediaKind, model: &str) -> Option<ModelLimits> {
        let video = self.recipe.video.as_ref();
        match kind {
            MediaKind::Video => {
                video.map(|video| ModelLimits::Video(video.get_ref().limits(model)))
            }
            MediaKind::Music => limits::music(&self.recipe).map(ModelLimits::Music),
        }
    }

    fn pace(&self) -> PollPace {
        let pace = &self.recipe.pace;
        let seconds = |number: u16| Duration::from_secs(number.into());
        PollPace {
            usual: seconds(pace.usual_seconds),
            ..PollPace::new(seconds(pace.floor_seconds), seconds(pace.ceiling_seconds))
        }
    }

    fn base_url(&self) -> Option<&str> {
        let base_url = self.recipe.base_url.as_ref();
        base_url.map(|url| url.get_ref().as_str())
    }

    fn hosts(&self) -> Vec<String> {
        self.recipe.hosts.clone()
    }

    fn authorize(&self, secret: &Secret, _: SystemTime) -> Result<Authorization, ProviderError> {
        let auth = &self.recipe.auth;
        if auth.none {
            return Ok(Authorization::Headers(Vec::new()));
        }
        if let Some(signing) = &auth.sign {
            return Ok(Authorization::Sign(Box::new(signing.signer(secret)?)));
        }
        let scheme = match (&auth.scheme, &auth.header) {
            (Some(scheme), _) => scheme,
            (None, None) => "Bearer",
            (None, Some(_)) => return Ok(Authorization::header(self.auth_header, secret)),
        };
        let value = format!("{scheme} {}", secret.expose());
        Ok(Authorization::Headers(vec![(self.auth_header, value)]))
    }

    fn fault_of_secret(&self, secret: &Secret) -> Option<&'static str> {
        self.recipe.auth.sign.as_ref()?.signer(secret).err()?;
        Some(sign::PAIR)
    }

    fn fault_of_model(&self, _: MediaKind, model: &str) -> Option<String> {
        let example = self.recipe.model_like.as_ref()?;
        let lacks_owner = example.contains('/') && !model.contains('/');
        lacks_owner.then(|| format!("{model:?} is not a model; use a name such as \"{example}\""))
    }

    fn can_express_size(&self, _: &str, size: (u32, u32)) -> bool {
        // A recipe that sends no pixels can name only a common shape. A size with another shape
        // would come out differently.
        let requests = self.recipe.submit.requests();
        let mentions = |name: &str| requests.iter().any(|request| request.mentions(name));
        let sends_pixels = ["size", "width", "height"].into_iter().any(mentions);
        sends_pixels || !mentions("ratio") || frame_size::has_usual_ratio(size)
    }

    fn refusals(&self) -> Vec<RefusalRule<'_>> {
        self.recipe.refusals()
    }

    fn start(&self, order: &Order) -> Result<Call, ProviderError> {
        if let WorkSpec::Persona(persona) = &order.work {
            return self.persona(order, persona);
        }
        self.next(order, &[])
    }

    fn read_submission(
        &self,
        order: &Order,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        if context.stage == PERSONA {
            return self.persona_made(answer);
        }
        if let Some(upload) = &self.recipe.upload
            && context.stage != SUBMIT
        {
            return self.read_upload(upload, order, context, answer);
        }
        let body = self.recipe.accepted_body(answer, AnswerStage::Submission)?;
        let kept = answers::keep(self.recipe.submit.keep.get_ref(), &body)?;
        Ok(AdapterStep::Submitted {
            handle: self.handle(order, kept)?,
            poll_after: self.recipe.pace.poll_after(answer),
        })
    }

    fn named_job(
        &self,
        order: &Order,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Option<JobHandle> {
        // Uploads and personas may have fields of the same names, which do not identify a job.
        if context.stage != SUBMIT {
            return None;
        }
        let body = self.recipe.unwrap_json_texts(answer.json().ok()?);
        let kept = answers::keep(self.recipe.submit.keep.get_ref(), &body).ok()?;
        self.handle(order, kept).ok()
    }

    fn poll(&self, handle: &JobHandle) -> Result<Call, ProviderError> {
        let request = self.recipe.poll.request();
        request.call("poll", &self.recipe, &answers::kept_values(handle))
    }

    fn read_poll(
        &self,
        handle: &JobHandle,
        _: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        match self.recipe.job_progress(answer)? {
            JobProgress::Running(step) => Ok(step),
            JobProgress::Done(body) => self.finish(handle, &body),
        }
    }

    fn cost(&self, answer: &ProviderResponse) -> Option<ProviderCost> {
        let cost = self.recipe.cost.as_ref()?;
        let body = self.recipe.unwrap_json_texts(answer.json().ok()?);
        ProviderCost::from_value(cost.at.first(&body)?, cost.unit, 1.0)
    }

    fn cancel(&self, handle: &JobHandle) -> Option<Call> {
        let request = self.recipe.cancel.as_ref()?.request();
        let call = request.call("cancel", &self.recipe, &answers::kept_values(handle));
        call.ok()
    }

    fn confirms_cancellation(&self, _: &JobHandle, answer: &ProviderResponse) -> bool {
        let certain = self
            .recipe
            .cancel
            .as_ref()
            .is_some_and(|cancel| cancel.certain);
        certain
            && self
                .recipe
                .accepted_body(answer, AnswerStage::Later)
                .is_ok()
    }

    fn find(&self, order: &Order, _: SystemTime) -> Option<Call> {
        self.find_call(order)
    }

    fn read_lookup(
        &self,
        order: &Order,
        since: SystemTime,
        _: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<LookupPage, ProviderError> {
        self.read_matches(order, since, answer)
    }
}

/// The stage of the call that submits an order.
const SUBMIT: &str = "submit";

impl RecipeAdapter {
    /// The upload of the next file, or the submission once every file has an id.
    fn next(&self, order: &Order, ids: &[Value]) -> Result<Call, ProviderError> {
        let recipe = &self.recipe;
        let values = order_values::values(recipe, order, ids)?;
        // As many files have been uploaded as there are ids, in the same order.
        if let Some(upload) = &recipe.upload
            && let Some(file) = upload.files(&values).nth(ids.len())
        {
            return upload.call(recipe, order, file, ids, self.uses_recipe_base_url);
        }
        let request = recipe
            .submit
            .request_for(|name| order_values::has(&values, name));
        Ok(request.call(SUBMIT, recipe, &values)?.mark_submission())
    }
}

#[cfg(test)]
mod tests;
