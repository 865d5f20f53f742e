//! Poses: camera positions before they are fitted to a picture, and the space for them.

/// The camera's state, relative to the shot's base window: lengths in widths of that window.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct CameraPose {
    /// Turned sideways and up or down.
    pub(super) x: f64,
    pub(super) y: f64,
    /// Natural logarithm of the magnification: equal steps look equally fast.
    pub(super) zoom: f64,
    pub(super) roll: f64,
    pub(super) yaw: f64,
    /// Travelled sideways and up or down, as the nearest layer shows it.
    pub(super) travel: (f64, f64),
    /// Travelled forward: the logarithm of the nearest layer's growth.
    pub(super) dolly: f64,
    /// Walked around the nearest layer: how far the farthest moves past it.
    pub(super) sweep: f64,
}

/// A pose as seen by one layer.
pub(super) struct LayerPose {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) zoom: f64,
    pub(super) roll: f64,
    pub(super) yaw: f64,
}

impl CameraPose {
    pub(super) fn for_layer(&self, parallax: f64) -> LayerPose {
        LayerPose {
            // An orbit goes around the nearest layer, so here the far layers are the ones that
            // move.
            x: self.x + parallax * self.travel.0 + (1.0 - parallax) * self.sweep,
            y: self.y + parallax * self.travel.1,
            zoom: self.zoom + parallax * self.dolly,
            roll: self.roll,
            yaw: self.yaw,
        }
    }
}

/// The plate (the picture that the camera films) in pixels, and the frame's shape.
pub(super) struct PlateGeometry {
    /// Plate pixels across the largest window of the frame's shape.
    pub(super) cover: f64,
    pub(super) plate: (f64, f64),
    /// Frame height over frame width.
    pub(super) aspect: f64,
}

impl PlateGeometry {
    pub(super) fn new(plate: (u32, u32), frame: (u32, u32)) -> Self {
        let plate = (f64::from(plate.0), f64::from(plate.1));
        let aspect = f64::from(frame.1) / f64::from(frame.0);
        let cover = plate.0.min(plate.1 / aspect);
        Self {
            cover,
            plate,
            aspect,
        }
    }

    /// How far the largest window can slide, in its own widths and heights.
    pub(super) fn slack(&self) -> (f64, f64) {
        (
            self.plate.0 / self.cover - 1.0,
            self.plate.1 / (self.cover * self.aspect) - 1.0,
        )
    }
}
