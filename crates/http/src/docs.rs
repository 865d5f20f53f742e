//! The `OpenAPI` document, generated from the types that serve the requests.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{AllOf, ArrayItems, Object, ObjectBuilder, Schema, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{
    Content, Info, OpenApi, OpenApiBuilder, Ref, RefOr, Response, SecurityRequirement,
};
use utoipa::{PartialSchema, ToSchema};

use crate::wire::error::{ErrorBody, ErrorObject};
use crate::wire::openrouter::{
    OpenRouterErrorBody, OpenRouterErrorMetadata, OpenRouterErrorObject, PREFIX,
};
use crate::wire::personas::BRAND_FIELD;
use mediagate_config::Config;
use mediagate_console::SiteContext;
use mediagate_console::docs::ApiReference;

/// The document for these settings.
pub fn openapi(config: &Config) -> OpenApi {
    let (_, document) = super::api(&config.brand).split_for_parts();
    finish(document, &config.persona_brand_field)
}

/// The schema of a server-sent event whose `data` is a `T` or an error, as JSON. Described as in
/// `OpenAPI` 3.2.
pub(super) struct EventSchema<T>(PhantomData<T>);

impl<T: ToSchema> PartialSchema for EventSchema<T> {
    fn schema() -> RefOr<Schema> {
        let reference =
            |name: &str| serde_json::json!({"$ref": format!("#/components/schemas/{name}")});
        let alternatives = [reference(&T::name()), reference(&ErrorBody::name())];
        let content = serde_json::json!({"anyOf": alternatives});
        let text = || ObjectBuilder::new().schema_type(Type::String);
        // utoipa does not know `contentSchema`, a keyword of JSON Schema 2020-12.
        let data = text()
            .content_media_type("application/json")
            .extensions(Some(Extensions::from_iter([("contentSchema", content)])));
        ObjectBuilder::new()
            .description(Some(
                "A server-sent event. Comments between events keep the connection alive.",
            ))
            .property("event", text())
            .property("id", text())
            .property("data", data)
            .required("data")
            .into()
    }
}

impl<T: ToSchema> ToSchema for EventSchema<T> {
    fn name() -> Cow<'static, str> {
        format!("{}Event", T::name()).into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((T::name().into_owned(), T::schema()));
        T::schemas(schemas);
    }
}

/// The document without endpoints.
pub(super) fn base() -> OpenApi {
    let mut info = Info::new("Mediagate", "1.0.0");
    info.description = Some(
        "A gateway for video and music models. All errors have the same format, except for those \
         below `/api/v1`. Only 429, 500 and 503 can be retried, after `Retry-After` seconds."
            .into(),
    );
    OpenApiBuilder::new()
        .info(info)
        .security(Some([SecurityRequirement::new(
            "bearer",
            Vec::<String>::new(),
        )]))
        .build()
}

/// Completes the document: adds what all endpoints share (the key and the errors), merges flattened
/// schemas, and sets the name of the brand field and the operation ids.
pub(super) fn finish(mut document: OpenApi, persona_brand_field: &str) -> OpenApi {
    let components = document.components.get_or_insert_default();
    let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    components
        .security_schemes
        .insert("bearer".into(), bearer.into());
    components.schemas.extend([
        schema_of::<ErrorBody>(),
        schema_of::<ErrorObject>(),
        schema_of::<OpenRouterErrorBody>(),
        schema_of::<OpenRouterErrorObject>(),
        schema_of::<OpenRouterErrorMetadata>(),
    ]);
    merge_flattened(&mut components.schemas);
    if let Some(RefOr::T(Schema::Object(persona))) = components.schemas.get_mut("PersonaRecord") {
        rename_brand(persona, persona_brand_field);
    }
    for (path, item) in &mut document.paths.paths {
        for operation in [
            &mut item.get,
            &mut item.post,
            &mut item.put,
            &mut item.patch,
            &mut item.delete,
        ]
        .into_iter()
        .flatten()
        {
            add_error(operation, path);
            set_operation_id(operation, path);
        }
    }
    document
}

/// A schema with its name.
fn schema_of<T: ToSchema>() -> (String, RefOr<Schema>) {
    (T::name().into_owned(), T::schema())
}

