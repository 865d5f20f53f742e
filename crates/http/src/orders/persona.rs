//! The request to create a persona.

use std::sync::LazyLock;

use serde_json::{Value, json};
use utoipa::openapi::schema::Object;
use utoipa::openapi::{RefOr, Schema};

use super::terms::CostFields;
use super::{ApiOrder, OrderEndpoint, QuotableOrder};
use crate::fields::types::{BooleanField, RequiredField, TextField, text, texts};
use crate::fields::{self, BodyFields, FieldType, refuse_unknown, request};
use mediagate_core::app::App;
use mediagate_core::domain::personas::{MAX_CLIPS, NewPersona};
use mediagate_core::domain::quotes::QuotedOrder;
use mediagate_model::account::Scope;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::ClipId;

request! {
    /// A new persona.
    pub struct PersonaRequest {
        /// Id of the clip that the persona is made from.
        root_clip_id: RequiredField<RootClip>,
        /// Display name, 1–80 characters.
        name: RequiredField<PersonaName>,
        /// Description, at most 1,000 characters.
        description: TextField<1000>,
        /// Ids of 1–20 clips. Default: only the root clip.
        clips: PersonaClips,
        /// Whether the persona should be public. Default: false.
        is_public: BooleanField,
        + cost: CostFields,
    }
}

/// The declared fields.
static KNOWN_FIELDS: LazyLock<Object> = LazyLock::new(PersonaRequest::object);

impl ApiOrder for NewPersona {
    const ENDPOINT: OrderEndpoint = OrderEndpoint {
        path: "/persona/create",
        is_branded: true,
        scope: Scope::PersonaCreate,
    };
    type RequestBody = PersonaRequest;

    fn read(body: &Value) -> Result<Self, Error> {
        fields::read(body, |body| {
            refuse_unknown(body, &KNOWN_FIELDS);
            let request = PersonaRequest::read(body);
            Some(Self {
                root_clip: request.root_clip_id?,
                name: request.name?,
                description: request.description.unwrap_or_default(),
                clips: request.clips.unwrap_or_default(),
                is_public: request.is_public.unwrap_or(false),
                terms: request.cost.into_terms(),
            })
        })
    }

    fn identity(&self, _: &App) -> Option<Value> {
        Some(json!({
            "root_clip": self.root_clip,
            "name": self.name,
            "description": self.description,
            "clips": self.clips,
            "is_public": self.is_public,
        }))
    }
}

impl QuotableOrder for NewPersona {
    fn quote_subject(self) -> QuotedOrder {
        QuotedOrder::Persona(self)
    }
}

/// A clip's id; an empty text counts as a missing one.
pub struct RootClip;

impl FieldType for RootClip {
    type Value = ClipId;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<ClipId> {
        // An empty id counts as absent when it is read, but as present for the required check.
        if body.value(name).and_then(Value::as_str) == Some("") {
            let message = "This field is required.";
            body.fault(name, ErrorCode::MissingField, message);
        }
        body.id(name)
    }

    fn schema() -> RefOr<Schema> {
        text(100).min_length(Some(1)).into()
    }
}

/// A persona's name.
pub struct PersonaName;

impl FieldType for PersonaName {
    type Value = String;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<String> {
        let text = body.string(name, 80)?;
        if text.trim().is_empty() {
            let message = "Must have 1 to 80 characters.";
            body.fault(name, ErrorCode::InvalidValue, message);
        }
        Some(text)
    }

    fn schema() -> RefOr<Schema> {
        text(80).min_length(Some(1)).into()
    }
}

/// The clips of a persona, at least one.
pub struct PersonaClips;

impl FieldType for PersonaClips {
    type Value = Vec<ClipId>;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<Vec<ClipId>> {
        let items = body.array(name, MAX_CLIPS)?;
        if items.is_empty() {
            let message = format!("Must have 1 to {MAX_CLIPS} clips, or be omitted.");
            body.fault(name, ErrorCode::InvalidValue, message);
        }
        let mut ids = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let wrong = |code, message| body.fault_at(format!("{name}[{index}]"), code, message);
            match item.as_str().map(str::parse) {
                Some(Ok(id)) => ids.push(id),
                Some(Err(_)) => wrong(ErrorCode::InvalidValue, "Must be an id in UUID form."),
                None => wrong(ErrorCode::InvalidType, "Must be a string."),
            }
        }
        Some(ids)
    }

    fn schema() -> RefOr<Schema> {
        texts(MAX_CLIPS).min_items(Some(1)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0193a000-0000-7000-8000-000000000020";

    #[test]
    fn every_fault_names_its_field() {
        let cases = [
            ("root_clip_id", json!(null), "root_clip_id"),
            ("root_clip_id", json!(""), "root_clip_id"),
            ("root_clip_id", json!("x"), "root_clip_id"),
            ("name", json!(null), "name"),
            ("name", json!(" "), "name"),
            ("name", json!("x".repeat(81)), "name"),
            ("name", json!(5), "name"),
            ("description", json!("x".repeat(1001)), "description"),
            ("clips", json!([]), "clips"),
            ("clips", json!(vec![ID; 21]), "clips"),
            ("clips", json!(ID), "clips"),
            ("clips", json!(["x"]), "clips[0]"),
            ("clips", json!([ID, 1]), "clips[1]"),
            ("is_public", json!(1), "is_public"),
        ];
        for (field, value, param) in cases {
            let mut body = json!({"root_clip_id": ID, "name": "Voice"});
            body[field] = value;
            assert_eq!(
                NewPersona::read(&body).unwrap_err().param(),
                Some(param),
                "{body}"
            );
        }
    }
}
