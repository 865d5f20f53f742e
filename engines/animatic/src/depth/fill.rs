//! Hole filling: the colours behind a subject that was cut out.
//!
//! Push and pull over a pyramid: colours with their weights are averaged down until every hole is
//! covered, and what is missing at each size is taken from the next coarser one. After Gortler,
//! Grzeszczuk, Szeliski, Cohen: "The Lumigraph" (1996).

use super::plane::FloatPlane;

/// Red, green and blue, 0 to 1.
pub(super) type ColourPlanes = [FloatPlane; 3];

/// Replaces the colours where `hole` is 1 by what surrounds the hole.
pub(super) fn fill_hole(colours: &ColourPlanes, hole: &FloatPlane) -> ColourPlanes {
    let weight = hole.map(|h| (1.0 - h).clamp(0.0, 1.0));
    [0, 1, 2].map(|c| fill(&colours[c], &weight))
}

/// `plane` where `weight` is 1, its surroundings where it is 0.
fn fill(plane: &FloatPlane, weight: &FloatPlane) -> FloatPlane {
    if plane.width <= 1 && plane.height <= 1 {
        return plane.clone();
    }
    let weighted = downsample(&plane.zip(weight, |p, w| p * w));
    let weights = downsample(weight);
    let coarse = weighted.zip(&weights, |p, w| if w > 1e-4 { p / w } else { 0.0 });
    // A few known pixels are enough to know the coarse one; the paper saturates its weights here
    // too.
    let saturated = weights.map(|w| (w * 4.0).min(1.0));
    let filled_coarse = fill(&coarse, &saturated);
    FloatPlane::new(plane.width, plane.height, |x, y| {
        let index = y * plane.width + x;
        let (value, w) = (plane.values[index], weight.values[index]);
        if w >= 1.0 {
            return value;
        }
        let centre = |i: usize, side: usize| (to_f32(i) + 0.5) / to_f32(side);
        let surroundings = filled_coarse.sample_at(centre(x, plane.width), centre(y, plane.height));
        value * w + surroundings * (1.0 - w)
    })
}

/// Half the size, each pixel the mean of two by two.
fn downsample(plane: &FloatPlane) -> FloatPlane {
    let (width, height) = (plane.width.div_ceil(2), plane.height.div_ceil(2));
    FloatPlane::new(width, height, |x, y| {
        let column = |x: usize| x.min(plane.width - 1);
        let row = |y: usize| y.min(plane.height - 1) * plane.width;
        let (left, right) = (column(2 * x), column(2 * x + 1));
        let (upper, lower) = (row(2 * y), row(2 * y + 1));
        let v = &plane.values;
        (v[upper + left] + v[upper + right] + v[lower + left] + v[lower + right]) / 4.0
    })
}

#[expect(clippy::cast_precision_loss, reason = "a small map's side")]
fn to_f32(n: usize) -> f32 {
    n as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_takes_the_colour_around_it() {
        let inside = |x: usize, y: usize| (10..20).contains(&x) && (6..14).contains(&y);
        let plane = FloatPlane::new(33, 21, |x, y| if inside(x, y) { 1.0 } else { 0.3 });
        let hole = FloatPlane::new(33, 21, |x, y| f32::from(u8::from(inside(x, y))));
        let [red, ..] = fill_hole(&[plane.clone(), plane.clone(), plane], &hole);
        assert!(red.values.iter().all(|v| (v - 0.3).abs() < 1e-3), "{red:?}");
    }

    #[test]
    fn a_picture_that_is_all_hole_is_no_trouble() {
        let plane = FloatPlane::new(5, 3, |_, _| 0.7);
        let hole = FloatPlane::new(5, 3, |_, _| 1.0);
        let [_, green, _] = fill_hole(&[plane.clone(), plane.clone(), plane], &hole);
        assert!(green.values.iter().all(|v| v.is_finite()));
    }
}