/// Replaces every `allOf` by one object with all fields. Fields that several objects share are in
/// one struct, which serde flattens into each; utoipa describes that as `allOf`. Readers want one
/// list of fields, and so do validators that allow no other fields.
fn merge_flattened(schemas: &mut BTreeMap<String, RefOr<Schema>>) {
    // A copy, because parts refer to schemas that this loop changes.
    let originals = schemas.clone();
    for schema in schemas.values_mut() {
        merge_flattened_in(schema, &originals);
    }
}

fn merge_flattened_in(schema: &mut RefOr<Schema>, originals: &BTreeMap<String, RefOr<Schema>>) {
    let RefOr::T(inner) = schema else { return };
    match inner {
        Schema::AllOf(all_of) => {
            if let Some(object) = merge_all_of(all_of, originals) {
                *inner = Schema::Object(object);
            }
        }
        Schema::Object(object) => {
            for property in object.properties.values_mut() {
                merge_flattened_in(property, originals);
            }
        }
        Schema::Array(array) => {
            if let ArrayItems::RefOrSchema(items) = &mut array.items {
                merge_flattened_in(items, originals);
            }
        }
        _ => {}
    }
}

/// Merges the parts into one object with the fields of all; `None` if a part is not an object.
fn merge_all_of(all_of: &AllOf, originals: &BTreeMap<String, RefOr<Schema>>) -> Option<Object> {
    let mut object = Object::with_type(Type::Object);
    object.description.clone_from(&all_of.description);
    for part in &all_of.items {
        let part = match part {
            RefOr::Ref(reference) => originals.get(reference.ref_location.rsplit('/').next()?)?,
            RefOr::T(_) => part,
        };
        let RefOr::T(Schema::Object(part)) = part else {
            return None;
        };
        object.properties.extend(part.properties.clone());
        object.required.extend(part.required.iter().cloned());
    }
    Some(object)
}

fn rename_brand(persona: &mut Object, field: &str) {
    if let Some(schema) = persona.properties.remove(BRAND_FIELD) {
        persona.properties.insert(field.to_owned(), schema);
    }
    for name in persona
        .required
        .iter_mut()
        .filter(|name| *name == BRAND_FIELD)
    {
        field.clone_into(name);
    }
}

/// Operation ids must be unique in the document: `tasks_list`, `admin_keys_list`.
fn set_operation_id(operation: &mut Operation, path: &str) {
    let tag = operation.tags.iter().flatten().next();
    if let (Some(tag), Some(id)) = (tag, &mut operation.operation_id) {
        let section = path.strip_prefix("/v1/admin/");
        let section = section.and_then(|rest| rest.split('/').next());
        let prefix = section.map(|name| format!("{name}_")).unwrap_or_default();
        *id = format!("{tag}_{prefix}{id}");
    }
}

fn add_error(operation: &mut Operation, path: &str) {
    let (description, name) = if path.starts_with(PREFIX) {
        (
            "An error. `metadata.code` identifies it",
            OpenRouterErrorBody::name(),
        )
    } else {
        ("An error. `code` identifies it", ErrorBody::name())
    };
    let mut response = Response::new(description);
    let schema = Ref::from_schema_name(name);
    response
        .content
        .insert("application/json".into(), Content::new(Some(schema)).into());
    operation
        .responses
        .responses
        .insert("default".into(), RefOr::T(response));
}

/// The document as a process serves it: built for the first request, which most processes never
/// get.
#[derive(Clone)]
pub(super) struct ServedDocument(Arc<DocumentForms>);

#[derive(Default)]
struct DocumentForms {
    json: OnceLock<Bytes>,
    reference: OnceLock<ApiReference>,
}

impl ServedDocument {
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    /// The document itself.
    pub(super) fn json(&self, config: &Config) -> Bytes {
        let build = || openapi(config).to_json().unwrap_or_default().into();
        self.0.json.get_or_init(build).clone()
    }

    /// The HTML page that shows the document.
    pub(super) fn page(&self, config: &Config, site: &SiteContext) -> String {
        let build = || {
            let document = serde_json::from_slice(&self.json(config)).unwrap_or_default();
            ApiReference::new(&document)
        };
        self.0.reference.get_or_init(build).page(site)
    }
}
