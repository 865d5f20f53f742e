//! Views: which part of the picture fills the frame.

use super::pose::CameraPose;

/// The part of a layer that fills the frame, in picture pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LayerView {
    /// The picture's point on the camera's axis.
    pub(crate) centre: (f64, f64),
    /// The picture's pixels across the frame's width, where the camera sees the layer head-on.
    pub(crate) width: f64,
    /// Rotation about the line of sight.
    pub(crate) roll: f64,
    /// How far the camera has walked around the picture's centre; 0 is head-on.
    pub(crate) yaw: f64,
}

impl LayerView {
    /// Whether the view is an upright rectangle of the picture.
    pub(crate) fn is_upright(&self) -> bool {
        self.roll == 0.0 && self.yaw == 0.0
    }

    /// Maps points of the frame to points of the picture.
    pub(crate) fn lens(&self) -> ViewProjection {
        ViewProjection {
            centre: self.centre,
            width: self.width,
            plane: ViewPlane::new(self.roll, self.yaw),
        }
    }
}

/// A view prepared for many points.
pub(crate) struct ViewProjection {
    centre: (f64, f64),
    width: f64,
    plane: ViewPlane,
}

impl ViewProjection {
    /// The picture's point seen at `(u, v)`, in frame widths from the frame's centre.
    #[inline]
    pub(crate) fn project(&self, u: f64, v: f64) -> (f64, f64) {
        let (x, y) = self.plane.intersect(u, v);
        (
            self.centre.0 + x * self.width,
            self.centre.1 + y * self.width,
        )
    }
}

/// Where the camera is at one frame, fitted to the picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CameraStation {
    pub(super) pose: CameraPose,
    /// Where the shot's origin lies, in picture pixels.
    pub(super) origin: (f64, f64),
    /// Picture pixels across the shot's base window.
    pub(super) base: f64,
}

impl CameraStation {
    /// The view of a layer that follows `parallax` of the camera's travel, 0 to 1.
    pub(crate) fn view(&self, parallax: f64) -> LayerView {
        let pose = self.pose.for_layer(parallax);
        LayerView {
            centre: (
                self.origin.0 + self.base * pose.x,
                self.origin.1 + self.base * pose.y,
            ),
            width: self.base * (-pose.zoom).exp(),
            roll: pose.roll,
            yaw: pose.yaw,
        }
    }
}

/// The plate as the camera sees it.
///
/// The camera stands `DISTANCE` frame widths from the plate, rolled by `roll`, having walked
/// around the plate's centre by `yaw` while looking at it.
pub(super) struct ViewPlane {
    roll: (f64, f64),
    yaw: (f64, f64),
}

impl ViewPlane {
    pub(super) fn new(roll: f64, yaw: f64) -> Self {
        Self {
            roll: roll.sin_cos(),
            yaw: yaw.sin_cos(),
        }
    }

    /// Where the ray through `(u, v)` of the frame meets the plate, in the unit of `u` and `v`.
    #[inline]
    pub(super) fn intersect(&self, u: f64, v: f64) -> (f64, f64) {
        let (sin, cos) = self.roll;
        let (u, v) = (u * cos - v * sin, u * sin + v * cos);
        let (sin, cos) = self.yaw;
        // A point at `x` of the plate, turned by `yaw`, appears at `u = DISTANCE * x * cos /
        // (DISTANCE - x * sin)`. This is that equation solved for `x`.
        let nearness = DISTANCE / (DISTANCE * cos + u * sin);
        (u * nearness, cos * v * nearness)
    }
}

/// A normal lens: about 45 degrees across.
const DISTANCE: f64 = 1.2;
