//! Weather: particles and fog between the camera and the scene.
//!
//! Particles are pure functions of time, seed and their number: nothing is carried from frame to
//! frame, so any frame can be drawn alone. Each has a nearness; near ones are larger, faster and
//! softer, and follow more of the camera's move, which is what gives the air depth.

mod fog;
mod sprite;

use crate::direction::{ParticleAmount, ParticleKind, WeatherEffect};
use crate::options::RenderOptions;
use crate::scene::noise::{lattice, mix};
use fog::FogSheets;
use sprite::{SoftStreak, SpriteColour, SpriteFrame};

/// The weather of a shot.
pub(crate) struct WeatherOverlay {
    weather: Vec<WeatherEffect>,
    fog: Option<FogSheets>,
    seed: u64,
    fps: f32,
    /// The colour of a white object in the scene's light.
    light: SpriteColour,
}

/// How far the camera has moved, as the weather shows it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CameraDrift {
    /// How far the nearest layer has moved across the frame since the first frame, in frame
    /// widths.
    pub(crate) across: f32,
    /// The same downwards.
    pub(crate) down: f32,
}

impl WeatherOverlay {
    /// `mean` is the mean colour of the scene without weather.
    pub(crate) fn new(weather: &[WeatherEffect], options: &RenderOptions, mean: [f32; 3]) -> Self {
        let light = mean.map(|c| (60.0 + 0.75 * c).clamp(0.0, 235.0));
        let fog = weather.iter().find(|w| w.particles == ParticleKind::Fog);
        Self {
            weather: weather.to_vec(),
            fog: fog.map(|w| FogSheets::new(w.amount, options.seed)),
            seed: options.seed,
            fps: f32::from(u16::try_from(options.fps).unwrap_or(30)),
            light,
        }
    }

    /// Whether the air is clear.
    pub(crate) fn is_clear(&self) -> bool {
        self.weather.is_empty()
    }

    /// Draws the weather over a frame, rows of `width` pixels.
    pub(crate) fn draw(&self, frame: usize, drift: CameraDrift, width: usize, rgba: &mut [u8]) {
        let seconds = f32::from(u16::try_from(frame).unwrap_or(u16::MAX)) / self.fps;
        let mut frame = SpriteFrame::new(rgba, width);
        for weather in &self.weather {
            let swarm = ParticleSwarm {
                // Each kind has its own seed. Otherwise all kinds would have particles at the same
                // positions.
                seed: self.seed.wrapping_add(weather.particles as u64 * 1_000_003),
                amount: weather.amount,
                seconds,
                drift,
                light: self.light,
            };
            match weather.particles {
                ParticleKind::Rain => swarm.rain(&mut frame),
                ParticleKind::Snow => swarm.snow(&mut frame),
                ParticleKind::Fog => {
                    if let Some(fog) = &self.fog {
                        fog.draw(seconds, drift.across, self.light, &mut frame);
                    }
                }
                ParticleKind::Dust => swarm.dust(&mut frame),
                ParticleKind::Embers => swarm.embers(&mut frame),
                ParticleKind::Stars => swarm.stars(&mut frame),
                ParticleKind::Confetti => swarm.confetti(&mut frame),
            }
        }
    }
}

/// Particles of one kind at one moment. Lengths are in frame heights.
struct ParticleSwarm {
    seed: u64,
    amount: ParticleAmount,
    seconds: f32,
    drift: CameraDrift,
    light: SpriteColour,
}

/// One particle: its random numbers, and its nearness.
struct WeatherParticle {
    number: i32,
    seed: u64,
    /// 0 far, 1 near; many are far and few are near.
    nearness: f32,
}

impl WeatherParticle {
    /// A number in 0..1 that belongs to this particle.
    fn chance(&self, n: i32) -> f32 {
        lattice(self.number, n, self.seed)
    }
}

