//! The demo's song: a short composed piece with a singer, drums, a bass and chords, mixed down to a WAV file.
//!
//! Owns the score and the mix; how an instrument sounds is in [`super::instruments`]. Voice, kick and bass are in the
//! middle and the chords are wide, as in most recorded music, because that is what stem separation has to work with.
//! Everything is computed from the score: no recording, no randomness, no I/O.

use super::instruments::{
    Reverb, Syllable, Tone, bass_note, hat, kick, pad_note, pluck, seconds, sing, snare,
};

/// About twelve seconds of music as a WAV file: 44.1 kHz, stereo, 16 bits.
pub fn song_wav() -> Vec<u8> {
    let mut mix = Mix::silence();
    mix.add_voice();
    mix.add_drums();
    mix.add_bass();
    mix.add_chords();
    wav_bytes(&mix.mastered())
}

/// The two channels while they are being filled.
struct Mix {
    left: Vec<f32>,
    right: Vec<f32>,
}

impl Mix {
    fn silence() -> Self {
        Self {
            left: vec![0.0; LENGTH],
            right: vec![0.0; LENGTH],
        }
    }

    /// Adds a sound that starts at this beat; `pan` runs from -1 (left) to 1 (right) at equal power.
    fn add(&mut self, beat: f32, sound: &[f32], gain: f32, pan: f32) {
        let angle = (pan + 1.0) * std::f32::consts::FRAC_PI_4;
        let start = samples(beat);
        for (channel, share) in [
            (&mut self.left, angle.cos()),
            (&mut self.right, angle.sin()),
        ] {
            for (slot, sample) in channel.iter_mut().skip(start).zip(sound) {
                *slot += sample * gain * share;
            }
        }
    }

    fn add_voice(&mut self) {
        let voice = sing(
            &MELODY.map(|(beat, beats, midi, vowel)| Syllable {
                start: seconds_at(beat),
                seconds: beats * BEAT_SECONDS,
                midi,
                vowel,
            }),
            LENGTH,
        );
        let (wet_left, wet_right) = (Reverb::new(0).run(&voice), Reverb::new(23).run(&voice));
        self.add(0.0, &voice, 0.85, 0.0);
        self.add(0.0, &wet_left, 0.13, -0.7);
        self.add(0.0, &wet_right, 0.13, 0.7);
    }

    fn add_drums(&mut self) {
        for bar in 0..4_u8 {
            let first = f32::from(bar) * 4.0;
            for (beat, force) in [
                (0.0, 1.0),
                (1.5, 0.7),
                (2.0, 0.95),
                (3.5, if bar % 2 == 1 { 0.75 } else { 0.0 }),
            ] {
                self.add(first + beat, &kick(force), 0.78, 0.0);
            }
            for (beat, force) in [
                (1.0, 0.95),
                (3.0, 1.0),
                (3.75, if bar == 3 { 0.5 } else { 0.0 }),
            ] {
                self.add(first + beat, &snare(force), 0.52, -0.05);
            }
            for eighth in 0..8_u8 {
                let late = eighth % 2 == 1;
                let open = eighth == 7 && bar % 2 == 1;
                // The off-beat comes a little late (swing) and each bar leans a little differently (a human).
                let lean = 0.012 * f32::from((bar * 5 + eighth * 3) % 4) - 0.018;
                let beat = first
                    + f32::from(eighth) * 0.5
                    + if late { 0.07 } else { 0.0 }
                    + lean.max(-0.01);
                let force =
                    if late { 0.62 } else { 0.95 } - 0.06 * f32::from((eighth * 7 + bar) % 3);
                self.add(beat.max(0.0), &hat(force, open), 0.27, 0.36);
            }
        }
        self.add(16.0, &kick(1.0), 0.78, 0.0);
        self.add(16.0, &hat(1.0, true), 0.40, 0.30);
    }

    fn add_bass(&mut self) {
        for (bar, chord) in (0..4_u8).zip(CHORDS) {
            let first = f32::from(bar) * 4.0;
            let root = chord.bass;
            for (beat, beats, midi) in [
                (0.0, 1.35, root),
                (1.5, 0.45, root),
                (2.0, 0.95, root + 7.0),
                (3.0, 0.45, root),
                (3.5, 0.45, root + 12.0),
            ] {
                self.add(
                    first + beat,
                    &bass_note(midi, beats * BEAT_SECONDS),
                    0.42,
                    0.0,
                );
            }
        }
        self.add(
            16.0,
            &bass_note(CHORDS[0].bass, 3.4 * BEAT_SECONDS),
            0.42,
            0.0,
        );
    }

