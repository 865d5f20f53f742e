//! The sung melody and the bass line: which pitch leads at each moment, and which bins are its
//! harmonics.
//!
//! The salience of a pitch is the weighted sum of its harmonics, as in Salamon & Gomez, "Melody
//! extraction from polyphonic music signals using pitch contour characteristics", 2012. The line is
//! a smooth path through high salience, found by the Viterbi algorithm as in Durrieu et al., 2010.
//! A tracker finds *a* leading pitch; it does not know whether a voice makes it.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "bins, frames and steps of pitch are small numbers"
)]

use super::row::hertz;
use crate::parallel::{CancelCheck, WorkCancelled};
use crate::plane::{SpectralPlane, running_mean};
use crate::stft::MAIN;

/// How a line may move, and what it looks like in the spectrum.
#[derive(Clone, Copy)]
struct LineModel {
    /// The lowest and the highest pitch.
    low_hz: f32,
    high_hz: f32,
    /// Distance between neighbouring pitches.
    step_cents: f32,
    harmonics: u16,
    /// Weight of each harmonic relative to the one below.
    decay: f32,
    /// Cost of moving by a semitone.
    per_semitone: f32,
    /// The score of a frame without a pitch.
    silence: f32,
    /// Cost of starting and of ending.
    switch: f32,
    /// Width of a lobe: in bins, and relative to its frequency.
    width: (f32, f32),
    /// The highest harmonic that is marked.
    max_harmonic_hz: f32,
}

const MELODY: LineModel = LineModel {
    low_hz: 85.0,
    high_hz: 900.0,
    step_cents: 20.0,
    harmonics: 16,
    decay: 0.84,
    per_semitone: 0.3,
    silence: 0.55,
    switch: 0.8,
    width: (1.6, 0.012),
    max_harmonic_hz: 10_000.0,
};

const BASS: LineModel = LineModel {
    low_hz: 30.0,
    high_hz: 200.0,
    step_cents: 25.0,
    harmonics: 5,
    decay: 0.8,
    per_semitone: 0.2,
    silence: 0.45,
    switch: 0.6,
    width: (1.3, 0.01),
    max_harmonic_hz: 2_500.0,
};

/// In an estimate of the voice alone, a detected pitch is more reliable, and silence more likely.
const ISOLATED_VOICE: LineModel = LineModel {
    per_semitone: 0.35,
    silence: 0.35,
    switch: 1.0,
    ..MELODY
};

const ISOLATED_BASS: LineModel = LineModel {
    high_hz: 220.0,
    harmonics: 6,
    per_semitone: 0.25,
    silence: 0.3,
    switch: 0.8,
    max_harmonic_hz: 3_000.0,
    ..BASS
};

/// A line may move this far between two frames; anything further is a jump.
const REACH_SEMITONES: f32 = 3.0;
/// What a jump costs on top of the full reach.
const JUMP: f32 = 0.8;

/// A pitch, or none, for each frame.
pub(super) struct PitchLine {
    kind: LineModel,
    /// Pitch in Hz and strength 0..1.
    pitches: Vec<Option<(f32, f32)>>,
}

impl PitchLine {
    /// How strongly the line sounds in frame `t`, 0..1.
    pub(super) fn strength(&self, t: usize) -> f32 {
        self.pitches[t].map_or(0.0, |(_, strength)| strength)
    }

    /// Writes how close each bin is to a harmonic of frame `t`'s pitch, 0..1.
    pub(super) fn write_lobes(&self, t: usize, out: &mut [f32]) {
        out.fill(0.0);
        let Some((pitch, _)) = self.pitches[t] else {
            return;
        };
        let bin_hz = hertz(1);
        for h in 1..1_000u16 {
            let harmonic_hz = f32::from(h) * pitch;
            if harmonic_hz > self.kind.max_harmonic_hz {
                break;
            }
            let width = self
                .kind
                .width
                .0
                .hypot(self.kind.width.1 * harmonic_hz / bin_hz);
            let harmonic_bin = harmonic_hz / bin_hz;
            let first = (harmonic_bin - 3.5 * width).max(0.0) as usize;
            let end = ((harmonic_bin + 3.5 * width) as usize + 1).min(out.len());
            for (k, out) in out.iter_mut().enumerate().take(end).skip(first) {
                let lobe = (-0.5 * ((k as f32 - harmonic_bin) / width).powi(2)).exp();
                *out = out.max(lobe);
            }
        }
    }
}

