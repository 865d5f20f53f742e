//! `/api/v1`: the video API of `OpenRouter`, with the same orders, intents and keys as `/v1`.
//!
//! The requests are in `orders/openrouter.rs`, the responses in `wire/openrouter.rs`. This module
//! translates between them and the functions that serve `/v1`. It must not decide anything about an
//! order.

mod chat;
mod errors;
mod models;
mod videos;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use mediagate_core::app::App;

pub(super) use errors::translate_errors;

/// The endpoints.
pub(super) fn api() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(videos::create_video))
        .routes(routes!(models::video_models))
        .routes(routes!(videos::get_video))
        .routes(routes!(videos::video_content))
        .routes(routes!(chat::complete_chat))
        .routes(routes!(models::models))
}
