//! The engine's front door: which stems there are, what can go wrong, and the exact sums.
//!
//! Clips in memory are handed to the [`Separator`] whole; longer ones can be given to it in pieces.

use crate::{Audio, Separator, Shape, Take};

/// What a mix can be separated into. The built-in engine makes five of them
/// ([`Stem::BUILT_IN`]); a model of the operator makes those that it was trained on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stem {
    /// Singing and speech.
    Vocals,
    /// Voices behind the lead.
    BackingVocals,
    /// Drums and, where nothing else makes it, other percussion.
    Drums,
    /// The bass line.
    Bass,
    /// Guitars.
    Guitar,
    /// Piano, organ and other keys.
    Keyboard,
    /// Percussion beside the drum kit.
    Percussion,
    /// Bowed strings.
    Strings,
    /// Synthesisers.
    Synth,
    /// Effects and noises.
    Fx,
    /// Brass.
    Brass,
    /// Woodwinds.
    Woodwinds,
    /// The mix without all that the engine or the model can tell apart.
    Other,
    /// The mix without vocals.
    Instrumental,
}

impl Stem {
    /// Every stem, in the order in which they are shown.
    pub const ALL: [Self; 14] = [
        Self::Vocals,
        Self::BackingVocals,
        Self::Drums,
        Self::Bass,
        Self::Guitar,
        Self::Keyboard,
        Self::Percussion,
        Self::Strings,
        Self::Synth,
        Self::Fx,
        Self::Brass,
        Self::Woodwinds,
        Self::Other,
        Self::Instrumental,
    ];

    /// The stems that the built-in engine makes, in the order in which they are shown.
    pub const BUILT_IN: [Self; 5] = [
        Self::Vocals,
        Self::Drums,
        Self::Bass,
        Self::Other,
        Self::Instrumental,
    ];

    /// The name in lower case, as in file names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vocals => "vocals",
            Self::BackingVocals => "backing_vocals",
            Self::Drums => "drums",
            Self::Bass => "bass",
            Self::Guitar => "guitar",
            Self::Keyboard => "keyboard",
            Self::Percussion => "percussion",
            Self::Strings => "strings",
            Self::Synth => "synth",
            Self::Fx => "fx",
            Self::Brass => "brass",
            Self::Woodwinds => "woodwinds",
            Self::Other => "other",
            Self::Instrumental => "instrumental",
        }
    }

    /// Finds a stem by name, without regard to case, and to `_`, `-` and space. What some models
    /// call piano is the keyboard.
    pub fn parse(name: &str) -> Option<Self> {
        let plain = |name: &str| -> String {
            let kept = name.chars().filter(|c| !matches!(c, '_' | '-' | ' '));
            kept.map(|c| c.to_ascii_lowercase()).collect()
        };
        let name = plain(name);
        if name == "piano" {
            return Some(Self::Keyboard);
        }
        Self::ALL
            .into_iter()
            .find(|stem| plain(stem.name()) == name)
    }

    /// Names for a sentence, separated by commas.
    pub(crate) fn list(stems: &[Self]) -> String {
        stems
            .iter()
            .map(|s| s.name())
            .collect::<Vec<_>>()
            .join(", ")
    }
}

impl std::fmt::Display for Stem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// The caller's two handles on a running separation. The default shows nothing and never stops.
pub struct Control<'a> {
    /// Told the finished part, from 0 to 1; it only grows, and 1 comes last.
    pub progress: &'a mut dyn FnMut(f32),
    /// Asked every few milliseconds of work, from several threads; `true` ends the run.
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
}

impl Default for Control<'_> {
    fn default() -> Self {
        // A closure without captures has no size, so that this box allocates nothing.
        Self {
            progress: Box::leak(Box::new(|_| ())),
            cancelled: &|| false,
        }
    }
}

/// Why there are no stems.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SeparateError {
    /// [`Control::cancelled`] said so.
    #[error("the separation was cancelled")]
    Cancelled,
    /// The rate is outside what music is sampled at.
    #[error("a sample rate of {0} Hz is not supported, only 1,000 to 384,000 Hz")]
    Rate(u32),
    /// More channels than any layout that can be folded down to stereo.
    #[error("{0} channels are not supported, at most 8 are")]
    Channels(usize),
    /// A stem was asked for that the engine or the model does not make.
    #[error("there is no {stem} here, only {offered}")]
    NotOffered {
        /// What was asked for.
        stem: Stem,
        /// What there is, separated by commas.
        offered: String,
    },
    /// A model of the operator failed on this clip, in the runtime's words.
    #[error("the model failed: {0}")]
    Model(String),
}

