//! The requests that register a webhook endpoint and change it.

use serde_json::Value;
use strum::VariantArray as _;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

use super::callback::CallbackUrlField;
use super::{ApiOrder, OrderEndpoint};
use crate::fields::types::{BooleanField, RequiredField, TextField};
use crate::fields::{self, BodyFields, FieldType, request};
use mediagate_core::domain::webhooks::{EndpointChanges, NewEndpoint};
use mediagate_model::account::Scope;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::webhook::{EventType, SignatureScheme};

/// Longest description in characters.
const MAX_DESCRIPTION: usize = 1000;

request! {
    /// A new webhook endpoint.
    pub struct WebhookRequest {
        /// HTTPS URL that receives the events.
        url: RequiredField<CallbackUrlField>,
        /// Event types that the endpoint receives. Default: all.
        events: EventTypes,
        /// Display name, at most 1,000 characters.
        description: TextField<MAX_DESCRIPTION>,
        /// Signature scheme: `hmac` (default) or `ed25519`.
        scheme: SchemeName,
    }
}

request! {
    /// Changes to a webhook endpoint. Omitted fields stay unchanged.
    pub struct WebhookChange {
        /// HTTPS URL that receives the events.
        url: CallbackUrlField,
        /// Event types that the endpoint receives. Null for all.
        events: EventTypes,
        /// Display name, at most 1,000 characters.
        description: TextField<MAX_DESCRIPTION>,
        /// Whether the endpoint receives events.
        enabled: BooleanField,
    }
}

impl ApiOrder for NewEndpoint {
    const ENDPOINT: OrderEndpoint = OrderEndpoint {
        path: "/v1/webhooks",
        is_branded: false,
        scope: Scope::WebhooksManage,
    };
    type RequestBody = WebhookRequest;

    fn read(body: &Value) -> Result<Self, Error> {
        fields::read(body, |body| {
            let request = WebhookRequest::read(body);
            // An empty URL counts as absent when it is read, but as present for the required check.
            if body.value("url").and_then(Value::as_str) == Some("") {
                body.fault("url", ErrorCode::MissingField, "This field is required.");
            }
            if body.boolean("enabled") == Some(false) {
                let message = "A new endpoint is enabled. Disable it with PATCH.";
                body.fault("enabled", ErrorCode::UnsupportedValue, message);
            }
            Some(Self {
                url: request.url?,
                description: request.description.unwrap_or_default(),
                events: request.events,
                scheme: request.scheme.unwrap_or(SignatureScheme::Hmac),
            })
        })
    }
}

/// Reads a change.
pub fn read_change(body: &Value) -> Result<EndpointChanges, Error> {
    fields::read(body, |body| {
        let request = WebhookChange::read(body);
        if body.value("scheme").is_some() {
            let message = "The scheme of an endpoint cannot be changed. Register another endpoint.";
            body.fault("scheme", ErrorCode::UnsupportedValue, message);
        }
        // Null and absent differ here: null means all events, absent leaves them as they are.
        let is_all = body.members().get("events").is_some_and(Value::is_null);
        Some(EndpointChanges {
            url: request.url,
            description: request.description,
            events: is_all.then_some(None).or(request.events.map(Some)),
            enabled: request.enabled,
        })
    })
}

/// Event types, at least one.
pub struct EventTypes;

impl FieldType for EventTypes {
    type Value = Vec<EventType>;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<Vec<EventType>> {
        let items = body.array(name, EventType::VARIANTS.len())?;
        if items.is_empty() {
            let message = "Must have at least one event, or be omitted for all events.";
            body.fault(name, ErrorCode::InvalidValue, message);
        }
        let mut events = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let wrong = |code, message| body.fault_at(format!("{name}[{index}]"), code, message);
            match item.as_str().map(str::parse::<EventType>) {
                Some(Ok(event)) if !events.contains(&event) => events.push(event),
                Some(Ok(_)) => {}
                Some(Err(_)) => wrong(
                    ErrorCode::InvalidValue,
                    format!("Must be one of {}.", names().join(", ")),
                ),
                None => wrong(ErrorCode::InvalidType, "Must be a string.".to_owned()),
            }
        }
        Some(events)
    }

    fn schema() -> RefOr<Schema> {
        let item = ObjectBuilder::new().schema_type(Type::String);
        let item = item.enum_values(Some(names()));
        ArrayBuilder::new().items(item).min_items(Some(1)).into()
    }
}

fn names() -> Vec<&'static str> {
    EventType::VARIANTS
        .iter()
        .map(|event| event.name())
        .collect()
}

/// `hmac` or `ed25519`.
pub struct SchemeName;

impl FieldType for SchemeName {
    type Value = SignatureScheme;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<SignatureScheme> {
        let scheme = body.filled_string(name, 32)?.parse().ok();
        if scheme.is_none() {
            let message = "Must be \"hmac\" or \"ed25519\".";
            body.fault(name, ErrorCode::InvalidValue, message);
        }
        scheme
    }

    fn schema() -> RefOr<Schema> {
        let names = SignatureScheme::VARIANTS.iter().map(|scheme| scheme.name());
        let scheme = ObjectBuilder::new().schema_type(Type::String);
        scheme.enum_values(Some(names)).into()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_fault_names_its_field() {
        let cases = [
            ("url", json!(null), "url"),
            ("url", json!(""), "url"),
            ("url", json!(1), "url"),
            ("url", json!("x".repeat(2001)), "url"),
            ("events", json!([]), "events"),
            ("events", json!("test"), "events"),
            ("events", json!(["task.succeeded", "x"]), "events[1]"),
            ("events", json!([1]), "events[0]"),
            ("description", json!("x".repeat(1001)), "description"),
            ("scheme", json!("rsa"), "scheme"),
            ("enabled", json!(false), "enabled"),
            ("enabled", json!("no"), "enabled"),
        ];
        for (field, value, param) in cases {
            let mut body = json!({"url": "https://example.com/"});
            body[field] = value;
            let error = NewEndpoint::read(&body).unwrap_err();
            assert_eq!(error.param(), Some(param), "{body}");
        }
    }

    #[test]
    fn the_scheme_stays() {
        let error = read_change(&json!({"scheme": "ed25519"})).unwrap_err();
        assert_eq!(error.param(), Some("scheme"));
        assert!(read_change(&json!({"scheme": null})).is_ok());
    }

    #[test]
    fn absent_events_stay_and_null_means_all() {
        let events = |body: Value| read_change(&body).unwrap().events;
        assert_eq!(events(json!({})), None);
        assert_eq!(events(json!({"events": null})), Some(None));
        let changed = Some(Some(vec![EventType::TaskFailed]));
        assert_eq!(events(json!({"events": ["task.failed"]})), changed);
    }
}
