//! `comfyui`: to be written.

use super::Model;

pub(super) const MODEL: Model = Model {
    name: "comfyui",
    routes: |site| site,
};
