//! Tasks in the gateway's own words, and the shape of all lists.

use serde::Serialize;
use utoipa::ToSchema;

use crate::http::wire::music::ClipView;
use crate::http::wire::videos::VideoFile;

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub struct List<T: ToSchema> {
    /// Always `list`.
    pub object: &'static str,
    /// The items, newest first unless asked otherwise.
    pub data: Vec<T>,
    /// Whether more follow behind `last_id`.
    pub has_more: bool,
    /// Id of the first item; pass it nowhere, it is for comparing.
    #[schema(required = true)]
    pub first_id: Option<String>,
    /// Id of the last item; pass it as `after` for the next page.
    #[schema(required = true)]
    pub last_id: Option<String>,
}

impl<T: ToSchema> List<T> {
    /// A page; `id` names an item.
    pub fn new(data: Vec<T>, has_more: bool, id: impl Fn(&T) -> String) -> Self {
        let (first_id, last_id) = (data.first().map(&id), data.last().map(&id));
        Self {
            object: "list",
            data,
            has_more,
            first_id,
            last_id,
        }
    }
}

/// A task as it is now.
#[derive(Debug, Serialize, ToSchema)]
pub struct TaskView {
    /// Names it.
    pub id: String,
    /// Always `task`.
    pub object: &'static str,
    /// `video` or `music`.
    pub kind: &'static str,
    /// The model that makes it.
    pub model: String,
    /// Who makes it.
    pub provider: String,
    /// `queued`, `running`, `succeeded`, `failed` or `cancelled`.
    pub status: &'static str,
    /// 0–100, never falling.
    pub progress: u8,
    /// Why it failed, or that it was cancelled.
    #[schema(required = true)]
    pub error: Option<TaskError>,
    /// What it costs in dollars: reserved while open, then settled.
    pub cost_usd: String,
    /// When it was accepted.
    pub created_at: String,
    /// When a worker first took it.
    #[schema(required = true)]
    pub started_at: Option<String>,
    /// When it ended.
    #[schema(required = true)]
    pub finished_at: Option<String>,
    /// What it made.
    #[schema(required = true)]
    pub output: Option<TaskOutput>,
    /// The request that made it.
    pub request_id: String,
    /// The caller's own name for its end user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// Why a task failed.
#[derive(Debug, Serialize, ToSchema)]
pub struct TaskError {
    /// Stable name, as in the errors of requests.
    pub code: &'static str,
    /// For people.
    pub message: String,
}

/// What a task made.
#[derive(Debug, Serialize, ToSchema)]
pub struct TaskOutput {
    /// Videos.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub videos: Vec<VideoFile>,
    /// Clips.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clips: Vec<ClipView>,
    /// What of the prompt was understood.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<Vec<String>>,
}
