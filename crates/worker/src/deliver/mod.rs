//! Webhook delivery: claims deliveries that are due under this process's lease, posts them, and
//! records the outcomes in batches.
//!
//! Delivery is at least once: if a process dies between the answer and the write, another process
//! sends the delivery again, with the same `webhook-id`.

mod lanes;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::runs::Lease;
use crate::{WorkerContext, random};
use lanes::{MAX_IN_FLIGHT, ReceiverLanes};
use mediagate_core::app::App;
use mediagate_core::domain::webhooks::outcome::{self, AttemptOutcome};
use mediagate_core::domain::webhooks::signing_keys::SigningKeys;
use mediagate_core::domain::webhooks::{account_keys, owner_of};
use mediagate_core::webhook_client::WebhookResponse;
use mediagate_model::crash;
use mediagate_model::error::Error;
use mediagate_model::ids::DeliveryId;
use mediagate_model::webhook::{AttemptError, DeliveryAttempt, DueDelivery};
use mediagate_store::StoreError;
use mediagate_store::webhooks::deliveries;
use mediagate_telemetry::traces;

/// Maximum number of deliveries considered for one claim.
const CANDIDATE_LIMIT: u32 = 1000;
/// Maximum number of outcomes in one write.
const BATCH: usize = 200;

/// The state of this process's webhook delivery.
struct WebhookSender {
    crew: Arc<WorkerContext>,
    lanes: Mutex<ReceiverLanes>,
    outcomes: mpsc::Sender<(Arc<Lease>, AttemptOutcome)>,
}

/// Delivers for as long as the process runs.
pub(super) async fn deliver(crew: Arc<WorkerContext>, tracker: TaskTracker) {
    if crew.until_registered().await.is_none() {
        return;
    }
    let (outcomes, written) = mpsc::channel(MAX_IN_FLIGHT);
    let post = Arc::new(WebhookSender {
        crew: crew.clone(),
        lanes: Mutex::default(),
        outcomes,
    });
    tracker.spawn(write_down(post.clone(), written));
    // Whether an earlier claim may be in the database although its answer was lost.
    let mut in_doubt = false;
    while !crew.stop.is_cancelled() {
        match claim(&post, &mut in_doubt).await {
            Ok((lease, claimed)) if !claimed.is_empty() => {
                crash::point("delivery-claimed");
                for due in claimed {
                    let (post, lease) = (post.clone(), lease.clone());
                    tracker.spawn(async move { post.send(lease, due).await });
                }
            }
            Ok(_) => tokio::select! {
                () = crew.app.bell.wait_for_deliveries() => {}
                () = crew.stop.cancelled() => {}
            },
            Err(error) => {
                tracing::error!(inside = ?error.internal_cause(), "cannot claim webhooks");
                in_doubt = true;
                crew.pause(Duration::from_secs(1)).await;
            }
        }
    }
}

/// Claims deliveries that are due and within the limits.
async fn claim(
    post: &WebhookSender,
    in_doubt: &mut bool,
) -> Result<(Arc<Lease>, Vec<DueDelivery>), Error> {
    let app = &post.crew.app;
    let lease = post.crew.runs.lease();
    // The claim whose answer was lost may hold deliveries that are not being sent.
    if *in_doubt {
        let known = post.with_lanes(|lanes| lanes.in_flight());
        let owner = lease.name.clone();
        app.store
            .write(move |conn| deliveries::free_others(conn, &owner, &known))
            .await?;
        *in_doubt = false;
    }
    let chosen = choose(post).await?;
    if chosen.is_empty() {
        return Ok((lease, Vec::new()));
    }
    let (owner, ids, now) = (lease.name.clone(), chosen.clone(), app.clock.now());
    let claimed = app
        .store
        .write(move |conn| deliveries::claim(conn, &owner, &ids, now))
        .await;
    let claimed = claimed.inspect_err(|_| *in_doubt = true);
    let kept: HashSet<DeliveryId> = claimed.iter().flatten().map(|due| due.id).collect();
    // The others were claimed by another process, or are withheld.
    post.with_lanes(|lanes| {
        for id in chosen.iter().filter(|id| !kept.contains(*id)) {
            lanes.release(*id);
        }
    });
    Ok((lease, claimed?))
}