    fn add_chords(&mut self) {
        let closing = std::iter::once((16.0, &CHORDS[0]));
        for (first, chord) in (0..4_u8)
            .map(|bar| f32::from(bar) * 4.0)
            .zip(&CHORDS)
            .chain(closing)
        {
            for (midi, pan) in chord.notes.iter().zip([-0.75, 0.75, -0.35, 0.55]) {
                let tone = Tone {
                    midi: *midi,
                    seconds: 4.0 * BEAT_SECONDS,
                };
                self.add(
                    first,
                    &pad_note(tone, -1.0),
                    0.046,
                    (pan - 0.25_f32).max(-1.0),
                );
                self.add(
                    first,
                    &pad_note(tone, 1.0),
                    0.046,
                    (pan + 0.25_f32).min(1.0),
                );
            }
            let broken = [0, 2, 1, 3, 2, 1, 3, 2];
            for (eighth, pick) in (0..8_u8).zip(broken) {
                let beat =
                    first + f32::from(eighth) * 0.5 + if eighth % 2 == 1 { 0.07 } else { 0.0 };
                let midi = chord.notes[pick] + 12.0;
                let pan = if eighth % 2 == 0 { -0.8 } else { 0.8 };
                let fade = if first > 15.0 {
                    0.75 - 0.08 * f32::from(eighth)
                } else {
                    1.0
                };
                self.add(beat, &pluck(midi), 0.085 * fade, pan);
            }
        }
    }

    /// Interleaved samples, softly limited, at a peak of -1 dB, with a short fade at the very end.
    fn mastered(self) -> Vec<f32> {
        let fade = samples(0.5);
        let mut out: Vec<f32> = self
            .left
            .iter()
            .zip(&self.right)
            .enumerate()
            .flat_map(|(at, (left, right))| {
                let gain = (seconds(LENGTH - at) / seconds(fade)).min(1.0);
                [(left * 0.85).tanh() * gain, (right * 0.85).tanh() * gain]
            })
            .collect();
        let peak = out
            .iter()
            .fold(0.0_f32, |peak, sample| peak.max(sample.abs()));
        for sample in &mut out {
            *sample *= PEAK / peak.max(f32::EPSILON);
        }
        out
    }
}

/// A chord: its bass note and four notes above, as MIDI numbers.
struct Chord {
    bass: f32,
    notes: [f32; 4],
}

fn seconds_at(beat: f32) -> f32 {
    beat * BEAT_SECONDS
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the score has no negative beats"
)]
fn samples(beat: f32) -> usize {
    (beat * BEAT_SECONDS * super::instruments::RATE) as usize
}

/// A WAV file around interleaved stereo samples.
fn wav_bytes(samples: &[f32]) -> Vec<u8> {
    const CHANNELS: u16 = 2;
    const RATE_HZ: u32 = 44_100;
    // The song is a constant dozen seconds: far below the 4 GB where this would saturate.
    let data_bytes = u32::try_from(samples.len() * 2).unwrap_or(u32::MAX - 36);
    let mut file = Vec::with_capacity(samples.len() * 2 + 44);
    file.extend_from_slice(b"RIFF");
    file.extend_from_slice(&(36 + data_bytes).to_le_bytes());
    file.extend_from_slice(b"WAVEfmt ");
    file.extend_from_slice(&16_u32.to_le_bytes());
    file.extend_from_slice(&1_u16.to_le_bytes());
    file.extend_from_slice(&CHANNELS.to_le_bytes());
    file.extend_from_slice(&RATE_HZ.to_le_bytes());
    file.extend_from_slice(&(RATE_HZ * u32::from(CHANNELS) * 2).to_le_bytes());
    file.extend_from_slice(&(CHANNELS * 2).to_le_bytes());
    file.extend_from_slice(&16_u16.to_le_bytes());
    file.extend_from_slice(b"data");
    file.extend_from_slice(&data_bytes.to_le_bytes());
    for sample in samples {
        file.extend_from_slice(&sixteen_bits(*sample).to_le_bytes());
    }
    file
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "clamped to the type's range"
)]
fn sixteen_bits(sample: f32) -> i16 {
    (sample.clamp(-1.0, 1.0) * 32_767.0).round() as i16
}

