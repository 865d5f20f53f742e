//! `dashscope`: to be written.

use super::Model;

pub(super) const MODEL: Model = Model {
    name: "dashscope",
    routes: |site| site,
};
