//! The separation of a clip, as ordered through the music API.

use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

use super::callback::CallbackFields;
use super::music::MAX_TITLE;
use super::terms::TermsFields;
use crate::fields::types::{BooleanField, IdField, OptionalText, TextField, text};
use crate::fields::{BodyFields, FieldType, request};
use mediagate_core::domain::music::SeparationOrder;
use mediagate_core::records::music::STEM_TYPE;
use mediagate_model::attribution::MAX_USER;
use mediagate_model::error::ErrorCode;
use mediagate_model::ids::{ClipId, TaskId};
use mediagate_model::task::SeparationMode;

request! {
    /// The fields of a separation.
    #[expect(dead_code, reason = "some fields are only checked")]
    pub(super) struct SeparationFields {
        /// Id of the clip to separate.
        continue_clip_id: SourceClip,
        /// `two` (default) separates the requested stem from the rest. `twelve` separates all stems
        /// that the model supports.
        stem_task: StemSplit,
        /// Must be 91 if present.
        stem_type_id: StemType,
        /// The music model. `chirp-*` names are also accepted.
        mv: OptionalText<200>,
        /// Id of the task that made the clip. Validated if present.
        task_id: IdField<TaskId>,
        /// The stem to extract. Default: `Vocals`. With `two` it may also be `Instrumental`.
        /// `Two` and `Twelve` do not select a single stem.
        stem_type_group_name: OptionalText<64>,
        /// Title. Default: the clip's title.
        title: OptionalText<MAX_TITLE>,
        /// Stored with the task. Clients usually send `TEXT`.
        generation_type: TextField<64>,
        /// Stored with the task. Has no effect on a separation.
        make_instrumental: BooleanField,
        /// Your id of the end user.
        user: OptionalText<MAX_USER>,
    }
}

pub(super) fn order(body: &BodyFields<'_>, request: SeparationFields) -> Option<SeparationOrder> {
    let callback = CallbackFields::read(body).single_callback(body);
    let terms = TermsFields::read(body).into_terms();
    Some(SeparationOrder {
        model: request.mv,
        source: request.continue_clip_id?,
        source_task: request.task_id,
        stem_task: request.stem_task.unwrap_or(SeparationMode::Two),
        group_name: request.stem_type_group_name,
        title: request.title,
        generation_type: request.generation_type.unwrap_or_default(),
        make_instrumental: request.make_instrumental.unwrap_or(false),
        callback,
        terms,
        user: request.user,
    })
}

/// The clip to separate, which is required.
pub(super) struct SourceClip;

impl FieldType for SourceClip {
    type Value = ClipId;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<ClipId> {
        if super::music::is_absent(body, name) {
            let message = "This field is required for gen_stem.";
            body.fault(name, ErrorCode::MissingField, message);
        }
        body.id(name)
    }

    fn schema() -> RefOr<Schema> {
        text(100).min_length(Some(1)).into()
    }
}

/// How many tracks a clip is separated into.
pub(super) struct StemSplit;

impl FieldType for StemSplit {
    type Value = SeparationMode;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<SeparationMode> {
        match body.filled_string(name, 64)?.as_str() {
            "two" => Some(SeparationMode::Two),
            "twelve" => Some(SeparationMode::Twelve),
            _ => {
                let message = "Must be \"two\" or \"twelve\".";
                body.fault(name, ErrorCode::InvalidValue, message);
                None
            }
        }
    }

    fn schema() -> RefOr<Schema> {
        let split = ObjectBuilder::new().schema_type(Type::String);
        split.enum_values(Some(["two", "twelve", ""])).into()
    }
}

/// The only type of separation.
pub(super) struct StemType;

impl FieldType for StemType {
    type Value = ();

    fn read(body: &BodyFields<'_>, name: &str) -> Option<()> {
        if body.integer(name, i64::MIN..=i64::MAX)? != STEM_TYPE {
            let message = format!(
                "Must be {STEM_TYPE} or omitted. Select the stem with stem_type_group_name."
            );
            body.fault(name, ErrorCode::InvalidValue, message);
        }
        None
    }

    fn schema() -> RefOr<Schema> {
        let number = ObjectBuilder::new().schema_type(Type::Integer);
        number.enum_values(Some([STEM_TYPE])).into()
    }
}
