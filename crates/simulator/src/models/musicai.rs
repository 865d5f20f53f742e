//! `musicai`: to be written.

use super::Model;

pub(super) const MODEL: Model = Model {
    name: "musicai",
    routes: |site| site,
};
