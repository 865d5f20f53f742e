//! `replicate`: to be written.

use super::Model;

pub(super) const MODEL: Model = Model {
    name: "replicate",
    routes: |site| site,
};
