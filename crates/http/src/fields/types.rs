//! The field types that several requests share.

use std::marker::PhantomData;
use std::str::FromStr;

use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

use super::BodyFields;
use super::request::{FieldType, SchemaList};
use mediagate_model::error::ErrorCode;

/// A field that is required.
pub struct RequiredField<F>(PhantomData<F>);

impl<F: FieldType> FieldType for RequiredField<F> {
    type Value = F::Value;
    const IS_REQUIRED: bool = true;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<F::Value> {
        F::read(body, name)
    }

    fn schema() -> RefOr<Schema> {
        F::schema()
    }

    fn components(schemas: &mut SchemaList) {
        F::components(schemas);
    }
}

/// The schema of a text of at most `max_length` characters.
pub fn text(max_length: usize) -> ObjectBuilder {
    let text = ObjectBuilder::new().schema_type(Type::String);
    text.max_length(Some(max_length))
}

/// A text of at most `MAX` characters.
pub struct TextField<const MAX: usize>;

impl<const MAX: usize> FieldType for TextField<MAX> {
    type Value = String;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<String> {
        body.string(name, MAX)
    }

    fn schema() -> RefOr<Schema> {
        text(MAX).into()
    }
}

/// A text; an empty one counts as absent.
pub struct OptionalText<const MAX: usize>;

impl<const MAX: usize> FieldType for OptionalText<MAX> {
    type Value = String;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<String> {
        body.filled_string(name, MAX)
    }

    fn schema() -> RefOr<Schema> {
        text(MAX).into()
    }
}

/// A text; an empty one is a fault.
pub struct NonEmptyText<const MAX: usize>;

impl<const MAX: usize> FieldType for NonEmptyText<MAX> {
    type Value = String;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<String> {
        let text = body.string(name, MAX)?;
        if text.is_empty() {
            body.fault(name, ErrorCode::InvalidValue, "Must not be empty.");
        }
        Some(text)
    }

    fn schema() -> RefOr<Schema> {
        text(MAX).min_length(Some(1)).into()
    }
}

/// A text; one that is empty or only white space is a fault.
pub struct NonBlankText<const MAX: usize>;

impl<const MAX: usize> FieldType for NonBlankText<MAX> {
    type Value = String;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<String> {
        let text = body.string(name, MAX)?;
        if text.trim().is_empty() {
            body.fault(name, ErrorCode::InvalidValue, "Must not be empty.");
        }
        Some(text)
    }

    fn schema() -> RefOr<Schema> {
        text(MAX).min_length(Some(1)).into()
    }
}

/// A whole number in a range.
pub struct IntegerField<const MIN: i64, const MAX: i64>;

impl<const MIN: i64, const MAX: i64> FieldType for IntegerField<MIN, MAX> {
    type Value = i64;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<i64> {
        body.integer(name, MIN..=MAX)
    }

    fn schema() -> RefOr<Schema> {
        // The limits of i64 stand for no bound, so the document does not show them.
        let bound = |bound: i64| isize::try_from(bound).ok();
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(bound(MIN).filter(|_| MIN > i64::MIN))
            .maximum(bound(MAX).filter(|_| MAX < i64::MAX))
            .into()
    }
}

/// Any number in a range.
pub struct NumberField<const MIN: i32, const MAX: i32>;

impl<const MIN: i32, const MAX: i32> FieldType for NumberField<MIN, MAX> {
    type Value = f64;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<f64> {
        body.number(name, f64::from(MIN)..=f64::from(MAX))
    }

    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Number)
            .minimum(Some(f64::from(MIN)))
            .maximum(Some(f64::from(MAX)))
            .into()
    }
}

/// `true` or `false`.
pub struct BooleanField;

impl FieldType for BooleanField {
    type Value = bool;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<bool> {
        body.boolean(name)
    }

    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::Boolean).into()
    }
}

/// An object with any members.
pub struct AnyObject;

impl FieldType for AnyObject {
    type Value = ();

    fn read(body: &BodyFields<'_>, name: &str) -> Option<()> {
        body.object(name).map(drop)
    }

    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::Object).into()
    }
}

/// An id; an empty text counts as absent.
pub struct IdField<T>(PhantomData<T>);

impl<T: FromStr> FieldType for IdField<T> {
    type Value = T;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<T> {
        body.id(name)
    }

    fn schema() -> RefOr<Schema> {
        text(100).into()
    }
}

/// The schema of a list of at most `max_items` texts.
pub fn texts(max_items: usize) -> ArrayBuilder {
    let item = ObjectBuilder::new().schema_type(Type::String);
    ArrayBuilder::new().items(item).max_items(Some(max_items))
}

/// A file of a form.
pub struct FileField;

impl FieldType for FileField {
    type Value = ();

    /// Reads nothing: the handler takes the file from the form as it arrives.
    fn read(_: &BodyFields<'_>, _: &str) -> Option<()> {
        None
    }

    fn schema() -> RefOr<Schema> {
        let format =
            utoipa::openapi::SchemaFormat::KnownFormat(utoipa::openapi::KnownFormat::Binary);
        let file = ObjectBuilder::new().schema_type(Type::String);
        file.format(Some(format)).into()
    }
}
