//! `modelark`: to be written.

use super::Model;

pub(super) const MODEL: Model = Model {
    name: "modelark",
    routes: |site| site,
};
