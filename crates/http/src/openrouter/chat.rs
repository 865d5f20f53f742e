//! `POST /api/v1/chat/completions`: videos through the chat API.

use axum::extract::State;
use axum::response::Response;

use crate::auth::NewOrder;
use crate::body::JsonBody;
use crate::chat::{ChunkEvent, StreamFormat, answer_order};
use crate::error::ErrorResponse;
use crate::idempotency::Fingerprint;
use crate::orders::chat::ChatRequest;
use crate::orders::openrouter::OpenRouterChatOrder;
use crate::wire::chat::ChatCompletion;
use mediagate_core::app::App;

/// Create videos from a prompt and images, for clients of `OpenRouter`.
#[utoipa::path(post, path = "/api/v1/chat/completions", tag = "openrouter", request_body = ChatRequest,
    responses((status = 200, description = "The videos. With `stream`, a stream of chunks as server-sent events", content(
        (ChatCompletion = "application/json"), (ChunkEvent = "text/event-stream")))))]
pub(super) async fn complete_chat(
    new_order: NewOrder<OpenRouterChatOrder>,
    State(app): State<App>,
    body: JsonBody,
) -> Result<Response, ErrorResponse> {
    let NewOrder {
        context, too_many, ..
    } = new_order;
    let (OpenRouterChatOrder(order), fingerprint, memory) = Fingerprint::read(&app, body).await?;
    let order = (order, fingerprint, memory);
    Ok(answer_order(&app, &context, too_many, order, StreamFormat::OpenRouter).await?)
}
