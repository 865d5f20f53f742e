//! A request's body as a recipe writes it: a TOML table whose texts are
//! templates.
//!
//! A member whose value is not there is dropped, and so is a table or list that
//! is emptied by that. Three members of a table are instructions:
//!
//! ```text
//! only_with = "image"        the table is there only with that value
//! only_without = "image"     … only without it
//! for_each = "references"    (in a list) the table once for each, as {reference}
//! ```

use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};
use toml::Spanned;

use super::calls::Encoding;
use super::order::has;
use super::placeholder::{Datum, Values};
use super::schema::Maps;
use super::template::Template;
use crate::error::ProviderError;
use crate::port::{Body, Part};

/// A part of a body.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Template(Template),
    Constant(Value),
    List(Vec<Spanned<Node>>),
    Table(Table),
}

/// A table.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    pub(super) only_with: Option<Spanned<String>>,
    pub(super) only_without: Option<Spanned<String>>,
    pub(super) for_each: Option<Spanned<String>>,
    pub(super) members: Vec<(String, Spanned<Node>)>,
}

impl Node {
    /// Adds its templates to these.
    pub(super) fn templates<'n>(&'n self, all: &mut Vec<&'n Template>) {
        match self {
            Self::Template(template) => all.push(template),
            Self::Constant(_) => {}
            Self::List(items) => items.iter().for_each(|item| item.get_ref().templates(all)),
            Self::Table(table) => {
                let members = table.members.iter();
                members.for_each(|(_, node)| node.get_ref().templates(all));
            }
        }
    }

    /// The node as JSON; `None` when nothing of it is there.
    fn render(&self, values: &Values<'_>, maps: &Maps) -> Result<Option<Value>, ProviderError> {
        match self {
            Self::Template(template) => template.value(values, maps),
            Self::Constant(value) => Ok(Some(value.clone())),
            Self::List(items) => {
                let mut list = Vec::new();
                for item in items {
                    item.get_ref().push_to(&mut list, values, maps)?;
                }
                Ok((!list.is_empty() || items.is_empty()).then_some(Value::Array(list)))
            }
            Self::Table(table) => {
                if !table.is_wanted(values) {
                    return Ok(None);
                }
                let mut object = Map::new();
                for (name, node) in &table.members {
                    if let Some(value) = node.get_ref().render(values, maps)? {
                        object.insert(name.clone(), value);
                    }
                }
                let is_there = !object.is_empty() || table.members.is_empty();
                Ok(is_there.then_some(Value::Object(object)))
            }
        }
    }

    fn push_to(
        &self,
        list: &mut Vec<Value>,
        values: &Values<'_>,
        maps: &Maps,
    ) -> Result<(), ProviderError> {
        let repeats = match self {
            Self::Table(table) => table.for_each.is_some(),
            _ => false,
        };
        if !repeats {
            list.extend(self.render(values, maps)?);
            return Ok(());
        }
        if let Some(Datum::Files(files)) = values.get("references") {
            for file in files {
                let mut with_one = values.clone();
                with_one.insert("reference", Datum::File(*file));
                list.extend(self.render(&with_one, maps)?);
            }
        }
        Ok(())
    }

    /// The node as a request's body.
    pub(super) fn encode(
        &self,
        encoding: Encoding,
        values: &Values<'_>,
        maps: &Maps,
    ) -> Result<Body, ProviderError> {
        if encoding == Encoding::Json {
            let body = self.render(values, maps)?;
            return Ok(Body::Json(body.unwrap_or_else(|| json!({}))));
        }
        let Self::Table(table) = self else {
            return Ok(Body::Empty);
        };
        let (mut fields, mut files) = (Vec::new(), Vec::new());
        for (name, node) in &table.members {
            let file = match node.get_ref() {
                Self::Template(template) => template.file(),
                _ => None,
            };
            if let Some(file) = file {
                if let Some(Datum::File(handed)) = values.get(file) {
                    files.push(Part::file(name, handed.file));
                }
            } else if let Some(value) = node.get_ref().render(values, maps)? {
                // What is no text is written as JSON: 5, true, {"a": 1}.
                let text = match value {
                    Value::String(text) => text,
                    other => other.to_string(),
                };
                fields.push((name.clone(), text));
            }
        }
        if encoding == Encoding::Form {
            return Ok(Body::Form(fields));
        }
        // Some servers read no field after a file.
        let fields = fields
            .into_iter()
            .map(|(name, text)| Part::text(name, text));
        Ok(Body::Multipart(fields.chain(files).collect()))
    }
}

