//! Depth: splits a picture into sheets, from the far ground to the near subject.
//!
//! No model looks at the picture; four cheap cues do. What can be reached from the upper edges
//! without crossing a strong edge is background (Wei, Wen, Zhu, Sun: "Geodesic Saliency Using
//! Background Priors", 2012). What is in focus is nearer than what is not. What is lower in the
//! picture is nearer. What differs from the colours along the upper edges is more likely the
//! subject. Their sum is split at the threshold that best separates it into two groups (Otsu,
//! 1979); the cut is drawn along the picture's own edges by a guided filter, and the ground behind
//! is filled in.
//!
//! If the cues do not separate into two groups, or the cut follows no edge of the picture, the
//! picture stays whole: a wrong cut looks worse than none.

mod fill;
mod plane;

use crate::error::RenderError;
use crate::layer::LayerSheet;
use crate::picture::Picture;
use crate::scene::noise::smoothstep;
use crate::working_size::shrink;
use fill::{ColourPlanes, fill_hole};
use plane::{FloatPlane, GuidedFilter};

/// The picture as sheets, farthest first: just one if no depth was found.
pub(crate) fn sheets(picture: &Picture) -> Result<Vec<LayerSheet>, RenderError> {
    let (width, height) = picture.size();
    let flat = || vec![LayerSheet::solid(width, height, picture.rgb())];
    if width.min(height) < MIN_SIDE {
        return Ok(flat());
    }
    // The cues need no detail, so a small map is enough. The guided filter brings the cut back to
    // the edges of the full picture.
    let small = shrink(picture, MAP_SIDE / f64::from(width.max(height)))?;
    let colours = colours(small.as_ref().unwrap_or(picture));
    let luma = project_on_axis(&colours, LUMA);
    let nearness = nearness(&colours, &luma);
    let Some(cut) = otsu_threshold(&nearness) else {
        return Ok(flat());
    };
    let rough = nearness.map(|n| smoothstep(cut - 0.06, cut + 0.06, n));
    let axis = axis(&colours, &rough);
    let guide = project_on_axis(&colours, axis);
    let matte = GuidedFilter::new(&rough, &guide, 5, 4e-4);
    let subject = matte.plane(&guide).map(sharpen_matte);
    if !is_plausible_cut(&subject, &colours) {
        return Ok(flat());
    }
    // Wider than the subject: otherwise its soft rim would stay behind when the subject moves away.
    let hole = subject.dilated(4).blurred(1).map(|h| (h * 2.5).min(1.0));
    let ground = fill_hole(&colours, &hole);
    Ok(vec![
        far_sheet(picture, &ground, &hole),
        near_sheet(picture, &matte, axis),
    ])
}

/// The three colours of a picture, 0 to 1.
fn colours(picture: &Picture) -> ColourPlanes {
    let (width, height) = (picture.width() as usize, picture.height() as usize);
    [0, 1, 2].map(|c| {
        FloatPlane::new(width, height, |x, y| {
            f32::from(picture.rgb()[(y * width + x) * 3 + c]) / 255.0
        })
    })
}

/// The direction between the mean colours of subject and ground: along it the two are easiest to
/// separate.
fn axis(colours: &ColourPlanes, subject: &FloatPlane) -> [f32; 3] {
    let total = |plane: &FloatPlane| plane.values.iter().sum::<f32>();
    let (subject_area, area) = (total(subject).max(1e-3), to_f32(subject.values.len()));
    let difference = colours.each_ref().map(|colour| {
        let subject_sum = total(&colour.zip(subject, |c, s| c * s));
        subject_sum / subject_area - (total(colour) - subject_sum) / (area - subject_area).max(1e-3)
    });
    let length = difference.iter().map(|d| d * d).sum::<f32>().sqrt();
    // If the means are equal, use brightness.
    if length < 0.05 {
        LUMA
    } else {
        difference.map(|d| d / length)
    }
}

fn project_on_axis([red, green, blue]: &ColourPlanes, axis: [f32; 3]) -> FloatPlane {
    let red_green = red.zip(green, |r, g| axis[0] * r + axis[1] * g);
    red_green.zip(blue, |t, b| t + axis[2] * b)
}

