//! AAC packets of an ambience, for the file's sound track.
//!
//! AAC-LC, because every player of MP4 plays it: those of Apple are silent on Opus in MP4, browsers
//! other than Safari on ALAC.

use syom::{AacError, EncodeOptions, EncodedFrame, Encoder};

use super::{Ambience, RATE, synthesise};

/// Samples in a packet, given by the format.
pub(crate) const PACKET: u32 = 1024;

/// Samples that come out of a decoder before the first real one: one packet, which only primes it.
pub(crate) const PRIMING: u32 = PACKET;

/// Enough for noise, the hardest thing to encode, and little compared to the video.
const BITS_PER_SECOND: u32 = 128_000;

/// The encoder refused; not the caller's fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the sound could not be encoded: {0}")]
pub(crate) struct AacEncodeError(String);

/// Packets (ADTS) that play the kinds together: as many as fit into `seconds`, the first of which
/// is not heard. So the sound never outlasts the video: it ends at most 43 ms earlier, already
/// faded out.
pub(crate) fn packets(
    kinds: &[Ambience],
    seconds: f64,
    seed: u64,
) -> Result<Vec<Vec<u8>>, AacEncodeError> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a video's length is small; a negative one becomes 0"
    )]
    let count = (seconds * f64::from(RATE) / f64::from(PACKET) + 1e-6) as usize;
    // One packet more comes out than goes in: the first only primes the decoder.
    let samples = count.saturating_sub(1) * PACKET as usize;
    if samples == 0 {
        return Ok(Vec::new());
    }
    let (left, right): (Vec<f32>, Vec<f32>) = synthesise(kinds, samples, seed)
        .into_iter()
        .map(|[left, right]| (left, right))
        .unzip();
    let options = EncodeOptions::adts().with_bitrate_bps(BITS_PER_SECOND);
    let mut encoder = Encoder::new(RATE, 2, &options)?;
    let mut packets = Vec::with_capacity(count);
    let mut keep = |frame: EncodedFrame<'_>| {
        packets.push(frame.au.to_vec());
        Ok(())
    };
    encoder.feed(&[&left, &right], &mut keep)?;
    let summary = encoder.finish(&mut keep)?;
    // The file's edit list skips exactly `PRIMING` samples. With another delay, in a newer encoder
    // for example, sound and picture would be out of step, unnoticed.
    if (summary.priming, summary.aac_frames) != (u64::from(PRIMING), count as u64) {
        return Err(AacEncodeError(
            "the encoder's delay or number of packets is not the expected one".to_owned(),
        ));
    }
    Ok(packets)
}

impl From<AacError> for AacEncodeError {
    fn from(error: AacError) -> Self {
        Self(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syom::DecodeOptions;

    #[test]
    fn packets_are_as_many_as_fit_and_the_same_every_time() {
        let encoded = packets(&[Ambience::Wind], 1.05, 3).unwrap();
        assert_eq!(encoded.len(), 49);
        assert_eq!(packets(&[Ambience::Wind], 2.0, 3).unwrap().len(), 93);
        assert!(encoded == packets(&[Ambience::Wind], 1.05, 3).unwrap());
        assert!(encoded != packets(&[Ambience::Wind], 1.05, 4).unwrap());
        assert!(packets(&[Ambience::Wind], 0.04, 4).unwrap().is_empty());
    }

    #[test]
    fn decoded_sound_resembles_the_original() {
        for kind in [Ambience::Sea, Ambience::Birds] {
            let encoded = packets(&[kind], 3.0, 1).unwrap();
            let decoded = syom::decode_with(&encoded.concat(), &DecodeOptions::audio()).unwrap();
            let samples = (encoded.len() - 1) * PACKET as usize;
            let expected = synthesise(&[kind], samples, 1);
            let (mut error, mut power) = (0.0, 0.0);
            for (channel, decoded) in decoded.channels.iter().enumerate() {
                for (a, b) in decoded[PRIMING as usize..].iter().zip(&expected) {
                    error += (a - b[channel]).powi(2);
                    power += b[channel].powi(2);
                }
            }
            assert!(error < power * 0.1, "{kind:?}: {error} of {power}");
        }
    }
}