/// The leading and the second melody in a first estimate of the voice. `centre` is how central each
/// bin is in the stereo image, `short_harmonic` the harmonic share by short windows, and
/// `repeating` the repeating part.
pub(super) fn melodies(
    amplitude: &SpectralPlane,
    centre: &SpectralPlane,
    short_harmonic: &SpectralPlane,
    repeating: &SpectralPlane,
    stop: CancelCheck<'_>,
) -> Result<(PitchLine, PitchLine), WorkCancelled> {
    let voice = SpectralPlane::build(amplitude.rows(), MAIN.bins(), stop, |t, row| {
        let (a, c) = (amplitude.row(t), centre.row(t));
        let (s, r) = (short_harmonic.row(t), repeating.row(t));
        for (k, out) in row.iter_mut().enumerate() {
            let central = (0.25 + 0.75 * c[k]).clamp(0.0, 1.0);
            // Repeating sound is probably accompaniment. The factor never reaches zero, because
            // refrains repeat too.
            let varying = 1.15 - r[k];
            *out = a[k] * central * central * s[k].sqrt() * varying * above_bass(k);
        }
    })?;
    let first = track(&voice, MELODY, stop)?;
    let remainder = SpectralPlane::build(voice.rows(), MAIN.bins(), stop, |t, row| {
        first.write_lobes(t, row);
        row.iter_mut()
            .zip(voice.row(t))
            .for_each(|(lobe, v)| *lobe = v * (1.0 - 0.9 * *lobe));
    })?;
    let second = track(&remainder, MELODY, stop)?;
    Ok((first, second))
}

/// The bass line in the low, steady, central part. `long_harmonic` is the harmonic share by long
/// windows.
pub(super) fn bass(
    amplitude: &SpectralPlane,
    centre: &SpectralPlane,
    long_harmonic: &SpectralPlane,
    stop: CancelCheck<'_>,
) -> Result<PitchLine, WorkCancelled> {
    let low = SpectralPlane::build(amplitude.rows(), MAIN.bins(), stop, |t, row| {
        let (a, c, l) = (amplitude.row(t), centre.row(t), long_harmonic.row(t));
        for (k, out) in row.iter_mut().enumerate() {
            let below = (1.4 - hertz(k) / 500.0).clamp(0.0, 1.0);
            *out = a[k] * below * l[k].sqrt() * (0.4 + 0.6 * c[k]).clamp(0.0, 1.0);
        }
    })?;
    track(&low, BASS, stop)
}

/// The pitch of the voice in an estimate of the voice.
pub(super) fn pitch_in_voice(
    voice: &SpectralPlane,
    stop: CancelCheck<'_>,
) -> Result<PitchLine, WorkCancelled> {
    track(voice, ISOLATED_VOICE, stop)
}

/// The pitch of the bass in an estimate of the bass.
pub(super) fn pitch_in_bass(
    bass: &SpectralPlane,
    stop: CancelCheck<'_>,
) -> Result<PitchLine, WorkCancelled> {
    track(bass, ISOLATED_BASS, stop)
}

/// 0 below the voice's range, 1 from 210 Hz.
pub(super) fn above_bass(bin: usize) -> f32 {
    ((hertz(bin) - 90.0) / 120.0).clamp(0.0, 1.0)
}

fn track(
    source: &SpectralPlane,
    kind: LineModel,
    stop: CancelCheck<'_>,
) -> Result<PitchLine, WorkCancelled> {
    let salience = salience(source, kind, stop)?;
    let path = best_path(&salience, kind, stop)?;
    let pitches = path
        .into_iter()
        .enumerate()
        .map(|(t, state)| state.map(|s| refine(salience.row(t), s, kind)))
        .collect();
    Ok(PitchLine { kind, pitches })
}