impl ParticleSwarm {
    fn particles(&self, usual_count: i32) -> impl Iterator<Item = WeatherParticle> {
        let count = match self.amount {
            ParticleAmount::Light => usual_count * 2 / 5,
            ParticleAmount::Usual => usual_count,
            ParticleAmount::Heavy => usual_count * 2,
        };
        let seed = self.seed;
        (0..count).map(move |number| WeatherParticle {
            number,
            seed,
            nearness: lattice(number, 0, seed).powf(2.2),
        })
    }

    /// The position of a particle that crosses the frame downwards at `speed` frame heights a
    /// second. Each time, it restarts above the frame at another position.
    fn falling_position(
        &self,
        particle: &WeatherParticle,
        speed: f32,
        margin: f32,
        aspect: f32,
    ) -> (f32, f32) {
        let distance = 1.0 + 2.0 * margin;
        // Drift is in frame widths, and positions are in frame heights.
        let down = self.drift.down * aspect * mix(0.3, 1.0, particle.nearness);
        let travelled = particle.chance(1) + (self.seconds * speed - down) / distance;
        #[expect(clippy::cast_possible_truncation, reason = "a few rounds")]
        let cycle = travelled.floor() as i32;
        let x = lattice(particle.number, 900 + cycle, particle.seed);
        (
            self.wrapped_position(x, particle.nearness, aspect),
            (travelled - travelled.floor()) * distance - margin,
        )
    }

    /// A position across the frame, moved by the camera and brought back from beyond the edges.
    fn wrapped_position(&self, chance: f32, nearness: f32, aspect: f32) -> f32 {
        // The strip is a tenth wider on each side, so a particle comes back where it cannot be
        // seen.
        let moved = chance - self.drift.across * mix(0.3, 1.0, nearness) / 1.2;
        ((moved - moved.floor()) * 1.2 - 0.1) * aspect
    }

    fn rain(&self, frame: &mut SpriteFrame<'_>) {
        // A little wind, the same for every drop.
        let lean = mix(-0.16, 0.16, lattice(3, 7, self.seed));
        for particle in self.particles(620) {
            let speed = mix(1.1, 3.0, particle.nearness) * mix(0.9, 1.1, particle.chance(2));
            let length = speed * mix(0.022, 0.040, particle.nearness);
            let (x, y) = self.falling_position(&particle, speed, 0.15, frame.aspect());
            frame.draw_streak(SoftStreak {
                from: (x + lean * (y - length), y - length),
                to: (x + lean * y, y),
                width: mix(0.0012, 0.0042, particle.nearness),
                colour: self.light.map(|c| c * 0.55 + 110.0),
                opacity: mix(0.14, 0.34, particle.nearness) * mix(0.6, 1.0, particle.chance(3)),
            });
        }
    }

    fn snow(&self, frame: &mut SpriteFrame<'_>) {
        for particle in self.particles(520) {
            let nearness = particle.nearness;
            let speed = mix(0.055, 0.30, nearness) * mix(0.8, 1.2, particle.chance(2));
            let (x, y) = self.falling_position(&particle, speed, 0.06, frame.aspect());
            let pace = mix(0.7, 1.6, particle.chance(3));
            let sway = (self.seconds * pace + particle.chance(4) * 6.3).sin();
            let wind = (self.seconds * 0.4 + y * 3.0).sin() * 0.02;
            let x = x + (sway * 0.016 + wind) * mix(0.4, 1.6, nearness);
            // The nearest are out of focus.
            let radius =
                mix(0.0020, 0.0150, nearness * nearness) * mix(0.7, 1.3, particle.chance(5));
            let opacity = mix(0.80, 0.42, nearness) * mix(0.6, 1.0, particle.chance(6));
            let white = self.light.map(|c| c * 0.25 + 190.0);
            frame.draw_disc((x, y), radius.max(1.1 * frame.pixel()), white, opacity);
        }
    }

