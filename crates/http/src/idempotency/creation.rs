//! The steps of making something once that differ between the endpoints.

use std::sync::Arc;

use axum::response::Response;

use super::IntentAnswer;
use mediagate_core::intents::{ClientGuard, ExistingResult, IntentAttempt};
use mediagate_model::error::Error;
use mediagate_model::intent::StoredAnswer;

/// Something that is made once, however often its request is sent.
pub(crate) trait Creation {
    /// What is needed only to make it.
    type Order;
    /// What is made, as the response describes it.
    type Output;
    /// What the record of an intent keeps of the output.
    type Id: TryFrom<ExistingResult, Error = Error>;

    /// Makes it.
    async fn make(
        &self,
        order: Self::Order,
        attempt: &IntentAttempt,
    ) -> Result<CreationOutcome<Self::Output>, Error>;

    /// Loads what an earlier request made.
    async fn load(&self, id: Self::Id) -> Result<Self::Output, Error>;

    /// Describes the output to the client. `is_repeated` if an earlier request made it.
    async fn respond(
        self,
        output: Self::Output,
        client: &Arc<ClientGuard>,
        is_repeated: bool,
    ) -> Result<IntentAnswer, Error>;
}

/// What was made for a request, and whether it is already answered.
pub(crate) enum CreationOutcome<T> {
    /// The answer has to be built.
    Unanswered(T),
    /// The answer, which was stored together with the result.
    Answered(StoredAnswer),
    /// Nothing was made, and this response says so. If the request is repeated, it counts as new.
    NothingCreated(Response),
}
