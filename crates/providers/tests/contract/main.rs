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

mod any_list;
mod audioshake;
mod chat_video;
mod comfyui;
mod dashscope;
mod elevenlabs;
mod fal;
mod gemini_veo;
mod kling;
mod lalal;
mod luma;
mod minimax;
mod modelark;
mod musicai;
mod openai_videos;
mod recipe;
mod replicate;
mod runway;
mod suite;
mod suno_family;
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
        runway::cases(),
        luma::cases(),
        kling::cases(),
        minimax::cases(),
        modelark::cases(),
        xai::cases(),
        dashscope::cases(),
        suno_family::cases(),
        elevenlabs::cases(),
        musicai::cases(),
        lalal::cases(),
        audioshake::cases(),
        comfyui::cases(),
        recipe::cases(),
    ]
    .concat()
}
