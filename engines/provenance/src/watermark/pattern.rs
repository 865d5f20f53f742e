//! The tile: which of its cells are the pilot and which carry bits, from the key's secret. This
//! module knows nothing of pixels.

use super::MarkKey;
use super::code::{CODED_BITS, DecodedMark, KNOWN_BITS, decode, known_bits};

/// Cells along a side of the tile.
pub(super) const SIDE: usize = 24;
pub(super) const CELLS: usize = SIDE * SIDE;
/// Cells along a frame's shortest side: 8 pixels each at 720 lines.
pub(super) const CELLS_ALONG_SHORT_SIDE: usize = 90;

/// How many cells carry each coded bit. Half of the remaining pilot would suffice to find
/// positions: in a weak mark the code fails first.
const COPIES: usize = 2;

/// A key's tile without its bits: each cell's sign, and which cells carry bits.
pub(super) struct VideoTileLayout {
    key: MarkKey,
    signs: [f32; CELLS],
    /// The cells in a shuffled order: the first of them carry the bits.
    order: [usize; CELLS],
}

impl VideoTileLayout {
    pub(super) fn for_key(key: &MarkKey) -> Self {
        let mut random = SplitMix64(key.secret);
        let signs = std::array::from_fn(|_| if random.next() >> 63 == 0 { 1.0 } else { -1.0 });
        let mut order: [usize; CELLS] = std::array::from_fn(|cell| cell);
        for last in (1..CELLS).rev() {
            order.swap(last, random.below(last + 1));
        }
        Self {
            key: *key,
            signs,
            order,
        }
    }

    /// The cells' signs of the whole tile with these bits in it.
    pub(super) fn tile(&self, coded: &[bool; CODED_BITS]) -> [f32; CELLS] {
        let mut tile = self.signs;
        for cells in self.copies() {
            for (cell, bit) in cells.iter().zip(coded) {
                if *bit && let Some(sign) = tile.get_mut(*cell) {
                    *sign = -*sign;
                }
            }
        }
        tile
    }

    /// The part that is the same in all tiles of the key; cells that depend on the media id are 0.
    pub(super) fn pilot(&self) -> [f32; CELLS] {
        let known_coded = known_bits(&self.key);
        let mut tile = self.tile(&known_coded);
        for cells in self.copies() {
            for cell in cells.iter().skip(KNOWN_BITS) {
                if let Some(sign) = tile.get_mut(*cell) {
                    *sign = 0.0;
                }
            }
        }
        tile
    }

    /// The soft values of the bits from those of the cells.
    fn bits(&self, cells: &[f32; CELLS]) -> [f32; CODED_BITS] {
        let mut bits = [0.0; CODED_BITS];
        for copy in self.copies() {
            for (bit, cell) in bits.iter_mut().zip(copy) {
                if let (Some(value), Some(sign)) = (cells.get(*cell), self.signs.get(*cell)) {
                    *bit += value * sign;
                }
            }
        }
        bits
    }

    /// The likeliest mark of the key.
    pub(super) fn decode(&self, cells: &[f32; CELLS]) -> Option<DecodedMark> {
        decode(&self.bits(cells), Some(&self.key))
    }

    fn copies(&self) -> impl Iterator<Item = &[usize]> {
        self.order.chunks_exact(CODED_BITS).take(COPIES)
    }
}

/// `SplitMix64` (Steele, Lea and Flood, 2014).
pub(super) struct SplitMix64(pub(super) u64);

impl SplitMix64 {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number under `bound`, which is so small that the bias is negligible.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        let scaled = (u128::from(self.next()) * bound as u128) >> 64;
        usize::try_from(scaled).unwrap_or(0)
    }
}
