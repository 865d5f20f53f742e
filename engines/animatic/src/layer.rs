//! Layers: the sheets of picture that a shot looks through, from the farthest to the nearest.
//!
//! A layer is a plate of premultiplied colour and a parallax: the share of the camera's travel
//! that it follows. A flat picture is one layer; a drawn scene, or a picture that was taken apart
//! by depth, is several. A plate knows which of its blocks are empty and which are solid, so that
//! the renderer skips what can't be seen.
//!
//! This module knows nothing of cameras or frames.

/// One sheet of the scene.
pub(crate) struct Layer {
    /// The layer's pixels.
    pub(crate) plate: LayerPlate,
    /// How much of the camera's travel it follows: near 0 on the horizon, 1 for the nearest.
    pub(crate) parallax: f64,
}

/// Premultiplied RGBA over the whole picture, at any resolution: rows from the top left.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LayerSheet {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) rgba: Vec<u8>,
    /// As [`Layer::parallax`].
    pub(crate) parallax: f64,
}

/// A sheet cropped to what is on it, ready to be sampled. Beyond its edges the outermost pixels
/// repeat.
pub(crate) struct LayerPlate {
    width: u32,
    height: u32,
    rgba: Vec<u8>,
    /// Plate pixels per picture pixel, in each direction.
    scale: (f64, f64),
    /// The plate's first pixel, counted in plate pixels from the picture's corner.
    first: (f64, f64),
    /// Whether empty rows were cropped above and below: only empty rows repeat there.
    cropped: (bool, bool),
    blocks: Vec<BlockCover>,
}

/// How much a part of a plate hides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockCover {
    Nothing,
    Part,
    All,
}

impl LayerPlate {
    /// Crops a sheet to its content. `picture` is the size that the sheet represents.
    pub(crate) fn new(sheet: LayerSheet, picture: (u32, u32)) -> Self {
        let scale = (
            f64::from(sheet.width) / f64::from(picture.0.max(1)),
            f64::from(sheet.height) / f64::from(picture.1.max(1)),
        );
        let (top, bottom) = content(&sheet);
        let row = sheet.width as usize * 4;
        let mut rgba = sheet.rgba;
        rgba.truncate(bottom * row);
        rgba.drain(..top * row);
        // A sheet with content in a few rows would otherwise keep the memory of a whole picture.
        rgba.shrink_to_fit();
        let height = u32::try_from(bottom - top).unwrap_or(sheet.height);
        let blocks = blocks(&rgba, sheet.width as usize, height as usize);
        Self {
            width: sheet.width,
            height,
            rgba,
            scale,
            first: (0.0, f64::from(u32::try_from(top).unwrap_or(0))),
            cropped: (top > 0, bottom < sheet.height as usize),
            blocks,
        }
    }

    /// A plate of one solid picture: rows of red, green and blue, `width * height` pixels.
    pub(crate) fn solid(width: u32, height: u32, rgb: &[u8], picture: (u32, u32)) -> Self {
        Self::new(LayerSheet::solid(width, height, rgb), picture)
    }

    pub(crate) fn width(&self) -> u32 {
        self.width
    }

    pub(crate) fn height(&self) -> u32 {
        self.height
    }

    pub(crate) fn rgba(&self) -> &[u8] {
        &self.rgba
    }

    /// Plate pixels per picture pixel.
    pub(crate) fn scale(&self) -> (f64, f64) {
        self.scale
    }

    /// A point of the picture, in pixels of the plate.
    #[inline]
    pub(crate) fn to_plate(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (
            x * self.scale.0 - self.first.0,
            y * self.scale.1 - self.first.1,
        )
    }

