//! A test protocol with a little of every feature:
//!
//! ```text
//! POST /token                 → {token}, when "exchange" is set
//! POST /upload                → {}, for orders of the model "upload"
//! POST /jobs                  → {id} │ {see: address}
//! GET  /jobs/{id}             → {status: running │ done │ …, url?, see?}
//! GET  /jobs?ids=a,b          → {a: {status …}, …}, when "batch" is set
//! GET  {see}                  → the same as /jobs/{id}
//! GET  /list?page=n           → {jobs: [{id, key?, at?}], more?}
//! ```

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use providers::driver::{Driver, Provider, ProviderRules};
use providers::error::ErrorDescription;
use providers::order::{MediaKind, Order, VideoOptions, VideoSpec, WorkSpec};
use providers::port::{AuthHeader, Authorization, CallContext};
use providers::response::{required_list, required_text, text_at, time_at};
use providers::{
    Adapter, AdapterStep, Call, CallTarget, ErrorClass, FoundJob, JobHandle, JobOutput, LookupPage,
    ModelLimits, OutputKind, OutputSource, PollPace, Protocol, ProviderError, ProviderResponse,
    ProviderSettings, RefusalRule, Secret, SettingsError,
};
use serde_json::{Value, json};

pub(crate) const PLAIN: Protocol = Protocol {
    name: "plain",
    base_url: None,
    options: &[],
    anonymous: false,
    build,
};

#[derive(Debug)]
struct Plain {
    exchange: bool,
    deduplicates: bool,
    batch: bool,
    hosts: Vec<String>,
}

fn build(settings: &ProviderSettings) -> Result<Arc<dyn Adapter>, SettingsError> {
    Ok(Arc::new(Plain {
        exchange: settings.flag("exchange")?,
        deduplicates: settings.flag("deduplicates")?,
        batch: settings.flag("batch")?,
        hosts: settings.list("hosts")?,
    }))
}

/// Time between two batches.
pub(crate) const GAP: Duration = Duration::from_millis(300);

pub(crate) fn provider(base_url: &str, options: &Value, rules: ProviderRules) -> Provider {
    let settings = ProviderSettings {
        base_url: Some(base_url.parse().unwrap()),
        ..ProviderSettings::new("plain", options.as_object().cloned().unwrap_or_default())
    };
    Provider::new(&PLAIN, &settings, rules).unwrap()
}

/// A driver, a provider without options, and a secret.
pub(crate) fn driver_and_provider(base_url: &str) -> (Driver, Provider, Secret) {
    let provider = provider(base_url, &json!({}), ProviderRules::default());
    (Driver::new(), provider, secret())
}

pub(crate) fn secret() -> Secret {
    Secret::new("plain-secret-4711")
}

pub(crate) fn order(model: &str) -> Order {
    Order {
        idempotency_key: "key-1".into(),
        model: model.into(),
        extra: serde_json::Map::new(),
        work: WorkSpec::Video(VideoSpec {
            prompt: "rain".into(),
            pictures: Vec::new(),
            seconds: 5,
            size: (1280, 720),
            options: VideoOptions::default(),
        }),
    }
}

pub(crate) fn handle(id: &str) -> JobHandle {
    JobHandle(json!({"id": id}))
}

impl Plain {
    fn submission(order: &Order) -> Call {
        let call = Call::post("submit", "/jobs", json!({"key": order.idempotency_key}));
        call.mark_submission().with_long_timeout(1_000_000)
    }
}

impl Adapter for Plain {
    fn limits(&self, _: MediaKind, _: &str) -> Option<ModelLimits> {
        None
    }

    fn pace(&self) -> PollPace {
        let pace = PollPace::new(Duration::from_millis(20), Duration::from_secs(1));
        PollPace {
            batch: if self.batch { 50 } else { 1 },
            gap: if self.batch { GAP } else { Duration::ZERO },
            ..pace
        }
    }

    fn authorize(&self, secret: &Secret, _: SystemTime) -> Result<Authorization, ProviderError> {
        let body = json!({"secret": secret.expose()});
        Ok(if self.exchange {
            Authorization::Exchange(Box::new(Call::post("token", "/token", body)))
        } else {
            Authorization::bearer(secret)
        })
    }

