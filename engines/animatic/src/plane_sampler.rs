//! The plane sampler: a flat picture as YUV planes, ready to be resampled for each frame.
//!
//! The planes have three eighths of the bytes of RGBA, and a resampled frame needs no conversion. A
//! pan shows the same rows in every frame, and a tilt the same columns: these are resampled once
//! for the whole shot, so each frame needs only half of the work.

use crate::error::RenderError;
use crate::layer::LayerPlate;
use crate::quad_plane::QuadPlane;
use h264::I420Frame;
use resize::{CropRect, FilterType, Resizer};

/// A picture prepared for showing parts of it.
pub(crate) enum PlaneSampler {
    /// Shows any part: luma and both chroma planes.
    Whole([QuadPlane; 3]),
    /// Shows parts that differ only in `left` and `width`: luma, and the chroma planes one below
    /// the other.
    Rows([QuadPlane; 2]),
    /// Shows parts that differ only in `top` and `height`.
    Columns([PlaneStrip; 3]),
}

/// A plane that is already resampled to the frame's width.
pub(crate) struct PlaneStrip {
    bytes: Vec<u8>,
    size: (u32, u32),
}

impl PlaneSampler {
    /// A sampler for a shot that shows these parts of a plate in frames of this size.
    pub(crate) fn new(
        resizer: &mut Resizer,
        plate: &LayerPlate,
        parts: &[CropRect],
        (width, height): (u32, u32),
    ) -> Result<Self, RenderError> {
        let plate_yuv = plate_to_yuv(plate);
        let (columns, rows) = plate_yuv.sides();
        let chroma_size = (columns / 2, rows / 2);
        let Some((first, rest)) = parts.split_first() else {
            return Err(RenderError::new("the shot has no frames"));
        };
        // Compared bit by bit: a coordinate that does not move is computed in the same way for each
        // frame. With the slightest difference, rows that were resampled only once would drift away
        // from where the camera is.
        let is_constant = |value: fn(&CropRect) -> [f64; 2]| {
            let bits = |part: &CropRect| value(part).map(f64::to_bits);
            rest.iter().all(|part| bits(part) == bits(first))
        };
        if is_constant(|part| [part.top, part.height]) {
            let mut squeeze = |plane: &[u8], size: (u32, u32), height: u32, part: CropRect| {
                let full_width = CropRect {
                    left: 0.0,
                    width: f64::from(size.0),
                    ..part
                };
                resample(resizer, (plane, size), (size.0, height), full_width)
            };
            let luma = squeeze(plate_yuv.y(), (columns, rows), height, *first)?;
            let mut chroma = squeeze(plate_yuv.u(), chroma_size, height / 2, first.halved())?;
            // One below the other, so that one call per frame resamples both.
            chroma.extend(squeeze(
                plate_yuv.v(),
                chroma_size,
                height / 2,
                first.halved(),
            )?);
            return Ok(Self::Rows([
                QuadPlane::new(&luma, (columns, height)),
                QuadPlane::new(&chroma, (chroma_size.0, height)),
            ]));
        }
        if is_constant(|part| [part.left, part.width]) {
            let mut squeeze = |plane: &[u8], size: (u32, u32), width: u32, part: CropRect| {
                let full_height = CropRect {
                    top: 0.0,
                    height: f64::from(size.1),
                    ..part
                };
                let size_of_strip = (width, size.1);
                let bytes = resample(resizer, (plane, size), size_of_strip, full_height)?;
                Ok::<_, RenderError>(PlaneStrip {
                    bytes,
                    size: size_of_strip,
                })
            };
            return Ok(Self::Columns([
                squeeze(plate_yuv.y(), (columns, rows), width, *first)?,
                squeeze(plate_yuv.u(), chroma_size, width / 2, first.halved())?,
                squeeze(plate_yuv.v(), chroma_size, width / 2, first.halved())?,
            ]));
        }
        Ok(Self::Whole([
            QuadPlane::new(plate_yuv.y(), (columns, rows)),
            QuadPlane::new(plate_yuv.u(), chroma_size),
            QuadPlane::new(plate_yuv.v(), chroma_size),
        ]))
    }

    /// Draws one of the parts passed to [`Self::new`].
    pub(crate) fn draw(
        &mut self,
        resizer: &mut Resizer,
        part: CropRect,
        yuv: &mut I420Frame,
    ) -> Result<(), RenderError> {
        let (width, height) = yuv.sides();
        let (luma_size, chroma_size) = ((width, height), (width / 2, height / 2));
        match self {
            Self::Whole([ys, us, vs]) => {
                let [y, u, v] = yuv.planes_mut();
                ys.resample(resizer, (y, luma_size), part)?;
                us.resample(resizer, (u, chroma_size), part.halved())?;
                vs.resample(resizer, (v, chroma_size), part.halved())
            }
            Self::Rows([luma, chroma]) => {
                let (y, uv) = yuv.luma_and_chroma_mut();
                luma.resample_rows(resizer, (y, width), part)?;
                chroma.resample_rows(resizer, (uv, width / 2), part.halved())
            }
            Self::Columns([ys, us, vs]) => {
                let [y, u, v] = yuv.planes_mut();
                ys.draw(resizer, (y, luma_size), part)?;
                us.draw(resizer, (u, chroma_size), part.halved())?;
                vs.draw(resizer, (v, chroma_size), part.halved())
            }
        }
    }
}

