//! Values of orders and jobs, and their format: `{name:how|map}`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::fault::nearest;
use super::pointer::text_of;
use super::schema::ValueMaps;
use crate::error::{ErrorClass, ProviderError};
use crate::frame_size;
use crate::order::MediaFile;

/// Something to fill in.
#[derive(Debug, Clone)]
pub(super) enum TemplateValue<'a> {
    /// Text or a number.
    Plain(Value),
    /// A frame size.
    Size((u32, u32)),
    /// A picture or recording.
    File(OrderFile<'a>),
    /// The files of the pictures.
    Files(Vec<OrderFile<'a>>),
}

/// A file, and its id at the provider once it is uploaded.
#[derive(Debug, Clone, Copy)]
pub(super) struct OrderFile<'a> {
    pub(super) file: &'a MediaFile,
    pub(super) id: Option<&'a Value>,
}

impl<'a> OrderFile<'a> {
    /// A file that the provider does not have.
    pub(super) const fn new(file: &'a MediaFile) -> Self {
        Self { file, id: None }
    }
}

/// The available values, by name.
pub(super) type TemplateValues<'a> = BTreeMap<&'a str, TemplateValue<'a>>;

/// The kinds of values, which determine their possible formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueKind {
    Text,
    Number,
    Size,
    File,
    Files,
}

/// The names that may be used, and the kinds of their values.
pub(super) type ValueNames<'a> = BTreeMap<&'a str, ValueKind>;

/// `{name:how|map}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Placeholder {
    pub(super) name: String,
    pub(super) format: ValueFormat,
    pub(super) map: Option<String>,
}

/// The format of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueFormat {
    /// The value is inserted unchanged.
    Plain,
    /// A number as text.
    Text,
    /// A text whose slashes are not escaped.
    Path,
    /// A size with this character between its numbers.
    Between(char),
    /// A file's URL.
    Url,
    /// A file as a `data:` URL.
    DataUrl,
    /// A file in base64.
    Base64,
    /// A file's media type.
    Mime,
    /// A file's name.
    Name,
    /// A file as a part of a multipart body.
    File,
    /// The provider's id of an uploaded file.
    Uploaded,
}

impl Placeholder {
    /// Parses the text between the braces.
    pub(super) fn parse(inner: &str) -> Result<Self, String> {
        let (value, map) = match inner.split_once('|') {
            Some((value, map)) => (value, Some(map.to_owned())),
            None => (inner, None),
        };
        let (name, format) = match value.split_once(':') {
            None => (value, ValueFormat::Plain),
            Some((name, format)) => (
                name,
                parse_format(format).ok_or_else(|| unknown_format(inner, format))?,
            ),
        };
        Ok(Self {
            name: name.to_owned(),
            format,
            map,
        })
    }

    /// Checks it, given the known names and maps.
    pub(super) fn check(
        &self,
        names: &ValueNames<'_>,
        maps: &ValueMaps,
        is_sole: bool,
    ) -> Result<(), String> {
        let name = self.name.as_str();
        let Some(kind) = names.get(name) else {
            let all: Vec<&str> = names.keys().copied().collect();
            return Err(format!(
                "{{{name}}} is not a value here (the values are {}){}",
                all.join(", "),
                nearest(name, all.iter().copied())
            ));
        };
        let fits = match self.format {
            ValueFormat::Plain => true,
            ValueFormat::Path => *kind == ValueKind::Text,
            ValueFormat::Text => *kind == ValueKind::Number,
            ValueFormat::Between(_) => *kind == ValueKind::Size,
            ValueFormat::Url
            | ValueFormat::DataUrl
            | ValueFormat::Base64
            | ValueFormat::Uploaded => {
                matches!(kind, ValueKind::File | ValueKind::Files)
            }
            ValueFormat::Mime | ValueFormat::Name => *kind == ValueKind::File,
            ValueFormat::File => *kind == ValueKind::File && is_sole && self.map.is_none(),
        };
        if !fits {
            return Err(format!("{{{name}}} cannot be used in this format here"));
        }
        if let Some(map) = &self.map {
            if !maps.contains_key(map) {
                let all = maps.keys().map(String::as_str);
                return Err(format!("there is no [maps.{map}]{}", nearest(map, all)));
            }
            if matches!(kind, ValueKind::File | ValueKind::Files) {
                return Err(format!("{{{name}}} is a file and cannot be mapped"));
            }
        }
        Ok(())
    }

