//! A room: a wall with a window, curtains, a floor, a lamp.

use super::light::SceneLight;
use super::noise::{fractal, lattice, smoothstep};
use super::paint::{SceneCanvas, SceneColour, add, blend, scale_colour, times};
use super::stage::SceneStage;

/// Where the land outside the window begins.
pub(super) const HORIZON: f32 = 0.56;

/// Paints the room in front of what is outside.
pub(super) fn draw(stage: &mut SceneStage, light: &SceneLight, seed: u64) {
    let room = RoomInterior::new(stage.canvas_at(WALL).aspect(), light, seed);
    room.wall(stage.canvas_at(WALL));
    room.floor(stage.canvas_at(WALL));
    room.curtains(stage.canvas_at(0.75));
    room.lamp(stage.canvas_at(1.0));
}

/// Measures in picture heights, and colours as the light shows them.
struct RoomInterior {
    /// The window's edges.
    left: f32,
    right: f32,
    /// Where the lamp stands.
    lamp: f32,
    /// The colours of the wall, the wood, the curtains and the lamp's shade.
    paint: SceneColour,
    wood: SceneColour,
    cloth: SceneColour,
    linen: SceneColour,
    /// The light that falls in through the window, and how far it slants.
    sun: SceneColour,
    lean: f32,
    /// How bright the lamp is, 0 to 1.
    brightness: f32,
    seed: u64,
}

impl RoomInterior {
    fn new(aspect: f32, light: &SceneLight, seed: u64) -> Self {
        let chance = |n: i32| lattice(n, 91, seed);
        let middle = aspect * (0.40 + 0.20 * chance(0));
        let half_width = (0.24 * aspect).clamp(0.16, 0.42);
        let pick = |colours: [SceneColour; 4], n: i32| {
            let [a, b, c, d] = colours;
            blend(
                blend(a, b, chance(n)),
                blend(c, d, chance(n)),
                chance(n + 1),
            )
        };
        // A room is dimmer than the day outside, and never as dark as the night.
        let indoors = add(scale_colour(light.ground, 0.74), [0.12, 0.10, 0.08], 1.0);
        let paint = pick(
            [
                [0.78, 0.72, 0.62],
                [0.55, 0.66, 0.62],
                [0.60, 0.52, 0.58],
                [0.80, 0.62, 0.50],
            ],
            1,
        );
        let cloth = pick(
            [
                [0.82, 0.78, 0.70],
                [0.62, 0.28, 0.24],
                [0.30, 0.38, 0.48],
                [0.70, 0.55, 0.30],
            ],
            3,
        );
        let sun_side = light.sun_side();
        Self {
            left: middle - half_width,
            right: middle + half_width,
            lamp: if sun_side > 0.0 { 0.16 } else { 0.84 } * aspect,
            paint: times(paint, indoors),
            wood: times([0.46, 0.30, 0.19], indoors),
            cloth: times(cloth, indoors),
            linen: times([0.96, 0.90, 0.78], indoors),
            sun: scale_colour(light.sun, 0.5 * (1.0 - light.darkness) + 0.05),
            lean: sun_side * (0.5 + 0.5 * chance(5)),
            brightness: smoothstep(0.1, 0.8, light.darkness + light.density - 0.8),
            seed,
        }
    }

    /// The lamp's light at a point: on the wall, and less on what is below.
    fn glow(&self, u: f32, v: f32) -> SceneColour {
        let distance = (u - self.lamp).hypot((v - SHADE) * 0.85);
        let falloff = (-distance * 2.4).exp() + 0.5 * (-distance * 7.0).exp();
        scale_colour([1.0, 0.66, 0.34], self.brightness * 0.62 * falloff)
    }

    fn wall(&self, canvas: &mut SceneCanvas) {
        let soft = canvas.pixel();
        canvas.lay(0.0, FLOOR, |u, v| {
            let glass = self.glass(u, v, soft);
            let grain = 0.96 + 0.08 * fractal(u * 30.0, v * 30.0, 3, self.seed.wrapping_add(700));
            let corners = 1.0 - 0.35 * smoothstep(0.25, 0.75, (v - 0.45).abs() + 0.12);
            let mut surface = scale_colour(self.paint, grain * corners);
            if self.is_window_frame(u, v) {
                surface = scale_colour(add(self.paint, [0.10; 3], 1.0), 0.92);
            }
            if v > FLOOR - 0.035 {
                surface = scale_colour(self.wood, 1.15);
            }
            let lit = add(surface, self.glow(u, v), 1.0);
            let opacity = 1.0 - glass;
            [
                lit[0] * opacity,
                lit[1] * opacity,
                lit[2] * opacity,
                opacity,
            ]
        });
    }

    /// How much of a point is window glass, 0 to 1.
    fn glass(&self, u: f32, v: f32, soft: f32) -> f32 {
        let within = |low: f32, high: f32, position: f32| {
            smoothstep(low - soft, low + soft, position)
                * smoothstep(high + soft, high - soft, position)
        };
        let middle = f32::midpoint(self.left, self.right);
        let across = within(self.left, middle - BAR, u) + within(middle + BAR, self.right, u);
        let bar = TOP + 0.3 * (SILL - TOP);
        let down = within(TOP, bar - BAR, v) + within(bar + BAR, SILL, v);
        across * down
    }

