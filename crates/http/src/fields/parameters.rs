//! Declarations of query parameters: one declaration gives their reader, their description in the
//! API document and the names that are known.

use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};

use super::{BodyFields, FieldType};
use mediagate_model::error::{Error, ErrorCode, FieldError};

/// The parameters of a query, which `parameters!` declares.
pub(crate) trait QueryParameters: Sized {
    /// Reads the parameters; their faults are recorded in `query`.
    fn read(query: &BodyFields<'_>) -> Self;
    /// The names of all parameters.
    fn names() -> Vec<&'static str>;
    /// The parameters for the API document.
    fn descriptions() -> Vec<Parameter>;
}

/// Declares the parameters of a query: a struct of them in the order in which they are read and
/// their faults are reported. Each is an `Option`, `None` if it was absent or invalid.
/// `+ name: Type` adds a group of parameters that several queries share.
macro_rules! parameters {
    (
        $(#[doc = $about:literal])+
        $vis:vis struct $name:ident $(<$id:ident: $bound:ident>)? {
            $($(#[doc = $says:literal])+ $field:ident: $type:ty,)*
            $(+ $shared:ident: $group:ty,)*
        }
    ) => {
        $(#[doc = $about])+
        $vis struct $name $(<$id: $bound>)? {
            $($(#[doc = $says])+ $vis $field: Option<<$type as $crate::fields::FieldType>::Value>,)*
            $(
                /// Parameters that other queries have too.
                $vis $shared: $group,
            )*
        }

        impl $(<$id: $bound>)? $crate::fields::parameters::QueryParameters for $name $(<$id>)? {
            fn read(query: &$crate::fields::BodyFields<'_>) -> Self {
                Self {
                    $($field: $crate::fields::request::read::<$type>(query, stringify!($field)),)*
                    $($shared: <$group as $crate::fields::parameters::QueryParameters>::read(query),)*
                }
            }

            fn names() -> Vec<&'static str> {
                let own = vec![$(stringify!($field),)*];
                let groups: Vec<Vec<_>> =
                    vec![$(<$group as $crate::fields::parameters::QueryParameters>::names(),)*];
                own.into_iter().chain(groups.into_iter().flatten()).collect()
            }

            fn descriptions() -> Vec<utoipa::openapi::path::Parameter> {
                let own = vec![
                    $($crate::fields::parameters::describe::<$type>(stringify!($field), concat!($($says),+)),)*
                ];
                let groups: Vec<Vec<_>> =
                    vec![$(<$group as $crate::fields::parameters::QueryParameters>::descriptions(),)*];
                own.into_iter().chain(groups.into_iter().flatten()).collect()
            }
        }

        impl $(<$id: $bound>)? utoipa::IntoParams for $name $(<$id>)? {
            fn into_params(
                _: impl Fn() -> Option<utoipa::openapi::path::ParameterIn>,
            ) -> Vec<utoipa::openapi::path::Parameter> {
                <Self as $crate::fields::parameters::QueryParameters>::descriptions()
            }
        }
    };
}

pub(crate) use parameters;

/// A declared parameter for the API document.
pub(crate) fn describe<F: FieldType>(name: &str, description: &str) -> Parameter {
    ParameterBuilder::new()
        .parameter_in(ParameterIn::Query)
        .required(if F::IS_REQUIRED {
            Required::True
        } else {
            Required::False
        })
        .description(Some(description.trim()))
        .schema(Some(F::schema()))
        .name(name)
        .build()
}

/// Whether a name is that of a known parameter. In the name of a known one, `NAME` stands for a name
/// of the caller's.
pub(crate) fn is_parameter(name: &str, known: &str) -> bool {
    match known.strip_suffix("NAME") {
        Some(prefix) => name.len() > prefix.len() && name.starts_with(prefix),
        None => name == known,
    }
}

/// The error for a parameter whose value does not fit the rest of the request.
pub(crate) fn invalid(name: &str, message: impl Into<String>) -> Error {
    Error::Invalid(vec![FieldError {
        code: ErrorCode::InvalidValue,
        param: name.to_owned(),
        message: message.into(),
    }])
}
