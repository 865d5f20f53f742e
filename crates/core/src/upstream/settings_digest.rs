//! Digests of settings, by which a submission's row remembers how it was made.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// A digest that does not depend on the order of the fields.
pub(super) fn settings_digest(settings: &Value) -> String {
    let digest = Sha256::digest(sorted(settings).to_string().as_bytes());
    let mut start = [0; 8];
    start.copy_from_slice(&digest[..8]);
    format!("{:016x}", u64::from_be_bytes(start))
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<&String, Value> = fields
                .iter()
                .map(|(name, value)| (name, sorted(value)))
                .collect();
            json!(fields)
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}
