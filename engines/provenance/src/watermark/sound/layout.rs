//! The tile: which cells are the pilot and which carry bits, from the key's secret.

use super::super::MarkKey;
use super::super::code::CODED_BITS;
use super::super::pattern::SplitMix64;
use super::CELLS;

/// How many cells carry each coded bit; the rest is the pilot, a fifth of the tile.
const COPIES: usize = 8;
/// Makes the tile differ from that of films marked with the same secret.
const SOUND_SALT: u64 = 0x736f_756e_6400_0001;

pub(super) struct SoundTileLayout {
    /// A sign for each cell, step by step.
    signs: Vec<f32>,
    /// The cells in a shuffled order: the first of them carry the bits, one after the other,
    /// repeatedly.
    order: Vec<usize>,
}

impl SoundTileLayout {
    pub(super) fn for_key(key: &MarkKey) -> Self {
        let mut random = SplitMix64(key.secret ^ SOUND_SALT);
        let signs = (0..CELLS).map(|_| if random.next() >> 63 == 0 { 1.0 } else { -1.0 });
        let signs = signs.collect();
        let mut order: Vec<usize> = (0..CELLS).collect();
        for last in (1..CELLS).rev() {
            order.swap(last, random.below(last + 1));
        }
        Self { signs, order }
    }

    fn carriers(&self) -> impl Iterator<Item = (usize, usize)> {
        let carriers = self.order.iter().take(CODED_BITS * COPIES);
        carriers
            .enumerate()
            .map(|(index, cell)| (index % CODED_BITS, *cell))
    }

    /// The cells' signs with these bits in them.
    pub(super) fn tile(&self, coded: &[bool; CODED_BITS]) -> Vec<f32> {
        let mut tile = self.signs.clone();
        for (bit, cell) in self.carriers() {
            if coded.get(bit) == Some(&true)
                && let Some(sign) = tile.get_mut(cell)
            {
                *sign = -*sign;
            }
        }
        tile
    }

    /// The cells of the pilot and their signs.
    pub(super) fn pilot(&self) -> impl Iterator<Item = (usize, f32)> {
        let pilot = self.order.iter().skip(CODED_BITS * COPIES);
        pilot.filter_map(|cell| Some((*cell, *self.signs.get(*cell)?)))
    }

    /// The soft values of the bits from those of the cells.
    pub(super) fn bits(&self, value: impl Fn(usize) -> f32) -> [f32; CODED_BITS] {
        let mut bits = [0.0; CODED_BITS];
        for (bit, cell) in self.carriers() {
            if let (Some(soft), Some(sign)) = (bits.get_mut(bit), self.signs.get(cell)) {
                *soft += value(cell) * sign;
            }
        }
        bits
    }
}
