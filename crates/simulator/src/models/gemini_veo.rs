//! `gemini-veo`: to be written.

use super::Model;

pub(super) const MODEL: Model = Model {
    name: "gemini-veo",
    routes: |site| site,
};
