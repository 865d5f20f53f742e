//! Opus packets of an ambience (RFC 6716), for the file's sound track.
//!
//! Opus, because a free encoder of it exists in Rust and every current browser plays it in MP4.

use ropus::{Application, Bitrate, Channels, Encoder};

use super::{Ambience, RATE, synthesise};

/// Samples in a packet: 20 ms, the format's usual length.
pub(crate) const PACKET: u32 = RATE / 50;

/// Samples that a decoder drops at the start (RFC 7845, `pre-skip`): the encoder's delay, which
/// the file's writer declares.
const PRE_SKIP: u32 = 312;

/// Enough for noise, the hardest thing to encode, and little beside the video.
const BITS_PER_SECOND: u32 = 96_000;

/// Most bytes that a packet can have.
const LONGEST: usize = 4_000;

/// The encoder refused; not the caller's fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the sound could not be encoded: {0}")]
pub(crate) struct SoundError(String);

/// Packets that play the kinds together for as many whole packets as fit into `seconds`: the
/// sound never outlasts the video, and ends at most 20 ms before it, already faded.
pub(crate) fn packets(
    kinds: &[Ambience],
    seconds: f64,
    seed: u64,
) -> Result<Vec<Vec<u8>>, SoundError> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a video's length: small, and a negative one is none"
    )]
    let count = (seconds * f64::from(RATE) / f64::from(PACKET) + 1e-6) as usize;
    let samples = (count * PACKET as usize).saturating_sub(PRE_SKIP as usize);
    let mut track = synthesise(kinds, samples, seed);
    // The encoder's delay pushes out the end; silence takes its place.
    track.resize(count * PACKET as usize, [0.0; 2]);
    let mut encoder = Encoder::builder(RATE, Channels::Stereo, Application::Audio)
        .bitrate(Bitrate::Bits(BITS_PER_SECOND))
        .vbr(true)
        .build()
        .map_err(|error| SoundError(error.to_string()))?;
    if encoder.lookahead() != PRE_SKIP {
        return Err(SoundError(
            "the encoder's delay is not the declared one".to_owned(),
        ));
    }
    let mut buffer = [0; LONGEST];
    track
        .chunks_exact(PACKET as usize)
        .map(|frame| {
            let length = encoder
                .encode_float(frame.as_flattened(), &mut buffer)
                .map_err(|error| SoundError(error.to_string()))?;
            Ok(buffer[..length].to_vec())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_as_many_as_fit_and_the_same_every_time() {
        let made = packets(&[Ambience::Wind], 1.05, 3).unwrap();
        assert_eq!(made.len(), 52);
        assert_eq!(packets(&[Ambience::Wind], 2.0, 3).unwrap().len(), 100);
        assert!(made == packets(&[Ambience::Wind], 1.05, 3).unwrap());
        assert!(made != packets(&[Ambience::Wind], 1.05, 4).unwrap());
    }

    #[test]
    fn what_is_decoded_is_what_was_made() {
        let made = packets(&[Ambience::Sea], 3.0, 1).unwrap();
        let mut decoder = ropus::Decoder::new(RATE, Channels::Stereo).unwrap();
        let mut heard = Vec::new();
        for packet in &made {
            let mut frame = vec![0.0; PACKET as usize * 2];
            let mode = ropus::DecodeMode::Normal;
            assert_eq!(
                decoder.decode_float(packet, &mut frame, mode).unwrap(),
                PACKET as usize
            );
            heard.extend(frame);
        }
        let heard = &heard[PRE_SKIP as usize * 2..];
        let truth = synthesise(&[Ambience::Sea], heard.len() / 2, 1);
        let (mut error, mut power) = (0.0, 0.0);
        for (a, b) in heard.iter().zip(truth.as_flattened()) {
            error += (a - b).powi(2);
            power += b.powi(2);
        }
        // The envelope and the low half of the spectrum are kept; the hiss is only alike.
        assert!(error < power * 0.5, "{error} of {power}");
    }
}
