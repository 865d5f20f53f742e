//! `GET /v1/admin/events`: a live stream of events of the whole gateway.

use axum::extract::State;
use axum::response::IntoResponse as _;
use axum::response::Response;
use axum::response::sse::Event;
use futures_util::Stream;

use crate::auth::{Admin, AllowedCaller};
use crate::context::RequestContext;
use crate::docs::EventSchema;
use crate::error::ErrorResponse;
use crate::event_stream;
use crate::tasks::error_event;
use crate::wire::admin::events::GatewayEvent;
use mediagate_core::app::App;
use mediagate_core::domain::feed::{self, FeedFollower, FeedItem};
use mediagate_core::limits::{OpenKind, count_during};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::Error;
use mediagate_model::ids::RequestId;

/// The events of the gateway.
type GatewayEventSchema = EventSchema<GatewayEvent>;

/// Stream the events of the whole gateway.
///
/// Events report tasks that are accepted, sent to a provider, sent to another provider, or ended;
/// routes whose state changes; and new entries of the audit log.
///
/// A client that reconnects within five minutes with `Last-Event-ID` continues from that event.
/// Events of the last seconds before it may be repeated.
#[utoipa::path(get, path = "/v1/admin/events", tag = "admin", params(
    ("Last-Event-ID" = Option<String>, Header, description = "Id of the last event received"),
), responses((status = 200, description = "Server-sent events", body = GatewayEventSchema, content_type = "text/event-stream")))]
pub(crate) async fn events(
    allowed: AllowedCaller<Admin>,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    let since = allowed
        .headers
        .get("last-event-id")
        .and_then(|value| value.to_str().ok()?.parse().ok())
        .map(Timestamp::from_micros);
    let open = app
        .limits
        .open_requests
        .enter(&allowed.caller, OpenKind::Follow)?;
    let follower = feed::follow(&app, since).await?;
    let last = {
        let request_id = allowed.request_id.clone();
        move |error: &Error| error_event(error, &request_id)
    };
    let RequestContext {
        watch, request_id, ..
    } = allowed.context;
    let events = count_during(open, gateway_events(follower, request_id));
    Ok(event_stream::respond(events, watch, last).into_response())
}

fn gateway_events(mut follower: FeedFollower, request_id: RequestId) -> impl Stream<Item = Event> {
    async_stream::stream! {
        loop {
            match follower.next().await {
                Ok(FeedItem::Event(entry)) => {
                    // The id is a time, so that any process can resume the stream.
                    let id = entry.event.at().micros().to_string();
                    let happening = GatewayEvent::new(&entry);
                    let event = Event::default().event(happening.subject()).id(id).json_data(happening);
                    yield event.unwrap_or_default();
                }
                Ok(FeedItem::Missed(count)) => {
                    let happening = GatewayEvent::missed_events(count);
                    yield Event::default().event("missed").json_data(happening).unwrap_or_default();
                }
                Err(error) => {
                    yield error_event(&error, &request_id);
                    return;
                }
            }
        }
    }
}
