//! `fal`: to be written.

use super::Model;

pub(super) const MODEL: Model = Model {
    name: "fal",
    routes: |site| site,
};
