//! A hash of a frame each second: the signs of the low frequencies of its cosine transform, as in
//! C. Zauner's "Implementation and Benchmarking of Perceptual Image Hash Functions" (2010), where
//! it is `pHash`'s DCT hash. This module knows nothing of files or codecs.

use super::PrintMatch;

/// Maximum number of frames in one print: three hours.
pub const MAX_FRAMES: usize = 10_800;
/// Below this distance two films count as similar.
pub const THRESHOLD: f32 = 0.20;
/// Frames that have to overlap; of a shorter print, all of them.
const MIN_OVERLAP: usize = 3;
/// Maximum number of comparisons of hashes, whatever the lengths: for longer prints, only offsets
/// up to a limit are tried.
const MAX_STEPS: usize = 4_000_000;
/// Side of the small picture, and of the block of frequencies.
const SMALL: usize = 32;
const BLOCK: usize = 8;
/// Bits of one key of the index, and how many keys a hash has; four bits are in no key.
const KEY_BITS: usize = 12;
const KEYS: usize = 5;
/// A frame whose frequencies are weaker, in levels of luma, is ignored: it has only one colour.
const FLAT: f32 = 1.0;

/// One hash for each second, `None` for a frame that is ignored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VideoPrint {
    hashes: Vec<Option<u64>>,
}

/// Why a frame or print was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VideoPrintError {
    #[error("a frame of {width}x{height} has {needed} bytes at least, not {bytes}")]
    Plane {
        width: usize,
        height: usize,
        needed: usize,
        bytes: usize,
    },
    #[error("a print has at most {MAX_FRAMES} frames")]
    TooLong,
    /// Stored bytes that are not a print.
    #[error("not a stored print")]
    Stored,
}

impl VideoPrint {
    /// Adds a frame, one for each second of the film: 8-bit luma, `stride` bytes a row.
    pub fn add(
        &mut self,
        luma: &[u8],
        width: usize,
        height: usize,
        stride: usize,
    ) -> Result<(), VideoPrintError> {
        if self.hashes.len() >= MAX_FRAMES {
            return Err(VideoPrintError::TooLong);
        }
        let needed = stride
            .checked_mul(height.saturating_sub(1))
            .and_then(|rows| rows.checked_add(width))
            .unwrap_or(usize::MAX);
        if width < SMALL || height < SMALL || stride < width || luma.len() < needed {
            return Err(VideoPrintError::Plane {
                width,
                height,
                needed,
                bytes: luma.len(),
            });
        }
        self.hashes.push(hash(&shrink(luma, width, height, stride)));
        Ok(())
    }

    pub fn seconds(&self) -> usize {
        self.hashes.len()
    }

