//! Checks served answers against the `OpenAPI` document. The component schemas
//! are closed first, so that a field that is served and not documented fails.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::Validator;
use mediagate_config::{Config, Settings};
use serde_json::{Value, json};

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let config = Config::load(&Settings::default()).unwrap();
    let document = mediagate_http::openapi(&config).to_json().unwrap();
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
    if let Some(cached) = VALIDATORS.lock().unwrap().get(&name) {
        return cached.clone();
    }
    let mut standalone = schema.clone();
    standalone["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    standalone["components"] = COMPONENTS.clone();
    let validator = Arc::new(jsonschema::validator_for(&standalone).unwrap());
    VALIDATORS.lock().unwrap().insert(name, validator.clone());
    validator
}

/// The documented path template that a request's path matches.
pub(crate) fn template(path: &str) -> Option<&'static str> {
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let fits = |template: &&String| {
        let (mut template_parts, mut parts) = (template.split('/'), path.split('/'));
        loop {
            match (template_parts.next(), parts.next()) {
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
/// not checked.
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
    assert_valid(schema, answer, &format!("{method} {template} {status}"));
}

/// Asserts that a request that was accepted is as documented.
pub(crate) fn check_request(method: &str, path: &str, request: &Value) {
    let Some(template) = template(path) else {
        return;
    };
    let body = &DOCUMENT["paths"][template][method.to_lowercase()]["requestBody"];
    let schema = &body["content"]["application/json"]["schema"];
    if schema.is_object() {
        assert_valid(schema, request, &format!("the request {method} {template}"));
    }
    if template == "/v1/quote" {
        let endpoint = request["endpoint"].as_str().unwrap();
        check_request("POST", endpoint, &request["body"]);
    }
}

/// Asserts that the data of a streamed event is as documented.
pub(crate) fn check_event(path: &str, data: &Value) {
    let Some(template) = template(path) else {
        return;
    };
    let operations = DOCUMENT["paths"][template].as_object().unwrap();
    let mut contents = operations
        .values()
        .map(|operation| &operation["responses"]["200"]["content"]["text/event-stream"]["schema"]);
    let event = contents.find_map(|schema| schema["$ref"].as_str());
    let event = event.unwrap_or_else(|| panic!("{template} streams nothing by the document"));
    let name = event.strip_prefix("#/components/schemas/").unwrap();
    let event = &DOCUMENT["components"]["schemas"][name]["properties"]["data"];
    assert_eq!(event["contentMediaType"], "application/json");
    assert_valid(
        &event["contentSchema"],
        data,
        &format!("an event of {template}"),
    );
}

fn assert_valid(schema: &Value, value: &Value, subject: &str) {
    let faults: Vec<String> = validator(schema)
        .iter_errors(value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(
        faults.is_empty(),
        "{subject} is not as documented: {faults:#?}\n{value}"
    );
}
