//! Easing: progress of a move over time.

use crate::direction::Easing;

/// Progress of a move. Even a constant speed starts and ends over a few frames.
pub(super) fn ease_progress(easing: Easing, t: f64) -> f64 {
    let t = t.clamp(0.0, 1.0);
    match easing {
        Easing::Smooth => ramp_progress(t, 0.3),
        Easing::Linear => ramp_progress(t, 0.04),
        // A cubic that starts at rest and reaches its highest speed at the end, where its
        // acceleration is zero again.
        Easing::In => t * t * (3.0 - t) / 2.0,
        Easing::Out => 1.0 - ease_progress(Easing::In, 1.0 - t),
    }
}

/// Progress at time `t` of a move, both 0 to 1. Speed rises smoothly over the first `ramp`, holds,
/// and falls the same way. A plain S-curve would rush through the middle.
fn ramp_progress(t: f64, ramp: f64) -> f64 {
    // The integral of smoothstep(t / ramp) over the ramp.
    let rise = |t: f64| {
        let s = t / ramp;
        ramp * (s.powi(3) - s.powi(4) / 2.0)
    };
    let distance = if t < ramp {
        rise(t)
    } else if t <= 1.0 - ramp {
        ramp / 2.0 + (t - ramp)
    } else {
        1.0 - ramp - rise(1.0 - t)
    };
    distance / (1.0 - ramp)
}