    /// Keys under which an index finds films that may be alike: each is a part of a frame's hash,
    /// with its position in the hash. At most `max_frames` frames are used, evenly spaced. Similar
    /// films share some keys; films that share keys need not be similar.
    pub fn keys(&self, max_frames: usize) -> Vec<u32> {
        let step = self.hashes.len().div_ceil(max_frames.max(1)).max(1);
        let mut keys: Vec<u32> = self
            .hashes
            .iter()
            .step_by(step)
            .flatten()
            .flat_map(|hash| {
                (0..KEYS).map(move |position| {
                    let bits = hash >> (position * KEY_BITS) & ((1 << KEY_BITS) - 1);
                    u32::try_from(position << KEY_BITS).unwrap_or(0)
                        | u32::try_from(bits).unwrap_or(0)
                })
            })
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Nine bytes for each second.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.hashes
            .iter()
            .flat_map(|hash| {
                let mut entry = vec![u8::from(hash.is_some())];
                entry.extend(hash.unwrap_or(0).to_le_bytes());
                entry
            })
            .collect()
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Self, VideoPrintError> {
        if !bytes.len().is_multiple_of(9) {
            return Err(VideoPrintError::Stored);
        }
        if bytes.len() / 9 > MAX_FRAMES {
            return Err(VideoPrintError::TooLong);
        }
        let hashes = bytes.chunks_exact(9).map(|entry| match entry {
            [0, ..] => Ok(None),
            [1, hash @ ..] => <[u8; 8]>::try_from(hash)
                .map(|hash| Some(u64::from_le_bytes(hash)))
                .map_err(|_| VideoPrintError::Stored),
            _ => Err(VideoPrintError::Stored),
        });
        Ok(Self {
            hashes: hashes.collect::<Result<_, _>>()?,
        })
    }

    /// The best match of `other` with this one; `None` if too few frames can be compared.
    pub fn compare(&self, other: &Self) -> Option<PrintMatch> {
        let (a, b) = (&self.hashes, &other.hashes);
        let shorter = a.len().min(b.len());
        if shorter == 0 {
            return None;
        }
        let max_offset = MAX_STEPS / shorter;
        let (earliest, latest) = (b.len().min(max_offset), a.len().min(max_offset));
        let offsets = (0..latest)
            .map(|skipped| (skipped, 0))
            .chain((1..earliest).map(|skipped| (0, skipped)));
        offsets
            .filter_map(|(skip_a, skip_b)| {
                let (distance, count) = distance(a.get(skip_a..)?, b.get(skip_b..)?);
                #[expect(clippy::cast_precision_loss, reason = "at most 10,800")]
                (count >= MIN_OVERLAP.min(shorter)).then_some(PrintMatch {
                    distance,
                    offset_seconds: skip_a as f32 - skip_b as f32,
                    overlap_seconds: count as f32,
                })
            })
            .min_by(|a, b| a.distance.total_cmp(&b.distance))
    }

    /// The best match, if the other film counts as similar.
    pub fn match_within_threshold(&self, other: &Self) -> Option<PrintMatch> {
        self.compare(other)
            .filter(|candidate| candidate.distance < THRESHOLD)
    }
}

/// The fraction of bits that differ, and the number of frames that have a hash in both.
fn distance(a: &[Option<u64>], b: &[Option<u64>]) -> (f32, usize) {
    let (mut bits, mut count) = (0, 0u16);
    for (a, b) in a.iter().zip(b) {
        if let (Some(a), Some(b)) = (a, b) {
            bits += (a ^ b).count_ones();
            count += 1;
        }
    }
    #[expect(
        clippy::cast_precision_loss,
        reason = "at most 64 bits for 10,800 frames"
    )]
    let fraction = bits as f32 / (64.0 * f32::from(count.max(1)));
    (fraction, usize::from(count))
}

fn shrink(luma: &[u8], width: usize, height: usize, stride: usize) -> [[f32; SMALL]; SMALL] {
    let mut small = [[0.0; SMALL]; SMALL];
    for (y, out) in small.iter_mut().enumerate() {
        let (top, bottom) = (y * height / SMALL, (y + 1) * height / SMALL);
        for (x, out) in out.iter_mut().enumerate() {
            let (left, right) = (x * width / SMALL, (x + 1) * width / SMALL);
            let rows = luma.chunks(stride).take(bottom).skip(top);
            let sum: u64 = rows
                .filter_map(|row| row.get(left..right))
                .flatten()
                .map(|value| u64::from(*value))
                .sum();
            #[expect(clippy::cast_precision_loss, reason = "sums of bytes")]
            {
                *out = sum as f32 / ((bottom - top) * (right - left)) as f32;
            }
        }
    }
    small
}