impl PlaneStrip {
    fn draw(
        &self,
        resizer: &mut Resizer,
        to: (&mut [u8], (u32, u32)),
        part: CropRect,
    ) -> Result<(), RenderError> {
        let full_width = CropRect {
            left: 0.0,
            width: f64::from(self.size.0),
            ..part
        };
        let from = (self.bytes.as_slice(), self.size);
        resize::plane(resizer, from, to, FilterType::CatmullRom, full_width)?;
        Ok(())
    }
}

fn resample(
    resizer: &mut Resizer,
    from: (&[u8], (u32, u32)),
    size: (u32, u32),
    part: CropRect,
) -> Result<Vec<u8>, RenderError> {
    let mut bytes = vec![0; size.0 as usize * size.1 as usize];
    let to = (bytes.as_mut_slice(), size);
    resize::plane(resizer, from, to, FilterType::CatmullRom, part)?;
    Ok(bytes)
}

/// A plate as a frame; an odd side gets its last pixels twice.
fn plate_to_yuv(plate: &LayerPlate) -> I420Frame {
    let (width, height) = (plate.width(), plate.height());
    let mut yuv = I420Frame::new(width.next_multiple_of(2), height.next_multiple_of(2));
    if width % 2 + height % 2 == 0 {
        yuv.read_rgba(plate.rgba());
        return yuv;
    }
    let (width, height) = (width as usize, height as usize);
    let (extra, rows) = (width % 2, height + height % 2);
    let mut rgba = Vec::with_capacity((width + extra) * rows * 4);
    for y in 0..rows {
        let start = y.min(height - 1) * width * 4;
        let row = &plate.rgba()[start..start + width * 4];
        rgba.extend_from_slice(row);
        rgba.extend_from_slice(&row[row.len() - extra * 4..]);
    }
    yuv.read_rgba(&rgba);
    yuv
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plate of soft colours, none so bright or dark that the filter's overshoot is clipped.
    fn plate(width: u32, height: u32) -> LayerPlate {
        let wave = |at: u32, by: u32| 70 + at * by % 110;
        let rgb: Vec<u8> = (0..width * height)
            .flat_map(|i| {
                let (x, y) = (i % width, i / width);
                [wave(x + y, 7), wave(x * 2 + y, 5), wave(x + y * 3, 3)]
            })
            .map(|value| u8::try_from(value).unwrap())
            .collect();
        LayerPlate::solid(width, height, &rgb, (width, height))
    }

    fn draw(planes: &mut PlaneSampler, part: CropRect) -> I420Frame {
        let mut yuv = I420Frame::new(48, 38);
        planes.draw(&mut Resizer::new(), part, &mut yuv).unwrap();
        yuv
    }

    #[test]
    fn constant_rows_and_columns_are_drawn_like_whole_parts() {
        let plate = plate(97, 75);
        let still = CropRect {
            left: 3.4,
            top: 2.6,
            width: 72.0,
            height: 57.0,
        };
        let aside = CropRect {
            left: 20.2,
            ..still
        };
        let below = CropRect { top: 15.1, ..still };
        let closer = CropRect {
            left: 9.0,
            top: 8.0,
            width: 60.0,
            height: 47.5,
        };
        let size = (48, 38);
        let planes =
            |parts: &[CropRect]| PlaneSampler::new(&mut Resizer::new(), &plate, parts, size);
        let mut whole_sampler = planes(&[still, aside, below, closer]).unwrap();
        assert!(matches!(whole_sampler, PlaneSampler::Whole(_)));
        let mut rows = planes(&[still, aside]).unwrap();
        assert!(matches!(rows, PlaneSampler::Rows(_)));
        let mut columns = planes(&[still, below]).unwrap();
        assert!(matches!(columns, PlaneSampler::Columns(_)));
        for (planes, parts) in [(&mut rows, [still, aside]), (&mut columns, [still, below])] {
            for part in parts {
                let (actual, expected) = (draw(planes, part), draw(&mut whole_sampler, part));
                let bytes = |f: &I420Frame| [f.y(), f.u(), f.v()].concat();
                let difference = bytes(&actual).into_iter().zip(bytes(&expected));
                let difference = difference.map(|(a, b)| a.abs_diff(b)).max().unwrap();
                assert!(difference <= 1, "{difference}");
            }
        }
    }
}
