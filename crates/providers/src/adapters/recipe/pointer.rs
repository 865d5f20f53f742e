//! Places in answers: JSON pointers with `*` for every item, and conditions on their values.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A JSON pointer in which `*` matches every item of a list or table; empty for the whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JsonPointer(Vec<String>);

impl JsonPointer {
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self(Vec::new()));
        }
        let Some(rest) = text.strip_prefix('/') else {
            return Err(format!(
                "{text:?} is not a path in a response; write it like \"/data/task_id\""
            ));
        };
        let segments = rest.split('/').map(|segment| {
            let plain = segment.replace("~1", "").replace("~0", "");
            if plain.contains('~') {
                return Err(format!("{text:?}: ~ must be followed by 0 or 1"));
            }
            // In this order (RFC 6901, 4): else `~01` would become a slash.
            Ok(segment.replace("~1", "/").replace("~0", "~"))
        });
        Ok(Self(segments.collect::<Result<_, _>>()?))
    }

    /// All values at this place that are not null.
    fn all<'v>(&self, body: &'v Value) -> Vec<&'v Value> {
        let mut values = vec![body];
        for segment in &self.0 {
            values = values
                .into_iter()
                .flat_map(|value| child_values(value, segment))
                .collect();
        }
        // A null counts as absent, so that the next place of a list is tried.
        values.retain(|value| !value.is_null());
        values
    }
}

fn child_values<'v>(value: &'v Value, segment: &str) -> Vec<&'v Value> {
    match value {
        Value::Array(items) if segment == "*" => items.iter().collect(),
        Value::Object(members) if segment == "*" => members.values().collect(),
        Value::Array(items) => {
            let index = segment.parse::<usize>().ok();
            index
                .and_then(|index| items.get(index))
                .into_iter()
                .collect()
        }
        Value::Object(members) => members.get(segment).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// One place, or several, of which the first with a value counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PointerList(Vec<JsonPointer>);

impl PointerList {
    /// Replaces strings at these places by the JSON that they contain. Lists are not searched.
    pub(super) fn read_texts(&self, body: &mut Value) {
        for JsonPointer(segments) in &self.0 {
            let start = Some(&mut *body);
            let target = segments.iter().fold(start, |target, segment| {
                target.and_then(|value| value.as_object_mut()?.get_mut(segment))
            });
            if let Some(target) = target
                && let Some(parsed) = target
                    .as_str()
                    .and_then(|text| serde_json::from_str(text).ok())
            {
                *target = parsed;
            }
        }
    }

    /// The value at the first place that has one.
    pub(super) fn first<'v>(&self, body: &'v Value) -> Option<&'v Value> {
        let mut values = self.0.iter().flat_map(|pointer| pointer.all(body));
        values.next()
    }

    /// The list at the first place that has one.
    pub(super) fn list<'v>(&self, body: &'v Value) -> Option<&'v [Value]> {
        let mut values = self.0.iter().flat_map(|pointer| pointer.all(body));
        values.find_map(|value| value.as_array().map(Vec::as_slice))
    }

    /// The first text or number, as text; empty text counts as none.
    pub(super) fn text(&self, body: &Value) -> Option<String> {
        self.texts(body).into_iter().next()
    }

    /// The texts and numbers of the first place that has any, as text.
    pub(super) fn texts(&self, body: &Value) -> Vec<String> {
        self.scalars(body).into_iter().filter_map(text_of).collect()
    }

    /// The texts and numbers of the first place that has any.
    pub(super) fn scalars<'v>(&self, body: &'v Value) -> Vec<&'v Value> {
        let mut value_lists = self.0.iter().map(|pointer| {
            let mut values = pointer.all(body);
            values.retain(|value| text_of(value).is_some());
            values
        });
        value_lists
            .find(|values| !values.is_empty())
            .unwrap_or_default()
    }
}

/// A text or number as text.
pub(super) fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

impl<'de> Deserialize<'de> for PointerList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PointerListVisitor)
    }
}

struct PointerListVisitor;

