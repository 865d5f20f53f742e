//! The providers, one file each; this file is their table.
//!
//! A model is a [`ProviderModel`]: a name and a router whose paths are those of the provider, below
//! its base address. Each route declares its role through [`SimulatedSite::route`], which also
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
pub struct ProviderModel {
    /// The protocol's name; also the first segment of its paths.
    pub name: &'static str,
    /// Adds its routes.
    pub routes: fn(SimulatedSite) -> SimulatedSite,
}

/// The models of all providers.
pub const MODELS: [ProviderModel; 27] = [
    openai_videos::MODEL,
    chat_video::MODEL,
    gemini_veo::MODEL,
    fal::MODEL,
    replicate::MODEL,
    runway::MODEL,
    luma::MODEL,
    kling::MODEL,
    minimax::MODEL,
    modelark::MODEL,
    xai::MODEL,
    dashscope::MODEL,
    suno_family::MODEL,
    elevenlabs::MODEL,
    musicai::MODEL,
    lalal::MODEL,
    audioshake::MODEL,
    comfyui::MODEL,
    openrouter::MODEL,
    wavespeed::MODEL,
    kie::MODEL,
    pixverse::MODEL,
    hunyuan::MODEL,
    vidu::MODEL,
    ltx::MODEL,
    mureka::MODEL,
    kie_suno::MODEL,
];