    fn dust(&self, frame: &mut SpriteFrame<'_>) {
        let gold = [255.0, 232.0, 190.0];
        for particle in self.particles(200) {
            let nearness = particle.nearness;
            let t = self.seconds;
            let wander = |n: i32| {
                let pace = mix(0.15, 0.5, particle.chance(n));
                (t * pace + particle.chance(n + 1) * 6.3).sin() * mix(0.01, 0.05, nearness)
            };
            let drift = t * mix(-0.02, 0.02, particle.chance(8)) * mix(0.3, 1.5, nearness);
            let x = self.wrapped_position(particle.chance(1) + drift, nearness, frame.aspect())
                + wander(10);
            let y = particle.chance(2) * 1.1 - 0.05 + wander(14) - 0.012 * t;
            let glint = 0.5
                + 0.5 * (t * mix(0.5, 1.8, particle.chance(3)) + particle.chance(4) * 6.3).sin();
            // A speck smaller than a pixel would flicker as it moves, hence the lower limit below.
            let radius = mix(0.0014, 0.0110, nearness * nearness);
            let light = mix(0.55, 0.13, nearness) * mix(0.25, 1.0, glint);
            frame.draw_glow((x, y), radius.max(1.2 * frame.pixel()), gold, light);
        }
    }

    fn embers(&self, frame: &mut SpriteFrame<'_>) {
        for particle in self.particles(150) {
            let nearness = particle.nearness;
            let speed = mix(0.07, 0.34, nearness) * mix(0.7, 1.3, particle.chance(2));
            let (x, down) = self.falling_position(&particle, speed, 0.08, frame.aspect());
            let y = 1.0 - down;
            // They wind upwards, cool and go out.
            let t = self.seconds * mix(0.8, 2.0, particle.chance(3)) + particle.chance(4) * 6.3;
            let x = x + (t.sin() * 0.6 + (t * 1.7).sin() * 0.4) * mix(0.008, 0.035, nearness);
            let age = down.clamp(0.0, 1.0);
            let flicker = 0.7 + 0.3 * (self.seconds * mix(7.0, 15.0, particle.chance(5)) + t).sin();
            let heat = (1.0 - age).powf(0.7) * flicker * mix(0.5, 1.0, particle.chance(6));
            let radius = mix(0.0016, 0.0058, nearness) * mix(0.7, 1.2, particle.chance(7));
            let radius = radius.max(1.2 * frame.pixel());
            let halo = [255.0, mix(70.0, 120.0, heat), 22.0];
            frame.draw_glow((x, y), radius * 4.5, halo, 0.30 * heat);
            let tail = speed * 0.022;
            frame.draw_streak(SoftStreak {
                from: (x, y + tail),
                to: (x + 0.3 * tail * t.cos(), y),
                width: radius * 1.5,
                colour: [255.0, mix(130.0, 226.0, heat), mix(40.0, 140.0, heat)],
                opacity: heat.min(1.0),
            });
        }
    }

    fn stars(&self, frame: &mut SpriteFrame<'_>) {
        for particle in self.particles(170) {
            // The sky is so far away that it hardly follows the camera. Most stars are high up.
            let x = (particle.chance(1) - 0.08 * self.drift.across) * frame.aspect();
            let y = particle.chance(2).powf(1.5) * 0.62 - 0.08 * self.drift.down * frame.aspect();
            let twinkle = 0.55
                + 0.45
                    * (self.seconds * mix(1.2, 4.0, particle.chance(3)) + particle.chance(4) * 6.3)
                        .sin();
            let light = particle.nearness.max(0.12) * twinkle * (1.0 - y / 0.66).clamp(0.0, 1.0);
            let tint = [
                mix(205.0, 255.0, particle.chance(5)),
                232.0,
                mix(215.0, 255.0, particle.chance(6)),
            ];
            let radius = mix(0.0016, 0.0034, particle.nearness).max(1.2 * frame.pixel());
            frame.draw_glow((x, y), radius, tint, light);
            if particle.nearness > 0.55 {
                frame.draw_glow((x, y), radius * 5.0, tint, 0.16 * light);
                let ray = radius * 5.0 * twinkle;
                for (dx, dy) in [(ray, 0.0), (0.0, ray)] {
                    frame.draw_streak(SoftStreak {
                        from: (x - dx, y - dy),
                        to: (x + dx, y + dy),
                        width: frame.pixel() * 1.2,
                        colour: tint,
                        opacity: 0.35 * light,
                    });
                }
            }
        }
    }

