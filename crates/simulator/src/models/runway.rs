//! `runway`: to be written.

use super::Model;

pub(super) const MODEL: Model = Model {
    name: "runway",
    routes: |site| site,
};
