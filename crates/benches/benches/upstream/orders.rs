//! Orders of videos, many in one transaction, past the part that speaks HTTP.

use mediagate_core::domain::task_acceptance::{self, TaskDraft};
use mediagate_core::intents::{IntentRequest, Lookup, PeerSocket};
use mediagate_model::ids::RequestId;
use mediagate_model::intent::RequestFingerprint;

use benches::{self, BenchGateway};

/// Most tasks that are ordered in one transaction.
const ORDER: usize = 500;

/// Orders that many videos of this model.
pub(crate) async fn place(gateway: &BenchGateway, model: &str, count: usize) {
    for first in (0..count).step_by(ORDER) {
        let new = (first..count.min(first + ORDER)).map(|_| benches::film(gateway, model, 4000));
        let request = RequestId::generate();
        let wanted = IntentRequest {
            account: gateway.caller.account.id,
            body: RequestFingerprint {
                key: gateway.caller.key.id,
                fingerprint: request.as_str().to_owned(),
            },
            idempotency_key: None,
            is_retry: false,
            socket: PeerSocket::default(),
        };
        let (app, caller) = (&gateway.app, &gateway.caller);
        let Lookup::New(visit) = app.intents.begin(&wanted, false).await.unwrap() else {
            panic!("an intent that nobody had");
        };
        let draft = TaskDraft {
            tasks: new
                .map(|new| task_acceptance::task(app, caller, &request, new))
                .collect(),
            ..TaskDraft::default()
        };
        task_acceptance::accept(app, caller, &visit, draft)
            .await
            .unwrap();
    }
}
