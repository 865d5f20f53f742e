//! The music endpoints: submissions, their records in both formats, and clips.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

use crate::auth::{AllowedCaller, NewOrder, TasksCancel, TasksRead};
use crate::body::JsonBody;
use crate::context::RequestContext;
use crate::error::ErrorResponse;
use crate::fields::parameters::parameters;
use crate::fields::types::{BooleanField, RequiredField, texts};
use crate::fields::{self, BodyFields, FieldType, request};
use crate::idempotency::{
    self, Creation, CreationOutcome, Fingerprint, IdempotentRequest, IntentAnswer,
};
use crate::media::disposition;
use crate::orders::music::{MusicOrder, SubmitRequest};
use crate::orders::terms::cost_limit;
use crate::page_params::NewestPage;
use crate::query::Query;
use crate::tasks::{created_tasks_headers, task_id_header};
use crate::wire::list::List;
use crate::zip;
use mediagate_config::SubmitBody;
use mediagate_core::app::App;
use mediagate_core::domain::{downloads, music, songs, tasks};
use mediagate_core::intents::{self, ClientGuard, IntentAttempt};
use mediagate_core::records::Links;
use mediagate_core::records::clip::ClipRecord;
use mediagate_core::records::music::{ClipOperation, Envelope, JobRecord, TaskRecord};
use mediagate_model::account::Account;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{ClipId, TaskId};
use mediagate_model::music::Clip;
use mediagate_model::task::Task;

/// Maximum number of clips per lookup.
const MAX_CLIPS: usize = 100;
/// Maximum number of tasks per lookup.
const MAX_TASKS: usize = 100;

/// The response to a submission, as the operator chose it.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum SubmittedMusic {
    Record(Box<TaskRecord>),
    /// The id of the task.
    Job(Envelope<String>),
}

/// Submit a music task: separate a clip into stems, or run another task at a configured provider.
#[utoipa::path(post, path = "/submit/music", tag = "music", request_body = SubmitRequest,
    params(("x-max-cost-usd" = Option<String>, Header, description = "The most that the request may cost, in US dollars. Same as `max_cost_usd`")),
    responses((status = 200, description = "The task with its queued clips; with `submit_body = \"job\"` its id", body = SubmittedMusic)))]
pub(super) async fn submit(
    new_order: NewOrder<MusicOrder>,
    State(app): State<App>,
    body: JsonBody,
) -> Result<Response, ErrorResponse> {
    let NewOrder {
        context, too_many, ..
    } = new_order;
    let (mut order, fingerprint, _) = Fingerprint::read::<MusicOrder>(&app, body).await?;
    order.terms_mut().limit_cost(cost_limit(&context.headers)?);
    let idempotent_request = IdempotentRequest::new(&app, &context, too_many, fingerprint)?;
    let idempotent_request = idempotent_request.for_order(order.user().map(str::to_owned));
    let creation = MusicCreation {
        app: &app,
        context: &context,
    };
    Ok(idempotent_request.answer(creation, order).await?)
}

/// The acceptance of a music task.
struct MusicCreation<'a> {
    app: &'a App,
    context: &'a RequestContext,
}

impl MusicCreation<'_> {
    fn response(&self, tasks: &[Task], clips: &[Clip]) -> Result<Response, Error> {
        let response = match self.app.config.submit_body {
            SubmitBody::Record => {
                let account = &self.context.caller.account;
                let record =
                    TaskRecord::new(&tasks[0], clips, account, &self.context.links_to_made());
                SubmittedMusic::Record(Box::new(record.ok_or_else(tasks::not_found)?))
            }
            SubmitBody::Job => SubmittedMusic::Job(Envelope::success(tasks[0].id.to_string())),
        };
        Ok((created_tasks_headers(tasks), Json(response)).into_response())
    }
}

impl Creation for MusicCreation<'_> {
    type Order = MusicOrder;
    type Output = Vec<Task>;
    type Id = Vec<TaskId>;

    async fn make(
        &self,
        order: MusicOrder,
        attempt: &IntentAttempt,
    ) -> Result<CreationOutcome<Vec<Task>>, Error> {
        let (app, context) = (self.app, self.context);
        let (caller, request) = (&context.caller, &context.task_request());
        let draft = match order {
            MusicOrder::Separation(order) => music::draft(app, caller, request, order).await?,
            MusicOrder::Song(order) => songs::draft(app, caller, request, order).await?,
        };
        let build = async |tasks: &[Task], clips: &[Clip]| self.response(tasks, clips);
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
        let account = self.context.caller.account.id;
        let clips = music::clips_of_task(self.app, account, tasks[0].id).await?;
        let response = self.response(&tasks, &clips)?;
        Ok(IntentAnswer::of(response, intents::close_time(&tasks)))
    }
}

fn record(
    task: &Task,
    clips: &[Clip],
    account: &Account,
    links: &Links,
) -> Result<Response, Error> {
    let record = TaskRecord::new(task, clips, account, links).ok_or_else(tasks::not_found)?;
    Ok((task_id_header(task.id), Json(record)).into_response())
}