    /// Whether a point lies on the window's frame.
    fn is_window_frame(&self, u: f32, v: f32) -> bool {
        let frame_width = 3.5 * BAR;
        u > self.left - frame_width
            && u < self.right + frame_width
            && v > TOP - frame_width
            && v < SILL + frame_width
    }

    fn floor(&self, canvas: &mut SceneCanvas) {
        let middle = canvas.aspect() / 2.0;
        let soft = 4.0 * canvas.pixel();
        canvas.paint(FLOOR, 1.0, |u, v, _| {
            // Boards run away from the camera, towards a point at the height of its eyes.
            let distance = (1.0 - EYE) / (v - EYE);
            let across = middle + (u - middle) * distance;
            let plank = across / 0.085 + 100.0;
            let tone = 0.82 + 0.3 * fractal(plank.floor() * 7.3, distance * 2.0, 2, self.seed);
            let seam = smoothstep(0.0, 0.05, plank.fract()) * smoothstep(1.0, 0.95, plank.fract());
            let grain = 0.94 + 0.12 * fractal(across * 60.0, distance * 9.0, 3, self.seed);
            let surface = scale_colour(self.wood, tone * grain * (0.6 + 0.4 * seam));
            // The window's light lies on the boards as four slanted panes.
            let depth = (v - FLOOR) / (1.0 - FLOOR);
            let back = u - self.lean * (0.10 + 0.45 * depth);
            let pane = self.glass(back, TOP + (SILL - TOP) * (1.25 - 1.15 * depth), soft);
            let sunny = add(
                surface,
                times(self.sun, add(surface, [0.25; 3], 1.0)),
                1.6 * pane,
            );
            let dim = 1.0 - 0.3 * smoothstep(0.3, 1.0, depth);
            add(
                scale_colour(sunny, dim),
                times(self.glow(u, FLOOR), self.wood),
                2.2,
            )
        });
    }

    fn curtains(&self, canvas: &mut SceneCanvas) {
        let soft = canvas.pixel();
        let cloth_width = 0.11;
        canvas.lay(TOP - 0.07, FLOOR - 0.06, |u, v| {
            // Gathered a little towards the hem.
            let gather = 0.018 * smoothstep(TOP, FLOOR, v);
            let side = |outer: f32, inner: f32| {
                smoothstep(outer - soft, outer + soft, u)
                    * smoothstep(inner + soft, inner - soft, u)
            };
            let left = side(
                self.left - 0.07 + gather,
                self.left - 0.07 + cloth_width - gather,
            );
            let right = side(
                self.right + 0.07 - cloth_width + gather,
                self.right + 0.07 - gather,
            );
            let cloth = left + right;
            if cloth <= 0.0 {
                return [0.0; 4];
            }
            let sway = 0.006 * fractal(u * 3.0, v * 2.0, 2, self.seed.wrapping_add(720));
            let fold = ((u + sway) * 260.0).sin() * 0.5 + ((u + sway) * 148.0 + 1.0).sin() * 0.5;
            let inner = (u - f32::midpoint(self.left, self.right)).abs();
            // Daylight shines through the cloth where it hangs before the glass.
            let translucency = smoothstep(0.02, -0.02, inner - (self.right - self.left) / 2.0);
            let surface = scale_colour(self.cloth, 0.80 + 0.24 * fold);
            let surface = add(surface, times(self.cloth, self.sun), 0.9 * translucency);
            let lit = add(surface, times(self.glow(u, v), self.cloth), 1.2);
            [lit[0] * cloth, lit[1] * cloth, lit[2] * cloth, cloth]
        });
    }

    fn lamp(&self, canvas: &mut SceneCanvas) {
        let soft = canvas.pixel();
        canvas.lay(SHADE - 0.11, 1.0, |u, v| {
            let offset = (u - self.lamp).abs();
            let down = (v - SHADE) / 0.09;
            let shade = smoothstep(soft, -soft, offset - 0.062 - 0.026 * down)
                * smoothstep(1.0 + soft * 11.0, 1.0 - soft * 11.0, down.abs());
            let pole = smoothstep(soft, -soft, offset - 0.006) * smoothstep(0.9, 1.0, down);
            let opacity = shade.max(pole);
            if opacity <= 0.0 {
                return [0.0; 4];
            }
            let round = 1.0 - 0.5 * (offset / 0.09).powi(2);
            let cloth = add(self.linen, [1.0, 0.74, 0.42], 0.8 * self.brightness * round);
            let colour = if shade > 0.0 {
                scale_colour(cloth, 0.75 + 0.25 * round)
            } else {
                scale_colour(self.wood, 0.6)
            };
            [
                colour[0] * opacity,
                colour[1] * opacity,
                colour[2] * opacity,
                opacity,
            ]
        });
        canvas.glow(
            (self.lamp, SHADE),
            0.5,
            scale_colour([0.5, 0.3, 0.14], self.brightness * 0.35),
        );
    }
}

/// The wall's share of the camera's travel.
const WALL: f32 = 0.55;

/// The window's upper and lower edge, and half the width of its bars.
const TOP: f32 = 0.15;
const SILL: f32 = 0.62;
const BAR: f32 = 0.008;

/// Where the wall meets the floor, and the height of the camera's eyes.
const FLOOR: f32 = 0.80;
const EYE: f32 = 0.48;

/// The height of the lamp's shade.
const SHADE: f32 = 0.44;