/// How near each pixel seems, 0 to 1.
fn nearness(colours: &ColourPlanes, luma: &FloatPlane) -> FloatPlane {
    let separation = distance_from_edges(colours).normalised();
    let difference = background_difference(colours).normalised();
    let detail = luma.zip(&luma.blurred(1), |a, b| (a - b).abs());
    let focus = detail.blurred(6).normalised().map(f32::sqrt);
    let cues = separation.zip(&difference, |a, b| 0.40 * a + 0.22 * b);
    let cues = cues.zip(&focus, |c, f| c + 0.14 * f);
    let rows = to_f32(luma.height);
    let lower = FloatPlane::new(luma.width, luma.height, |_, y| to_f32(y) / rows);
    let combined = cues.zip(&lower, |c, l| c + 0.24 * l);
    GuidedFilter::new(&combined, luma, 6, 1e-3)
        .plane(luma)
        .normalised()
}

/// The least total change of colour on any path from the upper edges.
fn distance_from_edges(colours: &ColourPlanes) -> FloatPlane {
    let [red, green, blue] = colours;
    let (width, height) = (red.width, red.height);
    let mut distance = FloatPlane::new(width, height, |x, y| {
        // Paths do not start at the lower edges: a subject often stands on them or is cut off by
        // them.
        let is_seed = y == 0 || ((x == 0 || x + 1 == width) && y * 3 < height * 2);
        if is_seed { 0.0 } else { f32::MAX / 4.0 }
    });
    let step = |a: usize, b: usize| {
        let d = [red, green, blue].map(|c| (c.values[a] - c.values[b]).powi(2));
        // A small cost for the length of the path. Noise and soft gradients add nothing to it.
        (d.iter().sum::<f32>().sqrt() - 0.02).max(0.0) + 0.0015
    };
    // Sweeps in reading order and back approximate the shortest paths of a distance transform. An
    // exact search would need a queue, and the cue is only one of four.
    for _ in 0..2 {
        for index in 0..width * height {
            let (x, y) = (index % width, index / width);
            let mut best = distance.values[index];
            if x > 0 {
                best = best.min(distance.values[index - 1] + step(index, index - 1));
            }
            if y > 0 {
                best = best.min(distance.values[index - width] + step(index, index - width));
            }
            distance.values[index] = best;
        }
        for index in (0..width * height).rev() {
            let (x, y) = (index % width, index / width);
            let mut best = distance.values[index];
            if x + 1 < width {
                best = best.min(distance.values[index + 1] + step(index, index + 1));
            }
            if y + 1 < height {
                best = best.min(distance.values[index + width] + step(index, index + width));
            }
            distance.values[index] = best;
        }
    }
    distance
}

/// How far each colour is from those along the upper edges: the distance to the nearest of a
/// handful of their means.
fn background_difference(colours: &ColourPlanes) -> FloatPlane {
    let [red, green, blue] = colours;
    let (width, height) = (red.width, red.height);
    let colour = |index: usize| [red.values[index], green.values[index], blue.values[index]];
    let mean = |from: (usize, usize), to: (usize, usize)| {
        let (mut sum, mut count) = ([0.0_f32; 3], 0.0_f32);
        for y in from.1..to.1.max(from.1 + 1).min(height) {
            for x in from.0..to.0.max(from.0 + 1).min(width) {
                for (s, c) in sum.iter_mut().zip(colour(y * width + x)) {
                    *s += c;
                }
                count += 1.0;
            }
        }
        sum.map(|s| s / count.max(1.0))
    };
    let (band, rim) = (height / 12, width / 14);
    let means = [
        mean((0, 0), (width / 3, band)),
        mean((width / 3, 0), (2 * width / 3, band)),
        mean((2 * width / 3, 0), (width, band)),
        mean((0, 0), (rim, height / 2)),
        mean((width - rim.max(1), 0), (width, height / 2)),
    ];
    FloatPlane::new(width, height, |x, y| {
        let pixel = colour(y * width + x);
        let distances = means.iter().map(|m| {
            let d = [0, 1, 2].map(|c| (pixel[c] - m[c]).powi(2));
            d.iter().sum::<f32>()
        });
        distances.fold(f32::MAX, f32::min).sqrt()
    })
}