/// Takes slots for due deliveries.
async fn choose(post: &WebhookSender) -> Result<Vec<DeliveryId>, Error> {
    let app = &post.crew.app;
    let mut chosen = Vec::new();
    loop {
        let now = app.clock.now();
        let Some(room) = post.with_lanes(|lanes| lanes.room(now)) else {
            return Ok(chosen);
        };
        let found = app
            .store
            .read(move |conn| deliveries::candidates(conn, &room, CANDIDATE_LIMIT, now));
        let found = match found.await {
            Ok(found) => found,
            Err(error) if chosen.is_empty() => return Err(error.into()),
            // The claim continues with those chosen so far, and frees their slots if it fails.
            Err(_) => return Ok(chosen),
        };
        let seen = found.len();
        let before = chosen.len();
        post.with_lanes(|lanes| {
            let taken = found.iter().filter(|candidate| lanes.take(candidate, now));
            chosen.extend(taken.map(|candidate| candidate.id));
        });
        // A full page may consist of a single busy lane, with other lanes after it.
        if seen < CANDIDATE_LIMIT as usize || chosen.len() == before {
            return Ok(chosen);
        }
    }
}

impl WebhookSender {
    fn with_lanes<T>(&self, change: impl FnOnce(&mut ReceiverLanes) -> T) -> T {
        change(&mut self.lanes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn send(&self, lease: Arc<Lease>, due: DueDelivery) {
        let tried = attempt(&self.crew.app, due).await;
        crash::point("delivery-sent");
        let outcome = if tried.attempt.error.is_none() {
            "delivered"
        } else {
            "failed"
        };
        metrics::counter!("mediagate_webhooks_attempts_total", "outcome" => outcome).increment(1);
        // Fails only when the process is stopping; the delivery is freed when the lease ends.
        let _ = self.outcomes.send((lease, tried)).await;
    }
}

/// Makes one delivery attempt.
async fn attempt(app: &App, due: DueDelivery) -> AttemptOutcome {
    let (at, start) = (app.clock.now(), Instant::now());
    let delay = at.since(due.due_at);
    metrics::histogram!("mediagate_webhooks_delay_seconds").record(delay.as_secs_f64());
    let traced = traces::webhook(&due);
    let answered = traced.around(post(app, &due)).await;
    let took_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (answer, error) = match answered {
        Ok(answer) => {
            let error = (!(200..300).contains(&answer.status)).then_some(AttemptError::Status);
            (Some(answer), error)
        }
        Err(error) => (None, Some(error)),
    };
    if let Some(answer) = &answer {
        traced.set("http.response.status_code", i64::from(answer.status));
    }
    if let Some(error) = error {
        traced.fail(error.name());
    }
    let attempt = DeliveryAttempt {
        number: due.attempts + 1,
        at,
        took_ms,
        status: answer.as_ref().map(|answer| answer.status),
        error,
        response: answer.as_ref().map(|answer| answer.text.clone()),
    };
    AttemptOutcome {
        due,
        attempt,
        retry_after: answer.and_then(|answer| answer.retry_after),
        chance: random(),
    }
}

/// Signs a delivery and posts it.
async fn post(app: &App, due: &DueDelivery) -> Result<WebhookResponse, AttemptError> {
    let headers = sign(app, due).await.map_err(|error| {
        tracing::error!(delivery_id = %due.id, inside = ?error.internal_cause(), "cannot sign a webhook");
        AttemptError::Unsigned
    })?;
    app.net
        .hooks
        .post(&due.url, headers, due.body.clone().into(), app.clock.now())
        .await
}

async fn sign(app: &App, due: &DueDelivery) -> Result<[(&'static str, String); 3], Error> {
    let keys = match (&due.secrets, due.endpoint) {
        (Some(sealed), endpoint) => {
            SigningKeys::unseal(app, &owner_of(due.account, endpoint), sealed)?
        }
        (None, None) => account_keys(app, due.account).await?,
        (None, Some(_)) => return Err(Error::internal("the endpoint has been deleted")),
    };
    let (message, now) = (due.event.message(), app.clock.now());
    let signature = keys.sign(due.scheme, &message, now.seconds(), &due.body, now)?;
    Ok([
        ("webhook-id", message),
        ("webhook-timestamp", now.seconds().to_string()),
        ("webhook-signature", signature),
    ])
}

/// Records outcomes, all available ones in one write.
async fn write_down(
    post: Arc<WebhookSender>,
    mut outcomes: mpsc::Receiver<(Arc<Lease>, AttemptOutcome)>,
) {
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        tokio::select! {
            _ = outcomes.recv_many(&mut batch, BATCH) => {}
            () = wait_until_drained(&post) => return,
        }
        let app = &post.crew.app;
        let now = app.clock.now();
        let pauses = post.with_lanes(|lanes| {
            let pauses = batch.iter().filter_map(|(_, tried)| {
                Some((tried.due.lane.clone(), lanes.record_outcome(tried, now)?))
            });
            pauses.collect::<Vec<_>>()
        });
        write(app, &batch, &pauses).await;
        crash::point("delivery-written");
        // Not before the outcome is on disk: a delivery without a slot counts as claimed by
        // mistake, and would be freed and sent again.
        post.with_lanes(|lanes| {
            for (_, tried) in batch.drain(..) {
                lanes.release(tried.due.id);
            }
        });
        app.bell.ring_for_deliveries();
    }
}

/// Waits until the process stops and the outcomes of all requests are recorded.
async fn wait_until_drained(post: &WebhookSender) {
    post.crew.stop.cancelled().await;
    while !post.with_lanes(|lanes| lanes.in_flight().is_empty()) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Retries until it is written, or until other processes hold these deliveries.
async fn write(app: &App, batch: &[(Arc<Lease>, AttemptOutcome)], pauses: &[(String, Duration)]) {
    let mut wait = Duration::from_millis(250);
    let shared: Arc<[(Arc<str>, AttemptOutcome)]> = batch
        .iter()
        .map(|(lease, tried)| (lease.name.clone(), tried.clone()))
        .collect();
    let now = app.clock.now();
    let pauses: Arc<[_]> = pauses
        .iter()
        .map(|(lane, pause)| (lane.clone(), now.plus(*pause)))
        .collect();
    loop {
        let (rows, pauses) = (shared.clone(), pauses.clone());
        let written = app.store.write(move |conn| -> Result<(), Error> {
            for (owner, tried) in rows.iter() {
                outcome::write(conn, owner, tried)?;
            }
            for (lane, until) in pauses.iter() {
                deliveries::pause(conn, lane, *until)?;
            }
            Ok(())
        });
        // The requests have been sent. Until that is recorded, the webhooks would be sent again.
        let Err(error) = written.await else { return };
        tracing::error!(inside = ?error.internal_cause(), "cannot record sent webhooks; trying again");
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = wait_until_leases_lost(batch) => return,
        }
        wait = (wait * 2).min(super::LONGEST_PAUSE);
    }
}

/// Waits until every lease under which these were claimed has been lost.
async fn wait_until_leases_lost(batch: &[(Arc<Lease>, AttemptOutcome)]) {
    for (lease, _) in batch {
        lease.wait_lost().await;
    }
}

/// Counts the due deliveries, for the metric.
pub(super) async fn count(app: &App) {
    let now = app.clock.now();
    let due: Result<i64, StoreError> = app
        .store
        .read(move |conn| deliveries::count_due(conn, now))
        .await;
    if let Ok(due) = due {
        let due = u32::try_from(due).unwrap_or(u32::MAX);
        metrics::gauge!("mediagate_webhooks_due").set(f64::from(due));
    }
}
