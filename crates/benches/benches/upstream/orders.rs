//! Orders of videos, many in one transaction, past the part that speaks HTTP.

use mediagate_core::domain::idempotency::{self, Begun, Wanted};
use mediagate_core::domain::submit::{self, Draft};
use mediagate_model::ids::RequestId;
use mediagate_model::intent::Body;

use benches::{self, Gateway};

/// Most tasks that are ordered in one transaction.
const ORDER: usize = 500;

/// Orders that many videos of this model.
pub(crate) async fn place(gateway: &Gateway, model: &str, count: usize) {
    for first in (0..count).step_by(ORDER) {
        let new = (first..count.min(first + ORDER)).map(|_| benches::film(gateway, model, 4000));
        let request = RequestId::generate();
        let wanted = Wanted {
            body: Body {
                key: gateway.caller.key.id,
                fingerprint: request.as_str().to_owned(),
            },
            idempotency_key: None,
            tries: 0,
            is_new: std::sync::Arc::default(),
            line: mediagate_core::attendance::Line::default(),
        };
        let (app, caller) = (&gateway.app, &gateway.caller);
        let begun = idempotency::begin(app, caller, &wanted, false)
            .await
            .unwrap();
        let Begun::New(visit) = begun else {
            panic!("an intent that nobody had");
        };
        let draft = Draft {
            tasks: new
                .map(|new| submit::task(app, caller, &request, new))
                .collect(),
            ..Draft::default()
        };
        submit::accept(app, caller, &visit, draft).await.unwrap();
    }
}
