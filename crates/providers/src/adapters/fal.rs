//! `fal`: to be written.

use crate::adapters::Protocol;
use crate::settings::SettingsError;

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "fal",
    base_url: None,
    options: &[],
    anonymous: false,
    build: |_| Err(SettingsError::at("protocol", "not there yet")),
};
