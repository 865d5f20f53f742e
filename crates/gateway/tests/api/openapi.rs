//! `/openapi.json`. `support/schema.rs`, which the caller of all tests uses, checks that
//! answers are as documented; these tests check the document itself.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{TestGateway, schema};

#[tokio::test]
async fn the_document_is_served_and_covers_every_endpoint() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let document = gateway.without_key().get("/openapi.json").await.ok();
    assert_eq!(&document, schema::document());
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["info"]["version"], "1.0.0");
    let mut documented = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            documented.insert(format!("{} {path}", method.to_uppercase()));
        }
    }
    let expected = [
        "DELETE /musicgen/clips/{id}",
        "DELETE /musicgen/personas/{id}",
        "DELETE /v1/videos/{id}",
        "GET /api/v1/models",
        "GET /api/v1/videos/models",
        "GET /api/v1/videos/{id}",
        "GET /api/v1/videos/{id}/content",
        "GET /healthz",
        "GET /media/{ticket}/{name}",
        "GET /metrics",
        "GET /musicgen/clips",
        "GET /musicgen/clips/{id}",
        "GET /musicgen/feed/{ids}",
        "GET /musicgen/fetch/{id}",
        "GET /musicgen/personas",
        "GET /musicgen/personas/{id}",
        "GET /musicgen/tasks/{id}",
        "GET /pricing",
        "GET /pricing.json",
        "GET /readyz",
        "GET /v1/account",
        "GET /v1/models",
        "GET /v1/models/{id}",
        "GET /v1/tasks",
        "GET /v1/tasks/{id}",
        "GET /v1/tasks/{id}/events",
        "GET /v1/usage",
        "GET /v1/videos",
        "GET /v1/videos/{id}",
        "GET /v1/videos/{id}/content",
        "POST /api/v1/chat/completions",
        "POST /api/v1/videos",
        "POST /musicgen/clips/{id}/restore",
        "POST /musicgen/fetch",
        "POST /musicgen/persona/create",
        "POST /musicgen/submit/music",
        "POST /musicgen/uploads/audio",
        "POST /v1/chat/completions",
        "POST /v1/provenance/check",
        "POST /v1/quote",
        "POST /v1/tasks/{id}/cancel",
        "POST /v1/videos",
    ];
    let missing: Vec<_> = expected
        .iter()
        .filter(|endpoint| !documented.contains(**endpoint))
        .collect();
    assert!(missing.is_empty(), "not documented: {missing:?}");
    gateway.stop().await;
}

#[test]
fn every_operation_has_a_name_a_success_an_error_and_its_path_parameters() {
    let document = schema::document();
    let mut names = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let route = format!("{method} {path}");
            let name = operation["operationId"].as_str().expect(&route);
            assert!(
                names.insert(name.to_owned()),
                "{route}: the name {name} is taken"
            );
            assert!(operation["summary"].is_string(), "{route}");
            let success = if route == "post /api/v1/videos" {
                "202"
            } else {
                "200"
            };
            assert!(operation["responses"][success].is_object(), "{route}");
            let error = &operation["responses"]["default"]["content"]["application/json"]["schema"];
            let name = if path.starts_with("/api/v1/") {
                "OpenRouterErrorBody"
            } else {
                "ErrorBody"
            };
            let expected = format!("#/components/schemas/{name}");
            assert_eq!(error["$ref"], expected, "{route}");
            let parameters = operation["parameters"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            for part in path
                .split('/')
                .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
            {
                assert!(
                    parameters.iter().any(|parameter| parameter["name"] == part
                        && parameter["in"] == "path"
                        && parameter["required"] == true),
                    "{route}: {part}"
                );
            }
        }
    }
}

#[test]
fn every_reference_has_a_target() {
    fn walk(value: &Value, document: &Value) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(reference)) = fields.get("$ref") {
                    let pointer = reference.strip_prefix('#').unwrap();
                    assert!(document.pointer(pointer).is_some(), "{reference}");
                }
                fields.values().for_each(|field| walk(field, document));
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, document)),
            _ => {}
        }
    }
    walk(schema::document(), schema::document());
}

#[test]
fn requests_of_the_specification_are_valid_by_the_document() {
    let body = |path: &str, schema_of: &str| {
        schema::document()["paths"][path]["post"]["requestBody"]["content"][schema_of]["schema"]
            .clone()
    };
    let valid = |path: &str, request: Value| {
        let schema = body(path, "application/json");
        assert!(schema.is_object(), "{path}");
        let faults: Vec<String> = schema::validator(&schema)
            .iter_errors(&request)
            .map(|e| e.to_string())
            .collect();
        assert!(faults.is_empty(), "{path}: {faults:?}");
    };
    valid(
        "/v1/chat/completions",
        json!({
        "model": "animatic-1", "max_tokens": 1000, "stream": false, "temperature": 1, "top_p": 1, "n": 1, "stop": "x",
        "presence_penalty": 0.0, "frequency_penalty": 0, "logit_bias": null, "user": "u",
        "messages": [{"role": "system", "content": "x"}, {"role": "user", "content": [
            {"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": "https://x/a.png"}}]}]}),
    );
    valid(
        "/musicgen/submit/music",
        json!({
        "task": "gen_stem", "task_id": "", "generation_type": "TEXT", "title": "", "mv": "chirp-auk",
        "make_instrumental": true, "continue_clip_id": "0193a000-0000-7000-8000-000000000020", "stem_type_id": 91,
        "stem_type_group_name": "Twelve", "stem_task": "twelve"}),
    );
    valid(
        "/musicgen/persona/create",
        json!({
        "root_clip_id": "0193a000-0000-7000-8000-000000000020", "name": "n", "description": "d",
        "clips": ["0193a000-0000-7000-8000-000000000020"], "is_public": true}),
    );
    assert!(
        !schema::validator(&body("/v1/chat/completions", "application/json"))
            .is_valid(&json!({"model": 1}))
    );
}

/// The table of orders, which the key check, fingerprints and quotes use, agrees with the document.
#[test]
fn every_order_is_placed_where_the_document_says() {
    for (endpoint, request, _) in mediagate_http::orders::ALL {
        let path = endpoint.path("musicgen");
        let body = &schema::document()["paths"][&path]["post"]["requestBody"];
        let name = body["content"]["application/json"]["schema"]["$ref"].as_str();
        let expected = format!("#/components/schemas/{}", request());
        assert_eq!(name, Some(expected.as_str()), "{path}");
    }
}
