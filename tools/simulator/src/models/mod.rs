//! The simulated providers, one file each; this file is their table.
//!
//! A [`SimulatedProvider`] is a name and a router whose paths are those of the provider, below its
//! base URL. Each route declares its role through [`SimulatedSite::route`], which also
//! journals the request and applies faults.

pub mod audioshake;
pub mod chat_video;
pub mod comfyui;
pub mod dashscope;
pub mod elevenlabs;
pub mod fal;
pub mod gemini_veo;
pub mod hunyuan;
pub mod kie;
pub mod kie_suno;
pub mod kling;
pub mod lalal;
pub mod ltx;
pub mod luma;
pub mod minimax;
pub mod modelark;
pub mod mureka;
pub mod musicai;
pub mod openai_videos;
pub mod openrouter;
pub mod pixverse;
pub mod replicate;
mod results;
pub mod runway;
pub mod suno_family;
pub mod vidu;
pub mod wavespeed;
pub mod xai;

use crate::site::SimulatedSite;

/// A simulated provider.
#[derive(Clone, Copy)]
pub struct SimulatedProvider {
    /// The protocol's name; also the first segment of its paths.
    pub name: &'static str,
    /// Adds its routes.
    pub routes: fn(SimulatedSite) -> SimulatedSite,
}

/// All simulated providers.
pub const PROVIDERS: &[SimulatedProvider] = &[
    openai_videos::PROVIDER,
    chat_video::PROVIDER,
    gemini_veo::PROVIDER,
    fal::PROVIDER,
    replicate::PROVIDER,
    runway::PROVIDER,
    luma::PROVIDER,
    kling::PROVIDER,
    minimax::PROVIDER,
    modelark::PROVIDER,
    xai::PROVIDER,
    dashscope::PROVIDER,
    suno_family::PROVIDER,
    elevenlabs::PROVIDER,
    musicai::PROVIDER,
    lalal::PROVIDER,
    audioshake::PROVIDER,
    comfyui::PROVIDER,
    openrouter::PROVIDER,
    wavespeed::PROVIDER,
    kie::PROVIDER,
    pixverse::PROVIDER,
    hunyuan::PROVIDER,
    vidu::PROVIDER,
    ltx::PROVIDER,
    mureka::PROVIDER,
    kie_suno::PROVIDER,
];
