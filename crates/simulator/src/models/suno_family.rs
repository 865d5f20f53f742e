//! `suno-family`: to be written.

use super::Model;

pub(super) const MODEL: Model = Model {
    name: "suno-family",
    routes: |site| site,
};