/// The threshold where nearness splits into two, if it does so clearly and in reasonable
/// proportions.
fn otsu_threshold(nearness: &FloatPlane) -> Option<f32> {
    let mut counts = [0.0_f32; BINS];
    for value in &nearness.values {
        counts[bin(*value)] += 1.0;
    }
    let total: f32 = counts.iter().sum();
    let bin_centre = |i: usize| (to_f32(i) + 0.5) / to_f32(BINS);
    let mean = (0..BINS).map(|i| bin_centre(i) * counts[i]).sum::<f32>() / total;
    let variance = (0..BINS)
        .map(|i| (bin_centre(i) - mean).powi(2) * counts[i])
        .sum::<f32>()
        / total;
    let (mut best, mut split) = (0.0, 0);
    let (mut share, mut sum) = (0.0, 0.0);
    for (i, count) in counts.iter().enumerate() {
        share += count / total;
        sum += bin_centre(i) * count / total;
        // Otsu's criterion: the variance between the two parts, from the running share and mean.
        let variance_between = (mean * share - sum).powi(2) / (share * (1.0 - share)).max(1e-6);
        if variance_between > best {
            (best, split) = (variance_between, i + 1);
        }
    }
    let near_share: f32 = counts[split..].iter().sum::<f32>() / total;
    // The paper's measure of how separable the two parts are: their variance over the whole.
    let is_clear = best / variance.max(1e-6) >= MIN_VARIANCE_SHARE;
    (is_clear && (0.05..0.72).contains(&near_share)).then(|| to_f32(split) / to_f32(BINS))
}

/// Whether a subject is cut out along edges that the picture has, and in a simple shape. A cut
/// through a face has no edge to follow; one through fur wriggles.
fn is_plausible_cut(subject: &FloatPlane, colours: &ColourPlanes) -> bool {
    let (width, height) = (subject.width, subject.height);
    let is_inside = |index: usize| subject.values[index] > 0.5;
    let contrast = |a: usize, b: usize| {
        let squares = colours
            .each_ref()
            .map(|c| (c.values[a] - c.values[b]).powi(2));
        squares.iter().sum::<f32>().sqrt()
    };
    // The mean contrast, anywhere in the picture, of pixels as far apart as those compared across
    // the rim. This is what texture alone has. In a busy picture a rim must stand out from it.
    let mean_contrast = |stride: usize| {
        let distance = (2 * RIM - 1) * stride;
        let pairs = (0..(width * height).saturating_sub(distance)).step_by(7);
        let (sum, count) = pairs.fold((0.0, 0.0), |(sum, count), index| {
            (sum + contrast(index, index + distance), count + 1.0_f32)
        });
        sum / count.max(1.0)
    };
    let threshold =
        MIN_EDGE.max(MIN_EDGE_CONTRAST * f32::midpoint(mean_contrast(1), mean_contrast(width)));
    let (mut rim, mut sharp, mut area) = (0, 0, 0);
    for index in 0..width * height {
        let (x, y) = (index % width, index / width);
        area += usize::from(is_inside(index));
        // Where the subject begins or ends to the right or below, a colour a few pixels before the
        // rim is compared with one a few pixels behind it.
        let steps = [(x, width, 1), (y, height, width)];
        for (position, side, stride) in steps {
            if position >= RIM
                && position + RIM + 1 < side
                && is_inside(index) != is_inside(index + stride)
            {
                rim += 1;
                let (here, there) = (index - (RIM - 1) * stride, index + RIM * stride);
                sharp += usize::from(contrast(here, there) > threshold);
            }
        }
    }
    to_f32(sharp) >= MIN_SHARP_SHARE * to_f32(rim)
        && to_f32(rim) <= MAX_RIM_LENGTH * to_f32(area).sqrt()
}

fn bin(value: f32) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float cast saturates"
    )]
    let bin = (value * to_f32(BINS)) as usize;
    bin.min(BINS - 1)
}

/// The picture with the ground filled in behind the subject.
fn far_sheet(picture: &Picture, ground: &ColourPlanes, hole: &FloatPlane) -> LayerSheet {
    let mut sheet = LayerSheet::solid(picture.width(), picture.height(), picture.rgb());
    sheet.parallax = GROUND_PARALLAX;
    each_pixel(&mut sheet, |u, v, pixel| {
        let hidden = hole.sample_at(u, v);
        if hidden > 0.0 {
            for (byte, plane) in pixel.iter_mut().zip(ground) {
                let original = f32::from(*byte);
                *byte = byte_of(original + (plane.sample_at(u, v) * 255.0 - original) * hidden);
            }
        }
    });
    sheet
}

/// The subject alone.
fn near_sheet(picture: &Picture, matte: &GuidedFilter, axis: [f32; 3]) -> LayerSheet {
    let mut sheet = LayerSheet::solid(picture.width(), picture.height(), picture.rgb());
    each_pixel(&mut sheet, |u, v, pixel| {
        let [r, g, b] = [pixel[0], pixel[1], pixel[2]].map(f32::from);
        // The filter's linear model takes the full picture's own colours, so the matte is as sharp
        // as the picture and not as coarse as the map.
        let guide = (axis[0] * r + axis[1] * g + axis[2] * b) / 255.0;
        let opacity =
            sharpen_matte(matte.slope.sample_at(u, v) * guide + matte.offset.sample_at(u, v));
        *pixel = [r * opacity, g * opacity, b * opacity, 255.0 * opacity].map(byte_of);
    });
    sheet
}

