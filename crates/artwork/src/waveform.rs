//! A clip's cover: its real waveform, as mirrored bars, bars over water, or a ring.
//!
//! Reads each sample once and keeps one loudness per bar, so that an hour of sound costs no more memory than a second.

use super::ArtworkError;
use super::canvas::{Canvas, circle, segment};
use super::colour::{Dice, Palette};

/// Square cover art of a clip, PNG bytes. `channels` are samples of about -1 to 1; what is not a number counts as
/// silence, and silence is a row of dots.
pub fn waveform_cover(
    seed: &str,
    channels: &[Vec<f32>],
    side: u32,
) -> Result<Vec<u8>, ArtworkError> {
    let mut canvas = Canvas::new(side)?;
    let mut dice = Dice::new("waveform", &[seed]);
    let palette = Palette::draw(&mut dice);
    let glow = (
        dice.range(5.0, 95.0),
        if dice.chance(0.5) { 0.0 } else { 100.0 },
    );
    canvas.wash_palette(&palette, glow);
    match dice.pick(3) {
        0 => mirrored(&mut canvas, &palette, &loudness(channels, 45)),
        1 => over_water(&mut canvas, &palette, &loudness(channels, 37)),
        _ => ring(&mut canvas, &palette, &loudness(channels, 96)),
    }
    canvas.png()
}

/// Bars around a middle line; the loud ones are lighter.
fn mirrored(canvas: &mut Canvas, palette: &Palette, bars: &[f32]) {
    let (step, width) = pitch(bars.len(), 80.0);
    canvas.fill(circle(50.0, 50.0, 41.0), palette.deep, 0.16);
    canvas.fill(circle(50.0, 50.0, 30.0), palette.deep, 0.16);
    for (x, loud) in places(10.0, step).zip(bars) {
        let reach = 0.01 + loud * 29.0;
        let bar = segment((x, 50.0 - reach), (x, 50.0 + reach));
        canvas.line(bar, width, palette.light, 0.62 + 0.38 * loud);
    }
}

/// Bars that stand on a line, with their fainter reflection below it.
fn over_water(canvas: &mut Canvas, palette: &Palette, bars: &[f32]) {
    let (step, width) = pitch(bars.len(), 80.0);
    let shore = 62.0;
    canvas.fill(circle(50.0, shore, 34.0), palette.warm.lighter(0.10), 0.20);
    canvas.fill(circle(50.0, shore, 22.0), palette.light, 0.10);
    for (x, loud) in places(10.0, step).zip(bars) {
        let reach = 0.01 + loud * 42.0;
        canvas.line(
            segment((x, shore - reach), (x, shore)),
            width,
            palette.light,
            0.97,
        );
        let echo = segment(
            (x, shore + width * 1.35),
            (x, shore + width * 1.35 + reach * 0.42),
        );
        canvas.line(echo, width, palette.light, 0.30);
    }
}

/// Bars that leave a disc in all directions, time running clockwise from the top.
fn ring(canvas: &mut Canvas, palette: &Palette, bars: &[f32]) {
    for (radius, alpha) in [(46.0, 0.07), (39.0, 0.09), (32.0, 0.12)] {
        canvas.fill(circle(50.0, 50.0, radius), palette.light, alpha);
    }
    let turn = std::f32::consts::TAU / count(bars.len());
    for (angle, loud) in places(0.0, turn).zip(bars) {
        let (sin, cos) = angle.sin_cos();
        let at = |radius: f32| (50.0 + radius * sin, 50.0 - radius * cos);
        let outer = 24.0 + 0.01 + loud * 18.0;
        let inner = 24.0 - loud * 4.0;
        canvas.line(
            segment(at(inner), at(outer)),
            0.95,
            palette.light,
            0.70 + 0.30 * loud,
        );
    }
    canvas.fill(circle(50.0, 50.0, 15.5), palette.deep, 0.85);
    canvas.line(circle(50.0, 50.0, 15.5), 0.7, palette.light, 0.55);
    canvas.fill(circle(50.0, 50.0, 8.2), palette.accent, 1.0);
    canvas.fill(circle(50.0, 50.0, 1.6), palette.deep, 1.0);
}

