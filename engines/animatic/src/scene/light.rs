//! Light: the colours that an hour gives to the sky, the air and the ground.

use super::hour::{SkyCondition, TimeOfDay};
use super::noise::lattice;
use super::paint::{SceneColour, blend, scale_colour, times};

/// The light of a scene.
#[derive(Debug, Clone, Copy)]
pub(super) struct SceneLight {
    /// Sky overhead.
    pub(super) zenith: SceneColour,
    /// Sky half-way down.
    pub(super) middle: SceneColour,
    /// Sky at the horizon.
    pub(super) horizon: SceneColour,
    /// The sun, or the moon.
    pub(super) sun: SceneColour,
    /// Where it stands: share of the width, and picture heights above the horizon.
    pub(super) sun_position: (f32, f32),
    /// Its radius in picture heights; 0 if clouds hide it.
    pub(super) sun_radius: f32,
    /// The air between here and the far layers.
    pub(super) haze: SceneColour,
    /// How much of the haze there is, 0 to 1.
    pub(super) density: f32,
    /// Multiplies the ground's own colours.
    pub(super) ground: SceneColour,
    /// Cloud cover, 0 to 1.
    pub(super) clouds: f32,
    /// Stars, and lit windows, 0 to 1.
    pub(super) darkness: f32,
}

impl SceneLight {
    /// The sign of the slopes that the sun lights: 1 if it stands on the left, -1 on the right.
    pub(super) fn sun_side(&self) -> f32 {
        if self.sun_position.0 < 0.5 { 1.0 } else { -1.0 }
    }

    pub(super) fn for_hour(hour: TimeOfDay, weather: SkyCondition, seed: u64) -> Self {
        let mut light = clear_sky_light(hour);
        let chance = |n: i32| lattice(n, 77, seed);
        // No two evenings have quite the same colours.
        for (n, colour) in (0..).zip([
            &mut light.zenith,
            &mut light.middle,
            &mut light.horizon,
            &mut light.haze,
        ]) {
            for (k, channel) in (0..).zip(colour.iter_mut()) {
                *channel *= 0.93 + 0.14 * chance(n * 3 + k);
            }
        }
        light.sun_position.0 = 0.2 + 0.6 * chance(20);
        light.sun_position.1 *= 0.75 + 0.5 * chance(21);
        light.clouds *= 0.6 + 0.8 * chance(22);
        match weather {
            SkyCondition::Fair => {}
            SkyCondition::Cloudy => {
                light.clouds = 0.85;
                let grey = scale_colour(blend(light.horizon, light.zenith, 0.5), 0.9);
                light.zenith = blend(light.zenith, grey, 0.5);
                light.ground = scale_colour(light.ground, 0.85);
                light.darkness *= 0.5;
            }
            SkyCondition::Stormy => {
                // Colours of any hour become a dark grey that keeps a little of them.
                let overcast = |colour: SceneColour| {
                    let [r, g, b] = colour;
                    let grey = 0.3 * r + 0.55 * g + 0.15 * b;
                    scale_colour(blend(colour, [grey, grey, grey * 1.06], 0.86), 0.52)
                };
                light.zenith = scale_colour(overcast(light.zenith), 0.8);
                light.middle = overcast(light.middle);
                light.horizon = overcast(light.horizon);
                light.haze = overcast(light.haze);
                light.ground = scale_colour(overcast(light.ground), 1.1);
                // The clouds hide the sun and the stars; only a paler patch is left.
                light.sun = scale_colour(light.horizon, 1.2);
                light.sun_radius = 0.0;
                light.clouds = 1.0;
            }
            SkyCondition::Foggy => {
                light.density = 0.92;
                light.zenith = blend(light.zenith, light.haze, 0.55);
                light.middle = blend(light.middle, light.haze, 0.7);
                light.horizon = light.haze;
                light.sun = scale_colour(blend(light.sun, light.haze, 0.4), 0.72);
                light.clouds *= 0.4;
                light.darkness *= 0.4;
            }
        }
        light
    }

    /// A ground colour as this light shows it, `distance` away (0 here, 1 at the horizon).
    pub(super) fn lit_colour(&self, colour: SceneColour, distance: f32) -> SceneColour {
        let lit = times(colour, self.ground);
        blend(lit, self.haze, (distance * self.density).clamp(0.0, 1.0))
    }
}

fn clear_sky_light(hour: TimeOfDay) -> SceneLight {
    match hour {
        TimeOfDay::Dawn => SceneLight {
            zenith: [0.33, 0.45, 0.68],
            middle: [0.72, 0.67, 0.76],
            horizon: [1.0, 0.83, 0.70],
            sun: [1.0, 0.91, 0.76],
            sun_position: (0.5, 0.07),
            sun_radius: 0.030,
            haze: [0.87, 0.76, 0.75],
            density: 0.88,
            ground: [0.82, 0.76, 0.82],
            clouds: 0.45,
            darkness: 0.0,
        },
        TimeOfDay::Day => SceneLight {
            zenith: [0.16, 0.40, 0.76],
            middle: [0.40, 0.64, 0.90],
            horizon: [0.79, 0.89, 0.96],
            sun: [1.0, 0.98, 0.90],
            sun_position: (0.5, 0.42),
            sun_radius: 0.026,
            haze: [0.70, 0.81, 0.91],
            density: 0.80,
            ground: [1.0, 1.0, 0.98],
            clouds: 0.55,
            darkness: 0.0,
        },
        TimeOfDay::Sunset => SceneLight {
            zenith: [0.17, 0.18, 0.41],
            middle: [0.72, 0.36, 0.43],
            horizon: [1.0, 0.67, 0.33],
            sun: [1.0, 0.84, 0.52],
            sun_position: (0.5, 0.055),
            sun_radius: 0.038,
            haze: [0.84, 0.47, 0.38],
            density: 0.82,
            ground: [0.62, 0.44, 0.48],
            clouds: 0.6,
            darkness: 0.25,
        },
        TimeOfDay::Night => SceneLight {
            zenith: [0.015, 0.025, 0.075],
            middle: [0.04, 0.075, 0.17],
            horizon: [0.12, 0.18, 0.31],
            sun: [0.93, 0.95, 1.0],
            sun_position: (0.5, 0.36),
            sun_radius: 0.028,
            haze: [0.11, 0.16, 0.28],
            density: 0.80,
            ground: [0.16, 0.20, 0.32],
            clouds: 0.3,
            darkness: 1.0,
        },
    }
}
