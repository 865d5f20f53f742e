//! Request declarations: one declaration gives the reader of a request and its schema in the
//! document, so that the two cannot drift apart.

use utoipa::openapi::schema::{
    AdditionalProperties, AnyOfBuilder, Object, ObjectBuilder, SchemaType, Type,
};
use utoipa::openapi::{Ref, RefOr, Schema};

use super::BodyFields;

/// Schemas that a request refers to, by name.
pub type SchemaList = Vec<(String, RefOr<Schema>)>;

/// A type of field: how it is read, and its description in the API document.
pub trait FieldType {
    /// The type of the value that is read.
    type Value;
    /// Whether it is a fault that the field is absent or null.
    const IS_REQUIRED: bool = false;
    /// Reads a field; `None` when it is absent, null or invalid.
    fn read(body: &BodyFields<'_>, name: &str) -> Option<Self::Value>;
    /// The schema of a value that is present.
    fn schema() -> RefOr<Schema>;
    /// Adds the schemas that the field's schema refers to.
    fn components(_: &mut SchemaList) {}
}

/// Reads a declared field.
pub fn read<F: FieldType>(body: &BodyFields<'_>, name: &str) -> Option<F::Value> {
    if F::IS_REQUIRED {
        body.require(name);
    }
    F::read(body, name)
}

/// The schema of a declared field, with its description.
pub fn property<F: FieldType>(description: &str) -> RefOr<Schema> {
    let schema = if F::IS_REQUIRED {
        F::schema()
    } else {
        or_null(F::schema())
    };
    with_description(schema, description)
}

fn or_null(schema: RefOr<Schema>) -> RefOr<Schema> {
    match schema {
        // An `enum` lists all values, so null would not be valid even if the type allowed it.
        RefOr::T(Schema::Object(mut object)) if object.enum_values.is_none() => {
            if let SchemaType::Type(kind) = &object.schema_type {
                object.schema_type = SchemaType::Array(vec![kind.clone(), Type::Null]);
            }
            RefOr::T(Schema::Object(object))
        }
        RefOr::T(Schema::AnyOf(mut any_of)) => {
            any_of.items.push(null());
            RefOr::T(Schema::AnyOf(any_of))
        }
        other => AnyOfBuilder::new().item(other).item(null()).into(),
    }
}

fn null() -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(Type::Null).into()
}

fn with_description(schema: RefOr<Schema>, description: &str) -> RefOr<Schema> {
    let description = description.trim().to_owned();
    match schema {
        RefOr::Ref(mut reference) => {
            reference.description = description;
            RefOr::Ref(reference)
        }
        RefOr::T(mut schema) => {
            match &mut schema {
                Schema::Object(object) => object.description = Some(description),
                Schema::Array(array) => array.description = Some(description),
                Schema::AnyOf(any_of) => any_of.description = Some(description),
                Schema::OneOf(one_of) => one_of.description = Some(description),
                Schema::AllOf(all_of) => all_of.description = Some(description),
                _ => {}
            }
            RefOr::T(schema)
        }
    }
}

/// A reference to a schema of the document.
pub fn reference(name: &str) -> RefOr<Schema> {
    Ref::from_schema_name(name).into()
}

/// Merges objects into one with the members of all. The result allows undeclared members if one of
/// them does.
pub fn merge_objects(description: &str, parts: impl IntoIterator<Item = Object>) -> Object {
    let object = ObjectBuilder::new().description(Some(description)).build();
    parts.into_iter().fold(object, with_shared)
}

/// Adds the members of `shared` to an object. The result allows undeclared members if one does.
pub fn with_shared(mut object: Object, shared: Object) -> Object {
    object.properties.extend(shared.properties);
    object.required.extend(shared.required);
    let is_open = object.additional_properties.take();
    object.additional_properties = is_open.or(shared.additional_properties);
    object
}

/// Makes an object allow undeclared members if it keeps a `rest`.
pub fn with_rest(mut object: Object, rest: &[&str]) -> Object {
    if !rest.is_empty() {
        object.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(true)));
    }
    object
}

/// Declares a request, or an object within one: a struct of its fields in the order in which they
/// are read and their faults are reported. Each is an `Option`, `None` if it was absent, null or
/// invalid. `+ name: Type` adds a group of fields that several requests share. `.. rest` at the end
/// keeps all members of the object, for requests that allow undeclared ones.
macro_rules! request {
    (
        $(#[doc = $about:literal])+
        $(#[expect($($expected:tt)*)])?
        $vis:vis struct $name:ident {
            $($(#[doc = $says:literal])+ $field:ident: $type:ty,)*
            $(+ $shared:ident: $fields:ident,)*
            $(.. $rest:ident)?
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug)]
        $(#[expect($($expected)*)])?
        $vis struct $name {
            $($(#[doc = $says])+ $vis $field: Option<<$type as $crate::fields::FieldType>::Value>,)*
            $(
                /// Fields that other requests have too.
                $vis $shared: $fields,
            )*
            $(
                /// All members, including undeclared ones.
                $vis $rest: serde_json::Map<String, serde_json::Value>,
            )?
        }

        impl $name {
            /// Reads the fields; their faults are recorded in `body`.
            $vis fn read(body: &$crate::fields::BodyFields<'_>) -> Self {
                Self {
                    $($field: $crate::fields::request::read::<$type>(body, stringify!($field)),)*
                    $($shared: $fields::read(body),)*
                    $($rest: body.members().clone(),)?
                }
            }

            /// The schema for the API document.
            $vis fn object() -> utoipa::openapi::schema::Object {
                let object = utoipa::openapi::schema::ObjectBuilder::new()
                    .description(Some(concat!($($about),+).trim()));
                $(
                    let description = concat!($($says),+);
                    let schema = $crate::fields::request::property::<$type>(description);
                    let object = object.property(stringify!($field), schema);
                    let object = if <$type as $crate::fields::FieldType>::IS_REQUIRED {
                        object.required(stringify!($field))
                    } else {
                        object
                    };
                )*
                let rest: &[&str] = &[$(stringify!($rest))?];
                let object = $crate::fields::request::with_rest(object.build(), rest);
                $(let object = $crate::fields::request::with_shared(object, $fields::object());)*
                object
            }

            /// Adds the schemas that this one refers to.
            $vis fn components(schemas: &mut $crate::fields::request::SchemaList) {
                $(<$type as $crate::fields::FieldType>::components(schemas);)*
                $($fields::components(schemas);)*
                // Requests that refer to nothing would not use the argument.
                let _ = schemas;
            }
        }

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                Self::object().into()
            }
        }

        impl utoipa::ToSchema for $name {
            fn schemas(schemas: &mut $crate::fields::request::SchemaList) {
                Self::components(schemas);
            }
        }

        impl $crate::fields::FieldType for $name {
            type Value = Self;

            fn read(body: &$crate::fields::BodyFields<'_>, name: &str) -> Option<Self> {
                body.object(name).map(|body| Self::read(&body))
            }

            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                $crate::fields::request::reference(stringify!($name))
            }

            fn components(schemas: &mut $crate::fields::request::SchemaList) {
                schemas.push((stringify!($name).to_owned(), Self::object().into()));
                Self::components(schemas);
            }
        }
    };
}

pub(crate) use request;
