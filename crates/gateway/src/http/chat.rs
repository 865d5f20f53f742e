//! `POST /v1/chat/completions`: videos in the dialect of chat.

use std::convert::Infallible;

use axum::Json;
use axum::extract::State;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;

use crate::app::App;
use crate::domain::{tasks, video};
use crate::error::{Error, ErrorCode};
use crate::http::auth::{Allowed, VideoCreate};
use crate::http::base::Base;
use crate::http::body::JsonBody;
use crate::http::tasks::{about, keep_alive, video_file};
use crate::http::wire::chat::{
    ChatAnswer, ChatChoice, ChatChunk, ChatCompletion, ChatUsage, ChunkChoice, ChunkDelta,
    ChunkTask, CompletionDetails, PromptDetails,
};
use crate::http::wire::chat_orders::{Chat, ChatRequest, read};
use crate::http::wire::fields;
use crate::http::wire::videos::VideoFile;
use crate::ids::RequestId;
use crate::model::money::Micros;
use crate::model::task::{Payload, Task};

/// Make videos from a prompt and pictures.
#[utoipa::path(post, path = "/v1/chat/completions", tag = "video", request_body = ChatRequest,
    responses((status = 200, description = "The videos; with `stream`, server-sent chunks", content(
        (ChatCompletion = "application/json"), (ChatChunk = "text/event-stream")))))]
pub(super) async fn complete(
    allowed: Allowed<VideoCreate>,
    request_id: RequestId,
    base: Base,
    State(app): State<App>,
    JsonBody(body): JsonBody,
) -> Result<Response, Error> {
    let Chat {
        order,
        stream,
        include_usage,
    } = fields::read(&body, read)?;
    let accepted = video::order(&app, &allowed.caller, &request_id, order).await?;
    let Some(first) = accepted.first() else {
        return Err(Error::internal("an order without a task"));
    };
    let headers = about(first.id);
    let answer = Answer {
        app,
        base,
        request_id,
        tasks: accepted,
    };
    if stream {
        let events = Sse::new(answer.stream(include_usage)).keep_alive(keep_alive());
        return Ok((headers, events).into_response());
    }
    let completion = answer.wait().await?;
    Ok((headers, Json(completion)).into_response())
}

/// The answer to an order that was accepted.
struct Answer {
    app: App,
    base: Base,
    request_id: RequestId,
    tasks: Vec<Task>,
}

impl Answer {
    /// Waits for all videos, within the limit that the settings name.
    async fn wait(mut self) -> Result<ChatCompletion, Error> {
        let deadline = tokio::time::Instant::now() + self.app.config.wait_limit;
        for task in &mut self.tasks {
            let left = deadline.saturating_duration_since(tokio::time::Instant::now());
            *task = tasks::wait(&self.app, task.account, task.id, left).await?;
            check(task)?;
        }
        let videos: Vec<VideoFile> = self
            .tasks
            .iter()
            .filter_map(|task| self.file(task))
            .collect();
        let usage = usage(&self.tasks, &videos);
        let choices = videos
            .into_iter()
            .zip(0..)
            .map(|(video, index)| ChatChoice {
                index,
                message: ChatAnswer {
                    role: "assistant",
                    content: video.url.clone(),
                    video,
                },
                finish_reason: "stop",
            });
        let choices = choices.collect();
        let first = self
            .tasks
            .first()
            .ok_or_else(|| Error::internal("an order without a task"))?;
        Ok(ChatCompletion {
            id: first.id.chat_completion(),
            object: "chat.completion",
            created: first.created_at.seconds(),
            model: first.asked_model.clone(),
            system_fingerprint: first.fingerprint.clone(),
            choices,
            usage,
        })
    }

