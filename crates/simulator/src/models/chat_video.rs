//! `chat-video`: to be written.

use super::Model;

pub(super) const MODEL: Model = Model {
    name: "chat-video",
    routes: |site| site,
};
