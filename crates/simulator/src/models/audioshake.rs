//! `audioshake`: to be written.

use super::Model;

pub(super) const MODEL: Model = Model {
    name: "audioshake",
    routes: |site| site,
};
