//! The mark's bits: key id, media id and a check, as a convolutional code of rate 1/3 with 256
//! states, read back by Viterbi's algorithm from soft values. This module knows no pictures.

use super::{MarkKey, WatermarkError};

const CHECK_BITS: u32 = 16;
const ID_BITS: usize = 24;
const DATA_BITS: usize = ID_BITS + 40 + CHECK_BITS as usize;
const TAIL_BITS: usize = 8;
const STEPS: usize = DATA_BITS + TAIL_BITS;
/// Number of coded bits.
pub(super) const CODED_BITS: usize = STEPS * 3;
/// Number of leading coded bits that depend on the key's id alone.
pub(super) const KNOWN_BITS: usize = ID_BITS * 3;
/// The generators of greatest free distance (18) for this length, in octal (Larsen, IEEE Trans.
/// Inf. Theory 19, 1973).
const GENERATORS: [u16; 3] = [0o557, 0o663, 0o711];
const STATES: usize = 256;

/// The bits of a mark, coded: `true` is -1.
pub(super) fn encode(key: &MarkKey, media_id: u64) -> Result<[bool; CODED_BITS], WatermarkError> {
    if media_id >> 40 != 0 {
        return Err(WatermarkError::MediaId(media_id));
    }
    let payload = u64::from(key.id) << 40 | media_id;
    Ok(convolve(payload))
}

/// The coded bits of media id 0: the first [`KNOWN_BITS`] are the same in all marks of the key.
pub(super) fn known_bits(key: &MarkKey) -> [bool; CODED_BITS] {
    convolve(u64::from(key.id) << 40)
}

fn convolve(payload: u64) -> [bool; CODED_BITS] {
    // The key's id comes first, so the first coded bits are the same in all its marks and can be
    // part of the pilot.
    let data = u128::from(payload) << CHECK_BITS | u128::from(check(payload));
    let mut coded = [false; CODED_BITS];
    let mut register = 0u16;
    for (step, out) in coded.chunks_exact_mut(3).enumerate() {
        let bit = step < DATA_BITS && data >> (DATA_BITS - 1 - step) & 1 == 1;
        register = register << 1 & 0x1ff | u16::from(bit);
        for (out, generator) in out.iter_mut().zip(GENERATORS) {
            *out = (register & generator).count_ones() % 2 == 1;
        }
    }
    coded
}

/// A decoded mark whose check passed.
pub(super) struct DecodedMark {
    pub(super) key_id: u32,
    pub(super) media_id: u64,
    /// Fraction of the coded bits whose sign was wrong.
    pub(super) corrected: f32,
    pub(super) coded: [bool; CODED_BITS],
}

/// The most likely mark for these values, which are positive for `false`; `None` if its check
/// fails. Only marks of `key` are considered, if it is given.
pub(super) fn decode(soft: &[f32; CODED_BITS], key: Option<&MarkKey>) -> Option<DecodedMark> {
    let data = viterbi(soft, key);
    let payload = u64::try_from(data >> CHECK_BITS).ok()?;
    let expected = u16::try_from(data & u128::from(u16::MAX)).ok()?;
    if check(payload) != expected {
        return None;
    }
    let (key_id, media_id) = (
        u32::try_from(payload >> 40).ok()?,
        payload & ((1 << 40) - 1),
    );
    let coded = convolve(payload);
    let wrong = coded
        .iter()
        .zip(soft)
        .filter(|(bit, value)| **bit != (**value < 0.0))
        .count();
    #[expect(clippy::cast_precision_loss, reason = "at most 264")]
    let corrected = wrong as f32 / CODED_BITS as f32;
    Some(DecodedMark {
        key_id,
        media_id,
        corrected,
        coded,
    })
}

