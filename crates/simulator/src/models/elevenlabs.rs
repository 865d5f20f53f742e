//! `elevenlabs`: to be written.

use super::Model;

pub(super) const MODEL: Model = Model {
    name: "elevenlabs",
    routes: |site| site,
};
