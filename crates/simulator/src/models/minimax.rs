//! `minimax`: to be written.

use super::Model;

pub(super) const MODEL: Model = Model {
    name: "minimax",
    routes: |site| site,
};