    /// What the plate covers between two columns and two rows of its pixels, ends included.
    pub(crate) fn cover(&self, columns: (i32, i32), rows: (i32, i32)) -> BlockCover {
        let height = i32::try_from(self.height).unwrap_or(i32::MAX);
        // Beyond a cropped side only its last row repeats, which `content` left empty.
        if (self.cropped.0 && rows.1 <= 0) || (self.cropped.1 && rows.0 >= height - 1) {
            return BlockCover::Nothing;
        }
        let block = |pixel: i32, side: u32| {
            let last = i32::try_from(side).unwrap_or(i32::MAX).saturating_sub(1);
            usize::try_from(pixel.clamp(0, last)).unwrap_or(0) / BLOCK
        };
        let across = (self.width as usize).div_ceil(BLOCK);
        let (left, right) = (block(columns.0, self.width), block(columns.1, self.width));
        let (top, bottom) = (block(rows.0, self.height), block(rows.1, self.height));
        let mut common: Option<BlockCover> = None;
        for y in top..=bottom {
            for cover in self
                .blocks
                .get(y * across + left..=y * across + right)
                .unwrap_or_default()
            {
                match common {
                    None => common = Some(*cover),
                    Some(same) if same == *cover => {}
                    Some(_) => return BlockCover::Part,
                }
            }
        }
        common.unwrap_or(BlockCover::Part)
    }
}

impl LayerSheet {
    /// A sheet without holes: rows of red, green and blue, `width * height` pixels.
    pub(crate) fn solid(width: u32, height: u32, rgb: &[u8]) -> Self {
        let mut rgba = Vec::with_capacity(rgb.len() / 3 * 4);
        for p in rgb.chunks_exact(3) {
            rgba.extend_from_slice(&[p[0], p[1], p[2], u8::MAX]);
        }
        Self {
            width,
            height,
            rgba,
            parallax: 1.0,
        }
    }
}

/// The rows of a sheet with any content, plus one empty row at each cropped end, so that nothing
/// repeats beyond the edge.
fn content(sheet: &LayerSheet) -> (usize, usize) {
    let row = sheet.width as usize * 4;
    // Light without opacity is content too.
    let is_empty = |row: &[u8]| row.iter().all(|byte| *byte == 0);
    let rows = sheet.height as usize;
    let top = sheet.rgba.chunks_exact(row).position(|r| !is_empty(r));
    let Some(top) = top else {
        return (0, 1.min(rows));
    };
    let bottom = sheet.rgba.chunks_exact(row).rposition(|r| !is_empty(r));
    let bottom = bottom.map_or(rows, |last| last + 1);
    (top.saturating_sub(1), (bottom + 1).min(rows))
}

fn blocks(rgba: &[u8], width: usize, height: usize) -> Vec<BlockCover> {
    let mut blocks = Vec::new();
    for top in (0..height).step_by(BLOCK) {
        for left in (0..width).step_by(BLOCK) {
            let (mut is_solid, mut has_content) = (true, false);
            for y in top..(top + BLOCK).min(height) {
                let row =
                    &rgba[(y * width + left) * 4..(y * width + (left + BLOCK).min(width)) * 4];
                for p in row.chunks_exact(4) {
                    is_solid &= p[3] == u8::MAX;
                    // Light has colour without opacity, so a zero alpha alone does not make a pixel
                    // empty.
                    has_content |= *p != [0; 4];
                }
            }
            blocks.push(match (is_solid, has_content) {
                (true, _) => BlockCover::All,
                (_, false) => BlockCover::Nothing,
                _ => BlockCover::Part,
            });
        }
    }
    blocks
}

/// Side of a block in pixels.
const BLOCK: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plate_is_cropped_and_knows_what_it_covers() {
        let mut rgba = vec![0; 64 * 64 * 4];
        rgba[64 * 40 * 4..].fill(255);
        let sheet = LayerSheet {
            width: 64,
            height: 64,
            rgba,
            parallax: 1.0,
        };
        let plate = LayerPlate::new(sheet, (128, 128));
        assert_eq!((plate.width(), plate.height()), (64, 25));
        assert_eq!(plate.to_plate((10.0, 80.0)), (5.0, 1.0));
        assert_eq!(plate.cover((0, 20), (0, 3)), BlockCover::Part);
        assert_eq!(plate.cover((0, 63), (17, 24)), BlockCover::All);
        assert_eq!(plate.cover((-900, 63), (90, 99)), BlockCover::All);
        assert_eq!(plate.cover((0, 63), (-90, -2)), BlockCover::Nothing);
    }

    #[test]
    fn an_empty_sheet_covers_nothing() {
        let sheet = LayerSheet {
            width: 3,
            height: 7,
            rgba: vec![0; 84],
            parallax: 0.5,
        };
        let plate = LayerPlate::new(sheet, (3, 7));
        assert_eq!(plate.cover((0, 2), (0, 6)), BlockCover::Nothing);
    }
}