fn each_pixel(sheet: &mut LayerSheet, mut work: impl FnMut(f32, f32, &mut [u8; 4])) {
    let (width, height) = (sheet.width as usize, to_f32(sheet.height as usize));
    let (pixels, _) = sheet.rgba.as_chunks_mut::<4>();
    for (y, row) in pixels.chunks_exact_mut(width).enumerate() {
        let v = (to_f32(y) + 0.5) / height;
        for (x, pixel) in row.iter_mut().enumerate() {
            work((to_f32(x) + 0.5) / to_f32(width), v, pixel);
        }
    }
}

/// A matte with a rim of a few pixels rather than a haze.
fn sharpen_matte(opacity: f32) -> f32 {
    smoothstep(0.25, 0.75, opacity)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float cast saturates"
)]
fn byte_of(value: f32) -> u8 {
    (value + 0.5) as u8
}

#[expect(clippy::cast_precision_loss, reason = "a picture's side")]
fn to_f32(n: usize) -> f32 {
    n as f32
}

/// Red's, green's and blue's shares of brightness.
const LUMA: [f32; 3] = [0.30, 0.59, 0.11];

/// Longer side of the map on which the cues are weighed.
const MAP_SIDE: f64 = 320.0;

/// Pictures with a shorter side have no depth worth finding.
const MIN_SIDE: u32 = 64;

const BINS: usize = 64;

/// The least share of nearness's variance that the cut explains.
const MIN_VARIANCE_SHARE: f32 = 0.62;

/// Pixels of the map to each side of a rim at which colours are compared.
const RIM: usize = 3;

/// The least distance between two colours that makes an edge.
const MIN_EDGE: f32 = 0.12;

/// An edge has at least this many times the picture's usual contrast.
const MIN_EDGE_CONTRAST: f32 = 1.6;

/// The least share of a subject's rim that lies along an edge.
const MIN_SHARP_SHARE: f32 = 0.7;

/// The longest rim of a subject, in square roots of its area; a square's is 4.
const MAX_RIM_LENGTH: f32 = 11.0;

/// The ground's share of the camera's travel.
const GROUND_PARALLAX: f64 = 0.45;

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(colour: impl Fn(u32, u32) -> [u8; 3]) -> Picture {
        let rgb = (0..180 * 240)
            .flat_map(|i| colour(i % 240, i / 240))
            .collect();
        Picture::from_rgb(240, 180, rgb).unwrap()
    }

    #[test]
    fn a_subject_before_a_plain_ground_is_taken_off_it() {
        let subject = |x: u32, y: u32| x.abs_diff(120) < 40 && y > 60;
        let sheets = sheets(&picture(|x, y| {
            if subject(x, y) {
                [200, 60 + u8::try_from((x * 7 + y * 5) % 60).unwrap(), 40]
            } else {
                [70, 120, 180]
            }
        }))
        .unwrap();
        assert_eq!(sheets.len(), 2);
        let pixel =
            |sheet: &LayerSheet, x: usize, y: usize| sheet.rgba[(y * 240 + x) * 4..][..4].to_vec();
        assert_eq!(
            pixel(&sheets[1], 120, 140)[3],
            255,
            "the subject is in front"
        );
        assert_eq!(pixel(&sheets[1], 20, 20)[3], 0, "the ground is not");
        let behind = pixel(&sheets[0], 120, 140);
        assert!(
            behind[2] > 150 && behind[0] < 110,
            "the ground goes on behind: {behind:?}"
        );
        assert!(sheets[0].parallax < sheets[1].parallax);
    }

    #[test]
    fn where_there_is_nothing_to_see_the_picture_stays_whole() {
        let grey = picture(|_, _| [128; 3]);
        assert_eq!(sheets(&grey).unwrap().len(), 1);
        let noise = picture(|x, y| [u8::try_from((x * 73 + y * 151 + x * y) % 256).unwrap(); 3]);
        assert_eq!(sheets(&noise).unwrap().len(), 1);
        let tiny = Picture::from_rgb(2, 1, vec![0, 0, 0, 255, 255, 255]).unwrap();
        assert_eq!(sheets(&tiny).unwrap().len(), 1);
    }
}
