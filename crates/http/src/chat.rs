//! `POST /v1/chat/completions`: videos through the chat API.

mod stream_format;
mod text_reply;

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use axum::response::sse::Event;
use futures_util::stream::FuturesUnordered;
use futures_util::{Stream, StreamExt as _};

use crate::auth::NewOrder;
use crate::body::JsonBody;
use crate::context::RequestContext;
use crate::displacement::RequestConnection;
use crate::docs::EventSchema;
use crate::error::ErrorResponse;
use crate::event_stream;
use crate::idempotency::{
    Creation, CreationOutcome, Fingerprint, IdempotentRequest, IntentAnswer, note_model,
};
use crate::orders::chat::{ChatOrder, ChatRequest};
use crate::orders::terms::cost_limit;
use crate::tasks::created_tasks_headers;
use crate::wire::chat::{
    ChatAnswer, ChatChoice, ChatChunk, ChatCompletion, ChatUsage, ChunkChoice, ChunkDelta,
    ChunkTask, CompletionDetails, MissingChoice, PromptDetails,
};
use crate::wire::money::dollars;
use mediagate_core::app::App;
use mediagate_core::domain::task_acceptance;
use mediagate_core::domain::tasks::{self, TaskWaiter};
use mediagate_core::domain::video::{self, VideoOrder};
use mediagate_core::intents::{self, ClientGuard, IntentAttempt};
use mediagate_core::limits::{OpenKind, OpenRequest, QuotaShare, count_during};
use mediagate_core::records::Links;
use mediagate_core::records::video::VideoFile;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AccountId, RequestId, TaskId};
use mediagate_model::money::{ChargeState, MicroDollars};
use mediagate_model::task::{Task, TaskEvent, TaskPayload, TaskResult};
pub(super) use stream_format::StreamFormat;

/// The events of a stream, which ends with the text `[DONE]` instead of a chunk.
pub(super) type ChunkEvent = EventSchema<ChatChunk>;

/// Create videos from a prompt and images.
#[utoipa::path(post, path = "/v1/chat/completions", tag = "video", request_body = ChatRequest,
    params(("x-max-cost-usd" = Option<String>, Header, description = "The most that the request may cost, in US dollars. Same as `max_cost_usd`")),
    responses((status = 200, description = "The videos. With `stream`, a stream of chunks as server-sent events", content(
        (ChatCompletion = "application/json"), (ChunkEvent = "text/event-stream")))))]
pub(super) async fn complete(
    new_order: NewOrder<ChatOrder>,
    State(app): State<App>,
    body: JsonBody,
) -> Result<Response, ErrorResponse> {
    let NewOrder {
        context, too_many, ..
    } = new_order;
    let order = Fingerprint::read(&app, body).await?;
    Ok(answer_order(&app, &context, too_many, order, StreamFormat::OpenAi).await?)
}

/// Answers an order, with its fingerprint and its share of memory.
pub(super) async fn answer_order(
    app: &App,
    context: &RequestContext,
    mut too_many: Option<Error>,
    (chat_order, fingerprint, memory): (ChatOrder, Fingerprint, QuotaShare),
    format: StreamFormat,
) -> Result<Response, Error> {
    let ChatOrder {
        mut order,
        stream,
        include_usage,
        token_limit,
    } = chat_order;
    order.terms.limit_cost(cost_limit(&context.headers)?);
    let open = app
        .limits
        .open_requests
        .enter(&context.caller, OpenKind::Order);
    let open = open.map_err(|error| too_many.get_or_insert(error)).ok();
    let idempotent_request = IdempotentRequest::new(app, context, too_many, fingerprint)?;
    let idempotent_request = idempotent_request
        .with_stream(stream)
        .for_order(order.options.user.clone());
    let creation = ChatCreation {
        app,
        context,
        format,
        open,
        stream,
        include_usage,
        token_limit,
    };
    idempotent_request.answer(creation, (order, memory)).await
}

/// The acceptance of the videos of a chat request.
struct ChatCreation<'a> {
    app: &'a App,
    context: &'a RequestContext,
    format: StreamFormat,
    /// Held until the response ends.
    open: Option<OpenRequest>,
    stream: bool,
    include_usage: bool,
    token_limit: Option<usize>,
}

