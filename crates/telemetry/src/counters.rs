//! The Prometheus metrics. Label values come from the settings or this program, never from callers.

use std::sync::OnceLock;
use std::time::Duration;

use metrics::Unit;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::logs;
use mediagate_model::clock::TimeDelta;
use mediagate_model::task::{Task, TaskState};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Values are added up.
    Counter,
    Gauge,
    Histogram,
}

/// A metric: its name, kind, unit and meaning.
pub type MetricDefinition = (&'static str, MetricKind, Unit, &'static str);

/// All metrics; `docs/operations.md` has the same list.
#[rustfmt::skip]
pub const METRICS: &[MetricDefinition] = &[
    ("mediagate_tasks_accepted_total", MetricKind::Counter, Unit::Count, "Tasks accepted, by kind and model"),
    ("mediagate_tasks_waiting", MetricKind::Gauge, Unit::Count, "Tasks that are due and that no process has claimed, counted up to 10,000"),
    ("mediagate_tasks_ended_total", MetricKind::Counter, Unit::Count, "Tasks ended, by kind, model and outcome"),
    ("mediagate_upstream_open_jobs", MetricKind::Gauge, Unit::Count, "Jobs of this process that a provider is working on"),
    ("mediagate_upstream_calls_total", MetricKind::Counter, Unit::Count, "Calls to a provider, by stage and outcome"),
    ("mediagate_upstream_call_seconds", MetricKind::Histogram, Unit::Seconds, "Duration of a call to a provider, by stage"),
    ("mediagate_upstream_poll_lag_seconds", MetricKind::Histogram, Unit::Seconds, "Time from when a poll was due until it was sent"),
    ("mediagate_upstream_settle_seconds", MetricKind::Histogram, Unit::Seconds, "Time from the poll that showed the end of a job until the task had ended"),
    ("mediagate_upstream_download_bytes_total", MetricKind::Counter, Unit::Bytes, "Bytes of results that were downloaded completely"),
    ("mediagate_upstream_unknown_words_total", MetricKind::Counter, Unit::Count, "Unknown status words in responses of a provider"),
    ("mediagate_submissions_unconfirmed_total", MetricKind::Counter, Unit::Count, "Submissions for which it is unknown whether the provider accepted them"),
    ("mediagate_submissions_found_total", MetricKind::Counter, Unit::Count, "Unconfirmed submissions whose job was found at the provider later"),
    ("mediagate_submissions_unmatched_total", MetricKind::Counter, Unit::Count, "Checks that found a submission whose address, protocol, key or options are no longer those of the settings"),
    ("mediagate_submissions_taken_total", MetricKind::Counter, Unit::Count, "Submissions that a provider answered with the job of another submission"),
    ("mediagate_delivered_beyond_order_total", MetricKind::Counter, Unit::Count, "Results that exceed the order, by what exceeds it"),
    ("mediagate_cancelled_jobs_total", MetricKind::Counter, Unit::Count, "Jobs of cancelled tasks that ended at their provider, by outcome"),
    ("mediagate_http_answers_total", MetricKind::Counter, Unit::Count, "Responses to requests, by route, status and error code"),
    ("mediagate_http_answer_seconds", MetricKind::Histogram, Unit::Seconds, "Time until a response began, by route"),
    ("mediagate_requests_unlogged_total", MetricKind::Counter, Unit::Count, "Requests that are missing in the log of requests because too many were waiting to be written"),
    ("mediagate_requests_joined_total", MetricKind::Counter, Unit::Count, "Requests that joined the task of an earlier request, by way"),
    ("mediagate_moderation_verdicts_total", MetricKind::Counter, Unit::Count, "Verdicts of moderation's checks about orders, by protocol and outcome"),
    ("mediagate_tasks_restored", MetricKind::Gauge, Unit::Count, "Open tasks of a restored backup that wait for the operator"),
    ("mediagate_clock_ahead_seconds", MetricKind::Gauge, Unit::Seconds, "How far the clock is ahead of the trusted time"),
    ("mediagate_durability", MetricKind::Gauge, Unit::Count, "1 while a synchronous standby has all committed data, or with durability = assumed, else 0"),
    ("mediagate_ledger_mismatches", MetricKind::Gauge, Unit::Count, "Mismatches in the last check of the ledger; any value other than 0 is a fault"),
    ("mediagate_provider_reachable", MetricKind::Gauge, Unit::Count, "1 if the provider's host accepted the last test connection, else 0"),
    ("mediagate_route_open", MetricKind::Gauge, Unit::Count, "1 while the circuit breaker keeps tasks from the route, else 0"),
    ("mediagate_bell_connected", MetricKind::Gauge, Unit::Count, "1 while other processes are notified of changes at once, by NOTIFY, else 0"),
    ("mediagate_settings_differ", MetricKind::Gauge, Unit::Count, "1 while another process on the same database has a different value of the setting, else 0"),
    ("mediagate_log_lines_lost_total", MetricKind::Counter, Unit::Count, "Log lines that were lost because standard error was blocked"),
    ("mediagate_trace_spans_total", MetricKind::Counter, Unit::Count, "Finished spans of traces, by outcome"),
    ("mediagate_webhooks_due", MetricKind::Gauge, Unit::Count, "Webhooks that are due and that no process is sending"),
    ("mediagate_webhooks_attempts_total", MetricKind::Counter, Unit::Count, "Webhooks sent, by outcome"),
    ("mediagate_webhooks_delay_seconds", MetricKind::Histogram, Unit::Seconds, "Time from when a webhook was due until it was sent"),
    ("mediagate_webhooks_disabled_total", MetricKind::Counter, Unit::Count, "Webhook endpoints that were disabled, by reason"),
    ("mediagate_media_store_reachable", MetricKind::Gauge, Unit::Count, "1 if the bucket responded to the last request, or the media folder was there, else 0"),
    ("mediagate_media_store_failures_total", MetricKind::Counter, Unit::Count, "Requests to the bucket that failed or timed out, by operation"),
    ("mediagate_child_oldest_seconds", MetricKind::Gauge, Unit::Seconds, "Time since the start of the oldest job in a child process, by work"),
    ("mediagate_children_hung_total", MetricKind::Counter, Unit::Count, "Child processes that were killed because they hung, by work"),
    ("mediagate_confinement", MetricKind::Gauge, Unit::Count, "1 if child processes are kept from files, the network or other processes, by wall, else 0"),
    ("mediagate_child_failures_total", MetricKind::Counter, Unit::Count, "Child processes that could not start their job, by reason"),
    ("mediagate_build_info", MetricKind::Gauge, Unit::Count, "Always 1; the label is the running version"),
];