/// 100 beats a minute.
const BEAT_SECONDS: f32 = 0.6;
/// Five bars of four beats, in samples at 44.1 kHz, and a little air for what still rings.
const LENGTH: usize = 44_100 * 125 / 10;
/// -1 dB.
const PEAK: f32 = 0.89;

/// C, G, A minor and F; the song closes on the first.
const CHORDS: [Chord; 4] = [
    Chord {
        bass: 36.0,
        notes: [55.0, 60.0, 64.0, 67.0],
    },
    Chord {
        bass: 31.0,
        notes: [55.0, 59.0, 62.0, 67.0],
    },
    Chord {
        bass: 33.0,
        notes: [57.0, 60.0, 64.0, 69.0],
    },
    Chord {
        bass: 29.0,
        notes: [57.0, 60.0, 65.0, 69.0],
    },
];

/// What is sung: start and length in beats, MIDI note, vowel. Four phrases with a breath after each, and a close.
const MELODY: [(f32, f32, f32, char); 21] = [
    (0.5, 0.5, 64.0, 'a'),
    (1.0, 1.0, 67.0, 'o'),
    (2.0, 0.5, 69.0, 'e'),
    (2.5, 1.25, 67.0, 'a'),
    (4.0, 0.5, 71.0, 'i'),
    (4.5, 0.5, 69.0, 'a'),
    (5.0, 1.0, 67.0, 'o'),
    (6.0, 1.6, 62.0, 'a'),
    (8.0, 0.5, 69.0, 'e'),
    (8.5, 0.5, 71.0, 'a'),
    (9.0, 1.0, 72.0, 'a'),
    (10.0, 0.5, 71.0, 'i'),
    (10.5, 1.2, 69.0, 'o'),
    (12.0, 0.5, 65.0, 'u'),
    (12.5, 0.5, 69.0, 'a'),
    (13.0, 0.75, 72.0, 'e'),
    (13.75, 0.75, 69.0, 'a'),
    (14.5, 1.0, 67.0, 'o'),
    (16.0, 0.5, 67.0, 'i'),
    (16.5, 0.5, 71.0, 'e'),
    (17.0, 2.6, 72.0, 'a'),
];

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::song_wav;

    /// Rendered once: unoptimised, it takes seconds.
    static SONG: LazyLock<Vec<u8>> = LazyLock::new(song_wav);

    #[test]
    fn is_a_wav_file_of_twelve_seconds() {
        let file = &*SONG;
        assert_eq!(file.get(..4), Some(&b"RIFF"[..]));
        assert_eq!(file.get(8..16), Some(&b"WAVEfmt "[..]));
        assert_eq!(file.get(36..40), Some(&b"data"[..]));
        assert_eq!(
            u32::from_le_bytes(file[4..8].try_into().unwrap()) as usize,
            file.len() - 8
        );
        assert_eq!(
            u32::from_le_bytes(file[40..44].try_into().unwrap()) as usize,
            file.len() - 44
        );
        assert_eq!((file.len() - 44) / 4, 44_100 * 125 / 10);
    }

    #[test]
    fn is_heard_throughout_and_never_clips() {
        let file = &*SONG;
        let samples: Vec<i16> = file[44..]
            .chunks_exact(2)
            .map(|pair| i16::from_le_bytes([pair[0], pair[1]]))
            .collect();
        let peak = samples
            .iter()
            .map(|sample| sample.unsigned_abs())
            .max()
            .unwrap();
        assert!((28_000..30_000).contains(&peak), "peak {peak}");
        for second in samples.chunks_exact(88_200).take(12) {
            assert!(second.iter().any(|sample| sample.unsigned_abs() > 2_000));
        }
    }

    #[test]
    fn is_stereo_and_the_same_each_time() {
        let file = &*SONG;
        assert!(
            file[44..]
                .chunks_exact(4)
                .any(|frame| frame[..2] != frame[2..])
        );
        assert_eq!(*file, song_wav());
    }
}
