//! Frames as the encoder takes them: planar 4:2:0, BT.709, limited range.
//!
//! The stream says so in its header (see `encoder`), so a player shows the colours of the source at
//! every size; for streams that do not say so, a player has to guess BT.601 or BT.709.

/// One frame: a plane of luma, then two of chroma at half the width and height.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct I420Frame {
    width: usize,
    height: usize,
    planes: Vec<u8>,
}

/// A frame on its way to the encoder: planar 4:2:0, BT.709, limited range, rows without gaps.
#[derive(Debug)]
pub struct FramePlanes<'a> {
    pub width: usize,
    pub height: usize,
    pub luma: &'a mut [u8],
    /// At half the width and height.
    pub blue: &'a mut [u8],
    /// At half the width and height.
    pub red: &'a mut [u8],
}

impl I420Frame {
    /// A frame of zeros. The sides must be even.
    pub fn new(width: u32, height: u32) -> Self {
        let (width, height) = (width as usize, height as usize);
        Self {
            width,
            height,
            planes: vec![0; width * height * 3 / 2],
        }
    }

    pub fn y(&self) -> &[u8] {
        &self.planes[..self.width * self.height]
    }

    pub fn u(&self) -> &[u8] {
        let luma = self.width * self.height;
        &self.planes[luma..luma + luma / 4]
    }

    pub fn v(&self) -> &[u8] {
        let luma = self.width * self.height;
        &self.planes[luma + luma / 4..]
    }

    /// The three planes to be written to.
    pub fn planes_mut(&mut self) -> [&mut [u8]; 3] {
        let luma = self.width * self.height;
        let (y, chroma) = self.planes.split_at_mut(luma);
        let (u, v) = chroma.split_at_mut(luma / 4);
        [y, u, v]
    }

    /// All planes, for a change from outside.
    pub fn frame_planes_mut(&mut self) -> FramePlanes<'_> {
        let (width, height) = self.size();
        let [luma, blue, red] = self.planes_mut();
        FramePlanes {
            width,
            height,
            luma,
            blue,
            red,
        }
    }

    /// Luma, and the two planes of chroma one after the other, to be written to.
    pub fn luma_and_chroma_mut(&mut self) -> (&mut [u8], &mut [u8]) {
        self.planes.split_at_mut(self.width * self.height)
    }

    /// Like [`Self::size`], with the integer type of pictures.
    pub fn sides(&self) -> (u32, u32) {
        let side = |side: usize| u32::try_from(side).unwrap_or(u32::MAX);
        (side(self.width), side(self.height))
    }

    pub fn size(&self) -> (usize, usize) {
        (self.width, self.height)
    }

    /// Becomes a copy of a frame of the same size, without allocating.
    pub fn copy_from(&mut self, other: &Self) {
        self.planes.copy_from_slice(&other.planes);
    }

    /// Converts a frame of RGBA, of which the A is ignored.
    pub fn read_rgba(&mut self, rgba: &[u8]) {
        let width = self.width;
        let (luma, chroma) = self.planes.split_at_mut(width * self.height);
        let (us, vs) = chroma.split_at_mut(width * self.height / 4);
        let rows = rgba
            .chunks_exact(width * 8)
            .zip(luma.chunks_exact_mut(width * 2));
        let chroma_rows = us
            .chunks_exact_mut(width / 2)
            .zip(vs.chunks_exact_mut(width / 2));
        for ((pixels, luma), (us, vs)) in rows.zip(chroma_rows) {
            for (y, p) in luma.iter_mut().zip(pixels.chunks_exact(4)) {
                *y = luma_of(p);
            }
            let (upper, lower) = pixels.split_at(width * 4);
            let blocks = upper.chunks_exact(8).zip(lower.chunks_exact(8));
            for ((a, b), (u, v)) in blocks.zip(us.iter_mut().zip(vs.iter_mut())) {
                (*u, *v) = chroma_of(a, b);
            }
        }
    }
}

// Sixteen binary places; each row of coefficients sums to the range of its signal
// (219/255 for luma, zero for chroma), so grey stays exactly grey.
const ONE: i32 = 1 << 16;

#[inline]
fn luma_of(p: &[u8]) -> u8 {
    let [r, g, b] = [p[0], p[1], p[2]].map(i32::from);
    byte((r * 11966 + g * 40254 + b * 4064 + 16 * ONE + ONE / 2) >> 16)
}

/// The chroma of a block of two by two pixels, from the sum of the four.
#[inline]
fn chroma_of(upper: &[u8], lower: &[u8]) -> (u8, u8) {
    let sum = |c: usize| {
        i32::from(upper[c])
            + i32::from(upper[c + 4])
            + i32::from(lower[c])
            + i32::from(lower[c + 4])
    };
    let (red, green, blue) = (sum(0), sum(1), sum(2));
    let centre = 128 * 4 * ONE + 2 * ONE;
    let blueness = centre - red * 6596 - green * 22189 + blue * 28785;
    let redness = centre + red * 28785 - green * 26145 - blue * 2640;
    (byte(blueness >> 18), byte(redness >> 18))
}

#[inline]
#[expect(clippy::cast_sign_loss, reason = "clamped to a byte")]
fn byte(value: i32) -> u8 {
    value.clamp(0, 255) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(rgb: [u8; 3]) -> [u8; 3] {
        let mut frame = I420Frame::new(2, 2);
        frame.read_rgba(&[rgb[0], rgb[1], rgb[2], 255].repeat(4));
        [frame.y()[0], frame.u()[0], frame.v()[0]]
    }

    #[test]
    fn the_bars_have_their_broadcast_values() {
        assert_eq!(convert([0, 0, 0]), [16, 128, 128]);
        assert_eq!(convert([255, 255, 255]), [235, 128, 128]);
        assert_eq!(convert([255, 0, 0]), [63, 102, 240]);
        assert_eq!(convert([0, 255, 0]), [173, 42, 26]);
        assert_eq!(convert([0, 0, 255]), [32, 240, 118]);
    }

    #[test]
    fn every_grey_is_exactly_grey() {
        for grey in 0..=255 {
            let [_, u, v] = convert([grey; 3]);
            assert_eq!((u, v), (128, 128), "{grey}");
        }
    }
}
