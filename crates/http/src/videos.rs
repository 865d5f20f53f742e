//! `/v1/videos`: the `OpenAI` Videos API.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequest as _, Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde_json::{Map, Value};

use crate::auth::{AllowedCaller, NewOrder, TasksCancel, TasksRead};
use crate::body::form::MultipartForm;
use crate::body::{JsonBody, is_multipart, memory_share, no_memory, parse_text, too_large};
use crate::context::RequestContext;
use crate::error::ErrorResponse;
use crate::fields::parameters::parameters;
use crate::idempotency::{
    self, Creation, CreationOutcome, Fingerprint, IdempotentRequest, IntentAnswer,
};
use crate::media;
use crate::orders::terms::cost_limit;
use crate::orders::videos::{FILES, FormFiles, VideoRequest, is_json, read_form};
use crate::page_params::{AttributeFilter, ListPage, WordField, WordValue};
use crate::query::Query;
use crate::tasks::{created_tasks_headers, task_id_header};
use crate::wire::list::List;
use crate::wire::openrouter::OpenRouterVideo;
use crate::wire::videos::{VideoDeleted, VideoObject};
use mediagate_core::app::App;
use mediagate_core::domain::pictures::LIMIT_BYTES;
use mediagate_core::domain::tasks::{self, TaskSearch};
use mediagate_core::domain::video::{self, VideoOrder};
use mediagate_core::intents::{self, ClientGuard, IntentAttempt};
use mediagate_core::limits::QuotaShare;
use mediagate_core::records::Links;
use mediagate_core::records::video::VideoFile;
use mediagate_model::account::Caller;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AssetId, TaskId};
use mediagate_model::media::MediaType;
use mediagate_model::music::Clip;
use mediagate_model::task::{LinkOutput, MediaKind, Task, TaskResult};
use mediagate_store::tasks::{PageQuery, TaskFilter};

/// Time for a form to arrive.
const FORM_TIMEOUT: Duration = Duration::from_mins(2);
/// Largest form; a field may be a prompt, a data: URL or a file.
const FORM_LIMIT: usize = crate::fields::BODY_LIMIT;
/// More files than any model takes; further ones are not kept.
const MAX_FILES: usize = 32;

/// Create a video.
#[utoipa::path(post, path = "/v1/videos", tag = "video",
    params(("x-max-cost-usd" = Option<String>, Header, description = "The most that the request may cost, in US dollars. Same as `max_cost_usd`")),
    request_body(content((VideoRequest = "application/json"), (VideoRequest = "multipart/form-data"))),
    responses((status = 200, description = "The queued video", body = VideoObject)))]
pub(super) async fn create(
    new_order: NewOrder<VideoOrder>,
    State(app): State<App>,
    request: Request,
) -> Result<Response, ErrorResponse> {
    let NewOrder {
        context, too_many, ..
    } = new_order;
    let order = if is_multipart(&context.headers) {
        let mut memory = memory_share(&request, &app)?;
        let (form, files) = form(request, &app, &mut memory).await?;
        if let Some(model) = form["model"].as_str() {
            context.facts.note_model(model);
        }
        let order = read_form(&form, files)?;
        let fingerprint = Fingerprint::of(&app, &order, &form);
        (order, fingerprint, memory)
    } else {
        let body = JsonBody::from_request(request, &app).await?;
        Fingerprint::read(&app, body).await?
    };
    Ok(place_order(&app, &context, too_many, order, VideoFormat::OpenAi).await?)
}

/// The API to which an order was sent.
#[derive(Debug, Clone, Copy)]
pub(super) enum VideoFormat {
    OpenAi,
    OpenRouter,
}

/// Answers an order, with its fingerprint and its share of memory.
pub(super) async fn place_order(
    app: &App,
    context: &RequestContext,
    too_many: Option<Error>,
    (mut order, fingerprint, memory): (VideoOrder, Fingerprint, QuotaShare),
    format: VideoFormat,
) -> Result<Response, Error> {
    order.terms.limit_cost(cost_limit(&context.headers)?);
    let idempotent_request = IdempotentRequest::new(app, context, too_many, fingerprint)?;
    let creation = VideoCreation {
        app,
        context,
        format,
    };
    let idempotent_request = idempotent_request.for_order(order.options.user.clone());
    idempotent_request.answer(creation, (order, memory)).await
}

/// The acceptance of a video.
struct VideoCreation<'a> {
    app: &'a App,
    context: &'a RequestContext,
    format: VideoFormat,
}