impl Creation for ChatCreation<'_> {
    /// The order, and its body's share of memory.
    type Order = (VideoOrder, QuotaShare);
    /// The tasks, and those of their waiters that exist already.
    type Output = (Vec<Task>, Vec<TaskWaiter>);
    type Id = Vec<TaskId>;

    async fn make(
        &self,
        (order, memory): Self::Order,
        attempt: &IntentAttempt,
    ) -> Result<CreationOutcome<Self::Output>, Error> {
        let (app, caller) = (self.app, &self.context.caller);
        if let Some(limit) = self.token_limit {
            // So few tokens cannot hold a URL: the request tests the connection. It fails where an
            // order would: at an unknown model, or one that the key may not use.
            let (model, _) = video::choose(app, caller, &order)?;
            let reply = text_reply::answer(app, &model, &order, limit);
            let stream_usage = self.stream.then_some(self.include_usage);
            // Nothing is stored, so the test's idempotency key can still be used for an order.
            return Ok(CreationOutcome::NothingCreated(text_reply::write(
                reply,
                stream_usage,
                self.format,
            )));
        }
        let request = self.context.task_request();
        let draft = video::draft(app, caller, &request, order).await?;
        note_model(self.context, &draft);
        // The pictures are stored by now, so the body's memory is released. The caller may wait for
        // minutes.
        drop(memory);
        // The waiters are registered before the tasks are accepted. So no task can end unnoticed,
        // and the database need not be read first.
        let new_tasks = draft.tasks.iter().filter(|_| !self.stream);
        let waiters = new_tasks.map(|task| TaskWaiter::for_new_task(app, task));
        let waiters = waiters.collect();
        let draft = draft.with_attempt(attempt);
        let tasks = task_acceptance::accept(app, caller, attempt, draft).await?;
        Ok(CreationOutcome::Unanswered((tasks, waiters)))
    }

    async fn load(&self, ids: Vec<TaskId>) -> Result<Self::Output, Error> {
        let account = self.context.caller.account.id;
        Ok((tasks::get_all(self.app, account, ids).await?, Vec::new()))
    }

    async fn respond(
        self,
        (tasks, waiters): Self::Output,
        client: &Arc<ClientGuard>,
        is_repeated: bool,
    ) -> Result<IntentAnswer, Error> {
        let (context, request_id) = (self.context, &self.context.request_id);
        let headers = created_tasks_headers(&tasks);
        let response = ChatResponse {
            app: self.app.clone(),
            links: context.links_to_made(),
            request_id: request_id.clone(),
            connection: context.connection.clone(),
            format: self.format,
            tasks,
        };
        if !self.stream {
            return context.watch.hold(response.wait(waiters)).await;
        }
        let last = {
            let (format, request_id) = (self.format, request_id.clone());
            let blank = response.blank_chunk(false);
            move |error: &Error| format.failure_event(blank.as_ref(), error, &request_id)
        };
        let chunks = response.into_stream(self.include_usage, is_repeated, client.clone());
        let chunks = count_during(self.open, chunks);
        let events = event_stream::respond(chunks, context.watch.clone(), last);
        Ok(IntentAnswer::stream((headers, events)))
    }
}

/// The response to an accepted order.
struct ChatResponse {
    app: App,
    links: Links,
    request_id: RequestId,
    connection: RequestConnection,
    format: StreamFormat,
    tasks: Vec<Task>,
}

