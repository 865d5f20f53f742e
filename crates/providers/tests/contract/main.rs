//! Every adapter against its provider's model, over real HTTP.
//!
//! A protocol brings its [`suite::Case`]s in a file here; [`suite`] takes each
//! through every scenario. `CASE=fal cargo test -p providers --test contract`
//! runs those whose name holds `fal`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod chat_video;
mod fal;
mod gemini_veo;
mod openai_videos;
mod replicate;
mod suite;
mod xai;

use suite::Case;

/// The cases of all protocols.
fn cases() -> Vec<Case> {
    [
        openai_videos::cases(),
        chat_video::cases(),
        gemini_veo::cases(),
        fal::cases(),
        replicate::cases(),
        xai::cases(),
    ]
    .concat()
}