impl VideoCreation<'_> {
    /// The response about an order's tasks.
    async fn response(&self, tasks: &[Task]) -> Result<Response, Error> {
        let links = self.context.links_to_made();
        let task = tasks
            .first()
            .ok_or_else(|| Error::internal("an order without a task"))?;
        let headers = created_tasks_headers(tasks);
        match self.format {
            VideoFormat::OpenAi => {
                let object = object(self.app, &links, task).await?;
                Ok((headers, object).into_response())
            }
            VideoFormat::OpenRouter => {
                let video = OpenRouterVideo::new(task, &links).ok_or_else(tasks::not_found)?;
                Ok((StatusCode::ACCEPTED, headers, Json(video)).into_response())
            }
        }
    }
}

impl Creation for VideoCreation<'_> {
    /// The order, and its body's share of memory.
    type Order = (VideoOrder, QuotaShare);
    type Output = Vec<Task>;
    type Id = Vec<TaskId>;

    async fn make(
        &self,
        (order, memory): Self::Order,
        attempt: &IntentAttempt,
    ) -> Result<CreationOutcome<Vec<Task>>, Error> {
        let (app, context) = (self.app, self.context);
        let draft = video::draft(app, &context.caller, &context.task_request(), order).await?;
        // The pictures are on disk now, so the body's share of memory is free.
        drop(memory);
        let build = async |tasks: &[Task], _: &[Clip]| self.response(tasks).await;
        idempotency::accept(app, context, attempt, draft, build).await
    }

    async fn load(&self, ids: Vec<TaskId>) -> Result<Vec<Task>, Error> {
        tasks::get_all(self.app, self.context.caller.account.id, ids).await
    }

    async fn respond(
        self,
        tasks: Vec<Task>,
        _: &Arc<ClientGuard>,
        _: bool,
    ) -> Result<IntentAnswer, Error> {
        let response = self.response(&tasks).await?;
        Ok(IntentAnswer::of(response, intents::close_time(&tasks)))
    }
}

/// A form's text fields, nested by their brackets, and its files.
async fn form(
    request: Request,
    app: &App,
    memory: &mut QuotaShare,
) -> Result<(Value, FormFiles), Error> {
    tokio::time::timeout(FORM_TIMEOUT, read_fields(request, app, memory))
        .await
        .unwrap_or_else(|_| {
            Err(Error::plain(
                ErrorCode::InvalidValue,
                "The form did not arrive in time.",
            ))
        })
}

async fn read_fields(
    request: Request,
    app: &App,
    memory: &mut QuotaShare,
) -> Result<(Value, FormFiles), Error> {
    let mut form = MultipartForm::open(request, app, FORM_LIMIT as u64).await?;
    let mut fields = Map::new();
    let mut files = FormFiles::new();
    let mut unknown_file = None;
    while let Some(mut part) = form.next().await? {
        let name = part.name().unwrap_or_default().to_owned();
        let field = FILES.into_iter().find(|field| *field == name);
        let is_file = part.file_name().is_some();
        let has_file_name = part.file_name().is_some_and(|name| !name.is_empty());
        // A file that was not chosen has no name.
        if is_file && field.is_none() && has_file_name {
            let message = format!(
                "Unknown file. Files are taken in the fields {}.",
                FILES.join(", ")
            );
            let shown: String = name.chars().take(100).collect();
            unknown_file.get_or_insert(Error::at_field(
                ErrorCode::UnsupportedValue,
                shown,
                message,
            ));
        }
        // Beyond the limit no files are kept: no model takes as many as were already read.
        if is_file && (field.is_none() || files.len() > MAX_FILES) {
            part.skip().await?;
            continue;
        }
        let limit = if is_file {
            usize::try_from(LIMIT_BYTES).unwrap_or(usize::MAX)
        } else {
            FORM_LIMIT
        };
        let mut bytes = Vec::new();
        while let Some(chunk) = part.chunk().await? {
            if bytes.len() + chunk.len() > limit {
                return Err(too_large(&format!("The form's field {name:?}"), limit));
            }
            memory.grow(chunk.len() as u64).map_err(no_memory)?;
            bytes.extend_from_slice(&chunk);
        }
        // So a browser sends a field that was left empty, and a file that was not chosen.
        if bytes.is_empty() && !has_file_name {
            continue;
        }
        if let Some(field) = field.filter(|_| is_file) {
            files.push((field, Bytes::from(bytes)));
            continue;
        }
        let text = String::from_utf8(bytes).map_err(|_| {
            Error::at_field(ErrorCode::InvalidValue, name.clone(), "Must be UTF-8 text.")
        })?;
        let value = field_value(&name, text)?;
        insert_nested(&mut fields, &name, value);
    }
    // The form is read to its end first, so that the client sees the answer.
    match unknown_file {
        Some(error) => Err(error),
        None => Ok((Value::Object(fields), files)),
    }
}