impl ChatResponse {
    /// Waits for all videos, at most `wait_limit`. `waiters` are those that exist already.
    async fn wait(mut self, mut waiters: Vec<TaskWaiter>) -> Result<IntentAnswer, Error> {
        // One deadline for the request, however many videos it ordered.
        let deadline = tokio::time::Instant::now() + self.app.config.wait_limit;
        for task in &mut self.tasks {
            let time_left = deadline.saturating_duration_since(tokio::time::Instant::now());
            let position = waiters.iter().position(|waiter| waiter.id == task.id);
            let waiter = position.map(|index| waiters.swap_remove(index));
            let (account, id) = (task.account, task.id);
            let wait = async {
                match waiter {
                    Some(waiter) => waiter.wait(&self.app, time_left).await,
                    None => tasks::wait(&self.app, account, id, time_left).await,
                }
            };
            *task = tokio::select! {
                waited = wait => waited?,
                () = self.connection.displaced() => return Err(still_running(task)),
            };
            // Only the wait is over. The task continues, and a retry joins it.
            if !task.state.is_terminal() {
                return Err(still_running(task));
            }
        }
        self.read_held_again().await?;
        let close_time = intents::close_time(&self.tasks);
        if let Some(error) = self.no_video_error() {
            // Films that were made and have been removed were paid for. The caller must see the
            // cost before it orders again.
            let is_charged = error.code() == ErrorCode::LinkExpired;
            let mut answer = IntentAnswer::error_answer(error, &self.request_id, close_time);
            if is_charged {
                let headers = created_tasks_headers(&self.tasks);
                answer.response.headers_mut().extend(headers);
            }
            return Ok(answer);
        }
        let headers = created_tasks_headers(&self.tasks);
        let completion = Json(self.completion()?);
        let is_linked = |task: &Task| matches!(task.output, Some(TaskResult::LinkV1(_)));
        if self.tasks.iter().any(is_linked) {
            // A provider's URL can end at any time, so the answer is made again for each repetition.
            let answer = (headers, completion);
            return Ok(IntentAnswer::not_stored(answer, close_time));
        }
        Ok(IntentAnswer::of((headers, completion), close_time))
    }

    /// Reads the cancelled tasks again whose money was held when they ended: since then their
    /// providers' jobs may have ended, and the money with them.
    async fn read_held_again(&mut self) -> Result<(), Error> {
        for task in &mut self.tasks {
            if task.money == ChargeState::Held {
                *task = tasks::get(&self.app, task.account, task.id).await?;
            }
        }
        Ok(())
    }

    /// The completion, with a choice for each task that succeeded, at its index.
    fn completion(&self) -> Result<ChatCompletion, Error> {
        let first = self
            .tasks
            .first()
            .ok_or_else(|| Error::internal("an order without a task"))?;
        let mut choices = Vec::new();
        for (task, index) in self.tasks.iter().zip(0..) {
            if let Some(video) = self.playable(task) {
                choices.push(ChatChoice {
                    index,
                    message: ChatAnswer {
                        role: "assistant",
                        content: video.url.clone(),
                        video: Some(video),
                    },
                    finish_reason: "stop",
                });
            }
        }
        let videos: Vec<VideoFile> = choices
            .iter()
            .filter_map(|choice| choice.message.video.clone())
            .collect();
        Ok(ChatCompletion {
            id: first.id.chat_completion(),
            object: "chat.completion",
            created: first.created_at.seconds(),
            model: first.asked_model.clone(),
            system_fingerprint: first.fingerprint.clone(),
            choices,
            usage: usage(&self.tasks, &videos),
            incomplete: self.incomplete(),
        })
    }

    /// The choices without a film; `None` if there are none.
    fn incomplete(&self) -> Option<Vec<MissingChoice>> {
        let tasks = self.tasks.iter().zip(0..);
        let missing = tasks.filter(|(task, _)| self.playable(task).is_none());
        let missing: Vec<MissingChoice> = missing
            .map(|(task, index)| missing_choice(task, index))
            .collect();
        (!missing.is_empty()).then_some(missing)
    }

