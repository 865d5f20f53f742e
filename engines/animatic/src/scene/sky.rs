//! The sky: gradient, stars, sun or moon with its glow, clouds.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "star cells are counted in small numbers"
)]

use super::light::SceneLight;
use super::noise::{fractal, lattice, smoothstep};
use super::paint::{SceneCanvas, SceneColour, add, blend, scale_colour};

pub(super) fn draw(canvas: &mut SceneCanvas, light: &SceneLight, horizon: f32, seed: u64) {
    let sun = (
        light.sun_position.0 * canvas.aspect(),
        horizon - light.sun_position.1,
    );
    canvas.paint(0.0, 1.0, |u, v, _| {
        let height = (1.0 - v / horizon).clamp(0.0, 1.0);
        let base = gradient(light, height);
        let sun_distance = ((u - sun.0).powi(2) + (v - sun.1).powi(2)).sqrt();
        // Two halos: a wide one that warms half the sky and a tight one around the disc.
        let warmth = 0.30 * (-sun_distance * 2.6).exp() + 0.45 * (-sun_distance * 11.0).exp();
        add(base, light.sun, warmth * (1.0 - 0.72 * light.darkness))
    });
    // In a storm neither stars nor the sun are seen.
    if light.sun_radius > 0.0 {
        if light.darkness > 0.1 {
            stars(canvas, horizon, light.darkness, seed);
        }
        disc(canvas, light, sun);
    }
    clouds(canvas, light, horizon, sun, seed);
}

/// The clear sky at a height above the horizon, 0 to 1.
fn gradient(light: &SceneLight, height: f32) -> SceneColour {
    let low = blend(light.horizon, light.middle, smoothstep(0.0, 0.42, height));
    blend(low, light.zenith, smoothstep(0.22, 1.0, height))
}

/// Stars above a height, more and brighter the darker it is.
pub(super) fn stars(canvas: &mut SceneCanvas, bottom: f32, darkness: f32, seed: u64) {
    const CELL: f32 = 1.0 / 42.0;
    let (columns, rows) = ((canvas.aspect() / CELL) as i32, (bottom / CELL) as i32);
    for j in 0..=rows {
        for i in 0..=columns {
            let chance = |n: u64| lattice(i, j, seed.wrapping_add(900 + n));
            let brightness = chance(0).powi(4) * darkness;
            let position = ((i as f32 + chance(1)) * CELL, (j as f32 + chance(2)) * CELL);
            let horizon_fade = smoothstep(bottom, bottom * 0.55, position.1);
            if brightness * horizon_fade < 0.02 {
                continue;
            }
            let tint = [1.0, 0.86 + 0.14 * chance(3), 0.78 + 0.22 * chance(4)];
            // Never smaller than a pixel and a half: a star must not flicker as the camera moves.
            let radius = (0.0011 + 0.0018 * brightness).max(1.5 * canvas.pixel());
            canvas.glow(
                position,
                radius,
                scale_colour(tint, 1.3 * brightness * horizon_fade),
            );
        }
    }
}

fn disc(canvas: &mut SceneCanvas, light: &SceneLight, sun: (f32, f32)) {
    let radius = light.sun_radius;
    let soft = canvas.pixel().max(radius * 0.06);
    canvas.paint(
        sun.1 - radius * 1.2,
        sun.1 + radius * 1.2,
        |u, v, background| {
            let (du, dv) = ((u - sun.0) / radius, (v - sun.1) / radius);
            let distance = (du * du + dv * dv).sqrt();
            let coverage = smoothstep(1.0, 1.0 - soft / radius, distance);
            if coverage <= 0.0 {
                return background;
            }
            // The moon has its seas; the sun's face is even.
            let seas = 0.22
                * light.darkness.floor()
                * smoothstep(0.45, 0.7, fractal(du * 1.7 + 9.0, dv * 1.7, 4, 5));
            let face = scale_colour(add(light.sun, [1.0, 1.0, 1.0], 0.25), 1.0 - seas);
            // In mist the glow may outshine the disc, which must not become a hole in it.
            let face = [0, 1, 2].map(|c| face[c].max(background[c]));
            blend(background, face, coverage)
        },
    );
}

/// Clouds on a ceiling that recedes to the horizon, lit from the side of the sun.
fn clouds(canvas: &mut SceneCanvas, light: &SceneLight, horizon: f32, sun: (f32, f32), seed: u64) {
    if light.clouds <= 0.02 {
        return;
    }
    let middle = canvas.aspect() / 2.0;
    let cover = 0.68 - 0.34 * light.clouds;
    let bright = blend(light.horizon, light.sun, 0.55);
    let dull = blend(light.middle, light.haze, 0.5);
    canvas.paint(0.0, horizon, |u, v, background| {
        let height = horizon - v;
        let distance = 1.0 / (height + 0.16);
        let (x, y) = ((u - middle) * distance * 0.9, distance * 1.9);
        let thickness = fractal(x, y, 5, seed.wrapping_add(40));
        let body = smoothstep(cover, cover + 0.24, thickness);
        if body <= 0.0 {
            return background;
        }
        // A cloud is lit where it is thinner towards the sun, so its thickness is also looked up
        // one step that way.
        let step = ((sun.0 - u) * 5.0).clamp(-1.0, 1.0) * 0.12;
        let sunward_thickness = fractal(x + step, y - 0.1, 4, seed.wrapping_add(40));
        let lit = (0.5 + (thickness - sunward_thickness) * 3.2).clamp(0.0, 1.0);
        let sun_distance = ((u - sun.0).powi(2) + (v - sun.1).powi(2)).sqrt();
        let rim = 0.35 * (-sun_distance * 4.0).exp() * (1.0 - 0.6 * light.darkness);
        let colour = add(blend(dull, bright, lit), light.sun, rim);
        // Towards the horizon clouds sink into the haze.
        let fade = smoothstep(0.01, 0.16, height) * (0.82 - 0.45 * light.darkness);
        blend(background, colour, body * fade)
    });
}