/// The value of a text field: its text, or the object or list that it contains as JSON.
fn field_value(name: &str, text: String) -> Result<Value, Error> {
    if !is_json(name, &text) {
        return Ok(text.into());
    }
    parse_text(&text).map_err(|error| Error::at_field(error.code(), name, error.message()))
}

/// Inserts `a[b]` into the object `a` and `a[]` into the list `a`; deeper brackets are not
/// supported.
fn insert_nested(fields: &mut Map<String, Value>, name: &str, value: Value) {
    let nested = name
        .split_once('[')
        .and_then(|(outer, rest)| Some((outer, rest.strip_suffix(']')?)));
    let Some((outer, inner)) = nested else {
        fields.insert(name.to_owned(), value);
        return;
    };
    // Also true of `a[]`, which has nothing between its brackets.
    let is_item = inner.bytes().all(|byte| byte.is_ascii_digit());
    let empty = || {
        if is_item {
            Value::Array(Vec::new())
        } else {
            Value::Object(Map::new())
        }
    };
    match fields.entry(outer).or_insert_with(empty) {
        Value::Object(nested) => drop(nested.insert(inner.to_owned(), value)),
        Value::Array(items) => items.push(value),
        _ => {}
    }
}

/// Get a video.
#[utoipa::path(get, path = "/v1/videos/{id}", tag = "video", params(("id" = String, Path, description = "The video's id")),
    responses((status = 200, description = "The video", body = VideoObject)))]
pub(super) async fn get(
    allowed: AllowedCaller<TasksRead>,
    Path(id): Path<String>,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    let task = find(&app, &allowed.caller, &id).await?;
    Ok(object(&app, &allowed.links, &task).await?)
}

/// The video object; an unfinished one has a header that says when to poll again.
async fn object(app: &App, links: &Links, task: &Task) -> Result<Response, Error> {
    let mut headers = task_id_header(task.id);
    if !task.state.is_terminal() {
        headers.insert("openai-poll-after-ms", poll_after(app, task).await?);
    }
    let object =
        VideoObject::new(task, VideoFile::of_task(links, task)).ok_or_else(tasks::not_found)?;
    Ok((headers, Json(object)).into_response())
}

/// When to poll again: after a tenth of the model's median time.
async fn poll_after(app: &App, task: &Task) -> Result<HeaderValue, Error> {
    let lengths = tasks::usual_durations(app, &task.model).await?;
    let median = lengths.map_or(Duration::from_secs(5), |lengths| lengths.median);
    let wait = (median / 10).clamp(Duration::from_millis(200), Duration::from_secs(5));
    Ok(HeaderValue::from(
        u64::try_from(wait.as_millis()).unwrap_or(1000),
    ))
}

/// The id of a video, which names its task.
pub(super) struct VideoId(TaskId);

impl FromStr for VideoId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        TaskId::from_video(text).map(Self).map_err(|_| ())
    }
}

parameters! {
    /// The parameters of the list of videos.
    pub(super) struct VideoListParameters {
        + attributes: AttributeFilter,
        + page: ListPage<VideoId>,
    }
}

/// List videos, newest first.
#[utoipa::path(get, path = "/v1/videos", tag = "video", params(VideoListParameters),
    responses((status = 200, description = "A page of videos", body = List<VideoObject>)))]
pub(super) async fn list(
    allowed: AllowedCaller<TasksRead>,
    Query(query): Query<VideoListParameters>,
    State(app): State<App>,
) -> Result<Json<List<VideoObject>>, ErrorResponse> {
    let page = query.page.into_query();
    let page = PageQuery {
        after: page.after.map(|VideoId(task)| task),
        limit: page.limit,
        ascending: page.ascending,
    };
    let filter = TaskFilter {
        kind: Some(MediaKind::Video),
        without_deleted: true,
        ..TaskFilter::default()
    };
    let search = TaskSearch {
        text: None,
        attributes: query.attributes.0,
    };
    let account = allowed.caller.account.id;
    let (tasks, has_more) = tasks::search(&app, account, filter, search, page).await?;
    let videos = tasks
        .iter()
        .filter_map(|task| VideoObject::new(task, VideoFile::of_task(&allowed.links, task)));
    Ok(Json(List::new(videos.collect(), has_more, |video| {
        video.id.clone()
    })))
}

/// A file of a video.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(super) enum VideoVariant {
    Video,
    Thumbnail,
    Spritesheet,
}

