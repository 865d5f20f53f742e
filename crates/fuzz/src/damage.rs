//! Damage to samples, the same for the same seed.

/// Numbers by xorshift.
#[derive(Debug, Clone)]
pub struct DamageRng(u64);

impl DamageRng {
    /// The random numbers for one case of a run.
    pub fn new(seed: u64, case: u64) -> Self {
        // 2^64 divided by the golden ratio. It spreads the numbers of neighbouring cases over all
        // bits.
        let mixed = seed ^ case.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // Xorshift never leaves zero.
        let mut dice = Self(mixed.max(1));
        // States that differ in few bits still give similar numbers at first.
        for _ in 0..8 {
            dice.next();
        }
        dice
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

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// The longest sample; repeated duplication stops here.
const LONGEST: usize = 1 << 18;

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
pub fn damaged(seeds: &[Vec<u8>], dice: &mut DamageRng) -> Vec<u8> {
    let mut bytes = seeds[dice.below(seeds.len())].clone();
    for _ in 0..=dice.below(4) {
        inflict(&mut bytes, seeds, dice);
    }
    bytes.truncate(LONGEST);
    bytes
}

fn inflict(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], dice: &mut DamageRng) {
    let at = place(bytes.len(), dice);
    match dice.below(12) {
        0..=2 => put(bytes, at, &[dice.byte()]),
        3 | 4 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << dice.below(8);
            }
        }
        5 => put(bytes, at, &dice.one_of(&NUMBERS).to_be_bytes()),
        6 => put(bytes, at, &dice.one_of(&NUMBERS).to_le_bytes()),
        7 => drop(bytes.drain(at..bytes.len().min(at + dice.below(64)))),
        8 => {
            let piece = bytes[at..bytes.len().min(at + dice.below(400))].to_vec();
            drop(bytes.splice(at..at, piece));
        }
        9 => {
            let other = &seeds[dice.below(seeds.len())];
            let from = dice.below(other.len());
            let piece = &other[from..other.len().min(from + dice.below(200))];
            drop(bytes.splice(at..at, piece.iter().copied()));
        }
        10 => {
            // Replaces a whole value, so that JSON and TOML around it stay well-formed and the
            // readers get further.
            let is_end = |byte: &u8| b",:}]\n\"{ ".contains(byte);
            let from = bytes[..at].iter().rposition(is_end).map_or(at, |at| at + 1);
            let to = bytes[at..].iter().position(is_end).map_or(at, |to| at + to);
            drop(bytes.splice(from..to, dice.one_of(&WORDS).bytes()));
        }
        _ => bytes.truncate(at),
    }
}

/// Half of the positions are near either end, where heads and tables are.
fn place(length: usize, dice: &mut DamageRng) -> usize {
    let near = (length / 12).max(64);
    match dice.below(4) {
        0 => dice.below(near).min(length),
        1 => length.saturating_sub(dice.below(near)),
        _ => dice.below(length),
    }
}

fn put(bytes: &mut [u8], at: usize, new: &[u8]) {
    // Overwrites and never inserts: lengths and offsets elsewhere in the file stay correct.
    for (byte, new) in bytes.iter_mut().skip(at).zip(new) {
        *byte = *new;
    }
}