/// Bits for the 64 frequencies after the mean: whether each is above their median.
fn hash(small: &[[f32; SMALL]; SMALL]) -> Option<u64> {
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let wave = |frequency: usize, index: usize| {
        (std::f32::consts::PI * frequency as f32 * (index as f32 + 0.5) / SMALL as f32).cos()
    };
    // Frequencies 1 to 8 both ways, as in pHash.
    let mut values = [0.0f32; BLOCK * BLOCK];
    for (index, value) in values.iter_mut().enumerate() {
        let (down, across) = (index / BLOCK + 1, index % BLOCK + 1);
        for (y, row) in small.iter().enumerate() {
            let line: f32 = row
                .iter()
                .enumerate()
                .map(|(x, luma)| luma * wave(across, x))
                .sum();
            *value += line * wave(down, y);
        }
    }
    let strength = values.iter().map(|value| value.abs()).sum::<f32>() / 64.0 / 32.0;
    if strength < FLAT {
        return None;
    }
    let mut sorted = values;
    sorted.sort_by(f32::total_cmp);
    let [.., low, high] = sorted.split_at(33).0 else {
        return None;
    };
    // With the median as the threshold, half of the bits are set in every hash, so unrelated frames
    // differ in about half of them.
    let median = f32::midpoint(*low, *high);
    let bits = values
        .iter()
        .enumerate()
        .map(|(index, value)| u64::from(*value > median) << index);
    Some(bits.sum())
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small pictures"
    )]

    use super::*;

    fn picture(seed: usize, width: usize, height: usize) -> Vec<u8> {
        let value = |x: f32, y: f32| {
            let wave = |k: usize| {
                let turn = ((seed * 31 + k * 7 + 1).wrapping_mul(2_654_435_761) >> 7) % 289;
                let (across, down) = ((turn % 17) as f32 - 8.0, (turn / 17) as f32 - 8.0);
                (x * across * 2.0 + y * down * 2.0 + k as f32).sin()
            };
            128.0 + 20.0 * (wave(1) + wave(2) + wave(3) + wave(4))
        };
        (0..width * height)
            .map(|index| {
                value(
                    (index % width) as f32 / width as f32,
                    (index / width) as f32 / height as f32,
                ) as u8
            })
            .collect()
    }

    fn print(seeds: impl IntoIterator<Item = usize>, width: usize, height: usize) -> VideoPrint {
        let mut print = VideoPrint::default();
        for seed in seeds {
            print
                .add(&picture(seed, width, height), width, height, width)
                .unwrap();
        }
        print
    }

    #[test]
    fn another_size_matches_and_another_film_does_not() {
        let film = print(0..8, 640, 360);
        assert!(
            film.match_within_threshold(&print(0..8, 320, 200))
                .is_some()
        );
        assert!(
            film.match_within_threshold(&print(8..16, 640, 360))
                .is_none()
        );
    }

    #[test]
    fn a_part_is_found_at_its_place_from_either_side() {
        let (film, part) = (print(0..12, 320, 180), print(4..9, 320, 180));
        let result = film.match_within_threshold(&part).unwrap();
        assert_eq!((result.offset_seconds, result.overlap_seconds), (4.0, 5.0));
        let result = part.match_within_threshold(&film).unwrap();
        assert_eq!((result.offset_seconds, result.overlap_seconds), (-4.0, 5.0));
    }

    #[test]
    fn films_that_are_alike_share_keys() {
        let film = print(0..8, 640, 360);
        let shared = |other: &VideoPrint| {
            let keys = film.keys(12);
            let shared = other.keys(120).into_iter();
            shared.filter(|key| keys.contains(key)).count()
        };
        assert!(shared(&print(0..8, 320, 200)) > 10);
        assert!(shared(&print(3..6, 640, 360)) > 10, "a part of it");
        assert!(shared(&print(8..16, 640, 360)) < 3);
        assert!(film.keys(2).len() <= 10);
    }

    #[test]
    fn plain_frames_say_nothing() {
        let mut black = VideoPrint::default();
        for _ in 0..5 {
            black.add(&[16; 64 * 64], 64, 64, 64).unwrap();
        }
        assert_eq!(black.compare(&black), None);
    }

    #[test]
    fn is_stored_and_read() {
        let film = print(0..4, 64, 64);
        assert_eq!(VideoPrint::from_bytes(&film.to_bytes()), Ok(film));
        assert_eq!(
            VideoPrint::from_bytes(&[1; 10]),
            Err(VideoPrintError::Stored)
        );
        assert_eq!(
            VideoPrint::from_bytes(&[2; 9]),
            Err(VideoPrintError::Stored)
        );
    }

    #[test]
    fn a_plane_that_is_too_short_is_refused() {
        assert!(VideoPrint::default().add(&[0; 100], 64, 64, 64).is_err());
        assert!(VideoPrint::default().add(&[0; 100], 4, 4, 4).is_err());
    }
}