/// Get a music task.
#[utoipa::path(get, path = "/tasks/{id}", tag = "music", params(("id" = String, Path, description = "The task's id")),
    responses((status = 200, description = "The task", body = TaskRecord)))]
pub(super) async fn task(
    allowed: AllowedCaller<TasksRead>,
    Path(id): Path<String>,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    let account = &allowed.caller.account;
    let (task, clips) = load(&app, account, parse_task(&id)?).await?;
    Ok(record(&task, &clips, account, &allowed.links)?)
}

/// Get a music task as a job record.
#[utoipa::path(get, path = "/fetch/{id}", tag = "music", params(("id" = String, Path, description = "The task's id")),
    responses((status = 200, description = "The job record", body = Envelope<JobRecord>)))]
pub(super) async fn fetch(
    allowed: AllowedCaller<TasksRead>,
    Path(id): Path<String>,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    let account = &allowed.caller.account;
    let (task, clips) = load(&app, account, parse_task(&id)?).await?;
    let job =
        JobRecord::new(&task, &clips, account, &allowed.links).ok_or_else(tasks::not_found)?;
    Ok((task_id_header(task.id), Json(Envelope::success(job))).into_response())
}

request! {
    /// The tasks to look up.
    pub(super) struct FetchRequest {
        /// Task ids, at most 100.
        ids: RequiredField<TaskIds>,
    }
}

/// A list of task ids. Malformed ids are ignored, like unknown ones.
pub(super) struct TaskIds;

impl FieldType for TaskIds {
    type Value = Vec<TaskId>;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<Vec<TaskId>> {
        let mut ids = Vec::new();
        for (index, id) in body.array(name, MAX_TASKS)?.iter().enumerate() {
            if let Value::String(id) = id {
                ids.extend(id.parse::<TaskId>().ok());
            } else {
                let (param, message) = (format!("{name}[{index}]"), "Must be a string.");
                body.fault_at(param, ErrorCode::InvalidType, message);
            }
        }
        Some(ids)
    }

    fn schema() -> RefOr<Schema> {
        texts(MAX_TASKS).into()
    }
}

/// Get several music tasks at once.
///
/// Unknown ids are ignored.
#[utoipa::path(post, path = "/fetch", tag = "music", request_body = FetchRequest,
    responses((status = 200, description = "The job records", body = Envelope<Vec<JobRecord>>)))]
pub(super) async fn fetch_many(
    allowed: AllowedCaller<TasksRead>,
    State(app): State<App>,
    body: JsonBody,
) -> Result<Json<Envelope<Vec<JobRecord>>>, ErrorResponse> {
    let account = &allowed.caller.account;
    let mut jobs = Vec::new();
    let read = |body: &Value| fields::read(body, |body| FetchRequest::read(body).ids);
    let (ids, _) = body.read(&app, read).await?;
    for id in ids {
        match load(&app, account, id).await {
            Ok((task, clips)) => {
                jobs.extend(JobRecord::new(&task, &clips, account, &allowed.links));
            }
            // One unknown id must not fail the others.
            Err(error) if error.code() == tasks::not_found().code() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Json(Envelope::success(jobs)))
}

/// Get several clips by id.
///
/// Unknown ids are ignored.
#[utoipa::path(get, path = "/feed/{ids}", tag = "music", params(("ids" = String, Path, description = "Clip ids, separated by commas; at most 100")),
    responses((status = 200, description = "The clips", body = Vec<ClipRecord>)))]
pub(super) async fn feed(
    allowed: AllowedCaller<TasksRead>,
    Path(ids): Path<String>,
    State(app): State<App>,
) -> Result<Json<Vec<ClipRecord>>, ErrorResponse> {
    let account = &allowed.caller.account;
    let ids: Vec<&str> = ids.split(',').collect();
    if ids.len() > MAX_CLIPS {
        let message = format!("Must have at most {MAX_CLIPS} ids.");
        return Err(Error::at_field(ErrorCode::InvalidValue, "ids", message).into());
    }
    let ids: Vec<ClipId> = ids.iter().filter_map(|id| id.trim().parse().ok()).collect();
    let clips = music::clips(&app, account.id, ids).await?;
    Ok(Json(records(&app, &clips, account, &allowed.links).await?))
}

parameters! {
    /// The parameters of the list.
    pub(super) struct ClipParameters {
        /// Whether to list the clips in the trash instead
        is_trashed: BooleanField,
        + page: NewestPage<ClipId>,
    }
}

/// List clips, newest first.
#[utoipa::path(get, path = "/clips", tag = "music", params(ClipParameters),
    responses((status = 200, description = "A page of clips", body = List<ClipRecord>)))]
