//! A task of any kind, as `GET /v1/tasks/{id}` and webhooks show it.

use serde::Serialize;
use utoipa::ToSchema;

use crate::records::Links;
use crate::records::input::TaskInput;
use crate::records::music::ClipView;
use crate::records::video::VideoFile;
use mediagate_model::attribution::Metadata;
use mediagate_model::clock::Timestamp;
use mediagate_model::media::Asset;
use mediagate_model::money::ChargeState;
use mediagate_model::music::Clip;
use mediagate_model::task::{Task, TaskApproval, TaskPayload, TaskResult, TaskState};

/// A task in its current state.
#[derive(Debug, Serialize, ToSchema)]
pub struct TaskView {
    /// The task's id.
    pub id: String,
    /// Always `task`.
    pub object: &'static str,
    /// `video` or `music`.
    pub kind: &'static str,
    /// The model.
    pub model: String,
    /// The provider.
    pub provider: String,
    /// `queued`, `running`, `succeeded`, `failed` or `cancelled`.
    pub status: &'static str,
    /// Progress in percent, 0–100. It never decreases.
    pub progress: u8,
    /// Whether `progress` is estimated from the model's usual time because the provider reports
    /// none.
    pub progress_estimated: bool,
    /// Why the task failed, or that it was cancelled.
    #[schema(required = true)]
    pub error: Option<TaskError>,
    /// Cost in US dollars: the reserved amount while the task is open, then the amount charged.
    pub cost_usd: String,
    /// Details of the cost.
    pub billing: BillingView,
    /// Time when the task was accepted.
    pub created_at: String,
    /// Time when a worker started the task.
    #[schema(required = true)]
    pub started_at: Option<String>,
    /// Time when the task ended.
    #[schema(required = true)]
    pub finished_at: Option<String>,
    /// The input of the task. Only for a key that may read; for others its fields are null or absent.
    pub input: TaskInput,
    /// The API key that created the task.
    pub key: TaskKey,
    /// URL of a frame of the video or of the song's cover. Null if there is none or it was removed.
    #[schema(required = true)]
    pub poster_url: Option<String>,
    /// The result.
    #[schema(required = true)]
    pub output: Option<TaskOutput>,
    /// The approval that the order needs, or needed. Absent if it needs none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalView>,
    /// Id of the request that created the task.
    pub request_id: String,
    /// Id of an earlier task, if this one repeats its order: the same API key ordered the same
    /// within 24 hours before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identical_task: Option<String>,
    /// Callback URL. Only for a key that may read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback_url: Option<String>,
    /// The caller's id of its end user. Only for a key that may read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The caller's own names and values for the order. Only for a key that may read.
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    #[schema(value_type = std::collections::BTreeMap<String, String>, required = false)]
    pub metadata: Metadata,
    /// The handle of the account. Present only for operators, in `/v1/admin/tasks`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
}

/// The approval of an order. Its price is the task's `billing.reserved_usd`.
#[derive(Debug, Serialize, ToSchema)]
pub struct ApprovalView {
    /// `pending`, `approved`, `rejected`, `expired` or `cancelled`.
    pub state: &'static str,
    /// Time at which the task ends if nobody has decided.
    pub expires_at: String,
    /// Time at which it was approved, rejected or cancelled, or expired. Null while it is pending.
    #[schema(required = true)]
    pub decided_at: Option<String>,
}

/// The API key of a task.
#[derive(Debug, Serialize, ToSchema)]
pub struct TaskKey {
    /// The key's id.
    pub id: String,
    /// The key's name.
    pub name: String,
}

/// What a task's record shows in addition to the task itself.
#[derive(Debug, Default)]
pub struct TaskExtras {
    /// The name of the key that ordered it.
    pub key_name: String,
    /// The pictures it was given.
    pub pictures: Vec<Asset>,
    /// The clips it was given.
    pub sources: Vec<Clip>,
    /// The clips that it makes.
    pub clips: Vec<Clip>,
}

/// The cost of a task.
#[derive(Debug, Serialize, ToSchema)]
pub struct BillingView {
    /// `free`, `held`, `settled` or `released`.
    pub status: &'static str,
    /// Amount held when the task was accepted, in US dollars.
    pub reserved_usd: String,
    /// Amount charged, in US dollars. Null while the money is held.
    #[schema(required = true)]
    pub charged_usd: Option<String>,
    /// Amount released, in US dollars. Null while the money is held.
    #[schema(required = true)]
    pub refunded_usd: Option<String>,
    /// Billing unit, as in the price list. Null if free.
    #[schema(required = true)]
    pub unit: Option<&'static str>,
    /// Price per unit when the task was accepted, in US dollars.
    #[schema(required = true)]
    pub unit_price_usd: Option<String>,
    /// Number of units charged, or requested while the money is held.
    #[schema(required = true)]
    pub quantity: Option<String>,
    /// Which results are missing, if the task produced only a part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
}

