//! Separation of whole clips into stems with exact sums.
//!
//! Clips in memory are passed to the [`BlockSeparator`] whole; longer ones can be passed in pieces.

use std::sync::Arc;

use crate::audio::finite;
use crate::spleeter::VoiceNets;
use crate::{
    Audio, BlockSeparator, ClipShape, SeparateError, SeparationControl, SeparationEngine as _,
    Stem, StemSink,
};

/// Separates `mix` and returns its `stems` in the requested order.
///
/// Each has the rate, the channels and the length of the mix. NaN and infinite samples count as 0.
/// More than two channels are analysed as a stereo mix-down (front left and right, the centre to
/// both, surrounds to their side), and each channel is split by the same shares, so that the sums
/// hold channel by channel.
pub fn separate(
    mix: &Audio,
    stems: &[Stem],
    control: SeparationControl<'_>,
) -> Result<Vec<(Stem, Audio)>, SeparateError> {
    separate_by(
        BlockSeparator::new(ClipShape::measure(mix), stems)?,
        mix,
        stems,
        control,
    )
}

/// Like [`separate`]; pretrained nets also estimate the voice.
pub fn separate_with_nets(
    mix: &Audio,
    stems: &[Stem],
    nets: &Arc<VoiceNets>,
    control: SeparationControl<'_>,
) -> Result<Vec<(Stem, Audio)>, SeparateError> {
    let separator = BlockSeparator::new(ClipShape::measure(mix), stems)?;
    separate_by(separator.with_nets(nets.clone()), mix, stems, control)
}

fn separate_by(
    mut separator: BlockSeparator,
    mix: &Audio,
    stems: &[Stem],
    control: SeparationControl<'_>,
) -> Result<Vec<(Stem, Audio)>, SeparateError> {
    let mut control = control;
    collect_stems(mix, stems, |write| {
        // Without this, every block would be analysed even with nothing to write.
        if stems.is_empty() || mix.frames() == 0 {
            (control.progress)(1.0);
            return Ok(());
        }
        separator.push(mix.channels(), &mut control, write)?;
        separator.finish(&mut control, write)
    })
}

/// Collects the `stems` that `run` writes into clips of the mix's shape.
pub(crate) fn collect_stems(
    mix: &Audio,
    stems: &[Stem],
    run: impl FnOnce(&mut StemSink<'_>) -> Result<(), SeparateError>,
) -> Result<Vec<(Stem, Audio)>, SeparateError> {
    let empty_channels = || {
        mix.channels()
            .iter()
            .map(|c| Vec::with_capacity(c.len()))
            .collect()
    };
    let mut outputs: Vec<Vec<Vec<f32>>> = stems.iter().map(|_| empty_channels()).collect();
    let mut write = |stem: usize, piece: &[Vec<f32>]| {
        for (channel, piece) in outputs[stem].iter_mut().zip(piece) {
            channel.extend_from_slice(piece);
        }
        true
    };
    run(&mut write)?;
    let audio = |channels| Audio::from_equal(mix.rate(), channels);
    Ok(stems
        .iter()
        .copied()
        .zip(outputs.into_iter().map(audio))
        .collect())
}

/// The mix without one stem, for example "no drums". Both should have the same shape. Beyond the
/// end of a shorter stem, the mix is unchanged.
#[must_use]
pub fn mix_without(mix: &Audio, stem: &Audio) -> Audio {
    subtract(mix, &[stem.channels()])
}

fn subtract(mix: &Audio, parts: &[&[Vec<f32>]]) -> Audio {
    let channels = mix.channels().iter().enumerate().map(|(c, mix)| {
        let mut remainder: Vec<f32> = mix.iter().map(|&x| finite(x)).collect();
        for channel in parts.iter().filter_map(|part| part.get(c)) {
            remainder.iter_mut().zip(channel).for_each(|(x, y)| *x -= y);
        }
        remainder
    });
    Audio::from_equal(mix.rate(), channels.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_generously() {
        assert_eq!(Stem::parse("Vocals"), Some(Stem::Vocals));
        assert_eq!(Stem::parse("INSTRU-MENTAL "), Some(Stem::Instrumental));
        assert_eq!(Stem::parse("backing vocals"), Some(Stem::BackingVocals));
        assert_eq!(Stem::parse("Piano"), Some(Stem::Keyboard));
        assert_eq!(Stem::parse("reverb"), None);
        assert!(
            Stem::ALL
                .into_iter()
                .all(|s| Stem::parse(s.name()) == Some(s))
        );
    }

    #[test]
    fn the_mix_without_a_stem_is_the_difference() {
        let mix = Audio::new(8_000, vec![vec![1.0, f32::NAN, 0.5]]).unwrap();
        let stem = Audio::new(8_000, vec![vec![0.25, 0.0, 0.5]]).unwrap();
        assert_eq!(mix_without(&mix, &stem).channels(), [[0.75, 0.0, 0.0]]);
    }

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let mut state = 1u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f32::from(u16::try_from(state >> 16).unwrap()) / 65_536.0 - 0.5
        };
        let mut channel = || {
            (0..150_000)
                .map(|i| noise() * f32::from(u8::from(i % 9_000 < 700)) * 0.9)
                .collect()
        };
        let mix = Audio::new(48_000, vec![channel(), channel()]).unwrap();
        let results = [1, 2, 3].map(|threads| {
            crate::parallel::FORCED_THREADS.set(Some(threads));
            separate(&mix, &Stem::BUILT_IN, SeparationControl::default()).unwrap()
        });
        assert!(results[0] == results[1] && results[0] == results[2]);
        let nets = Arc::new(VoiceNets::new(crate::spleeter::NetWeights::made_up()));
        let blended = [1, 2, 3].map(|threads| {
            crate::parallel::FORCED_THREADS.set(Some(threads));
            separate_with_nets(&mix, &Stem::BUILT_IN, &nets, SeparationControl::default()).unwrap()
        });
        assert!(blended[0] == blended[1] && blended[0] == blended[2]);
        assert!(blended[0] != results[0], "the nets change nothing");
    }

    #[test]
    fn refuses_odd_shapes() {
        let slow = Audio::new(10, vec![vec![0.0]]).unwrap();
        assert_eq!(
            separate(&slow, &[], SeparationControl::default()),
            Err(SeparateError::Rate(10))
        );
        let fine = Audio::new(8_000, vec![vec![0.0]]).unwrap();
        let error = separate(&fine, &[Stem::Guitar], SeparationControl::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no guitar here, only vocals, drums, bass, other, instrumental"
        );
        let wide = Audio::new(8_000, vec![vec![0.0]; 9]).unwrap();
        assert_eq!(
            separate(&wide, &[], SeparationControl::default()),
            Err(SeparateError::Channels(9))
        );
    }
}
