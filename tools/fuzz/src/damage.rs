//! Damage to samples; the same seed always does the same damage.

/// A random number generator (xorshift).
#[derive(Debug, Clone)]
pub struct DamageRng(u64);

impl DamageRng {
    /// The random numbers for one case of a run.
    pub fn new(seed: u64, case: u64) -> Self {
        // 2^64 divided by the golden ratio. It spreads the numbers of neighbouring cases over all
        // bits.
        let mixed = seed ^ case.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // Xorshift never leaves zero.
        let mut rng = Self(mixed.max(1));
        // States that differ in few bits still give similar numbers at first.
        for _ in 0..8 {
            rng.next();
        }
        rng
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX).max(1);
        usize::try_from((self.next() >> 11) % end).unwrap_or(0)
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[3]
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }
}

/// The longest sample; repeated duplication stops here.
const MAX_SAMPLE_BYTES: usize = 1 << 18;

/// Numbers that often reveal bugs.
const NUMBERS: [u32; 8] = [0, 1, 7, 0xffff, 1 << 24, i32::MAX as u32, 1 << 31, u32::MAX];

/// Words that often reveal bugs in JSON, forms and recipes.
const WORDS: [&str; 24] = [
    "null",
    "true",
    "-1",
    "0",
    "1e400",
    "1.5",
    "18446744073709551616",
    "{}",
    "[]",
    "\"\"",
    "[[[[[[",
    "{\"a\":",
    "\"\\ud800\"",
    "\u{0}",
    "\r\n",
    "--b",
    "--b--",
    "\"; filename=\"",
    "é",
    "{size}",
    "{|}",
    "=",
    "//",
    "..",
];

/// One of the seeds with some damage.
pub fn damaged_sample(seeds: &[Vec<u8>], rng: &mut DamageRng) -> Vec<u8> {
    let mut bytes = seeds[rng.below(seeds.len())].clone();
    for _ in 0..=rng.below(4) {
        apply_damage(&mut bytes, seeds, rng);
    }
    bytes.truncate(MAX_SAMPLE_BYTES);
    bytes
}

fn apply_damage(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], rng: &mut DamageRng) {
    let offset = random_offset(bytes.len(), rng);
    match rng.below(12) {
        0..=2 => overwrite(bytes, offset, &[rng.byte()]),
        3 | 4 => {
            if let Some(byte) = bytes.get_mut(offset) {
                *byte ^= 1 << rng.below(8);
            }
        }
        5 => overwrite(bytes, offset, &rng.one_of(&NUMBERS).to_be_bytes()),
        6 => overwrite(bytes, offset, &rng.one_of(&NUMBERS).to_le_bytes()),
        7 => drop(bytes.drain(offset..bytes.len().min(offset + rng.below(64)))),
        8 => {
            let piece = bytes[offset..bytes.len().min(offset + rng.below(400))].to_vec();
            drop(bytes.splice(offset..offset, piece));
        }
        9 => {
            let other = &seeds[rng.below(seeds.len())];
            let start = rng.below(other.len());
            let piece = &other[start..other.len().min(start + rng.below(200))];
            drop(bytes.splice(offset..offset, piece.iter().copied()));
        }
        10 => {
            // Replaces a whole value, so that JSON and TOML around it stay well-formed and the
            // readers get further.
            let is_end = |byte: &u8| b",:}]\n\"{ ".contains(byte);
            let start = bytes[..offset]
                .iter()
                .rposition(is_end)
                .map_or(offset, |index| index + 1);
            let end = bytes[offset..]
                .iter()
                .position(is_end)
                .map_or(offset, |index| offset + index);
            drop(bytes.splice(start..end, rng.one_of(&WORDS).bytes()));
        }
        _ => bytes.truncate(offset),
    }
}

/// Half of the positions are near the start or the end, where headers and tables are.
fn random_offset(length: usize, rng: &mut DamageRng) -> usize {
    let margin = (length / 12).max(64);
    match rng.below(4) {
        0 => rng.below(margin).min(length),
        1 => length.saturating_sub(rng.below(margin)),
        _ => rng.below(length),
    }
}

fn overwrite(bytes: &mut [u8], offset: usize, replacement: &[u8]) {
    // Nothing is inserted, so lengths and offsets elsewhere in the file stay correct.
    for (byte, new_byte) in bytes.iter_mut().skip(offset).zip(replacement) {
        *byte = *new_byte;
    }
}
