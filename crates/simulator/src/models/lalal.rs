//! `lalal`: to be written.

use super::Model;

pub(super) const MODEL: Model = Model {
    name: "lalal",
    routes: |site| site,
};
