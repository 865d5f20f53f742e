//! The API reference, from the `OpenAPI` document: each endpoint with its fields and answers.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde_json::{Map, Value};

/// Fields of fields are shown to this depth; below it, only their type is named.
const MAX_DEPTH: usize = 4;

/// The endpoints of one tag.
struct EndpointFamily<'a> {
    name: &'a str,
    endpoints: Vec<EndpointEntry<'a>>,
}

struct EndpointEntry<'a> {
    method: &'a str,
    path: &'a str,
    operation: &'a Map<String, Value>,
}

impl EndpointEntry<'_> {
    fn id(&self) -> &str {
        text(self.operation.get("operationId"))
    }
}

/// A row of a table of fields.
struct FieldRow {
    /// With the names of the fields that contain it: `video.seconds`, `messages[].content`.
    name: String,
    kind: String,
    is_required: bool,
    description: String,
}

/// The list of endpoints for the side bar, and their descriptions.
pub(super) fn render(document: &Value) -> (Markup, Markup) {
    let families = families(document);
    let side = html! {
        @for family in &families {
            h2 { (family.name) }
            ul {
                @for endpoint in &family.endpoints {
                    li { a href={ "#" (endpoint.id()) } {
                        span.verb { (endpoint.method) } " " (endpoint.path)
                    } }
                }
            }
        }
    };
    let body = html! {
        @for family in &families {
            h2 id={ "tag-" (family.name) } { (family.name) }
            @for endpoint in &family.endpoints { (endpoint_section(document, endpoint)) }
        }
    };
    (side, body)
}

fn families(document: &Value) -> Vec<EndpointFamily<'_>> {
    let mut families: Vec<EndpointFamily> = Vec::new();
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in item.as_object().into_iter().flatten() {
            let Some(operation) = operation.as_object() else {
                continue;
            };
            let tag = operation.get("tags").and_then(|tags| tags.get(0));
            let name = tag.and_then(Value::as_str).unwrap_or("other");
            let endpoint = EndpointEntry {
                method,
                path,
                operation,
            };
            // A list, not a map: it keeps the order of the document.
            match families.iter_mut().find(|family| family.name == name) {
                Some(family) => family.endpoints.push(endpoint),
                None => families.push(EndpointFamily {
                    name,
                    endpoints: vec![endpoint],
                }),
            }
        }
    }
    families
}

fn endpoint_section(document: &Value, endpoint: &EndpointEntry) -> Markup {
    let operation = endpoint.operation;
    let summary = text(operation.get("summary"));
    let description = text(operation.get("description"));
    let parameters = parameters(document, operation);
    html! {
        section.card.endpoint aria-labelledby=(endpoint.id()) {
            h3 id=(endpoint.id()) {
                span.verb { (endpoint.method) } " " code { (endpoint.path) }
            }
            @if !summary.is_empty() { p { (inline(summary)) } }
            @for paragraph in description.split("\n\n").filter(|paragraph| !paragraph.is_empty()) { p.muted { (inline(paragraph)) } }
            @if !parameters.is_empty() { (table("Parameters", &parameters)) }
            @if let Some(body) = operation.get("requestBody") {
                @for (media, schema) in contents(body) {
                    (table(&format!("Body: {media}"), &fields(document, schema)))
                }
            }
            @for (status, answer) in operation.get("responses").and_then(Value::as_object).into_iter().flatten() {
                (response_section(document, status, answer))
            }
        }
    }
}

fn response_section(document: &Value, status: &str, answer: &Value) -> Markup {
    // Errors have the same format everywhere, which is described once, at the top.
    if status == "default" {
        return html! {};
    }
    let description = text(answer.get("description"));
    let mut schemas = contents(answer).peekable();
    html! {
        @if schemas.peek().is_none() { p { strong { (status) } " " (description) } }
        @for (media, schema) in schemas {
            (table(&format!("{status} {description}: {media}"), &fields(document, schema)))
        }
    }
}

