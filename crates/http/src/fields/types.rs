//! The types of fields that more than one request has.

use std::marker::PhantomData;
use std::str::FromStr;

use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

use super::Fields;
use super::request::{FieldType, Schemas};
use mediagate_model::error::ErrorCode;

/// A field that has to be there.
pub struct Required<F>(PhantomData<F>);

impl<F: FieldType> FieldType for Required<F> {
    type Value = F::Value;
    const IS_REQUIRED: bool = true;

    fn read(body: &Fields<'_>, name: &str) -> Option<F::Value> {
        F::read(body, name)
    }

    fn schema() -> RefOr<Schema> {
        F::schema()
    }

    fn components(schemas: &mut Schemas) {
        F::components(schemas);
    }
}

/// The schema of a text of at most `most` characters.
pub fn text(most: usize) -> ObjectBuilder {
    let text = ObjectBuilder::new().schema_type(Type::String);
    text.max_length(Some(most))
}

/// A text of at most so many characters.
pub struct Text<const MOST: usize>;

impl<const MOST: usize> FieldType for Text<MOST> {
    type Value = String;

    fn read(body: &Fields<'_>, name: &str) -> Option<String> {
        body.string(name, MOST)
    }

    fn schema() -> RefOr<Schema> {
        text(MOST).into()
    }
}

/// A text; an empty one counts as absent.
pub struct Filled<const MOST: usize>;

impl<const MOST: usize> FieldType for Filled<MOST> {
    type Value = String;

    fn read(body: &Fields<'_>, name: &str) -> Option<String> {
        body.filled_string(name, MOST)
    }

    fn schema() -> RefOr<Schema> {
        text(MOST).into()
    }
}

/// A text; an empty one is a fault.
pub struct NotEmpty<const MOST: usize>;

impl<const MOST: usize> FieldType for NotEmpty<MOST> {
    type Value = String;

    fn read(body: &Fields<'_>, name: &str) -> Option<String> {
        let text = body.string(name, MOST)?;
        if text.is_empty() {
            body.fault(name, ErrorCode::InvalidValue, "Must not be empty.");
        }
        Some(text)
    }

    fn schema() -> RefOr<Schema> {
        text(MOST).min_length(Some(1)).into()
    }
}

/// A text; one without anything but spaces is a fault.
pub struct NotBlank<const MOST: usize>;

impl<const MOST: usize> FieldType for NotBlank<MOST> {
    type Value = String;

    fn read(body: &Fields<'_>, name: &str) -> Option<String> {
        let text = body.string(name, MOST)?;
        if text.trim().is_empty() {
            body.fault(name, ErrorCode::InvalidValue, "Must not be empty.");
        }
        Some(text)
    }

    fn schema() -> RefOr<Schema> {
        text(MOST).min_length(Some(1)).into()
    }
}

/// A whole number in a range.
pub struct Integer<const LEAST: i64, const MOST: i64>;

impl<const LEAST: i64, const MOST: i64> FieldType for Integer<LEAST, MOST> {
    type Value = i64;

    fn read(body: &Fields<'_>, name: &str) -> Option<i64> {
        body.integer(name, LEAST..=MOST)
    }

    fn schema() -> RefOr<Schema> {
        let bound = |bound: i64| isize::try_from(bound).ok();
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(bound(LEAST).filter(|_| LEAST > i64::MIN))
            .maximum(bound(MOST).filter(|_| MOST < i64::MAX))
            .into()
    }
}

/// Any number in a range.
pub struct Number<const LEAST: i32, const MOST: i32>;

impl<const LEAST: i32, const MOST: i32> FieldType for Number<LEAST, MOST> {
    type Value = f64;

    fn read(body: &Fields<'_>, name: &str) -> Option<f64> {
        body.number(name, f64::from(LEAST)..=f64::from(MOST))
    }

    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Number)
            .minimum(Some(f64::from(LEAST)))
            .maximum(Some(f64::from(MOST)))
            .into()
    }
}

/// `true` or `false`.
pub struct Flag;

impl FieldType for Flag {
    type Value = bool;

    fn read(body: &Fields<'_>, name: &str) -> Option<bool> {
        body.boolean(name)
    }

    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::Boolean).into()
    }
}

/// An object with whatever members.
pub struct AnyObject;

impl FieldType for AnyObject {
    type Value = ();

    fn read(body: &Fields<'_>, name: &str) -> Option<()> {
        body.object(name).map(drop)
    }

    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::Object).into()
    }
}

/// An id; an empty text counts as absent.
pub struct Id<T>(PhantomData<T>);

impl<T: FromStr> FieldType for Id<T> {
    type Value = T;

    fn read(body: &Fields<'_>, name: &str) -> Option<T> {
        body.id(name)
    }

    fn schema() -> RefOr<Schema> {
        text(100).into()
    }
}

/// The schema of a list of at most `most` texts.
pub fn texts(most: usize) -> ArrayBuilder {
    let item = ObjectBuilder::new().schema_type(Type::String);
    ArrayBuilder::new().items(item).max_items(Some(most))
}

/// A file of a form.
pub struct File;

impl FieldType for File {
    type Value = ();

    /// Forms are read as they arrive.
    fn read(_: &Fields<'_>, _: &str) -> Option<()> {
        None
    }

    fn schema() -> RefOr<Schema> {
        let format =
            utoipa::openapi::SchemaFormat::KnownFormat(utoipa::openapi::KnownFormat::Binary);
        let file = ObjectBuilder::new().schema_type(Type::String);
        file.format(Some(format)).into()
    }
}
