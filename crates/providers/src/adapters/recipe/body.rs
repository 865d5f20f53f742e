//! A request's body in a recipe: a TOML table whose strings are templates.
//!
//! A field without a value is dropped, and so is a table or list that becomes empty as a result.
//! Three fields of a table are instructions:
//!
//! ```text
//! only_with = "image"        the table is sent only if the order has that value
//! only_without = "image"     the table is sent only if it does not
//! for_each = "references"    (in a list) the table is sent once for each, as {reference}
//! ```

use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};
use toml::Spanned;

use super::calls::BodyEncoding;
use super::order_values::has;
use super::placeholder::{TemplateValue, TemplateValues};
use super::schema::ValueMaps;
use super::template::Template;
use crate::error::ProviderError;
use crate::port::{FormPart, RequestBody};

/// A part of a body.
#[derive(Debug, Clone)]
pub(super) enum BodyNode {
    Template(Template),
    Constant(Value),
    List(Vec<Spanned<BodyNode>>),
    Table(BodyTable),
}

/// A table.
#[derive(Debug, Clone, Default)]
pub(super) struct BodyTable {
    pub(super) only_with: Option<Spanned<String>>,
    pub(super) only_without: Option<Spanned<String>>,
    pub(super) for_each: Option<Spanned<String>>,
    pub(super) members: Vec<(String, Spanned<BodyNode>)>,
}

impl BodyNode {
    /// Adds its templates to the list.
    pub(super) fn templates<'n>(&'n self, templates: &mut Vec<&'n Template>) {
        match self {
            Self::Template(template) => templates.push(template),
            Self::Constant(_) => {}
            Self::List(items) => items
                .iter()
                .for_each(|item| item.get_ref().templates(templates)),
            Self::Table(table) => {
                let members = table.members.iter();
                members.for_each(|(_, node)| node.get_ref().templates(templates));
            }
        }
    }

    /// The node as JSON; `None` if none of its values exist.
    fn render(
        &self,
        values: &TemplateValues<'_>,
        maps: &ValueMaps,
    ) -> Result<Option<Value>, ProviderError> {
        match self {
            Self::Template(template) => template.value(values, maps),
            Self::Constant(value) => Ok(Some(value.clone())),
            Self::List(items) => {
                let mut list = Vec::new();
                for item in items {
                    item.get_ref().push_to(&mut list, values, maps)?;
                }
                // A list that is empty in the recipe is sent. One emptied by missing values is left
                // out.
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
                let is_present = !object.is_empty() || table.members.is_empty();
                Ok(is_present.then_some(Value::Object(object)))
            }
        }
    }

    fn push_to(
        &self,
        list: &mut Vec<Value>,
        values: &TemplateValues<'_>,
        maps: &ValueMaps,
    ) -> Result<(), ProviderError> {
        let repeats = match self {
            Self::Table(table) => table.for_each.is_some(),
            _ => false,
        };
        if !repeats {
            list.extend(self.render(values, maps)?);
            return Ok(());
        }
        if let Some(TemplateValue::Files(files)) = values.get("references") {
            for file in files {
                let mut item_values = values.clone();
                item_values.insert("reference", TemplateValue::File(*file));
                list.extend(self.render(&item_values, maps)?);
            }
        }
        Ok(())
    }

    /// The node as a request's body.
    pub(super) fn encode(
        &self,
        encoding: BodyEncoding,
        values: &TemplateValues<'_>,
        maps: &ValueMaps,
    ) -> Result<RequestBody, ProviderError> {
        if encoding == BodyEncoding::Json {
            let body = self.render(values, maps)?;
            return Ok(RequestBody::Json(body.unwrap_or_else(|| json!({}))));
        }
        let Self::Table(table) = self else {
            return Ok(RequestBody::Empty);
        };
        let (mut fields, mut files) = (Vec::new(), Vec::new());
        for (name, node) in &table.members {
            // A file is taken out before rendering, which would convert it to text.
            let file = match node.get_ref() {
                Self::Template(template) => template.file(),
                _ => None,
            };
            if let Some(file) = file {
                if let Some(TemplateValue::File(order_file)) = values.get(file) {
                    files.push(FormPart::file(name, order_file.file));
                }
            } else if let Some(value) = node.get_ref().render(values, maps)? {
                // A value that is not a string is written as JSON: 5, true, {"a": 1}.
                let text = match value {
                    Value::String(text) => text,
                    value => value.to_string(),
                };
                fields.push((name.clone(), text));
            }
        }
        if encoding == BodyEncoding::Form {
            return Ok(RequestBody::Form(fields));
        }
        // Some servers read no field after a file.
        let fields = fields
            .into_iter()
            .map(|(name, text)| FormPart::text(name, text));
        Ok(RequestBody::Multipart(fields.chain(files).collect()))
    }
}