impl<'de> Visitor<'de> for PointerListVisitor {
    type Value = PointerList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a path like \"/data/task_id\", or a list of paths")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<PointerList, E> {
        Ok(PointerList(vec![
            JsonPointer::parse(text).map_err(E::custom)?,
        ]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<PointerList, A::Error> {
        let mut all = Vec::new();
        while let Some(PointerList(mut pointers)) = items.next_element::<PointerList>()? {
            all.append(&mut pointers);
        }
        if all.is_empty() {
            return Err(A::Error::custom("the list of paths is empty"));
        }
        Ok(PointerList(all))
    }
}

/// A condition on an answer: that there is a value at a place (not null, false, 0 or empty), or
/// that it has a certain value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AnswerCondition {
    at: PointerList,
    equals: Vec<Value>,
}

impl AnswerCondition {
    /// Whether it is met by this answer.
    pub(super) fn holds(&self, body: &Value) -> bool {
        let value = self.at.first(body);
        if self.equals.is_empty() {
            return value.is_some_and(is_truthy);
        }
        value.is_some_and(|value| {
            self.equals
                .iter()
                .any(|expected| are_equal(expected, value))
        })
    }

    /// Whether there is anything at its place.
    pub(super) fn is_present(&self, body: &Value) -> bool {
        self.at.first(body).is_some()
    }
}

fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

/// Numbers are compared by value: `0` and `0.0` are the same.
fn are_equal(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() < f64::EPSILON,
        _ => a == b,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConditionTable {
    at: PointerList,
    equals: Value,
}

impl<'de> Deserialize<'de> for AnswerCondition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ConditionVisitor)
    }
}

struct ConditionVisitor;

impl<'de> Visitor<'de> for ConditionVisitor {
    type Value = AnswerCondition;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a path like \"/done\", or { at = \"/code\", equals = 0 }")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<AnswerCondition, E> {
        let at = PointerListVisitor.visit_str(text)?;
        let equals = Vec::new();
        Ok(AnswerCondition { at, equals })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<AnswerCondition, A::Error> {
        let table = ConditionTable::deserialize(MapAccessDeserializer::new(map))?;
        let equals = match table.equals {
            Value::Array(items) if !items.is_empty() => items,
            Value::Array(_) => return Err(A::Error::custom("equals must not be an empty list")),
            value => vec![value],
        };
        Ok(AnswerCondition {
            at: table.at,
            equals,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pointer_list(value: Value) -> PointerList {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn places_have_alternatives_and_stars() {
        let body = json!({"a": {"b": [{"url": "x"}, {"url": null}, {"url": 3}]}, "empty": ""});
        assert_eq!(pointer_list(json!("/a/b/*/url")).texts(&body), ["x", "3"]);
        assert_eq!(pointer_list(json!("/a/*/0/url")).texts(&body), ["x"]);
        assert_eq!(
            pointer_list(json!(["/empty", "/none", "/a/b/2/url"])).text(&body),
            Some("3".into())
        );
        assert_eq!(pointer_list(json!("/a")).text(&body), None);
        assert_eq!(pointer_list(json!("")).text(&json!("x")), Some("x".into()));
        assert_eq!(
            pointer_list(json!("/a/b")).list(&body).map(<[_]>::len),
            Some(3)
        );
        assert_eq!(
            pointer_list(json!(["/a", ""])).list(&json!([1])),
            Some(&[json!(1)][..])
        );
        assert_eq!(pointer_list(json!("/a")).list(&body), None);
        let body = json!({"a/b": {"~": 1}});
        assert_eq!(
            pointer_list(json!("/a~1b/~0")).text(&body),
            Some("1".into())
        );
        for wrong in [json!("a/b"), json!("/a~2"), json!([]), json!(3)] {
            assert!(serde_json::from_value::<PointerList>(wrong).is_err());
        }
    }

    #[test]
    fn conditions_hold_or_not() {
        let holds = |condition: Value, body: Value| {
            serde_json::from_value::<AnswerCondition>(condition)
                .unwrap()
                .holds(&body)
        };
        assert!(holds(json!("/done"), json!({"done": true})));
        for value in [
            json!(false),
            json!(null),
            json!(""),
            json!(0),
            json!([]),
            json!({}),
        ] {
            assert!(!holds(json!("/done"), json!({"done": value})));
        }
        let ok = json!({"at": "/code", "equals": [0, "success"]});
        assert!(holds(ok.clone(), json!({"code": 0.0})));
        assert!(holds(ok.clone(), json!({"code": "success"})));
        assert!(!holds(ok.clone(), json!({"code": "0"})));
        assert!(!holds(ok, json!({})));
    }
}
