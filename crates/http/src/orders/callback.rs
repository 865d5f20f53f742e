//! Where a request wants to be called when its task ends: one field by three names.

use utoipa::openapi::{RefOr, Schema};

use crate::fields::types::text;
use crate::fields::{FieldType, Fields, request};
use mediagate_core::domain::webhooks::Callback;
use mediagate_core::hooks::LONGEST_URL;
use mediagate_model::error::ErrorCode;

request! {
    /// Where to call when the task has ended; one of these.
    pub struct CallbackFields {
        /// An https address that is posted the task when it has ended.
        callback_url: Called,
        /// The same, as the music dialect names it.
        notify_hook: Called,
        /// The same.
        webhook_url: Called,
    }
}

impl CallbackFields {
    /// The one that is there; more than one is a fault.
    pub fn callback(self, body: &Fields<'_>) -> Option<Callback> {
        let named = [
            ("callback_url", self.callback_url),
            ("notify_hook", self.notify_hook),
            ("webhook_url", self.webhook_url),
        ];
        let mut named = named
            .into_iter()
            .filter_map(|(param, url)| Some(Callback { url: url?, param }));
        let first = named.next();
        for second in named {
            let message = "Say one of callback_url, notify_hook and webhook_url.";
            body.fault(second.param, ErrorCode::InvalidValue, message);
        }
        first
    }
}

/// The address to call; an empty one counts as absent.
pub struct Called;

impl FieldType for Called {
    type Value = String;

    fn read(body: &Fields<'_>, name: &str) -> Option<String> {
        body.filled_string(name, LONGEST_URL)
    }

    fn schema() -> RefOr<Schema> {
        text(LONGEST_URL).into()
    }
}