impl TaskView {
    pub fn new(links: &Links, task: &Task, extras: &TaskExtras) -> Self {
        // Earlier versions kept it only in the order.
        let user = task.attribution.user.as_ref().or(match &task.payload {
            TaskPayload::VideoV1(job) => job.options.user.as_ref(),
            TaskPayload::StemsV1(_) | TaskPayload::SongV1(_) => None,
        });
        let metadata = links
            .shows_made()
            .then(|| task.attribution.metadata.clone());
        // A key may cancel a task without being allowed to read it.
        let input = if links.shows_made() {
            TaskInput::new(links, &task.payload, extras)
        } else {
            TaskInput::default()
        };
        Self {
            id: task.id.to_string(),
            object: "task",
            kind: task.kind().name(),
            model: task.model.clone(),
            provider: links.shown_provider(task),
            status: task.state.name(),
            progress: task.progress,
            progress_estimated: task.progress_is_guess && task.state != TaskState::Succeeded,
            error: task.failure.as_ref().map(|failure| TaskError {
                code: failure.code.name(),
                message: failure.message.clone(),
            }),
            cost_usd: task.cost.to_string(),
            billing: BillingView::new(task),
            created_at: task.created_at.rfc3339(),
            started_at: task.started_at.map(Timestamp::rfc3339),
            finished_at: task.finished_at.map(Timestamp::rfc3339),
            input,
            key: TaskKey {
                id: task.key.to_string(),
                name: extras.key_name.clone(),
            },
            poster_url: poster(links, task, &extras.clips),
            output: TaskOutput::new(links, task, &extras.clips),
            approval: task.approval.map(ApprovalView::new),
            request_id: task.request.id.to_string(),
            identical_task: task.identical_task.map(|id| id.to_string()),
            callback_url: links.callback(task).filter(|_| links.shows_made()),
            user: user.filter(|_| links.shows_made()).cloned(),
            metadata: metadata.unwrap_or_default(),
            account: None,
        }
    }
}

impl ApprovalView {
    fn new(approval: TaskApproval) -> Self {
        Self {
            state: approval.state.name(),
            expires_at: approval.expires_at.rfc3339(),
            decided_at: approval.decided_at.map(Timestamp::rfc3339),
        }
    }
}

/// The URL of the picture that represents a result.
fn poster(links: &Links, task: &Task, clips: &[Clip]) -> Option<String> {
    let url = match task.output.as_ref()? {
        TaskResult::VideoV1(_) | TaskResult::LinkV1(_) => {
            VideoFile::of_task(links, task)?.poster_url?
        }
        TaskResult::ClipsV1 { clips: ids } => {
            let first = clips.iter().find(|clip| ids.first() == Some(&clip.id))?;
            let [_, _, cover] = links.made_clip_urls(first);
            cover
        }
    };
    (!url.is_empty()).then_some(url)
}

impl TaskOutput {
    fn new(links: &Links, task: &Task, clips: &[Clip]) -> Option<Self> {
        let output = task.output.as_ref().filter(|_| links.shows_made())?;
        Some(match output {
            TaskResult::VideoV1(video) => Self {
                videos: VideoFile::of_task(links, task).into_iter().collect(),
                clips: Vec::new(),
                direction: Some(video.direction.clone()),
                not_understood: Some(video.not_understood.to_vec()),
            },
            TaskResult::LinkV1(_) => Self {
                videos: VideoFile::of_task(links, task).into_iter().collect(),
                clips: Vec::new(),
                direction: Some(Vec::new()),
                not_understood: Some(Vec::new()),
            },
            TaskResult::ClipsV1 { .. } => Self {
                videos: Vec::new(),
                clips: clips
                    .iter()
                    .map(|clip| ClipView::new(clip, links))
                    .collect(),
                direction: None,
                not_understood: None,
            },
        })
    }
}

impl BillingView {
    pub fn new(task: &Task) -> Self {
        let bill = task.bill.as_ref();
        let tariff = task.tariff.as_ref();
        let is_over = matches!(task.money, ChargeState::Settled | ChargeState::Released);
        // The route that makes the result is not known before the bill, so until then the model's
        // price is shown.
        let price = match (bill, task.money) {
            (Some(bill), _) => bill.price,
            (None, ChargeState::Held) => tariff.and_then(|tariff| tariff.price),
            (None, _) => None,
        };
        let quantity = bill
            .map(|bill| bill.quantity)
            .or(tariff.map(|tariff| tariff.asked));
        let count = price
            .zip(quantity)
            .map(|(price, quantity)| price.units(quantity, 1));
        Self {
            status: task.money.name(),
            reserved_usd: task.reserved.to_string(),
            charged_usd: is_over.then(|| task.cost.to_string()),
            refunded_usd: is_over.then(|| task.reserved.minus(task.cost).to_string()),
            unit: price.map(|price| price.unit.name()),
            unit_price_usd: price.map(|price| price.per_unit.to_string()),
            quantity: count,
            partial: bill.and_then(|bill| bill.partial.clone()),
        }
    }
}

/// Why a task failed.
#[derive(Debug, Serialize, ToSchema)]
pub struct TaskError {
    /// Stable error code.
    pub code: &'static str,
    /// Human-readable message.
    pub message: String,
}

/// The result of a task.
#[derive(Debug, Serialize, ToSchema)]
pub struct TaskOutput {
    /// The videos.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub videos: Vec<VideoFile>,
    /// The clips.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clips: Vec<ClipView>,
    /// What the model understood of the prompt, as the film shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<Vec<String>>,
    /// Words of the prompt that had no effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_understood: Option<Vec<String>>,
}