/// Separates `mix` and returns the `wanted` stems in the order asked for.
///
/// Each has the rate, the channels and the length of the mix. Samples that are no finite numbers
/// count as 0. More than two channels are analysed as a stereo fold-down (front left and right,
/// the centre to both, surrounds to their side) and each channel is split by the same shares, so
/// that the sums hold channel by channel.
pub fn separate(
    mix: &Audio,
    wanted: &[Stem],
    control: Control<'_>,
) -> Result<Vec<(Stem, Audio)>, SeparateError> {
    let mut control = control;
    let mut separator = Separator::new(Shape::of(mix), wanted)?;
    gather(mix, wanted, |write| {
        if wanted.is_empty() || mix.frames() == 0 {
            (control.progress)(1.0);
            return Ok(());
        }
        separator.push(mix.channels(), &mut control, write)?;
        separator.finish(&mut control, write)
    })
}

/// Collects what `run` writes of the `wanted` stems into clips of the mix's shape.
pub(crate) fn gather(
    mix: &Audio,
    wanted: &[Stem],
    run: impl FnOnce(&mut Take<'_>) -> Result<(), SeparateError>,
) -> Result<Vec<(Stem, Audio)>, SeparateError> {
    let room = || {
        mix.channels()
            .iter()
            .map(|c| Vec::with_capacity(c.len()))
            .collect()
    };
    let mut made: Vec<Vec<Vec<f32>>> = wanted.iter().map(|_| room()).collect();
    let mut write = |stem: usize, piece: &[Vec<f32>]| {
        for (channel, piece) in made[stem].iter_mut().zip(piece) {
            channel.extend_from_slice(piece);
        }
        true
    };
    run(&mut write)?;
    let audio = |channels| Audio::from_equal(mix.rate(), channels);
    Ok(wanted
        .iter()
        .copied()
        .zip(made.into_iter().map(audio))
        .collect())
}

/// The mix without one stem, for instance "no drums". Both must have the same shape; where the
/// stem is shorter, the mix is left as it is.
#[must_use]
pub fn rest(mix: &Audio, stem: &Audio) -> Audio {
    without(mix, &[stem.channels()])
}

/// Refuses a stem that is not among the `offered`.
pub(crate) fn check_offered(wanted: &[Stem], offered: &[Stem]) -> Result<(), SeparateError> {
    match wanted.iter().find(|stem| !offered.contains(stem)) {
        None => Ok(()),
        Some(&stem) => Err(SeparateError::NotOffered {
            stem,
            offered: Stem::list(offered),
        }),
    }
}

fn without(mix: &Audio, parts: &[&[Vec<f32>]]) -> Audio {
    let channels = mix.channels().iter().enumerate().map(|(c, mix)| {
        let mut left: Vec<f32> = mix.iter().map(|&x| finite(x)).collect();
        for channel in parts.iter().filter_map(|part| part.get(c)) {
            left.iter_mut().zip(channel).for_each(|(x, y)| *x -= y);
        }
        left
    });
    Audio::from_equal(mix.rate(), channels.collect())
}

/// What is no number is silence.
pub(crate) fn finite(x: f32) -> f32 {
    if x.is_finite() { x } else { 0.0 }
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
    fn the_rest_is_what_is_left() {
        let mix = Audio::new(8_000, vec![vec![1.0, f32::NAN, 0.5]]).unwrap();
        let stem = Audio::new(8_000, vec![vec![0.25, 0.0, 0.5]]).unwrap();
        assert_eq!(rest(&mix, &stem).channels(), [[0.75, 0.0, 0.0]]);
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
        let made = [1, 2, 3].map(|threads| {
            crate::parallel::FORCED.set(Some(threads));
            separate(&mix, &Stem::BUILT_IN, Control::default()).unwrap()
        });
        assert!(made[0] == made[1] && made[0] == made[2]);
    }

    #[test]
    fn refuses_odd_shapes() {
        let slow = Audio::new(10, vec![vec![0.0]]).unwrap();
        assert_eq!(
            separate(&slow, &[], Control::default()),
            Err(SeparateError::Rate(10))
        );
        let fine = Audio::new(8_000, vec![vec![0.0]]).unwrap();
        let refused = separate(&fine, &[Stem::Guitar], Control::default()).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "there is no guitar here, only vocals, drums, bass, other, instrumental"
        );
        let wide = Audio::new(8_000, vec![vec![0.0]; 9]).unwrap();
        assert_eq!(
            separate(&wide, &[], Control::default()),
            Err(SeparateError::Channels(9))
        );
    }
}