/// Upper bounds of histogram buckets, in seconds.
const BUCKETS: [f64; 16] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0, 300.0,
    900.0,
];

/// How often to call [`run_upkeep`].
pub const METRICS_UPKEEP: Duration = Duration::from_secs(5);

static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();

/// Starts the metrics recorder. A process has one, however many gateways it runs.
pub fn metrics_recorder() -> &'static PrometheusHandle {
    RECORDER.get_or_init(|| {
        let builder = PrometheusBuilder::new().set_buckets(&BUCKETS);
        let recorder = builder.unwrap_or_default().build_recorder();
        let handle = recorder.handle();
        if metrics::set_global_recorder(recorder).is_err() {
            tracing::warn!("another metrics recorder is installed; /metrics stays empty");
        }
        for (name, kind, unit, meaning) in METRICS {
            match kind {
                MetricKind::Counter => metrics::describe_counter!(*name, *unit, *meaning),
                MetricKind::Gauge => metrics::describe_gauge!(*name, *unit, *meaning),
                MetricKind::Histogram => metrics::describe_histogram!(*name, *unit, *meaning),
            }
        }
        metrics::gauge!("mediagate_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
        handle
    })
}

/// Aggregates histogram samples, which are stored individually until then, and counts lost log
/// lines.
pub fn run_upkeep() {
    metrics_recorder().run_upkeep();
    // The log counts the total itself, so the metric is set, not increased.
    metrics::counter!("mediagate_log_lines_lost_total").absolute(logs::lost_lines());
}

/// Counts an accepted task.
pub fn task_accepted(task: &Task) {
    let (kind, model) = (task.kind().name(), task.model.clone());
    metrics::counter!("mediagate_tasks_accepted_total", "kind" => kind, "model" => model)
        .increment(1);
}