impl Table {
    fn is_wanted(&self, values: &Values<'_>) -> bool {
        let has = |name: &Spanned<String>| has(values, name.get_ref().as_str());
        self.only_with.as_ref().is_none_or(has) && !self.only_without.as_ref().is_some_and(has)
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, number, true, false, list or table")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Node, E> {
        let template = Template::try_from(text.to_owned()).map_err(E::custom)?;
        Ok(Node::Template(template))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Constant(json!(value)))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Constant(json!(value)))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Constant(json!(value)))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Node, E> {
        if value.is_finite() {
            return Ok(Node::Constant(json!(value)));
        }
        Err(E::custom("JSON has no such number"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Node, A::Error> {
        let mut table = Table::default();
        while let Some(name) = members.next_key::<String>()? {
            match name.as_str() {
                "only_with" => table.only_with = Some(members.next_value()?),
                "only_without" => table.only_without = Some(members.next_value()?),
                "for_each" => table.for_each = Some(members.next_value()?),
                // How a date of TOML shows itself.
                date if date.starts_with("$__toml") => {
                    return Err(A::Error::custom("JSON has no dates; write it as text"));
                }
                _ => table.members.push((name, members.next_value()?)),
            }
        }
        Ok(Node::Table(table))
    }
}

#[cfg(test)]
mod tests {
    use super::super::placeholder::Handed;
    use super::*;

    fn node(text: &str) -> Node {
        #[derive(Deserialize)]
        struct File {
            body: Node,
        }
        toml::from_str::<File>(text).unwrap().body
    }

    #[test]
    fn what_is_not_there_is_dropped() {
        let body = node(
            r#"
            [body]
            model = "m"
            seed = "{seed}"
            empty = {}
            keep = { always = true, seed = "{seed}" }
            gone = { a = { seed = "{seed}" }, b = ["{seed}"] }
            [[body.content]]
            text = "{prompt}"
            [[body.content]]
            only_with = "image"
            type = "image_url"
            [[body.content]]
            only_without = "image"
            type = "none"
            "#,
        );
        let values = Values::from([("prompt", Datum::Plain(json!("p")))]);
        let rendered = body.render(&values, &Maps::new()).unwrap().unwrap();
        let expected = json!({
            "model": "m", "empty": {}, "keep": {"always": true},
            "content": [{"text": "p"}, {"type": "none"}],
        });
        assert_eq!(rendered, expected);
    }

    #[test]
    fn tables_repeat_for_each_picture() {
        let body = node(
            r#"body = ["{prompt}", { for_each = "references", url = "{reference:mime}", n = 1 }]"#,
        );
        let file = crate::adapters::tests::picture();
        let values = Values::from([(
            "references",
            Datum::Files(vec![Handed::new(&file), Handed::new(&file)]),
        )]);
        let rendered = body.render(&values, &Maps::new()).unwrap().unwrap();
        let one = json!({"url": "image/png", "n": 1});
        assert_eq!(rendered, json!([one, one]));
    }

    #[test]
    fn fields_come_before_files() {
        let body = node(
            r#"body = { a = "{image:file}", b = 5, c = "x", d = { e = true }, f = "{seed}" }"#,
        );
        let file = crate::adapters::tests::picture();
        let values = Values::from([("image", Datum::File(Handed::new(&file)))]);
        let encoded = body
            .encode(Encoding::Multipart, &values, &Maps::new())
            .unwrap();
        let Body::Multipart(parts) = encoded else {
            panic!("not multipart");
        };
        let texts: Vec<(&str, &str)> = parts
            .iter()
            .map(|part| match part {
                Part::Text { name, value } => (name.as_str(), value.as_str()),
                Part::File { name, mime, .. } => (name.as_str(), mime.as_ref()),
            })
            .collect();
        let expected = [
            ("b", "5"),
            ("c", "x"),
            ("d", r#"{"e":true}"#),
            ("a", "image/png"),
        ];
        assert_eq!(texts, expected);
        let encoded = body
            .encode(Encoding::Form, &Values::new(), &Maps::new())
            .unwrap();
        assert!(matches!(encoded, Body::Form(fields) if fields.len() == 3));
    }
}