    /// The completion as a stream of chunks, starting at once. If the request joined an order, the
    /// stream starts with the current state.
    fn into_stream(
        self,
        include_usage: bool,
        is_repeated: bool,
        client_guard: Arc<ClientGuard>,
    ) -> impl Stream<Item = Event> {
        async_stream::stream! {
            let mut response = self;
            let Some(mut chunk) = response.blank_chunk(include_usage) else { return };
            // All tasks are followed at once, so that each choice shows its progress as it happens.
            // More events of a task are requested only when its last ones were sent, so those of
            // one choice stay in order.
            let mut following = FuturesUnordered::new();
            for index in 0..response.tasks.len() {
                let delta = ChunkDelta { role: Some("assistant"), ..ChunkDelta::default() };
                yield data(&choice_chunk(&chunk, index, delta, None));
                let task = &response.tasks[index];
                // A request that joined an order gets the latest state, not the whole history.
                let seq = if is_repeated { task.event_seq.saturating_sub(1) } else { 0 };
                following.push(next_events(response.app.clone(), task.account, task.id, index, seq));
            }
            let mut videos = Vec::new();
            while let Some(batch) = following.next().await {
                let ChoiceEvents { index, task, events, seq } = match batch {
                    Ok(batch) => batch,
                    Err(error) => {
                        // The 200 is already sent, so the error is an event. `[DONE]` must not
                        // follow: it would say that the answer is complete.
                        yield response.failure(&error);
                        return;
                    }
                };
                let (account, id) = (task.account, task.id);
                for event in &events {
                    let status = event.state.name();
                    let chunk_task = ChunkTask { id: id.to_string(), status, progress: event.progress, error: None };
                    let choice = choice_chunk(&chunk, index, ChunkDelta::default(), None);
                    yield data(&ChatChunk { task: Some(chunk_task), ..choice });
                }
                // The task is read after its events. It may already have changed again, and the
                // event of that change is still to come.
                let has_ended = task.state.is_terminal() && task.event_seq <= seq;
                response.tasks[index] = task;
                if !has_ended {
                    following.push(next_events(response.app.clone(), account, id, index, seq));
                    continue;
                }
                let task = &response.tasks[index];
                // OpenAI's SDKs raise at an error at the top level of an event, and their caller
                // would lose the other videos. So the choice itself says why it has none. If no
                // video can be delivered, an error event follows below.
                let mut last_chunk = match response.playable(task) {
                    Some(video) => {
                        videos.push(video.clone());
                        let delta = ChunkDelta { content: Some(video.url.clone()), video: Some(video), role: None };
                        yield data(&choice_chunk(&chunk, index, delta, None));
                        choice_chunk(&chunk, index, ChunkDelta::default(), Some("stop"))
                    }
                    None if response.tasks.len() > 1 => response.failed_choice(&chunk, index, task),
                    None => continue,
                };
                if following.is_empty() {
                    last_chunk.incomplete = response.incomplete();
                }
                yield data(&last_chunk);
            }
            if let Err(error) = response.read_held_again().await {
                yield response.failure(&error);
                return;
            }
            // Called before the last chunks are sent, because no code here runs after the body's
            // end. It takes effect only once the body is written completely.
            client_guard.complete(intents::close_time(&response.tasks));
            if let Some(error) = response.no_video_error() {
                yield response.failure(&error);
                return;
            }
            if include_usage {
                chunk.usage = Some(Some(usage(&response.tasks, &videos)));
                yield data(&chunk);
            }
            yield Event::default().data("[DONE]");
        }
    }

    fn blank_chunk(&self, include_usage: bool) -> Option<ChatChunk> {
        let first = self.tasks.first()?;
        Some(ChatChunk {
            id: first.id.chat_completion(),
            object: "chat.completion.chunk",
            created: first.created_at.seconds(),
            model: first.asked_model.clone(),
            system_fingerprint: first.fingerprint.clone(),
            choices: Vec::new(),
            task: None,
            incomplete: None,
            usage: (include_usage && self.format.has_null_usage()).then_some(None),
            error: None,
        })
    }

    /// The last chunk of a choice without a film.
    fn failed_choice(&self, blank: &ChatChunk, index: usize, task: &Task) -> ChatChunk {
        let error = missing_error(task);
        let chunk_task = ChunkTask {
            id: task.id.to_string(),
            status: task.state.name(),
            progress: task.progress,
            error: Some(super::error::body(&error, &self.request_id).error),
        };
        ChatChunk {
            task: Some(chunk_task),
            ..choice_chunk(blank, index, ChunkDelta::default(), Some("error"))
        }
    }

    fn failure(&self, error: &Error) -> Event {
        let blank = self.blank_chunk(false);
        self.format
            .failure_event(blank.as_ref(), error, &self.request_id)
    }

    /// The film of a task that made one, unless the film is no longer stored.
    fn playable(&self, task: &Task) -> Option<VideoFile> {
        VideoFile::of_task(&self.links, task).filter(|video| !video.removed)
    }

    /// The error, if all tasks ended and no film can be delivered: a caller must not mistake an
    /// empty answer for a film.
    fn no_video_error(&self) -> Option<Error> {
        if self.tasks.iter().any(|task| self.playable(task).is_some()) {
            return None;
        }
        if let Some(error) = failure(&self.tasks) {
            return Some(error);
        }
        let produced = self.tasks.iter().filter(|task| task.output.is_some());
        let produced: Vec<&Task> = produced.collect();
        let first = produced.first()?;
        Some(video::link_expired(&produced).with_task(first.id))
    }
}

