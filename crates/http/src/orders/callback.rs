//! Callback URL of a task: one field with three names.

use utoipa::openapi::{RefOr, Schema};

use crate::fields::types::text;
use crate::fields::{BodyFields, FieldType, request};
use mediagate_core::domain::webhooks::callbacks::CallbackUrl;
use mediagate_core::webhook_client::LONGEST_URL;
use mediagate_model::error::ErrorCode;

request! {
    /// Callback URL. Set at most one of these fields.
    pub struct CallbackFields {
        /// HTTPS URL that receives the task by POST when the task has ended.
        callback_url: CallbackUrlField,
        /// Same as `callback_url`. The music API uses this name.
        notify_hook: CallbackUrlField,
        /// Same as `callback_url`.
        webhook_url: CallbackUrlField,
    }
}

impl CallbackFields {
    /// The callback that is set; more than one is a fault.
    pub fn single_callback(self, body: &BodyFields<'_>) -> Option<CallbackUrl> {
        let callbacks = [
            ("callback_url", self.callback_url),
            ("notify_hook", self.notify_hook),
            ("webhook_url", self.webhook_url),
        ];
        let mut callbacks = callbacks
            .into_iter()
            .filter_map(|(param, url)| Some(CallbackUrl { url: url?, param }));
        let first = callbacks.next();
        // Only one URL is called, so a second one would be silently ignored.
        for second in callbacks {
            let message = "Set only one of callback_url, notify_hook and webhook_url.";
            body.fault(second.param, ErrorCode::InvalidValue, message);
        }
        first
    }
}

/// The URL to call; an empty one counts as absent.
pub struct CallbackUrlField;

impl FieldType for CallbackUrlField {
    type Value = String;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<String> {
        body.filled_string(name, LONGEST_URL)
    }

    fn schema() -> RefOr<Schema> {
        text(LONGEST_URL).into()
    }
}