    /// The same as chunks, from the first at once to the end.
    fn stream(self, include_usage: bool) -> impl Stream<Item = Result<Event, Infallible>> {
        async_stream::stream! {
            let mut answer = self;
            let Some(mut chunk) = answer.blank_chunk(include_usage) else { return };
            for index in 0..u32::try_from(answer.tasks.len()).unwrap_or(0) {
                let delta = ChunkDelta { role: Some("assistant"), ..ChunkDelta::default() };
                chunk.choices = vec![ChunkChoice { index, delta, finish_reason: None }];
                yield Ok(data(&chunk));
            }
            let mut videos = Vec::new();
            for number in 0..answer.tasks.len() {
                let index = u32::try_from(number).unwrap_or(0);
                let mut seq = 0;
                // Every change of the task is a chunk, up to its end.
                loop {
                    let (id, account) = (answer.tasks[number].id, answer.tasks[number].account);
                    let (task, events) = match tasks::next_events(&answer.app, account, id, seq).await {
                        Ok(found) => found,
                        Err(error) => {
                            yield Ok(answer.failure(&error));
                            return;
                        }
                    };
                    for event in &events {
                        seq = event.seq;
                        let status = event.state.name();
                        let shown = ChunkTask { id: id.to_string(), status, progress: event.progress };
                        let choice = ChunkChoice { index, delta: ChunkDelta::default(), finish_reason: None };
                        yield Ok(data(&ChatChunk { choices: vec![choice], task: Some(shown), ..chunk.clone() }));
                    }
                    let ended = task.state.is_terminal() && task.event_seq <= seq;
                    answer.tasks[number] = task;
                    if ended {
                        break;
                    }
                }
                let task = &answer.tasks[number];
                let Some(video) = check(task).ok().and_then(|()| answer.file(task)) else {
                    let error = check(task).err().unwrap_or_else(|| Error::internal("a success without a video"));
                    yield Ok(answer.failure(&error));
                    return;
                };
                videos.push(video.clone());
                let delta = ChunkDelta { content: Some(video.url.clone()), video: Some(video), role: None };
                chunk.choices = vec![ChunkChoice { index, delta, finish_reason: None }];
                yield Ok(data(&chunk));
                chunk.choices = vec![ChunkChoice { index, delta: ChunkDelta::default(), finish_reason: Some("stop") }];
                yield Ok(data(&chunk));
            }
            if include_usage {
                chunk.choices = Vec::new();
                chunk.usage = Some(Some(usage(&answer.tasks, &videos)));
                yield Ok(data(&chunk));
            }
            yield Ok(Event::default().data("[DONE]"));
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
            usage: include_usage.then_some(None),
        })
    }

    fn failure(&self, error: &Error) -> Event {
        super::error::log(error);
        data(&super::error::body(error, &self.request_id))
    }

    fn file(&self, task: &Task) -> Option<VideoFile> {
        video_file(&self.app, &self.base, task)
    }
}

fn data(value: &impl serde::Serialize) -> Event {
    // The shapes of this module always serialise, and JSON has no bare line breaks.
    Event::default().json_data(value).unwrap_or_default()
}

/// Whether a task has a video to show; otherwise what its caller is told.
fn check(task: &Task) -> Result<(), Error> {
    if !task.state.is_terminal() {
        let message = format!(
            "The video is still being made. The task {} goes on; ask for it at /v1/tasks/{}.",
            task.id, task.id
        );
        return Err(Error::later(ErrorCode::StillRunning, message, 5).of_task(task.id));
    }
    match &task.failure {
        Some(failure) => Err(failure.to_error().of_task(task.id)),
        None => Ok(()),
    }
}

fn usage(tasks: &[Task], videos: &[VideoFile]) -> ChatUsage {
    let tokens = |text: &str| bpe_openai::o200k_base().count(text) as u64;
    let prompt_tokens = match tasks.first().map(|task| &task.payload) {
        Some(Payload::VideoV1(job)) => tokens(&job.prompt),
        _ => 0,
    };
    let completion_tokens = videos.iter().map(|video| tokens(&video.url)).sum();
    let cost = tasks
        .iter()
        .fold(Micros::ZERO, |sum, task| sum.plus(task.cost));
    ChatUsage {
        prompt_tokens,
        completion_tokens,
        total_tokens: prompt_tokens + completion_tokens,
        prompt_tokens_details: PromptDetails { cached_tokens: 0 },
        completion_tokens_details: CompletionDetails {
            reasoning_tokens: 0,
            video_seconds: videos.iter().map(|video| video.seconds).sum(),
        },
        cost: dollars(cost),
    }
}

/// The one place where money becomes a floating-point number: the chat dialect
/// wants it so.
#[expect(clippy::cast_precision_loss, reason = "shown, never counted with")]
fn dollars(cost: Micros) -> f64 {
    cost.get() as f64 / 1e6
}