pub(super) async fn clips(
    allowed: AllowedCaller<TasksRead>,
    Query(query): Query<ClipParameters>,
    State(app): State<App>,
) -> Result<Json<List<ClipRecord>>, ErrorResponse> {
    let account = &allowed.caller.account;
    let (is_trashed, page) = (query.is_trashed.unwrap_or(false), query.page.into_query());
    let (clips, has_more) = music::list(&app, account.id, is_trashed, page).await?;
    let records = records(&app, &clips, account, &allowed.links).await?;
    Ok(Json(List::new(records, has_more, |clip| clip.id.clone())))
}

/// Get a clip.
#[utoipa::path(get, path = "/clips/{id}", tag = "music", params(("id" = String, Path, description = "The clip's id")),
    responses((status = 200, description = "The clip", body = ClipRecord)))]
pub(super) async fn clip(
    allowed: AllowedCaller<TasksRead>,
    Path(id): Path<String>,
    State(app): State<App>,
) -> Result<Json<ClipRecord>, ErrorResponse> {
    let account = &allowed.caller.account;
    let clip = music::clip(&app, account.id, parse_clip(&id)?).await?;
    Ok(clip_response(&app, clip, account, &allowed.links).await?)
}

/// Get the stems of a clip's newest separation as a ZIP archive.
///
/// For a stem, the archive contains the stems of the same separation. The files are named after the
/// song: `song – Vocals.flac`.
#[utoipa::path(get, path = "/clips/{id}/stems.zip", tag = "music", params(("id" = String, Path, description = "The clip's id")),
    responses((status = 200, description = "The archive", content_type = "application/zip", body = Vec<u8>)))]
pub(super) async fn stems(
    allowed: AllowedCaller<TasksRead>,
    Path(id): Path<String>,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    let account = allowed.caller.account.id;
    let (name, members) = downloads::stems(&app, account, parse_clip(&id)?).await?;
    // The length is announced, so that the client notices a download that breaks off.
    let Some(length) = zip::length(&members) else {
        let message = "The archive would be 4 GB or larger. Download the stems individually.";
        return Err(Error::plain(ErrorCode::UnsupportedValue, message).into());
    };
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/zip"),
        ),
        (header::CONTENT_LENGTH, length.into()),
        (
            header::CONTENT_DISPOSITION,
            disposition("attachment", &format!("{name}.zip"))?,
        ),
    ];
    let body = Body::from_stream(zip::stream(app, members));
    Ok((headers, body).into_response())
}

/// Move a clip to the trash.
#[utoipa::path(delete, path = "/clips/{id}", tag = "music", params(("id" = String, Path, description = "The clip's id")),
    responses((status = 200, description = "The clip, in the trash", body = ClipRecord)))]
pub(super) async fn trash(
    allowed: AllowedCaller<TasksCancel>,
    Path(id): Path<String>,
    State(app): State<App>,
) -> Result<Json<ClipRecord>, ErrorResponse> {
    let account = &allowed.caller.account;
    let clip = music::set_trashed(&app, account.id, parse_clip(&id)?, true).await?;
    Ok(clip_response(&app, clip, account, &allowed.links).await?)
}

/// Restore a clip from the trash.
#[utoipa::path(post, path = "/clips/{id}/restore", tag = "music", params(("id" = String, Path, description = "The clip's id")),
    responses((status = 200, description = "The clip", body = ClipRecord)))]
pub(super) async fn restore(
    allowed: AllowedCaller<TasksCancel>,
    Path(id): Path<String>,
    State(app): State<App>,
) -> Result<Json<ClipRecord>, ErrorResponse> {
    let account = &allowed.caller.account;
    let clip = music::set_trashed(&app, account.id, parse_clip(&id)?, false).await?;
    Ok(clip_response(&app, clip, account, &allowed.links).await?)
}

async fn clip_response(
    app: &App,
    clip: Clip,
    account: &Account,
    links: &Links,
) -> Result<Json<ClipRecord>, Error> {
    let mut records = records(app, &[clip], account, links).await?;
    records.pop().map(Json).ok_or_else(music::clip_not_found)
}

/// Clips as records. What was ordered is read from their tasks.
async fn records(
    app: &App,
    clips: &[Clip],
    account: &Account,
    links: &Links,
) -> Result<Vec<ClipRecord>, Error> {
    let mut records = Vec::with_capacity(clips.len());
    for clip in clips {
        let payload = music::order_of(app, account.id, clip).await?;
        let operation = ClipOperation::ordered(payload.as_ref());
        records.push(ClipRecord::new(clip, operation, account, links));
    }
    Ok(records)
}

async fn load(app: &App, account: &Account, id: TaskId) -> Result<(Task, Vec<Clip>), Error> {
    let task = tasks::get(app, account.id, id).await?;
    let clips = music::clips_of_task(app, account.id, id).await?;
    Ok((task, clips))
}

fn parse_task(id: &str) -> Result<TaskId, Error> {
    id.parse().map_err(|_| tasks::not_found())
}

fn parse_clip(id: &str) -> Result<ClipId, Error> {
    id.parse().map_err(|_| music::clip_not_found())
}