/// New events of a choice's task.
struct ChoiceEvents {
    /// Index of the choice and of its task.
    index: usize,
    /// The task, read after the events.
    task: Task,
    events: Vec<TaskEvent>,
    /// The number of the task's last event that is known.
    seq: u32,
}

/// The events of a choice's task after number `seq`; waits until there are some.
async fn next_events(
    app: App,
    account: AccountId,
    id: TaskId,
    index: usize,
    seq: u32,
) -> Result<ChoiceEvents, Error> {
    let (task, events) = tasks::next_events(&app, account, id, seq).await?;
    let seq = events.last().map_or(seq, |event| event.seq);
    Ok(ChoiceEvents {
        index,
        task,
        events,
        seq,
    })
}

/// A chunk about one choice.
fn choice_chunk(
    blank: &ChatChunk,
    index: usize,
    delta: ChunkDelta,
    finish_reason: Option<&'static str>,
) -> ChatChunk {
    let choice = ChunkChoice {
        index: u32::try_from(index).unwrap_or(u32::MAX),
        delta,
        finish_reason,
    };
    ChatChunk {
        choices: vec![choice],
        ..blank.clone()
    }
}

fn data(value: &impl serde::Serialize) -> Event {
    // The types of this module always serialise, and JSON has no bare line breaks.
    Event::default().json_data(value).unwrap_or_default()
}

fn still_running(task: &Task) -> Error {
    let state = if task.awaits_approval() {
        "The order waits for approval. Task"
    } else {
        "The video is not finished yet. Task"
    };
    let message = format!("{state} {} continues; see /v1/tasks/{}.", task.id, task.id);
    Error::retry_later(ErrorCode::StillRunning, message, 5).with_task(task.id)
}

/// The error, if all tasks ended without a result.
fn failure(tasks: &[Task]) -> Option<Error> {
    let failed_task = tasks.iter().find(|task| task.failure.is_some())?;
    let failure = intents::failure(tasks)?;
    Some(failure.to_error().with_task(failed_task.id))
}

/// Why a task that has ended delivers no film.
fn missing_error(task: &Task) -> Error {
    let error = match &task.failure {
        Some(failure) => failure.to_error(),
        None => video::link_expired(&[task]),
    };
    error.with_task(task.id)
}

fn missing_choice(task: &Task, index: u32) -> MissingChoice {
    let error = missing_error(task);
    MissingChoice {
        index,
        task_id: task.id.to_string(),
        code: error.code().name(),
        message: error.message(),
    }
}

fn usage(tasks: &[Task], videos: &[VideoFile]) -> ChatUsage {
    let prompt = match tasks.first().map(|task| &task.payload) {
        Some(TaskPayload::VideoV1(job)) => job.prompt.as_str(),
        _ => "",
    };
    let cost = tasks
        .iter()
        .map(Task::charged_or_reserved)
        .fold(MicroDollars::ZERO, MicroDollars::plus);
    // A message's content is the URL, so its tokens are those of the URL.
    let contents = videos.iter().map(|video| video.url.as_str());
    let mut usage = usage_of_texts(prompt, contents);
    usage.completion_tokens_details.video_seconds = videos.iter().map(|video| video.seconds).sum();
    usage.cost = dollars(cost);
    usage
}

/// The token usage of these texts, without video seconds and cost.
fn usage_of_texts<'a>(prompt: &str, contents: impl Iterator<Item = &'a str>) -> ChatUsage {
    let vocabulary = vocabulary();
    // The counts are informational: without the vocabulary they are 0, and the film is still
    // delivered.
    let count_tokens =
        |text: &str| vocabulary.map_or(0, |vocabulary| vocabulary.count(text) as u64);
    let prompt_tokens = count_tokens(prompt);
    let completion_tokens = contents.map(count_tokens).sum();
    ChatUsage {
        prompt_tokens,
        completion_tokens,
        total_tokens: prompt_tokens + completion_tokens,
        prompt_tokens_details: PromptDetails { cached_tokens: 0 },
        completion_tokens_details: CompletionDetails {
            reasoning_tokens: 0,
            video_seconds: 0.0,
        },
        cost: 0.0,
    }
}

/// The vocabulary for counting tokens.
fn vocabulary() -> Option<&'static tiktoken::CoreBpe> {
    tiktoken::get_encoding("o200k_base")
}
