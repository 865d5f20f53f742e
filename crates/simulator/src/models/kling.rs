//! `kling`: to be written.

use super::Model;

pub(super) const MODEL: Model = Model {
    name: "kling",
    routes: |site| site,
};
