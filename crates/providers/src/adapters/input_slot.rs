//! Input slots: the members of a model's input that take a file.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

/// Where a file goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum InputSlot {
    /// Into this member.
    Member(Cow<'static, str>),
    /// Into the list under this member.
    List(Cow<'static, str>),
}

impl InputSlot {
    /// Puts a file's address there.
    pub(super) fn put(self, input: &mut Map<String, Value>, address: &str) {
        match self {
            Self::Member(name) => drop(input.insert(name.into_owned(), json!(address))),
            Self::List(name) => {
                let list = input.entry(name).or_insert_with(|| json!([]));
                if let Some(list) = list.as_array_mut() {
                    list.push(json!(address));
                }
            }
        }
    }
}
