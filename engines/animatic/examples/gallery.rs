//! Makes the stills of `docs/models/animatic-1.md`: one frame of each prompt's video, as JPEG.
//!
//! `cargo run --release -p animatic --example gallery -- docs/models/gallery`

use std::error::Error;
use std::path::Path;

use animatic::{Direction, RenderOptions, RenderRequest, RequestedOptions};

/// Name of the still, prompt, and the frame to keep.
const GALLERY: [(&str, &str, u32); 6] = [
    (
        "lake",
        "a lake under the mountains at dawn, slow dolly in, mist, \"First Light\"",
        75,
    ),
    (
        "city",
        "a neon city at night in the rain, truck right, sound of rain",
        60,
    ),
    (
        "desert",
        "desert dunes at sunset, slow pan left, dust in the air, warm light",
        90,
    ),
    (
        "winter",
        "a snowy forest by night, heavy snowfall, slow push in, vignette",
        60,
    ),
    (
        "space",
        "a galaxy and a planet, orbit left, fade in, fade out",
        75,
    ),
    (
        "harbour",
        "a harbour by the sea at sunset, black and white, film grain, handheld",
        75,
    ),
];

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("give a folder to write to")?;
    for (name, prompt, frame) in GALLERY {
        let requested = RequestedOptions {
            size: Some((854, 480)),
            seed: Some(7),
            ..RequestedOptions::default()
        };
        let options = RenderOptions::resolve(&requested, &Direction::parse(prompt))?;
        let request = RenderRequest {
            picture: None,
            prompt,
            options,
        };
        let still = animatic::still(&request, frame)?;
        std::fs::write(
            Path::new(&folder).join(format!("{name}.jpg")),
            still.to_jpeg(80)?,
        )?;
    }
    Ok(())
}
