//! Input slots: the fields of a model's input that take a file.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

/// The place for a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum InputSlot {
    /// In this field.
    Member(Cow<'static, str>),
    /// Into the list in this field.
    List(Cow<'static, str>),
}

impl InputSlot {
    /// Inserts a file's URL.
    pub(super) fn insert(self, input: &mut Map<String, Value>, url: &str) {
        match self {
            Self::Member(name) => drop(input.insert(name.into_owned(), json!(url))),
            Self::List(name) => {
                let list = input.entry(name).or_insert_with(|| json!([]));
                if let Some(list) = list.as_array_mut() {
                    list.push(json!(url));
                }
            }
        }
    }
}
