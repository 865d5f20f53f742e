//! A task of any account, as an operator sees it.

use serde::Serialize;
use utoipa::ToSchema;

use crate::wire::webhooks::DeliverySummary;
use mediagate_core::records::Links;
use mediagate_core::records::attempt::AttemptView;
use mediagate_core::records::task::TaskView;
use mediagate_model::submission::{Submission, SubmissionEnd};
use mediagate_model::webhook::Delivery;

/// A task with its attempts and its webhook deliveries.
#[derive(Debug, Serialize, ToSchema)]
pub struct AdminTask {
    #[serde(flatten)]
    pub task: TaskView,
    /// The task's submissions to providers, oldest first. Tasks of embedded models have none.
    pub attempts: Vec<AttemptView>,
    /// The webhook deliveries of the task, including callbacks.
    pub deliveries: Vec<DeliverySummary>,
}

impl AdminTask {
    pub fn new(
        task: TaskView,
        links: &Links,
        attempts: &[(Submission, SubmissionEnd)],
        deliveries: &[Delivery],
    ) -> Self {
        let attempts = attempts.iter();
        let attempts = attempts.map(|(submission, end)| AttemptView::new(links, submission, end));
        Self {
            task,
            attempts: attempts.collect(),
            deliveries: deliveries.iter().map(DeliverySummary::new).collect(),
        }
    }
}