/// Counts a verdict of a check of this protocol: `allow`, `refuse`, or `error` for none.
pub fn moderation_verdict(protocol: &'static str, outcome: &'static str) {
    metrics::counter!("mediagate_moderation_verdicts_total", "protocol" => protocol, "outcome" => outcome)
        .increment(1);
}

/// Sets the number of held tasks of a restored backup.
pub fn tasks_restored(count: usize) {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    metrics::gauge!("mediagate_tasks_restored").set(f64::from(count));
}

/// Records how far the clock is ahead of the trusted time.
pub fn clock_ahead(ahead: TimeDelta) {
    let seconds = i32::try_from(ahead.as_seconds()).unwrap_or(i32::MAX);
    metrics::gauge!("mediagate_clock_ahead_seconds").set(f64::from(seconds));
}

/// Records whether losing the database's machine would lose no data.
pub fn set_durability(is_durable: bool) {
    metrics::gauge!("mediagate_durability").set(f64::from(u8::from(is_durable)));
}

/// Records whether child processes are kept from what this wall guards.
pub fn confinement(wall: &'static str, holds: bool) {
    metrics::gauge!("mediagate_confinement", "wall" => wall).set(f64::from(u8::from(holds)));
}

/// Records whether the bell reaches other processes.
pub fn bell_connected(is_connected: bool) {
    metrics::gauge!("mediagate_bell_connected").set(f64::from(u8::from(is_connected)));
}

/// Records whether another process has a different value for a setting.
pub fn setting_differs(setting: &'static str, differs: bool) {
    metrics::gauge!("mediagate_settings_differ", "setting" => setting)
        .set(f64::from(u8::from(differs)));
}

/// Sets the number of tasks that no worker has claimed.
pub fn tasks_waiting(count: u32) {
    metrics::gauge!("mediagate_tasks_waiting").set(f64::from(count));
}

/// Sets the age of the oldest job of this kind in a child process.
pub fn child_oldest(work: &'static str, age: Duration) {
    metrics::gauge!("mediagate_child_oldest_seconds", "work" => work).set(age.as_secs_f64());
}

/// Sets the number of ledger mismatches.
pub fn ledger_checked(mismatches: u32) {
    metrics::gauge!("mediagate_ledger_mismatches").set(f64::from(mismatches));
}

/// Counts spans by outcome: `sent`, `refused` by the collector, `dropped` from a full queue or
/// `lost` because the collector was unavailable for too long.
pub fn spans(outcome: &'static str, count: usize) {
    if count > 0 {
        metrics::counter!("mediagate_trace_spans_total", "outcome" => outcome)
            .increment(count as u64);
    }
}

/// Counts a response and records its time. `route` is the path of an endpoint, and both it and
/// `code` are `none` where there is none.
pub fn http_answered(route: &str, status: u16, code: &'static str, took: Duration) {
    let status = status.to_string();
    metrics::counter!("mediagate_http_answers_total", "route" => route.to_owned(), "status" => status, "code" => code)
        .increment(1);
    metrics::histogram!("mediagate_http_answer_seconds", "route" => route.to_owned())
        .record(took.as_secs_f64());
}

/// Counts a request that the log of requests had no room for.
pub fn request_not_logged() {
    metrics::counter!("mediagate_requests_unlogged_total").increment(1);
}

/// Counts a request that joined an earlier one, by `way`.
pub fn request_joined(way: &'static str) {
    metrics::counter!("mediagate_requests_joined_total", "way" => way).increment(1);
}

/// Counts an order for which it is unknown whether its provider accepted it.
pub fn submission_unconfirmed() {
    metrics::counter!("mediagate_submissions_unconfirmed_total").increment(1);
}

/// Counts a submission that its provider answered with another submission's job.
pub fn submission_taken(provider: &str) {
    metrics::counter!("mediagate_submissions_taken_total", "provider" => provider.to_owned())
        .increment(1);
}

/// Counts a task that ended.
pub fn task_ended(task: &Task, state: TaskState) {
    let (kind, model, outcome) = (task.kind().name(), task.model.clone(), state.name());
    metrics::counter!("mediagate_tasks_ended_total", "kind" => kind, "model" => model, "outcome" => outcome)
        .increment(1);
}
