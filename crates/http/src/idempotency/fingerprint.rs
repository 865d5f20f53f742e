//! Request fingerprints: equal for two requests that ask for the same thing, however they are
//! written. They are taken over the order that was read, or over the body where an order has no
//! [identity](ApiOrder::identity).

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::body::JsonBody;
use crate::orders::ApiOrder;
use mediagate_core::app::App;
use mediagate_core::domain::assets;
use mediagate_core::limits::QuotaShare;
use mediagate_model::error::Error;
use mediagate_model::ids::IntentId;

/// A request's fingerprint while it is computed.
pub(crate) struct Fingerprint(Sha256);

impl Fingerprint {
    /// The fingerprint of an order of this type. The brand in its endpoint makes no difference.
    pub(crate) fn for_order<O: ApiOrder>() -> Self {
        let mut hash = Sha256::new();
        hash.update(b"POST ");
        hash.update(O::ENDPOINT.path.as_bytes());
        Self(hash)
    }

    /// The fingerprint of a request with this method to this path.
    pub(crate) fn for_path(method: &str, path: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(format!("{method} {path}"));
        Self(hash)
    }

    /// Makes the fingerprint unique, so that no other request has it.
    pub(crate) fn make_unique(mut self) -> Self {
        self.0.update(IntentId::new().to_string());
        self
    }

    /// Adds JSON to the fingerprint; the order of members makes no difference.
    pub(crate) fn with_json(mut self, value: &Value) -> Self {
        self.add(value);
        self
    }

    /// An order in JSON, and its fingerprint; keep the share of memory as long as the order.
    pub(crate) async fn read<O: ApiOrder>(
        app: &App,
        body: JsonBody,
    ) -> Result<(O, Self, QuotaShare), Error> {
        let owned_app = app.clone();
        let parse = move |body: &Value| {
            let order = O::read(body)?;
            let fingerprint = Self::of(&owned_app, &order, body);
            Ok((order, fingerprint))
        };
        let ((order, fingerprint), memory) = body.read(app, parse).await?;
        Ok((order, fingerprint, memory))
    }

    /// The fingerprint of an order that was read from `body`.
    pub(crate) fn of<O: ApiOrder>(app: &App, order: &O, body: &Value) -> Self {
        let identity = order.identity(app);
        Self::for_order::<O>().with_json(identity.as_ref().unwrap_or(body))
    }

    /// Adds a file to the fingerprint, by its digest.
    pub(crate) fn with_file(mut self, digest: &[u8]) -> Self {
        self.0.update(b"f");
        self.0.update(digest);
        self
    }

    fn add(&mut self, value: &Value) {
        match value {
            Value::Object(members) => {
                let mut names: Vec<&String> = members.keys().collect();
                names.sort_unstable();
                self.0.update(b"{");
                self.0.update((names.len() as u64).to_le_bytes());
                for name in names {
                    self.add_text(name);
                    self.add(&members[name]);
                }
            }
            Value::Array(items) => {
                self.0.update(b"[");
                self.0.update((items.len() as u64).to_le_bytes());
                for item in items {
                    self.add(item);
                }
            }
            Value::String(text) => {
                self.0.update(b"s");
                self.add_text(text);
            }
            Value::Number(number) => {
                self.0.update(b"n");
                self.add_text(&number.to_string());
            }
            Value::Bool(true) => self.0.update(b"t"),
            Value::Bool(false) => self.0.update(b"u"),
            Value::Null => self.0.update(b"0"),
        }
    }

    fn add_text(&mut self, text: &str) {
        self.0.update((text.len() as u64).to_le_bytes());
        self.0.update(text.as_bytes());
    }

    pub(crate) fn finish(self) -> String {
        assets::hex(&self.0.finalize())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::orders::chat::ChatOrder;
    use mediagate_core::domain::video::VideoOrder;

    fn fingerprint_of(value: &Value) -> Fingerprint {
        Fingerprint::for_order::<VideoOrder>().with_json(value)
    }

    fn fingerprint(value: &Value) -> String {
        fingerprint_of(value).finish()
    }

    #[test]
    fn the_order_of_members_makes_no_difference_and_everything_else_does() {
        let first: Value = serde_json::from_str(r#"{"a":1,"b":{"c":[1,2],"d":null}}"#).unwrap();
        let reordered: Value =
            serde_json::from_str(r#" {"b":{"d":null,"c":[1,2]}, "a":1} "#).unwrap();
        assert_eq!(fingerprint(&first), fingerprint(&reordered));
        for other in [
            json!({"a": 1, "b": {"c": [2, 1], "d": null}}),
            json!({"a": "1", "b": {"c": [1, 2], "d": null}}),
            json!({"a": 1, "b": {"c": [1, 2]}}),
            json!({"ab": 1}),
            json!([]),
        ] {
            assert_ne!(fingerprint(&first), fingerprint(&other), "{other}");
        }
        let other_order = Fingerprint::for_order::<ChatOrder>()
            .with_json(&first)
            .finish();
        assert_ne!(fingerprint(&first), other_order);
    }

    proptest! {
        #[test]
        fn different_texts_have_different_fingerprints(first in ".{0,20}", second in ".{0,20}") {
            let (a, b) = (json!({ "prompt": first }), json!({ "prompt": second }));
            prop_assert_eq!(first == second, fingerprint(&a) == fingerprint(&b));
        }
    }
}