    fn read_exchange(
        &self,
        _: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<(Vec<AuthHeader>, Duration), ProviderError> {
        let token = required_text(&answer.success(describe)?, "/token")?;
        let header = ("authorization", format!("Bearer {token}"));
        Ok((vec![header], Duration::from_hours(1)))
    }

    fn refusals(&self) -> Vec<RefusalRule<'_>> {
        vec![RefusalRule::http_statuses()]
    }

    fn start(&self, order: &Order) -> Result<Call, ProviderError> {
        Ok(match order.model.as_str() {
            "upload" => Call::post("upload", "/upload", json!({})),
            "never" => return Err(ProviderError::new(ErrorClass::Rejected, "never")),
            _ => Self::submission(order),
        })
    }

    fn read_submission(
        &self,
        order: &Order,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        let body = answer.success(describe)?;
        if context.stage == "upload" {
            return Ok(match body["ready"] {
                Value::Bool(false) => AdapterStep::running(None),
                _ => AdapterStep::next(Self::submission(order)),
            });
        }
        if let Some(url) = text_at(&body, "/see") {
            let call = Call::get("see", "").with_target(CallTarget::Address(url));
            return Ok(AdapterStep::next(call));
        }
        Ok(AdapterStep::submitted(
            json!({"id": required_text(&body, "/id")?}),
        ))
    }

    fn poll(&self, handle: &JobHandle) -> Result<Call, ProviderError> {
        Ok(Call::get("poll", format!("/jobs/{}", handle.text("id"))))
    }

    fn read_poll(
        &self,
        _: &JobHandle,
        _: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        read_state(&answer.success(describe)?)
    }

    fn poll_many(&self, handles: &[&JobHandle]) -> Option<Call> {
        let ids: Vec<&str> = handles.iter().map(|handle| handle.text("id")).collect();
        Some(Call::get("poll", "/jobs").with_query("ids", ids.join(",")))
    }

    fn read_poll_many(
        &self,
        handles: &[&JobHandle],
        _: &CallContext,
        answer: &ProviderResponse,
    ) -> Vec<Result<AdapterStep, ProviderError>> {
        let body = answer.success(describe);
        let read_one = |handle: &&JobHandle| read_state(&body.clone()?[handle.text("id")]);
        handles.iter().map(read_one).collect()
    }

    fn progress_of_part(&self, body_so_far: &[u8]) -> Option<u8> {
        let text = String::from_utf8_lossy(body_so_far);
        text.rsplit_once("at ")?.1.split('%').next()?.parse().ok()
    }

    fn deduplicates(&self) -> bool {
        self.deduplicates
    }

    fn find(&self, order: &Order, _: SystemTime) -> Option<Call> {
        match order.model.as_str() {
            "unasked" => None,
            "paid" => Some(Self::submission(order)),
            _ => Some(list_page(1)),
        }
    }

    fn read_lookup(
        &self,
        order: &Order,
        since: SystemTime,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<LookupPage, ProviderError> {
        let body = answer.success(describe)?;
        let jobs = required_list(&body, "/jobs")?.iter().filter_map(|job| {
            let (id, created_at) = (handle(&text_at(job, "/id")?), time_at(job, "/at"));
            match text_at(job, "/key") {
                Some(key) => {
                    (key == order.idempotency_key).then(|| FoundJob::certain(id, created_at))
                }
                None => FoundJob::likely(order, id, created_at, since),
            }
        });
        let page = context.carried_data.as_u64().unwrap();
        let next = (body["more"] == true).then(|| list_page(page + 1));
        Ok(LookupPage::jobs(jobs).with_next_page(next))
    }

    fn hosts(&self) -> Vec<String> {
        self.hosts.clone()
    }
}

fn list_page(page: u64) -> Call {
    Call::get("find", "/list")
        .with_query("page", page.to_string())
        .with_carried_data(json!(page))
}

fn read_state(body: &Value) -> Result<AdapterStep, ProviderError> {
    if let Some(url) = text_at(body, "/see") {
        return Ok(AdapterStep::next(
            Call::get("see", "").with_target(CallTarget::Address(url)),
        ));
    }
    match required_text(body, "/status")?.as_str() {
        "running" => Ok(AdapterStep::running(None)),
        "done" => AdapterStep::done(vec![JobOutput {
            kind: OutputKind::Video,
            source: OutputSource::Address(required_text(body, "/url")?),
        }]),
        word => Ok(AdapterStep::unknown(word)),
    }
}

fn describe(body: &Value) -> ErrorDescription {
    ErrorDescription::at(body, "/code", "/message")
}
