//! Completed requests: each gets a line in the log of the process, counts in the metrics and, if it
//! failed or made something, an entry in the log of requests.

use std::borrow::Cow;
use std::time::Duration;

use axum::http::Method;
use axum::response::Response;

use crate::context::RequestFacts;
use crate::error::{self, WrittenError};
use mediagate_core::app::App;
use mediagate_model::account::Caller;
use mediagate_model::ids::{RequestEntryId, RequestId, TaskId};
use mediagate_model::request_log::RequestEntry;
use mediagate_telemetry::{counters, logs};

/// The longest part of a path that is logged.
const LOGGED_PATH_CHARS: usize = 200;
/// The longest part of an error's message that the log of requests keeps.
const MESSAGE_CHARS: usize = 500;
/// The longest part of a model's name that the log of requests keeps; the caller chooses it.
const MODEL_CHARS: usize = 200;
/// The label of requests to addresses where there is no endpoint.
const NO_ROUTE: &str = "none";

/// A request whose response is about to be sent.
pub(super) struct CompletedRequest<'a> {
    pub(super) method: &'a Method,
    pub(super) path: &'a str,
    /// The path of the endpoint, with the names of its parameters.
    pub(super) route: Option<&'a str>,
    pub(super) request_id: &'a RequestId,
    pub(super) facts: &'a RequestFacts,
    pub(super) response: &'a Response,
    pub(super) took: Duration,
}

impl CompletedRequest<'_> {
    /// Records it everywhere.
    pub(super) fn record(&self, app: &App) {
        let code = self.error().map(|error| error.code.name());
        let route = self.route.unwrap_or(NO_ROUTE);
        counters::http_answered(route, self.status(), code.unwrap_or("none"), self.took);
        self.write_line();
        if self.is_logged(app) && !app.process.request_log.push(self.entry(app)) {
            counters::request_not_logged();
        }
    }

    fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    fn is_error(&self) -> bool {
        self.status() >= 400
    }

    fn error(&self) -> Option<&WrittenError> {
        error::written(self.response)
    }

    fn caller(&self) -> Option<&Caller> {
        self.facts.caller()
    }

    /// The task that the response is about.
    fn task(&self) -> Option<TaskId> {
        let id = self.response.headers().get("x-task-id")?;
        id.to_str().ok()?.parse().ok()
    }

    fn took_ms(&self) -> u64 {
        u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX)
    }

    /// A line at level info, or at debug for what comes by itself and often: reads of files, probes,
    /// and polls of a task.
    fn write_line(&self) {
        let (method, status, took_ms) = (self.method, self.status(), self.took_ms());
        let path = if is_media(self.path) {
            // The path of a media URL contains its signature: readers of the log could open the
            // file.
            "/media/…".into()
        } else {
            shortened(self.path, LOGGED_PATH_CHARS)
        };
        let key_id = self.caller().map(|caller| caller.key.id.to_string());
        let account = self.caller().map(|caller| caller.account.handle.as_str());
        let model = self
            .facts
            .model()
            .map(|model| cut_and_masked(model, MODEL_CHARS));
        let task_id = self.task().map(|task| task.to_string());
        let code = self.error().map(|error| error.code.name());
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    %method, %path, status, took_ms, code, key_id, account, model, task_id,
                    "request completed"
                )
            };
        }
        let is_poll = self.method.is_safe() && self.task().is_some();
        let is_routine = is_file(self.path) || is_scrape(self.path) || is_poll;
        if is_probe(self.path) || is_media(self.path) || (is_routine && !self.is_error()) {
            line!(debug);
        } else {
            line!(info);
        }
    }

    /// Whether the log of requests has an entry for it.
    fn is_logged(&self, app: &App) -> bool {
        if is_probe(self.path) || is_scrape(self.path) {
            return false;
        }
        if self.is_error() {
            return true;
        }
        if !self.method.is_safe() && !self.facts.only_reads() {
            return true;
        }
        !is_file(self.path)
            && app
                .process
                .request_log
                .takes_read(app.config.requests_sample)
    }

    fn entry(&self, app: &App) -> RequestEntry {
        let at = app.clock.now();
        let error = self.error();
        let caller = self.caller();
        RequestEntry {
            id: RequestEntryId::at(at),
            at,
            request_id: self.request_id.clone(),
            method: self.method.as_str().to_owned(),
            route: self.route.map(str::to_owned),
            status: self.status().into(),
            code: error.map(|error| error.code.name().to_owned()),
            message: error.map(|error| cut_and_masked(&error.message, MESSAGE_CHARS)),
            account: caller.map(|caller| caller.account.id),
            key: caller.map(|caller| caller.key.id),
            model: self
                .facts
                .model()
                .map(|model| cut_and_masked(model, MODEL_CHARS)),
            task: self.task(),
            took_ms: self.took_ms(),
        }
    }
}

/// Whether the path is a health probe.
pub(super) fn is_probe(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz")
}

/// Whether the path is that of the metrics, which are read every few seconds.
pub(super) fn is_scrape(path: &str) -> bool {
    path == "/metrics"
}

fn is_media(path: &str) -> bool {
    path.starts_with("/media/")
}

/// Whether the path is that of a file: media, or a part of the program's own pages.
fn is_file(path: &str) -> bool {
    is_media(path) || path.starts_with("/assets/")
}

/// The beginning of a text that callers choose, which may be as long as a request's head.
fn shortened(text: &str, max_chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// The same without keys: some callers put theirs where it does not belong. And without NUL, which
/// Postgres cannot store: one such entry would keep all later ones from being written.
fn cut_and_masked(text: &str, max_chars: usize) -> String {
    let masked = logs::without_keys(text.as_bytes());
    let text = String::from_utf8_lossy(&masked).replace('\0', "\u{fffd}");
    shortened(&text, max_chars).into_owned()
}
