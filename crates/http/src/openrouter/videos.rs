//! `/api/v1/videos`: jobs that make a video each, and their files.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};

use crate::auth::{AllowedCaller, NewOrder, TasksRead};
use crate::body::JsonBody;
use crate::error::ErrorResponse;
use crate::fields::parameters::parameters;
use crate::fields::types::IntegerField;
use crate::idempotency::Fingerprint;
use crate::orders::openrouter::{OpenRouterVideoOrder, OpenRouterVideoRequest};
use crate::query::Query;
use crate::tasks::task_id_header;
use crate::videos::{VideoFormat, VideoVariant, find, place_order, video_file};
use crate::wire::openrouter::OpenRouterVideo;
use mediagate_core::app::App;
use mediagate_core::domain::tasks;
use mediagate_model::error::{Error, ErrorCode};

/// Create a video, for clients of `OpenRouter`.
#[utoipa::path(post, path = "/api/v1/videos", tag = "openrouter", request_body = OpenRouterVideoRequest,
    responses((status = 202, description = "The queued video", body = OpenRouterVideo)))]
pub(super) async fn create_video(
    new_order: NewOrder<OpenRouterVideoOrder>,
    State(app): State<App>,
    body: JsonBody,
) -> Result<Response, ErrorResponse> {
    let NewOrder {
        context, too_many, ..
    } = new_order;
    let (OpenRouterVideoOrder(order), fingerprint, memory) = Fingerprint::read(&app, body).await?;
    let order = (order, fingerprint, memory);
    Ok(place_order(&app, &context, too_many, order, VideoFormat::OpenRouter).await?)
}

/// Get a video, for clients of `OpenRouter`.
#[utoipa::path(get, path = "/api/v1/videos/{id}", tag = "openrouter", params(("id" = String, Path, description = "The video's id")),
    responses((status = 200, description = "The video", body = OpenRouterVideo)))]
pub(super) async fn get_video(
    allowed: AllowedCaller<TasksRead>,
    Path(id): Path<String>,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    let task = find(&app, &allowed.caller, &id).await?;
    let video = OpenRouterVideo::new(&task, &allowed.links).ok_or_else(tasks::not_found)?;
    Ok((task_id_header(task.id), Json(video)).into_response())
}

parameters! {
    /// The parameters of a download.
    pub(super) struct OpenRouterContentParameters {
        /// Which file, counted from 0. There is only one
        index: IntegerField<0, { i64::MAX }>,
    }
}

/// Get the file of a video, for clients of `OpenRouter`.
#[utoipa::path(get, path = "/api/v1/videos/{id}/content", tag = "openrouter", params(
    ("id" = String, Path, description = "The video's id"),
    OpenRouterContentParameters,
), responses(
    (status = 200, description = "The file, in the container in which the provider delivered it", content_type = "video/*", body = Vec<u8>),
    (status = 302, description = "Redirect to the provider's URL, if no copy is stored"),
))]
pub(super) async fn video_content(
    allowed: AllowedCaller<TasksRead>,
    Path(id): Path<String>,
    Query(query): Query<OpenRouterContentParameters>,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    let task = find(&app, &allowed.caller, &id).await?;
    if query.index.is_some_and(|index| index > 0) {
        let message = "There is only one file, at index 0.";
        return Err(Error::at_field(ErrorCode::MediaNotFound, "index", message).into());
    }
    Ok(video_file(&app, &task, VideoVariant::Video, &allowed.headers).await?)
}