    fn confetti(&self, frame: &mut SpriteFrame<'_>) {
        const PAPER: &[SpriteColour] = &[
            [238.0, 64.0, 82.0],
            [255.0, 186.0, 48.0],
            [58.0, 176.0, 120.0],
            [64.0, 140.0, 240.0],
            [172.0, 92.0, 224.0],
            [250.0, 120.0, 178.0],
            [246.0, 240.0, 226.0],
        ];
        for particle in self.particles(210) {
            let nearness = particle.nearness;
            let speed = mix(0.11, 0.42, nearness) * mix(0.8, 1.2, particle.chance(2));
            let (x, y) = self.falling_position(&particle, speed, 0.08, frame.aspect());
            let t = self.seconds;
            let flutter = t * mix(2.0, 4.5, particle.chance(3)) + particle.chance(4) * 6.3;
            let x = x + flutter.sin() * mix(0.006, 0.03, nearness);
            let side = mix(0.0050, 0.0190, nearness) * mix(0.8, 1.2, particle.chance(5));
            let flip = (t * mix(3.0, 7.0, particle.chance(6)) + particle.chance(7) * 6.3).cos();
            let angle = t * mix(-2.4, 2.4, particle.chance(8)) + particle.chance(9) * 6.3;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "chance is below 1"
            )]
            let pick = (particle.chance(10) * 6.99) as usize;
            // Paper that faces the light is brighter than its back.
            let shade = mix(0.62, 1.05, 0.5 + 0.5 * flip);
            let colour = PAPER[pick.min(6)].map(|c| (c * shade).min(255.0));
            frame.draw_paper(
                (x, y),
                (side, side * 0.62 * flip.abs().max(0.12)),
                angle,
                colour,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direction::Direction;
    use crate::options::RequestedOptions;

    fn draw(prompt: &str, frame: usize) -> Vec<u8> {
        let direction = Direction::parse(prompt);
        let options = RenderOptions::resolve(&RequestedOptions::default(), &direction).unwrap();
        let mut rgba = [70, 80, 90, 255].repeat(320 * 180);
        let overlay = WeatherOverlay::new(&direction.weather, &options, [80.0; 3]);
        overlay.draw(frame, CameraDrift::default(), 320, &mut rgba);
        rgba
    }

    fn changed_pixels(rgba: &[u8]) -> usize {
        let changed = |p: &&[u8]| p[..3] != [70, 80, 90];
        rgba.chunks_exact(4).filter(changed).count()
    }

    #[test]
    fn every_kind_shows_and_moves_and_is_the_same_each_time() {
        for kind in [
            "rain",
            "snowfall",
            "fog",
            "dust",
            "embers",
            "twinkling stars",
            "confetti",
        ] {
            let (first, later) = (draw(kind, 30), draw(kind, 36));
            assert!(
                changed_pixels(&first) > 100,
                "{kind}: {}",
                changed_pixels(&first)
            );
            assert!(first != later, "{kind} stands still");
            assert!(first == draw(kind, 30), "{kind} differs");
        }
        assert_eq!(changed_pixels(&draw("static", 30)), 0);
    }

    #[test]
    fn heavy_weather_changes_more_pixels() {
        for kind in ["rain", "snowfall", "confetti"] {
            let light = changed_pixels(&draw(&format!("light {kind}"), 30));
            let heavy = changed_pixels(&draw(&format!("heavy {kind}"), 30));
            assert!(light * 2 < heavy, "{kind}: {light} {heavy}");
        }
    }
}
