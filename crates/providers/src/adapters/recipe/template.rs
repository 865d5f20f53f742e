//! Text with placeholders: `/videos/{id}`, `{seconds:text}`, `{tier|resolution}`.
//!
//! ```text
//! {name}        the value, in its own type if nothing else is in the text
//! {name:how}    the value in another format
//! {name|map}    the value, translated by [maps.map]
//! {{ }}         braces
//! ```

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::Value;

use super::placeholder::{Placeholder, TemplateValues, ValueFormat, ValueNames};
use super::pointer::text_of;
use super::schema::ValueMaps;
use crate::error::ProviderError;

/// Escapes for a segment of a path: a slash in a value must not separate segments.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Escapes for several segments, whose slashes stay: for `{model:path}`.
const SEGMENTS: &AsciiSet = &SEGMENT.remove(b'/');

/// A parsed template.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Template(Vec<TemplatePiece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePiece {
    Text(String),
    Value(Placeholder),
}

impl TryFrom<String> for Template {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text.as_str();
        while let Some(brace) = rest.find(['{', '}']) {
            plain.push_str(&rest[..brace]);
            rest = &rest[brace..];
            if let Some(after) = rest.strip_prefix("{{").or_else(|| rest.strip_prefix("}}")) {
                plain.push_str(&rest[..1]);
                rest = after;
                continue;
            }
            let placeholder = rest
                .strip_prefix('{')
                .and_then(|placeholder| placeholder.split_once('}'));
            let Some((placeholder, after)) = placeholder else {
                return Err(format!(
                    "unmatched brace in {text:?}; write {{{{ or }}}} for a literal brace"
                ));
            };
            if !plain.is_empty() {
                pieces.push(TemplatePiece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(TemplatePiece::Value(Placeholder::parse(placeholder)?));
            rest = after;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(TemplatePiece::Text(plain));
        }
        Ok(Self(pieces))
    }
}

impl Template {
    /// Its placeholders.
    pub(super) fn placeholders(&self) -> impl Iterator<Item = &Placeholder> {
        self.0.iter().filter_map(|piece| match piece {
            TemplatePiece::Text(_) => None,
            TemplatePiece::Value(placeholder) => Some(placeholder),
        })
    }

    /// Whether it is a path and not a complete URL.
    pub(super) fn is_path(&self) -> bool {
        matches!(self.0.first(), Some(TemplatePiece::Text(text)) if text.starts_with('/'))
    }

    /// Whether it is one value and nothing else.
    pub(super) fn is_value(&self) -> bool {
        self.sole_placeholder().is_some()
    }

    fn sole_placeholder(&self) -> Option<&Placeholder> {
        match self.0.as_slice() {
            [TemplatePiece::Value(placeholder)] => Some(placeholder),
            _ => None,
        }
    }

    /// The name of the file that it inserts.
    pub(super) fn file(&self) -> Option<&str> {
        let sole = self
            .sole_placeholder()
            .filter(|sole| sole.format == ValueFormat::File);
        sole.map(|sole| sole.name.as_str())
    }

    /// Checks it, given the known names and maps.
    pub(super) fn check(&self, names: &ValueNames<'_>, maps: &ValueMaps) -> Result<(), String> {
        for placeholder in self.placeholders() {
            placeholder.check(names, maps, self.0.len() == 1)?;
        }
        Ok(())
    }

    /// The value: in its own type if the template is a single placeholder, otherwise text. `None`
    /// if a value is missing.
    pub(super) fn value(
        &self,
        values: &TemplateValues<'_>,
        maps: &ValueMaps,
    ) -> Result<Option<Value>, ProviderError> {
        if let Some(placeholder) = self.sole_placeholder() {
            return placeholder.value(values, maps);
        }
        let text = self.text(values, maps)?;
        Ok(text.map(Value::String))
    }

    /// The text; `None` if a value is missing.
    pub(super) fn text(
        &self,
        values: &TemplateValues<'_>,
        maps: &ValueMaps,
    ) -> Result<Option<String>, ProviderError> {
        self.write(values, maps, |_, text| text)
    }