impl WordValue for VideoVariant {
    const WORDS: &'static [&'static str] = &["video", "thumbnail", "spritesheet"];
}

parameters! {
    /// The parameters of a download.
    pub(super) struct ContentParameters {
        /// `video` (default), `thumbnail` or `spritesheet`
        variant: WordField<VideoVariant>,
    }
}

/// Get the file of a video, or an image of it.
#[utoipa::path(get, path = "/v1/videos/{id}/content", tag = "video", params(
    ("id" = String, Path, description = "The video's id"),
    ContentParameters,
), responses(
    (status = 200, description = "The file, in the container in which the provider delivered it", content_type = "video/*", body = Vec<u8>),
    (status = 302, description = "Redirect to the provider's URL, if no copy is stored"),
))]
pub(super) async fn content(
    allowed: AllowedCaller<TasksRead>,
    Path(id): Path<String>,
    Query(query): Query<ContentParameters>,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    let variant = query.variant.unwrap_or(VideoVariant::Video);
    let task = find(&app, &allowed.caller, &id).await?;
    Ok(video_file(&app, &task, variant, &allowed.headers).await?)
}

/// A file of a video's task, or the redirect to it.
pub(super) async fn video_file(
    app: &App,
    task: &Task,
    variant: VideoVariant,
    headers: &HeaderMap,
) -> Result<Response, Error> {
    if let Some(TaskResult::LinkV1(link)) = &task.output {
        let redirect = link_to(app, task, link, variant);
        let redirect = redirect.map_err(|error| error.with_task(task.id))?;
        return Ok((task_id_header(task.id), redirect).into_response());
    }
    let Some(TaskResult::VideoV1(output)) = &task.output else {
        let error = match &task.failure {
            Some(failure) => failure.to_missing_result_error(),
            None => Error::plain(ErrorCode::VideoNotReady, "The video is not finished yet."),
        };
        return Err(error.with_task(task.id));
    };
    let (asset, media): (Option<AssetId>, MediaType) = match variant {
        VideoVariant::Video => (Some(output.video), output.media),
        VideoVariant::Thumbnail => (output.poster, MediaType::Jpeg),
        VideoVariant::Spritesheet => (output.sheet, MediaType::Jpeg),
    };
    let asset = asset.ok_or_else(|| no_variant(variant))?;
    let file = media::serve(app, asset, media, headers).await;
    let file = file.map_err(|error| match error.code() {
        // This error names the cost, because a new order would be charged again.
        ErrorCode::LinkExpired => video::link_expired(&[task]).with_task(task.id),
        _ => error,
    });
    Ok((task_id_header(task.id), file?).into_response())
}

/// Redirects the caller to a film that is stored at its provider.
fn link_to(
    app: &App,
    task: &Task,
    link: &LinkOutput,
    variant: VideoVariant,
) -> Result<Response, Error> {
    if variant != VideoVariant::Video {
        return Err(no_variant(variant));
    }
    let expires_at = link.expires_at_micros.map(Timestamp::from_micros);
    // At an expired URL the caller would get the provider's own error, which does not mention the
    // cost.
    if expires_at.is_some_and(|expires_at| expires_at <= app.clock.now()) {
        return Err(video::link_expired(&[task]));
    }
    let headers = [
        (header::LOCATION, link.url.as_str()),
        (header::CACHE_CONTROL, "private, no-store"),
    ];
    Ok((StatusCode::FOUND, headers).into_response())
}

fn no_variant(variant: VideoVariant) -> Error {
    let variant: &str = variant.into();
    let message = format!("There is no {variant} of this video.");
    Error::at_field(ErrorCode::MediaNotFound, "variant", message)
}

/// Delete a video.
///
/// A video that is not finished is cancelled.
#[utoipa::path(delete, path = "/v1/videos/{id}", tag = "video", params(("id" = String, Path, description = "The video's id")),
    responses((status = 200, description = "The deleted video", body = VideoDeleted)))]
pub(super) async fn delete(
    allowed: AllowedCaller<TasksCancel>,
    Path(id): Path<String>,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    let task = find(&app, &allowed.caller, &id).await?;
    video::delete(&app, &task).await?;
    let deleted = VideoDeleted {
        id: task.id.video(),
        object: "video.deleted",
        deleted: true,
    };
    Ok((task_id_header(task.id), Json(deleted)).into_response())
}

/// The task of the caller's video with this id.
pub(super) async fn find(app: &App, caller: &Caller, id: &str) -> Result<Task, Error> {
    let id = TaskId::from_video(id).map_err(|_| tasks::not_found())?;
    video::get(app, caller.account.id, id).await
}
