//! The stage: the sheets of a scene as they are painted, from the back to the front.

use super::paint::{SceneCanvas, SceneColour, blend};
use crate::layer::LayerSheet;

/// A scene being painted: finished sheets, and the canvas in front of them.
pub(super) struct SceneStage {
    canvas: SceneCanvas,
    /// The parallax of what is on the canvas.
    parallax: f32,
    finished_sheets: Vec<LayerSheet>,
    seed: u64,
}

impl SceneStage {
    /// A stage whose first canvas is the backdrop.
    pub(super) fn new(width: u32, height: u32, seed: u64) -> Self {
        Self {
            canvas: SceneCanvas::new(width, height),
            parallax: 0.0,
            finished_sheets: Vec::new(),
            seed,
        }
    }

    /// The canvas for layers that follow this share of the camera's travel: a new one, unless the
    /// present canvas moves almost the same.
    pub(super) fn canvas_at(&mut self, parallax: f32) -> &mut SceneCanvas {
        // The backdrop stays alone on its sheet, however little the next layer differs: the
        // renderer relies on a farthest sheet without holes.
        if parallax - self.parallax > STEP || (self.finished_sheets.is_empty() && parallax > 0.0) {
            self.finish();
            self.parallax = parallax;
        }
        &mut self.canvas
    }

    /// A picture of everything painted so far, for water to mirror.
    pub(super) fn build_mirror(&mut self) -> WaterMirror {
        self.finish();
        let mut colours: Vec<SceneColour> = Vec::new();
        for sheet in &self.finished_sheets {
            let pixels = sheet.rgba.chunks_exact(4);
            if colours.is_empty() {
                colours = vec![[0.0; 3]; pixels.len()];
            }
            for (colour, p) in colours.iter_mut().zip(pixels) {
                let transparency = 1.0 - f32::from(p[3]) / 255.0;
                for (channel, byte) in colour.iter_mut().zip(p) {
                    *channel = *channel * transparency + f32::from(*byte) / 255.0;
                }
            }
        }
        let (width, height) = self
            .finished_sheets
            .first()
            .map_or((0, 0), |s| (s.width as usize, s.height as usize));
        WaterMirror {
            width,
            height,
            colours,
        }
    }

    /// Every sheet, from the farthest to the nearest.
    pub(super) fn into_sheets(mut self) -> Vec<LayerSheet> {
        self.finish();
        self.finished_sheets
    }

    fn finish(&mut self) {
        let sheet = self.canvas.sheet(f64::from(self.parallax), self.seed);
        let is_empty = sheet.rgba.iter().all(|byte| *byte == 0);
        // An empty sheet is left out, but the first one stays: there must be a farthest sheet.
        if !is_empty || self.finished_sheets.is_empty() {
            self.finished_sheets.push(sheet);
        }
        self.canvas.clear();
    }
}

/// A picture of what stands behind the water.
pub(super) struct WaterMirror {
    width: usize,
    height: usize,
    colours: Vec<SceneColour>,
}

impl WaterMirror {
    /// The colour at a position in picture heights, interpolated; beyond the edges, the edge's.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "clamped to the picture"
    )]
    pub(super) fn colour_at(&self, u: f32, v: f32) -> SceneColour {
        let last = (self.width.saturating_sub(1), self.height.saturating_sub(1));
        let x = (u * self.height as f32 - 0.5).clamp(0.0, last.0 as f32);
        let y = (v * self.height as f32 - 0.5).clamp(0.0, last.1 as f32);
        let (left, top) = (x as usize, y as usize);
        let (right, below) = ((left + 1).min(last.0), (top + 1).min(last.1));
        let pixel = |x: usize, y: usize| {
            let colour = self.colours.get(y * self.width + x);
            colour.copied().unwrap_or_default()
        };
        let upper = blend(pixel(left, top), pixel(right, top), x.fract());
        let lower = blend(pixel(left, below), pixel(right, below), x.fract());
        blend(upper, lower, y.fract())
    }
}

/// Layers whose parallax differs by less share a sheet.
const STEP: f32 = 0.11;