fn viterbi(soft: &[f32; CODED_BITS], key: Option<&MarkKey>) -> u128 {
    // The signs of the three bits that the encoder emits for each register.
    let emitted: [[f32; 3]; 2 * STATES] = std::array::from_fn(|register| {
        GENERATORS.map(|generator| {
            let is_odd = (register & usize::from(generator)).count_ones() % 2 == 1;
            if is_odd { -1.0 } else { 1.0 }
        })
    });
    let mut metrics = [f32::NEG_INFINITY; STATES];
    // The encoder begins with an empty register, so no other state is possible.
    metrics[0] = 0.0;
    let mut choices = vec![[false; STATES]; STEPS];
    for (step, (values, choice)) in soft.chunks_exact(3).zip(&mut choices).enumerate() {
        let known_bit = key
            .filter(|_| step < ID_BITS)
            .map(|key| (key.id >> (ID_BITS - 1 - step) & 1) as usize);
        let mut next_metrics = [f32::NEG_INFINITY; STATES];
        for (state, (metric, choice)) in next_metrics.iter_mut().zip(choice).enumerate() {
            // Paths that contradict the key's id are cut off: these bits need not be read at all.
            if known_bit.is_some_and(|bit| state & 1 != bit) {
                continue;
            }
            // A register of nine bits: the state after the step, and the bit that falls out.
            for oldest_bit in [false, true] {
                let register = state | usize::from(oldest_bit) << 8;
                let gain: f32 = emitted[register]
                    .iter()
                    .zip(values)
                    .map(|(sign, value)| sign * value)
                    .sum();
                let path_metric = metrics[register >> 1] + gain;
                if path_metric > *metric {
                    (*metric, *choice) = (path_metric, oldest_bit);
                }
            }
        }
        metrics = next_metrics;
    }
    // The tail brings every path into state 0, so the way back from there is the data.
    let (mut state, mut data) = (0usize, 0u128);
    for (step, choice) in choices.iter().enumerate().rev() {
        if step < DATA_BITS {
            data |= u128::from(state & 1 == 1) << (DATA_BITS - 1 - step);
        }
        state = state >> 1 | usize::from(choice[state]) << 7;
    }
    data
}

/// CRC-16 of IBM 3740 (CCITT, all ones first).
fn check(payload: u64) -> u16 {
    payload.to_be_bytes().iter().fold(0xffff, |sum, byte| {
        (0..8).fold(sum ^ u16::from(*byte) << 8, |sum: u16, _| {
            if sum & 0x8000 == 0 {
                sum << 1
            } else {
                sum << 1 ^ 0x1021
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn soft(coded: &[bool; CODED_BITS]) -> [f32; CODED_BITS] {
        coded.map(|bit| if bit { -1.0 } else { 1.0 })
    }

    #[test]
    fn the_check_is_the_published_one() {
        assert_eq!(check(u64::from_be_bytes(*b"12345678")), 0xa12b);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn a_sixth_of_the_bits_may_be_erased_and_some_be_wrong(
            id in 0u32..1 << 24,
            media in 0u64..1 << 40,
            wrong in 0..7usize,
        ) {
            let key = MarkKey::new(id, 1).unwrap();
            let mut values = soft(&encode(&key, media).unwrap());
            for value in values.iter_mut().step_by(6) {
                *value = 0.0;
            }
            for value in values.iter_mut().skip(1).step_by(36).take(wrong) {
                *value = -*value;
            }
            let decoded = decode(&values, None).unwrap();
            prop_assert_eq!((decoded.key_id, decoded.media_id), (id, media));
        }
    }

    #[test]
    fn known_bits_need_not_be_read_and_another_key_reads_nothing() {
        let key = MarkKey::new(0x00ab_cdef, 1).unwrap();
        let written = soft(&encode(&key, 12345).unwrap());
        let mut values = written;
        values[..KNOWN_BITS].fill(0.0);
        assert_ne!(
            decode(&values, None).map(|decoded| decoded.key_id),
            Some(key.id)
        );
        let decoded = decode(&values, Some(&key)).unwrap();
        assert_eq!((decoded.key_id, decoded.media_id), (key.id, 12345));
        let other_key = MarkKey::new(0x0012_3456, 1).unwrap();
        assert!(decode(&written, Some(&other_key)).is_none());
    }

    #[test]
    fn noise_is_no_mark() {
        let mut state = 1u64;
        let mut random = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            f32::from(u16::try_from(state >> 48).unwrap()) / 32768.0 - 1.0
        };
        let decoded =
            (0..200).filter(|_| decode(&std::array::from_fn(|_| random()), None).is_some());
        assert_eq!(decoded.count(), 0);
    }

    #[test]
    fn ids_that_are_too_long_are_refused() {
        assert_eq!(
            MarkKey::new(1 << 24, 0),
            Err(WatermarkError::KeyId(1 << 24))
        );
        let key = MarkKey::new(1, 0).unwrap();
        assert_eq!(encode(&key, 1 << 40), Err(WatermarkError::MediaId(1 << 40)));
    }
}