impl BodyTable {
    fn is_wanted(&self, values: &TemplateValues<'_>) -> bool {
        let has = |name: &Spanned<String>| has(values, name.get_ref().as_str());
        self.only_with.as_ref().is_none_or(has) && !self.only_without.as_ref().is_some_and(has)
    }
}

impl<'de> Deserialize<'de> for BodyNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = BodyNode;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, number, boolean, list or table")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<BodyNode, E> {
        let template = Template::try_from(text.to_owned()).map_err(E::custom)?;
        Ok(BodyNode::Template(template))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<BodyNode, E> {
        Ok(BodyNode::Constant(json!(value)))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<BodyNode, E> {
        Ok(BodyNode::Constant(json!(value)))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<BodyNode, E> {
        Ok(BodyNode::Constant(json!(value)))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<BodyNode, E> {
        if value.is_finite() {
            return Ok(BodyNode::Constant(json!(value)));
        }
        Err(E::custom("this number is not valid in JSON"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<BodyNode, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(BodyNode::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<BodyNode, A::Error> {
        let mut table = BodyTable::default();
        while let Some(name) = members.next_key::<String>()? {
            match name.as_str() {
                "only_with" => table.only_with = Some(members.next_value()?),
                "only_without" => table.only_without = Some(members.next_value()?),
                "for_each" => table.for_each = Some(members.next_value()?),
                // How serde represents a TOML date.
                date if date.starts_with("$__toml") => {
                    return Err(A::Error::custom("JSON has no dates; write it as a string"));
                }
                _ => table.members.push((name, members.next_value()?)),
            }
        }
        Ok(BodyNode::Table(table))
    }
}

#[cfg(test)]
mod tests {
    use super::super::placeholder::OrderFile;
    use super::*;

    fn node(text: &str) -> BodyNode {
        #[derive(Deserialize)]
        struct File {
            body: BodyNode,
        }
        toml::from_str::<File>(text).unwrap().body
    }

    #[test]
    fn absent_values_are_dropped() {
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
        let values = TemplateValues::from([("prompt", TemplateValue::Plain(json!("p")))]);
        let rendered = body.render(&values, &ValueMaps::new()).unwrap().unwrap();
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
        let values = TemplateValues::from([(
            "references",
            TemplateValue::Files(vec![OrderFile::new(&file), OrderFile::new(&file)]),
        )]);
        let rendered = body.render(&values, &ValueMaps::new()).unwrap().unwrap();
        let expected_item = json!({"url": "image/png", "n": 1});
        assert_eq!(rendered, json!([expected_item, expected_item]));
    }

    #[test]
    fn fields_come_before_files() {
        let body = node(
            r#"body = { a = "{image:file}", b = 5, c = "x", d = { e = true }, f = "{seed}" }"#,
        );
        let file = crate::adapters::tests::picture();
        let values = TemplateValues::from([("image", TemplateValue::File(OrderFile::new(&file)))]);
        let encoded = body
            .encode(BodyEncoding::Multipart, &values, &ValueMaps::new())
            .unwrap();
        let RequestBody::Multipart(parts) = encoded else {
            panic!("not multipart");
        };
        let texts: Vec<(&str, &str)> = parts
            .iter()
            .map(|part| match part {
                FormPart::Text { name, value } => (name.as_str(), value.as_str()),
                FormPart::File { name, mime, .. } => (name.as_str(), mime.as_ref()),
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
            .encode(
                BodyEncoding::Form,
                &TemplateValues::new(),
                &ValueMaps::new(),
            )
            .unwrap();
        assert!(matches!(encoded, RequestBody::Form(fields) if fields.len() == 3));
    }
}