fn table(title: &str, fields: &[FieldRow]) -> Markup {
    if fields.is_empty() {
        return html! { p { strong { (title) } } };
    }
    html! {
        details {
            summary { (title) }
            div.wide tabindex="0" role="region" aria-label=(title) {
                table {
                    thead { tr { th { "Field" } th { "Type" } th { "Description" } } }
                    tbody {
                        @for field in fields {
                            tr {
                                td { code { (field.name) } @if field.is_required { " " span.badge { "required" } } }
                                td { (field.kind) }
                                td { (inline(&field.description)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Text with names between backticks, which become code.
fn inline(text: &str) -> Markup {
    html! {
        @for (number, part) in text.split('`').enumerate() {
            @if number % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

fn parameters(document: &Value, operation: &Map<String, Value>) -> Vec<FieldRow> {
    let parameters = operation.get("parameters").and_then(Value::as_array);
    let row = |parameter: &Value| {
        let schema = parameter.get("schema").unwrap_or(&Value::Null);
        let location = text(parameter.get("in"));
        FieldRow {
            name: text(parameter.get("name")).to_owned(),
            kind: format!("{} in {location}", kind(document, schema)),
            is_required: parameter["required"] == true,
            description: text(parameter.get("description")).to_owned(),
        }
    };
    parameters.into_iter().flatten().map(row).collect()
}

fn contents(parent: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let content = parent.get("content").and_then(Value::as_object);
    content
        .into_iter()
        .flatten()
        .map(|(media, content)| (media.as_str(), &content["schema"]))
}

/// The fields of a schema and of the schemas inside it.
fn fields(document: &Value, schema: &Value) -> Vec<FieldRow> {
    let mut rows = BTreeMap::new();
    // The map alone would lose the order of the document.
    let mut order = Vec::new();
    collect(document, schema, "", 0, &mut |row: FieldRow| {
        // Variants of a union often have fields in common; the first one is shown.
        if !rows.contains_key(&row.name) {
            order.push(row.name.clone());
            rows.insert(row.name.clone(), row);
        }
    });
    order.iter().filter_map(|name| rows.remove(name)).collect()
}

fn collect(
    document: &Value,
    schema: &Value,
    prefix: &str,
    depth: usize,
    add: &mut impl FnMut(FieldRow),
) {
    let schema = resolve(document, schema);
    for variant in variants(schema) {
        collect(document, variant, prefix, depth, add);
    }
    if let Some(items) = schema.get("items") {
        collect(document, items, &format!("{prefix}[]"), depth, add);
    }
    let required = schema.get("required").and_then(Value::as_array);
    for (name, inner) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let full_name = if prefix.is_empty() {
            name.clone()
        } else {
            format!("{prefix}.{name}")
        };
        let description = |schema: &Value| text(schema.get("description")).to_owned();
        let own_description = description(inner);
        add(FieldRow {
            name: full_name.clone(),
            kind: kind(document, inner),
            is_required: required.is_some_and(|list| list.iter().any(|entry| entry == name)),
            // A reference often has no description; then the one of the referenced schema is used.
            description: if own_description.is_empty() {
                description(resolve(document, inner))
            } else {
                own_description
            },
        });
        // Schemas can contain each other without end.
        if depth + 1 < MAX_DEPTH {
            collect(document, inner, &full_name, depth + 1, add);
        }
    }
}

fn variants(schema: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["oneOf", "anyOf", "allOf"];
    lists
        .into_iter()
        .filter_map(|name| schema.get(name)?.as_array())
        .flatten()
}

/// The type of a schema in a few words: `string`, `integer or null`, `list of string`,
/// `"a" or "b"`.
fn kind(document: &Value, schema: &Value) -> String {
    let schema = resolve(document, schema);
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        return join_words(words.iter().map(ToString::to_string).collect());
    }
    let mut kinds: Vec<String> = variants(schema)
        .map(|variant| kind(document, variant))
        .collect();
    let type_name = |name: &str| match name {
        "array" => match schema.get("items") {
            Some(items) => format!("list of {}", kind(document, items)),
            None => "list".to_owned(),
        },
        name => name.to_owned(),
    };
    match schema.get("type") {
        Some(Value::String(name)) => kinds.push(type_name(name)),
        Some(Value::Array(names)) => {
            kinds.extend(names.iter().filter_map(Value::as_str).map(type_name));
        }
        _ => {}
    }
    join_words(kinds)
}

fn join_words(mut words: Vec<String>) -> String {
    let mut seen = std::collections::HashSet::new();
    words.retain(|word| seen.insert(word.clone()));
    if words.is_empty() {
        "any".to_owned()
    } else {
        words.join(" or ")
    }
}

/// The schema that a reference points to.
fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let reference = schema.get("$ref").and_then(Value::as_str);
    let name = reference.and_then(|path| path.strip_prefix("#/components/schemas/"));
    name.map_or(schema, |name| &document["components"]["schemas"][name])
}

fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_endpoint_is_shown_with_its_fields() {
        let document = json!({
            "paths": {"/v1/things": {"post": {
                "tags": ["things"], "operationId": "things_make", "summary": "Makes <one>.",
                "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}},
                "responses": {"200": {"description": "Made", "content": {}}, "default": {"description": "An error"}}
            }}},
            "components": {"schemas": {
                "Thing": {"type": "object", "required": ["size"], "properties": {
                    "size": {"type": ["integer", "null"], "description": "How large; `0` is none."},
                    "parts": {"type": "array", "items": {"$ref": "#/components/schemas/Thing"}},
                    "mode": {"enum": ["a", "b"]}
                }}
            }}
        });
        let (side, body) = render(&document);
        assert!(side.into_string().contains("href=\"#things_make\""));
        let body = body.into_string();
        for part in [
            "Makes &lt;one&gt;.",
            "<code>size</code> <span class=\"badge\">required</span>",
            "integer or null",
            "How large; <code>0</code> is none.",
            "<code>parts[].size</code>",
            "list of object",
            "&quot;a&quot; or &quot;b&quot;",
            "<strong>200</strong> Made",
        ] {
            assert!(body.contains(part), "{part}\n{body}");
        }
        assert!(!body.contains("An error"));
        // A schema that contains itself is shown only to the maximum depth.
        assert!(body.contains("parts[].parts[].parts[].size"));
        assert!(!body.contains("parts[].parts[].parts[].parts[].size"));
    }
}
