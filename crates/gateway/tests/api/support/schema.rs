//! Holds served answers against the `OpenAPI` document. The component schemas
//! are closed first, so that a field that is served and not documented fails.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::Validator;
use mediagate::config::{Config, Overrides};
use serde_json::{Value, json};

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let config = Config::load(&Overrides::default()).unwrap();
    let document = mediagate::http::openapi(&config).to_json().unwrap();
    serde_json::from_str(&document).unwrap()
});

static COMPONENTS: LazyLock<Value> = LazyLock::new(|| {
    let mut components = DOCUMENT["components"].clone();
    let schemas = components["schemas"].as_object_mut().unwrap();
    for schema in schemas.values_mut() {
        if schema.get("properties").is_some() && schema.get("additionalProperties").is_none() {
            schema["additionalProperties"] = json!(false);
        }
    }
    components
});

static VALIDATORS: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);

/// The document of the default settings.
pub(crate) fn document() -> &'static Value {
    &DOCUMENT
}

/// A validator of a schema of the document, given as JSON.
pub(crate) fn validator(schema: &Value) -> Arc<Validator> {
    let name = schema.to_string();
    if let Some(known) = VALIDATORS.lock().unwrap().get(&name) {
        return known.clone();
    }
    let mut whole = schema.clone();
    whole["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    whole["components"] = COMPONENTS.clone();
    let validator = Arc::new(jsonschema::validator_for(&whole).unwrap());
    VALIDATORS.lock().unwrap().insert(name, validator.clone());
    validator
}

/// The documented path that a request's path means.
pub(crate) fn template(path: &str) -> Option<&'static str> {
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let fits = |template: &&String| {
        let (mut wanted, mut given) = (template.split('/'), path.split('/'));
        loop {
            match (wanted.next(), given.next()) {
                (None, None) => return true,
                (Some(a), Some(b)) if a == b || (a.starts_with('{') && !b.is_empty()) => {}
                _ => return false,
            }
        }
    };
    let found = paths.keys().filter(fits);
    found
        .min_by_key(|template| template.matches('{').count())
        .map(String::as_str)
}

/// Asserts that an answer is as documented; what is not documented at all is
/// not looked at.
pub(crate) fn check(method: &str, path: &str, status: u16, answer: &Value) {
    let Some(template) = template(path) else {
        return;
    };
    let responses = &DOCUMENT["paths"][template][method.to_lowercase()]["responses"];
    if responses.is_null() {
        return;
    }
    let response = responses
        .get(status.to_string())
        .unwrap_or(&responses["default"]);
    let schema = &response["content"]["application/json"]["schema"];
    assert!(
        schema.is_object(),
        "{method} {template} has no JSON answer for {status} in the document"
    );
    let faults: Vec<String> = validator(schema)
        .iter_errors(answer)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(
        faults.is_empty(),
        "{method} {template} {status} is not as documented: {faults:#?}"
    );
}
