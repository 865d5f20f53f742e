//! Task views, and the shape of all lists.

use serde::Serialize;
use utoipa::ToSchema;

use crate::http::wire::music::ClipView;
use crate::http::wire::videos::VideoFile;
use crate::model::money::Money;
use crate::model::task::Task;

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub struct List<T: ToSchema> {
    /// Always `list`.
    pub object: &'static str,
    /// The items, newest first by default.
    pub data: Vec<T>,
    /// Whether more items follow `last_id`.
    pub has_more: bool,
    /// Id of the first item.
    #[schema(required = true)]
    pub first_id: Option<String>,
    /// Id of the last item; pass it as `after` for the next page.
    #[schema(required = true)]
    pub last_id: Option<String>,
}

impl<T: ToSchema> List<T> {
    /// `id` returns an item's id.
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
    /// 0–100, never decreasing.
    pub progress: u8,
    /// Why it failed, or that it was cancelled.
    #[schema(required = true)]
    pub error: Option<TaskError>,
    /// Dollars: reserved while open, then charged.
    pub cost_usd: String,
    /// The task's money.
    pub billing: BillingView,
    /// When it was accepted.
    pub created_at: String,
    /// When a worker first took it.
    #[schema(required = true)]
    pub started_at: Option<String>,
    /// When it ended.
    #[schema(required = true)]
    pub finished_at: Option<String>,
    /// The result.
    #[schema(required = true)]
    pub output: Option<TaskOutput>,
    /// The request that created it.
    pub request_id: String,
    /// The caller's id for its end user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// The money of a task.
#[derive(Debug, Serialize, ToSchema)]
pub struct BillingView {
    /// `free`, `held`, `settled` or `released`.
    pub status: &'static str,
    /// Dollars held when it was accepted.
    pub reserved_usd: String,
    /// Dollars charged; null while held.
    #[schema(required = true)]
    pub charged_usd: Option<String>,
    /// Dollars released; null while held.
    #[schema(required = true)]
    pub refunded_usd: Option<String>,
    /// What is counted, as in the price list; null if free.
    #[schema(required = true)]
    pub unit: Option<&'static str>,
    /// Dollars per unit when the task was accepted.
    #[schema(required = true)]
    pub unit_price_usd: Option<String>,
    /// Units charged, or ordered while the money is held.
    #[schema(required = true)]
    pub quantity: Option<String>,
    /// What is missing if not everything was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
}

impl BillingView {
    pub fn new(task: &Task) -> Self {
        let bill = task.bill.as_ref();
        let tariff = task.tariff.as_ref();
        let is_over = matches!(task.money, Money::Settled | Money::Released);
        let price = match (bill, task.money) {
            (Some(bill), _) => bill.price,
            (None, Money::Held) => tariff.and_then(|tariff| tariff.price),
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
    /// Videos.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub videos: Vec<VideoFile>,
    /// Clips.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clips: Vec<ClipView>,
    /// What was understood of the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<Vec<String>>,
}