    /// The text with values escaped as parts of a path.
    pub(super) fn path(
        &self,
        values: &TemplateValues<'_>,
        maps: &ValueMaps,
    ) -> Result<Option<String>, ProviderError> {
        self.write(values, maps, |format, text| {
            let unescaped = if format == ValueFormat::Path {
                SEGMENTS
            } else {
                SEGMENT
            };
            utf8_percent_encode(&text, unescaped).to_string()
        })
    }

    fn write(
        &self,
        values: &TemplateValues<'_>,
        maps: &ValueMaps,
        escape: impl Fn(ValueFormat, String) -> String,
    ) -> Result<Option<String>, ProviderError> {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                TemplatePiece::Text(literal) => text.push_str(literal),
                TemplatePiece::Value(placeholder) => match placeholder.value(values, maps)? {
                    None => return Ok(None),
                    Some(value) => {
                        let value_text = text_of(&value).unwrap_or_else(|| match value {
                            Value::String(text) => text,
                            other => other.to_string(),
                        });
                        text.push_str(&escape(placeholder.format, value_text));
                    }
                },
            }
        }
        Ok(Some(text))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::placeholder::{OrderFile, TemplateValue, ValueKind};
    use super::*;

    fn render(template: &str) -> Option<Value> {
        let file = crate::adapters::tests::picture();
        let values = TemplateValues::from([
            ("id", TemplateValue::Plain(json!("a/b c"))),
            ("seconds", TemplateValue::Plain(json!(5))),
            ("size", TemplateValue::Size((1280, 720))),
            ("tier", TemplateValue::Plain(json!("720p"))),
            ("image", TemplateValue::File(OrderFile::new(&file))),
        ]);
        let maps = ValueMaps::from([("big".into(), [("720p".into(), json!("720P"))].into())]);
        let template = Template::try_from(template.to_owned()).unwrap();
        template.value(&values, &maps).unwrap()
    }

    #[test]
    fn values_keep_their_type_when_alone() {
        for (template, value) in [
            ("{seconds}", json!(5)),
            ("{seconds:text}", json!("5")),
            ("{seconds}s", json!("5s")),
            ("{size}", json!("1280x720")),
            ("{size::}", json!("1280:720")),
            ("{size:*}", json!("1280*720")),
            ("{tier|big}", json!("720P")),
            ("{image:mime}", json!("image/png")),
            ("{image:base64}", json!("iVBORw0KGgo=")),
            ("{{{seconds}}}", json!("{5}")),
            ("", json!("")),
        ] {
            assert_eq!(render(template), Some(value), "{template}");
        }
        assert_eq!(render("{seed}"), None);
        assert_eq!(render("seed {seed} of {seconds}"), None);
    }

    #[test]
    fn paths_are_escaped() {
        let values = TemplateValues::from([("id", TemplateValue::Plain(json!("a/b c?")))]);
        let path = |text: &str| {
            let template = Template::try_from(text.to_owned()).unwrap();
            template.path(&values, &ValueMaps::new()).unwrap().unwrap()
        };
        assert_eq!(path("/v/{id}"), "/v/a%2Fb%20c%3F");
        assert_eq!(path("/v/{id:path}"), "/v/a/b%20c%3F");
    }

    #[test]
    fn broken_templates_say_why() {
        for (text, expected) in [
            ("{id", "unmatched brace"),
            ("id}", "unmatched brace"),
            ("{id:txt}", "did you mean \"text\""),
        ] {
            let error = Template::try_from(text.to_owned()).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let names = ValueNames::from([("prompt", ValueKind::Text), ("image", ValueKind::File)]);
        for (text, expected) in [
            ("{promt}", "did you mean \"prompt\""),
            ("{prompt:base64}", "cannot be used in this format"),
            ("{prompt|x}", "no [maps.x]"),
            ("a{image:file}", "cannot be used in this format"),
        ] {
            let template = Template::try_from(text.to_owned()).unwrap();
            let error = template.check(&names, &ValueMaps::new()).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
