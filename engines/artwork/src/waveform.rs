//! A clip's cover: its real waveform, as mirrored bars, bars over water, or a ring.
//!
//! Reads each sample once and keeps one loudness per bar, so that an hour of sound costs no more
//! memory than a second.

use super::ArtworkError;
use super::canvas::{Canvas, circle, segment};
use super::colour::{Palette, SeededRandom};

/// Square cover art of a clip, PNG bytes. `channels` are samples of about -1 to 1; what is not a
/// number counts as silence, and silence is a row of dots.
pub fn waveform_cover(
    seed: &str,
    channels: &[Vec<f32>],
    side: u32,
) -> Result<Vec<u8>, ArtworkError> {
    let mut sketch = WaveformSketch::new(seed, longest(channels));
    sketch.push(channels);
    sketch.draw_cover(side)
}

/// The data for a cover, collected from a clip that arrives in pieces.
pub struct WaveformSketch {
    seed: String,
    bars: LoudnessBars,
}

impl WaveformSketch {
    /// Prepares for a clip of `frames` samples in each channel.
    pub fn new(seed: &str, frames: usize) -> Self {
        // The style comes first, because it decides how many bars the clip is measured in.
        let (_, style) = style(seed);
        Self {
            seed: seed.to_owned(),
            bars: LoudnessBars::new(style.bars(), frames),
        }
    }

    /// Adds the next samples of every channel.
    pub fn push(&mut self, channels: &[Vec<f32>]) {
        self.bars.push(channels);
    }

    /// Draws the cover of the samples so far; PNG bytes.
    pub fn draw_cover(&self, side: u32) -> Result<Vec<u8>, ArtworkError> {
        let mut canvas = Canvas::new(side)?;
        let ((palette, glow), style) = style(&self.seed);
        canvas.wash_palette(&palette, glow);
        let bars = self.bars.loudness();
        match style {
            WaveformStyle::Mirrored => draw_mirrored(&mut canvas, &palette, &bars),
            WaveformStyle::OverWater => draw_over_water(&mut canvas, &palette, &bars),
            WaveformStyle::Ring => draw_ring(&mut canvas, &palette, &bars),
        }
        canvas.into_png()
    }
}

#[derive(Clone, Copy)]
enum WaveformStyle {
    Mirrored,
    OverWater,
    Ring,
}

impl WaveformStyle {
    fn bars(self) -> usize {
        match self {
            Self::Mirrored => 45,
            Self::OverWater => 37,
            Self::Ring => 96,
        }
    }
}

/// Everything about a cover but the sound.
fn style(seed: &str) -> ((Palette, (f32, f32)), WaveformStyle) {
    let mut random = SeededRandom::new("waveform", &[seed]);
    let palette = Palette::random(&mut random);
    let glow = (
        random.range(5.0, 95.0),
        if random.chance(0.5) { 0.0 } else { 100.0 },
    );
    let style = match random.pick(3) {
        0 => WaveformStyle::Mirrored,
        1 => WaveformStyle::OverWater,
        _ => WaveformStyle::Ring,
    };
    ((palette, glow), style)
}

/// The length of the longest channel.
pub(super) fn longest(channels: &[Vec<f32>]) -> usize {
    channels.iter().map(Vec::len).max().unwrap_or(0)
}

/// Bars around a middle line; the loud ones are lighter.
fn draw_mirrored(canvas: &mut Canvas, palette: &Palette, bars: &[f32]) {
    let (step, width) = bar_spacing(bars.len(), 80.0);
    canvas.fill(circle(50.0, 50.0, 41.0), palette.deep, 0.16);
    canvas.fill(circle(50.0, 50.0, 30.0), palette.deep, 0.16);
    for (x, loud) in bar_centres(10.0, step).zip(bars) {
        // The length is never zero, so that silence is a row of dots: the round ends of the bars.
        let half_length = 0.01 + loud * 29.0;
        let bar = segment((x, 50.0 - half_length), (x, 50.0 + half_length));
        canvas.line(bar, width, palette.light, 0.62 + 0.38 * loud);
    }
}

