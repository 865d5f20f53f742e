//! Responses of server-sent events: kept open by comments, and ended when their caller may no longer
//! have them.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use axum::response::IntoResponse;
use axum::response::sse::{Event, Sse};
use futures_util::{Stream, StreamExt as _};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use mediagate_core::domain::keys::{CHECK_INTERVAL, CallerWatch};
use mediagate_model::error::Error;

/// Pause between comments. Common proxies close a stream that is silent for a minute. A failed write
/// also shows that the caller has disconnected.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// A response with these events. Before each of them, and while there are none, the caller is
/// checked: a stream that outlived its key would show what a new request may not. `last` makes the
/// event of the error that ends it.
pub(super) fn respond(
    events: impl Stream<Item = Event> + Send + 'static,
    watch: CallerWatch,
    last: impl Fn(&Error) -> Event + Send + 'static,
) -> impl IntoResponse {
    Sse::new(async_stream::stream! {
        let mut events = pin!(events);
        let every = |period| {
            let mut timer = interval_at(Instant::now() + period, period);
            timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
            timer
        };
        let (mut checks, mut keep_alive) = (every(CHECK_INTERVAL), every(KEEP_ALIVE));
        loop {
            let event = tokio::select! {
                event = events.next() => match event {
                    Some(event) => Some(event),
                    None => return,
                },
                _ = checks.tick() => None,
                _ = keep_alive.tick() => Some(Event::default().comment("keep-alive")),
            };
            if let Err(error) = watch.confirm().await {
                yield Ok::<_, Infallible>(last(&error));
                return;
            }
            if let Some(event) = event {
                keep_alive.reset();
                yield Ok(event);
            }
        }
    })
}