/// How well each pitch explains each frame: its harmonics, less what lies between them.
fn salience(
    source: &SpectralPlane,
    kind: LineModel,
    stop: CancelCheck<'_>,
) -> Result<SpectralPlane, WorkCancelled> {
    let floor = 1e-5 * source.max() + 1e-10;
    let weights: Vec<f32> = (0..kind.harmonics)
        .map(|h| kind.decay.powi(i32::from(h)))
        .collect();
    let raw = SpectralPlane::build(source.rows(), state_count(kind), stop, |t, row| {
        let mut neighbourhood = vec![0.0; source.width()];
        running_mean(source.row(t), 61, &mut neighbourhood);
        // Whitened by the neighbourhood, or the loudest region of the spectrum would decide alone.
        let whitened: Vec<f32> = source
            .row(t)
            .iter()
            .zip(&neighbourhood)
            .map(|(v, m)| (v / (m + floor)).sqrt())
            .collect();
        for (state, out) in row.iter_mut().enumerate() {
            let pitch = pitch_of(state, kind) / hertz(1);
            let sum: f32 = (1u16..)
                .zip(&weights)
                .map(|(h, weight)| {
                    let h = f32::from(h);
                    weight
                        // All harmonics of the octave above the true pitch are also harmonics of
                        // the true pitch, so that octave would score as high. But it has peaks
                        // half-way between its own harmonics. Subtracting those prevents its
                        // selection.
                        * (value_between_bins(&whitened, h * pitch) - 0.45 * value_between_bins(&whitened, (h - 0.5) * pitch))
                })
                .sum();
            *out = sum.max(0.0);
        }
    })?;
    let mut best_scores: Vec<f32> = (0..raw.rows())
        .map(|t| raw.row(t).iter().copied().fold(0.0, f32::max))
        .collect();
    best_scores.sort_unstable_by(f32::total_cmp);
    // The upper quartile of the frames' best scores represents a frame with a clear pitch. The
    // costs of `LineModel` are in units of it, whatever the clip's level is.
    let clear_score = best_scores
        .get(best_scores.len() * 3 / 4)
        .copied()
        .unwrap_or(0.0)
        .max(1e-9);
    SpectralPlane::build(raw.rows(), raw.width(), stop, |t, row| {
        let source = raw.row(t);
        let mean = source.iter().sum::<f32>() / row.len().max(1) as f32;
        for (out, s) in row.iter_mut().zip(source) {
            *out = ((s - 0.6 * mean) / clear_score).max(0.0);
        }
    })
}

/// Viterbi's best path through the pitches and silence: `None` where no pitch leads.
fn best_path(
    salience: &SpectralPlane,
    kind: LineModel,
    stop: CancelCheck<'_>,
) -> Result<Vec<Option<usize>>, WorkCancelled> {
    let (frames, count) = (salience.rows(), salience.width());
    let per_state = kind.per_semitone * kind.step_cents / 100.0;
    let reach = (REACH_SEMITONES * 100.0 / kind.step_cents) as usize;
    let jump_cost = kind.per_semitone * REACH_SEMITONES + JUMP;
    let silent = count;
    let mut score = vec![0.0f32; count + 1];
    let mut from = vec![0u16; frames * (count + 1)];
    for t in 0..frames {
        stop.check()?;
        // Any further move costs the same, so only the best state has to be considered for jumps.
        let best = arg_max(&score[..count]);
        let from = &mut from[t * (count + 1)..(t + 1) * (count + 1)];
        let mut next = vec![0.0; count + 1];
        for s in 0..count {
            let mut best_step = (score[silent] - kind.switch, silent);
            best_step = better(best_step, (score[best] - jump_cost, best));
            let reachable = s.saturating_sub(reach)..count.min(s + reach + 1);
            for (p, score) in reachable.clone().zip(&score[reachable]) {
                best_step = better(best_step, (score - per_state * p.abs_diff(s) as f32, p));
            }
            next[s] = best_step.0 + salience.row(t)[s];
            from[s] = best_step.1 as u16;
        }
        let best_step = better((score[silent], silent), (score[best] - kind.switch, best));
        next[silent] = best_step.0 + kind.silence;
        from[silent] = best_step.1 as u16;
        score = next;
    }
    let mut state = arg_max(&score);
    let mut path = vec![None; frames];
    for t in (0..frames).rev() {
        path[t] = (state != silent).then_some(state);
        state = usize::from(from[t * (count + 1) + state]);
    }
    Ok(path)
}