/// Bars that stand on a line, with their fainter reflection below it.
fn draw_over_water(canvas: &mut Canvas, palette: &Palette, bars: &[f32]) {
    let (step, width) = bar_spacing(bars.len(), 80.0);
    let shore = 62.0;
    canvas.fill(circle(50.0, shore, 34.0), palette.vivid.lighter(0.10), 0.20);
    canvas.fill(circle(50.0, shore, 22.0), palette.light, 0.10);
    for (x, loud) in bar_centres(10.0, step).zip(bars) {
        let length = 0.01 + loud * 42.0;
        canvas.line(
            segment((x, shore - length), (x, shore)),
            width,
            palette.light,
            0.97,
        );
        let echo = segment(
            (x, shore + width * 1.35),
            (x, shore + width * 1.35 + length * 0.42),
        );
        canvas.line(echo, width, palette.light, 0.30);
    }
}

/// Bars that leave a disc in all directions, time running clockwise from the top.
fn draw_ring(canvas: &mut Canvas, palette: &Palette, bars: &[f32]) {
    for (radius, alpha) in [(46.0, 0.07), (39.0, 0.09), (32.0, 0.12)] {
        canvas.fill(circle(50.0, 50.0, radius), palette.light, alpha);
    }
    let angle_step = std::f32::consts::TAU / count(bars.len());
    for (angle, loud) in bar_centres(0.0, angle_step).zip(bars) {
        let (sin, cos) = angle.sin_cos();
        let point = |radius: f32| (50.0 + radius * sin, 50.0 - radius * cos);
        let outer = 24.0 + 0.01 + loud * 18.0;
        let inner = 24.0 - loud * 4.0;
        canvas.line(
            segment(point(inner), point(outer)),
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
fn bar_spacing(bars: usize, share: f32) -> (f32, f32) {
    let step = share / count(bars);
    (step, step * 0.56)
}

/// The middles of bars, one `step` apart, from half a step after `start`.
fn bar_centres(start: f32, step: f32) -> impl Iterator<Item = f32> {
    (0..u16::MAX).map(move |index| start + step * (f32::from(index) + 0.5))
}

fn count(bars: usize) -> f32 {
    f32::from(u16::try_from(bars.max(1)).unwrap_or(u16::MAX))
}

/// How loud each of some equal stretches of a clip is.
struct LoudnessBars {
    frames: usize,
    levels: Vec<f32>,
    /// For each channel, how many of its samples have arrived, and the meter of its current bar.
    channels: Vec<(usize, LevelMeter)>,
}

impl LoudnessBars {
    fn new(bars: usize, frames: usize) -> Self {
        Self {
            frames,
            levels: vec![0.0; bars],
            channels: Vec::new(),
        }
    }

    /// Where a bar begins. 128 bits: its number times a length must not overflow on any machine.
    fn edge(&self, bar: usize) -> usize {
        let edge = bar as u128 * self.frames as u128 / self.levels.len().max(1) as u128;
        usize::try_from(edge).unwrap_or(0)
    }

    fn push(&mut self, new_samples: &[Vec<f32>]) {
        if self.channels.len() < new_samples.len() {
            self.channels
                .resize_with(new_samples.len(), Default::default);
        }
        for (channel, samples) in new_samples.iter().enumerate() {
            let mut samples = samples.as_slice();
            while !samples.is_empty() {
                let received = self.channels[channel].0;
                let Some(bar) = self.bar_at(received) else {
                    break;
                };
                let remaining = self.edge(bar + 1) - received;
                let (current, rest) = samples.split_at(remaining.min(samples.len()));
                samples = rest;
                let (received, level) = &mut self.channels[channel];
                level.add_samples(current);
                *received += current.len();
                if current.len() == remaining {
                    let level = std::mem::take(level).value();
                    // The louder channel counts: a mean would halve what is on one side only.
                    self.levels[bar] = self.levels[bar].max(level);
                }
            }
        }
    }

    /// The bar that holds this sample.
    fn bar_at(&self, sample: usize) -> Option<usize> {
        // Both divisions round down, so the guess may be too early by a bar, but never too late.
        let guess = sample as u128 * self.levels.len() as u128 / (self.frames.max(1)) as u128;
        let guess = usize::try_from(guess).ok()?;
        (guess..self.levels.len()).find(|bar| self.edge(bar + 1) > sample)
    }

    /// The loudness of each bar: 1 for the loudest, less for the others. All are 0 for silence.
    fn loudness(&self) -> Vec<f32> {
        let mut levels = self.levels.clone();
        // If the clip was shorter than announced, its last bar is measured from the samples that
        // arrived.
        for (received, level) in &self.channels {
            if let Some(bar) = self.bar_at(*received) {
                levels[bar] = levels[bar].max(level.value());
            }
        }
        let max = levels.iter().copied().fold(0.0, f32::max);
        if max < INAUDIBLE {
            return vec![0.0; levels.len()];
        }
        // Modern masters are loud from end to end; a little contrast brings their beats out again.
        levels
            .iter()
            .map(|level| (level / max).powf(1.35))
            .collect()
    }
}

/// Measures a level between the peak and the mean power. The peak alone makes every loud song a
/// solid block; the mean power alone hides hits.
#[derive(Default)]
struct LevelMeter {
    peak: f32,
    power: f32,
    sample_count: f32,
    /// The sum of squares of the current block, and its number of samples. One sum over a whole bar
    /// would stop growing once it is 2^24 times as large as a square.
    block: (f32, u16),
}

impl LevelMeter {
    fn add_samples(&mut self, samples: &[f32]) {
        for sample in samples {
            if sample.is_finite() {
                let amplitude = sample.abs().min(4.0);
                self.peak = self.peak.max(amplitude);
                self.block.0 += amplitude * amplitude;
            }
            self.block.1 += 1;
            if self.block.1 == LEVEL_BLOCK {
                (self.power, self.sample_count) = self.sums();
                self.block = (0.0, 0);
            }
        }
    }

    fn sums(&self) -> (f32, f32) {
        let (squares, count) = self.block;
        let block_size = f32::from(LEVEL_BLOCK);
        (
            self.power + squares / block_size,
            self.sample_count + f32::from(count) / block_size,
        )
    }

    fn value(&self) -> f32 {
        let (power, sample_count) = self.sums();
        // The root of two brings a sine's power up to its peak, so that both parts are 1 at full
        // scale.
        0.35 * self.peak
            + 0.65 * (power / sample_count.max(f32::EPSILON)).sqrt() * std::f32::consts::SQRT_2
    }
}

const LEVEL_BLOCK: u16 = 4096;

/// About -90 dB: what is below is drawn as silence instead of having its noise blown up to full
/// height.
const INAUDIBLE: f32 = 3.0e-5;

#[cfg(test)]
mod tests {
    use super::{LoudnessBars, longest};

    /// The loudness of a sound pushed at once, which must equal that of the same sound in pieces.
    fn loudness(channels: &[Vec<f32>], bars: usize) -> Vec<f32> {
        let mut whole = LoudnessBars::new(bars, longest(channels));
        whole.push(channels);
        let mut pieces = LoudnessBars::new(bars, longest(channels));
        for start in (0..longest(channels)).step_by(77) {
            let piece = |channel: &Vec<f32>| channel[start..channel.len().min(start + 77)].to_vec();
            pieces.push(&channels.iter().map(piece).collect::<Vec<_>>());
        }
        assert_eq!(whole.loudness(), pieces.loudness());
        whole.loudness()
    }

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
