//! `luma`: to be written.

use super::Model;

pub(super) const MODEL: Model = Model {
    name: "luma",
    routes: |site| site,
};