fn better(a: (f32, usize), b: (f32, usize)) -> (f32, usize) {
    if b.0 > a.0 { b } else { a }
}

fn arg_max(values: &[f32]) -> usize {
    values
        .iter()
        .enumerate()
        .fold((f32::NEG_INFINITY, 0), |best, (i, &x)| better(best, (x, i)))
        .1
}

/// Pitch and strength at a state, moved to the top of the parabola through its neighbours.
fn refine(salience: &[f32], state: usize, kind: LineModel) -> (f32, f32) {
    let value_at = |i: usize| salience.get(i).copied().unwrap_or(0.0);
    let (left, middle, right) = (
        value_at(state.wrapping_sub(1)),
        value_at(state),
        value_at(state + 1),
    );
    let curvature = left - 2.0 * middle + right;
    let shift = if curvature < -1e-9 {
        (0.5 * (left - right) / curvature).clamp(-0.5, 0.5)
    } else {
        0.0
    };
    let pitch = pitch_of(state, kind) * (shift * kind.step_cents / 1_200.0).exp2();
    (pitch, middle.clamp(0.0, 1.0))
}

fn state_count(kind: LineModel) -> usize {
    (1_200.0 * (kind.high_hz / kind.low_hz).log2() / kind.step_cents) as usize + 1
}

fn pitch_of(state: usize, kind: LineModel) -> f32 {
    kind.low_hz * (state as f32 * kind.step_cents / 1_200.0).exp2()
}

/// The value between two bins; 0 beyond the spectrum.
fn value_between_bins(values: &[f32], position: f32) -> f32 {
    let bin = position as usize;
    match values.get(bin..bin + 2) {
        Some([a, b]) => a + (position - bin as f32) * (b - a),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_a_gliding_voice() {
        let pitch = |t: usize| 220.0 * (t as f32 / 100.0).exp2().sqrt();
        let plane = SpectralPlane::build(100, MAIN.bins(), CancelCheck(&|| false), |t, row| {
            row.fill(0.001);
            for h in 1..20u16 {
                let centre = f32::from(h) * pitch(t) / hertz(1);
                for (k, x) in row.iter_mut().enumerate().skip(centre as usize - 1).take(4) {
                    *x += (-0.5 * (k as f32 - centre).powi(2)).exp() / f32::from(h);
                }
            }
        });
        let line = track(&plane.unwrap(), MELODY, CancelCheck(&|| false)).unwrap();
        let accurate = (5..95)
            .filter(|&t| line.pitches[t].is_some_and(|(p, _)| (p / pitch(t)).log2().abs() < 0.03));
        assert!(accurate.count() > 85);
        let mut lobes = vec![0.0; MAIN.bins()];
        line.write_lobes(50, &mut lobes);
        assert!(lobes[(pitch(50) / hertz(1)).round() as usize] > 0.8);
    }

    #[test]
    fn silence_has_no_pitch() {
        let plane = SpectralPlane::build(40, MAIN.bins(), CancelCheck(&|| false), |_, row| {
            row.fill(0.0);
        })
        .unwrap();
        let line = track(&plane, MELODY, CancelCheck(&|| false)).unwrap();
        assert!(line.pitches.iter().all(Option::is_none) && line.strength(7) == 0.0);
    }
}
