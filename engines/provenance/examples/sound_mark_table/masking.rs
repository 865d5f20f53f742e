//! How well a change is hidden in sound, by a simple model of the ear: J. D. Johnston, "Transform
//! Coding of Audio Signals Using Perceptual Noise Criteria", IEEE J. Selected Areas in
//! Communications 6 (1988), with the ratio of noise to mask of K. Brandenburg (1987).

use dsp::{Complex32, fft};

/// Upper edges of the critical bands, in hertz.
const EDGES: [f32; 24] = [
    100.0, 200.0, 300.0, 400.0, 510.0, 630.0, 770.0, 920.0, 1080.0, 1270.0, 1480.0, 1720.0, 2000.0,
    2320.0, 2700.0, 3150.0, 3700.0, 4400.0, 5300.0, 6400.0, 7700.0, 9500.0, 12_000.0, 15_500.0,
];
const FRAME: usize = 2048;
/// The range of the mark, in hertz.
const LOWEST: f32 = 300.0;
const HIGHEST: f32 = 7980.0;
/// A band with less energy than this is inaudible: about 90 dB under full scale.
const QUIET: f32 = 1e-3;

pub(crate) struct MaskingResult {
    /// In dB, over the whole excerpt.
    pub(crate) signal_to_mark: f64,
    /// In dB: the mean ratio, over the bands of all frames that hold any of the mark.
    pub(crate) noise_to_mask: f64,
    /// The share of these bands in which the mark lies above the mask.
    pub(crate) audible_share: f64,
}

pub(crate) fn judge(plain: &[Vec<f32>], marked: &[Vec<f32>], rate: u32) -> MaskingResult {
    let (mut signal, mut noise) = (0.0f64, 0.0f64);
    let (mut ratios, mut audible, mut count) = (0.0f64, 0usize, 0usize);
    for (plain, marked) in plain.iter().zip(marked) {
        let mark: Vec<f32> = marked.iter().zip(plain).map(|(a, b)| a - b).collect();
        signal += plain.iter().map(|x| f64::from(x * x)).sum::<f64>();
        noise += mark.iter().map(|x| f64::from(x * x)).sum::<f64>();
        for (plain, mark) in spectra(plain).zip(spectra(&mark)) {
            let mask = mask(&plain, rate);
            for (band, (mark, mask)) in bands(&mark, rate).iter().zip(mask).enumerate() {
                if (3..22).contains(&band) && *mark > QUIET {
                    ratios += f64::from(mark / mask);
                    audible += usize::from(*mark > mask);
                    count += 1;
                }
            }
        }
    }
    MaskingResult {
        signal_to_mark: 10.0 * (signal / noise).log10(),
        noise_to_mask: 10.0 * (ratios / count.max(1) as f64).log10(),
        audible_share: audible as f64 / count.max(1) as f64,
    }
}

fn spectra(samples: &[f32]) -> impl Iterator<Item = Vec<f32>> {
    let plan = fft::forward(FRAME);
    samples.windows(FRAME).step_by(FRAME / 2).map(move |frame| {
        let windowed = frame.iter().enumerate().map(|(index, sample)| {
            let angle = std::f32::consts::TAU * (index as f32 + 0.5) / FRAME as f32;
            Complex32::new(sample * (0.5 - 0.5 * angle.cos()), 0.0)
        });
        let mut buffer: Vec<Complex32> = windowed.collect();
        plan.process(&mut buffer);
        let half = buffer.iter().take(FRAME / 2);
        half.map(Complex32::norm_sqr).collect()
    })
}

fn bands(powers: &[f32], rate: u32) -> [f32; EDGES.len()] {
    let mut bands = [0.0; EDGES.len()];
    for (bin, power) in powers.iter().enumerate() {
        let hertz = bin as f32 * rate as f32 / FRAME as f32;
        if let Some(band) = EDGES.iter().position(|edge| hertz < *edge) {
            bands[band] += power;
        }
    }
    bands
}

/// How much noise each band hides.
fn mask(powers: &[f32], rate: u32) -> [f32; EDGES.len()] {
    let energies = bands(powers, rate);
    // A flat spectrum is noise, which hides more than a tone. Frequencies outside the mark's range
    // do not count: lossy coding may have cut off the upper end, or there may be no low sound.
    let bin = |hertz: f32| (hertz * FRAME as f32 / rate as f32) as usize;
    let powers = powers.get(bin(LOWEST)..bin(HIGHEST)).unwrap_or_default();
    let count = powers.len() as f32;
    let mean = powers.iter().sum::<f32>() / count + f32::MIN_POSITIVE;
    let logs = powers.iter().map(|power| (power + 1e-12).ln()).sum::<f32>() / count;
    let flatness = 10.0 * (logs.exp() / mean).log10();
    let tonal = (flatness / -60.0).clamp(0.0, 1.0);
    std::array::from_fn(|band| {
        let (mut spread, mut gain) = (0.0, 0.0);
        for (other, energy) in energies.iter().enumerate() {
            let distance = band as f32 - other as f32 + 0.474;
            let decibels = 15.81 + 7.5 * distance - 17.5 * (1.0 + distance * distance).sqrt();
            let part = 10.0f32.powf(decibels / 10.0);
            spread += energy * part;
            gain += part;
        }
        let offset = tonal * (14.5 + band as f32 + 1.0) + (1.0 - tonal) * 5.5;
        spread / gain * 10.0f32.powf(-offset / 10.0) + f32::MIN_POSITIVE
    })
}