/// Distance and width of bars that share this much of the canvas.
fn pitch(bars: usize, share: f32) -> (f32, f32) {
    let step = share / count(bars);
    (step, step * 0.56)
}

/// The middles of bars, one `step` apart, from half a step after `start`.
fn places(start: f32, step: f32) -> impl Iterator<Item = f32> {
    (0..u16::MAX).map(move |index| start + step * (f32::from(index) + 0.5))
}

fn count(bars: usize) -> f32 {
    f32::from(u16::try_from(bars.max(1)).unwrap_or(u16::MAX))
}

/// How loud each of `bars` equal stretches is, 0–1, the loudest being 1. All zero for silence.
fn loudness(channels: &[Vec<f32>], bars: usize) -> Vec<f32> {
    let length = channels.iter().map(Vec::len).max().unwrap_or(0);
    let mut levels = vec![0.0_f32; bars];
    for channel in channels {
        for (bar, level) in levels.iter_mut().enumerate() {
            // 128 bits: a bar's number times a length must not overflow on any machine.
            let edge = |n: usize| {
                usize::try_from(n as u128 * length as u128 / bars.max(1) as u128).unwrap_or(0)
            };
            let stretch = channel
                .get(edge(bar)..edge(bar + 1).min(channel.len()))
                .unwrap_or(&[]);
            *level = level.max(level_of(stretch));
        }
    }
    let top = levels.iter().copied().fold(0.0, f32::max);
    if top < INAUDIBLE {
        return vec![0.0; bars];
    }
    // Modern masters are loud from end to end; a little contrast brings their beats out again.
    levels
        .iter()
        .map(|level| (level / top).powf(1.35))
        .collect()
}

/// Between the peak, which alone makes every loud song a solid block, and the mean power, which alone hides hits.
fn level_of(stretch: &[f32]) -> f32 {
    let (mut peak, mut power, mut heard) = (0.0_f32, 0.0_f32, 0.0_f32);
    // In blocks, because a running sum of squares stops growing once it is 2^24 times a sample.
    for block in stretch.chunks(4096) {
        let mut squares = 0.0;
        for sample in block.iter().filter(|sample| sample.is_finite()) {
            let size = sample.abs().min(4.0);
            peak = peak.max(size);
            squares += size * size;
        }
        power += squares / 4096.0;
        heard += f32::from(u16::try_from(block.len()).unwrap_or(4096)) / 4096.0;
    }
    0.35 * peak + 0.65 * (power / heard.max(f32::EPSILON)).sqrt() * std::f32::consts::SQRT_2
}

/// About -90 dB: what is below is drawn as silence instead of having its noise blown up to full height.
const INAUDIBLE: f32 = 3.0e-5;

#[cfg(test)]
mod tests {
    use super::loudness;

    #[test]
    fn bars_follow_the_sound() {
        let mut sound = vec![0.0; 1_000];
        sound.extend(vec![0.9; 1_000]);
        let bars = loudness(&[sound], 4);
        assert_eq!(bars.get(..2), Some(&[0.0, 0.0][..]));
        assert!(bars.iter().skip(2).all(|bar| *bar > 0.99));
    }

    #[test]
    fn quiet_sound_is_raised_and_silence_is_not() {
        assert!(
            loudness(&[vec![0.01; 100]], 2)
                .iter()
                .all(|bar| *bar > 0.99)
        );
        assert_eq!(loudness(&[vec![1.0e-6; 100]], 2), vec![0.0, 0.0]);
        assert_eq!(loudness(&[vec![f32::NAN; 100]], 2), vec![0.0, 0.0]);
    }
}
