//! `xai`: to be written.

use super::Model;

pub(super) const MODEL: Model = Model {
    name: "xai",
    routes: |site| site,
};