    /// Whether it needs a URL, which only some files have.
    pub(super) fn needs_address(&self) -> bool {
        self.format == ValueFormat::Url
    }

    /// The value; `None` if the order has none.
    pub(super) fn value(
        &self,
        values: &TemplateValues<'_>,
        maps: &ValueMaps,
    ) -> Result<Option<Value>, ProviderError> {
        let Some(value) = values.get(self.name.as_str()) else {
            return Ok(None);
        };
        let value = match value {
            TemplateValue::Plain(Value::Number(number)) if self.format == ValueFormat::Text => {
                json!(number.to_string())
            }
            TemplateValue::Plain(value) => value.clone(),
            TemplateValue::Size(size) => {
                let separator = match self.format {
                    ValueFormat::Between(separator) => separator,
                    _ => 'x',
                };
                json!(frame_size::size_text(*size, separator))
            }
            TemplateValue::File(order_file) => self.file(*order_file)?,
            TemplateValue::Files(files) => {
                let files = files.iter().map(|order_file| self.file(*order_file));
                Value::Array(files.collect::<Result<_, _>>()?)
            }
        };
        let Some(name) = &self.map else {
            return Ok(Some(value));
        };
        let key = match &value {
            Value::Bool(flag) => flag.to_string(),
            value => text_of(value).unwrap_or_default(),
        };
        let entries = maps.get(name);
        let entry = entries.and_then(|entries| entries.get(&key).or_else(|| entries.get("*")));
        entry.cloned().map(Some).ok_or_else(|| {
            let message = format!("[maps.{name}] of the recipe has no entry for {key:?}");
            ProviderError::new(ErrorClass::Rejected, message)
        })
    }

    fn file(&self, OrderFile { file, id }: OrderFile<'_>) -> Result<Value, ProviderError> {
        Ok(match self.format {
            ValueFormat::Uploaded => id.cloned().unwrap_or_default(),
            ValueFormat::DataUrl => json!(file.data_url()),
            ValueFormat::Base64 => json!(file.base64()),
            ValueFormat::Mime => json!(file.mime),
            ValueFormat::Name => json!(file.name),
            // Without the file, the provider would make something other than ordered.
            ValueFormat::Url => json!(file.url.as_ref().ok_or_else(|| {
                let message =
                    "this provider fetches files by URL, but this gateway has no public URL";
                ProviderError::new(ErrorClass::Rejected, message)
            })?),
            _ => json!(file.url_or_data()),
        })
    }
}

const VALUE_FORMATS: [(&str, ValueFormat); 9] = [
    ("text", ValueFormat::Text),
    ("path", ValueFormat::Path),
    ("url", ValueFormat::Url),
    ("data_url", ValueFormat::DataUrl),
    ("base64", ValueFormat::Base64),
    ("mime", ValueFormat::Mime),
    ("name", ValueFormat::Name),
    ("file", ValueFormat::File),
    ("uploaded", ValueFormat::Uploaded),
];

fn parse_format(text: &str) -> Option<ValueFormat> {
    let mut chars = text.chars();
    if let (Some(separator), None) = (chars.next(), chars.next()) {
        return Some(ValueFormat::Between(separator));
    }
    let entry = VALUE_FORMATS.iter().find(|(name, _)| *name == text);
    entry.map(|(_, format)| *format)
}

fn unknown_format(inner: &str, format: &str) -> String {
    let formats = VALUE_FORMATS.map(|(name, _)| name);
    format!(
        "{{{inner}}}: {format:?} is not a format (the formats are {} and, for a size, one character){}",
        formats.join(", "),
        nearest(format, formats)
    )
}
