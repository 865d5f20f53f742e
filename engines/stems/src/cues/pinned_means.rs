//! A test that the cues stay what the nets were trained on.
//!
//! Weights are only valid for exactly the cues that they were trained on. After a change of a cue
//! the nets must be retrained, and this test fails until they are.

use super::{CueRow, EstimateCues, MixCues, SECOND_COUNT};
use crate::parallel::CancelCheck;
use crate::shares::StemShares;
use crate::stft::{MAIN, Stft};

/// The mean of each cue over the clip below, in the order of the nets' inputs.
#[rustfmt::skip]
const MEANS: [f32; SECOND_COUNT] = [
    0.0022, 0.0036, 0.0072, 0.0144, 0.0287, 0.0574, 0.1319, 0.3232, 0.5326, 0.9735,
    0.044, 0.4968, 0.4531, 0.4895, -0.2932, 0.2896, -0.0001, -0.0313, -0.7793, -0.0637,
    -0.4909, -0.0153, 0.6754, 0.7867, 0.1329, 0.5538, 0.1291, 0.499, 0.1345, 0.0748,
    0.8015, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25,
    0.25, 0.5, 0.5, 0.5, 0.1774, 0.7431, 0.0948, 0.7886, 0.1855, 0.5066,
    0.2039, 0.4968, 0.361, 0.0, 0.0, 0.0, 0.0, 0.1413, 0.0845, -0.0845,
    -0.1433, 0.0005, 0.0003, -0.0003, -0.0006,
];

/// Two seconds with a little of everything: a tone in the middle, one to the left, hits of noise.
#[expect(clippy::cast_precision_loss, reason = "a short clip")]
fn clip() -> [Vec<f32>; 2] {
    let mut state = 5u32;
    let mut sides = [Vec::new(), Vec::new()];
    for i in 0..88_200u32 {
        let t = i as f32 / 44_100.0;
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let noise = (state >> 8) as f32 / 8_388_608.0 - 1.0;
        let tone = |hz: f32| (t * hz * std::f32::consts::TAU).sin();
        let hit = noise * 0.5 * (-(t * 3.0).fract() * 12.0).exp();
        let voice = if t > 0.7 {
            0.2 * (tone(330.0) + tone(660.0) + tone(990.0))
        } else {
            0.0
        };
        let centre = hit + voice + 0.3 * tone(65.0);
        sides[0].push(centre + 0.2 * tone(1_200.0));
        sides[1].push(centre);
    }
    sides
}

#[test]
fn cues_are_those_the_nets_learned() {
    let (sound, stop) = (clip(), CancelCheck(&|| false));
    let stft = Stft::new(MAIN);
    let spectra = sound
        .each_ref()
        .map(|side| stft.spectra(side, stop).unwrap());
    let cues = MixCues::measure(&sound, &spectra, stop, &mut |_| ()).unwrap();
    let shares = StemShares::even(cues.frames());
    let second = EstimateCues::measure(&cues, &shares, &spectra, stop, &mut |_| ()).unwrap();
    let mut sums = [0.0f64; SECOND_COUNT];
    let mut row = CueRow::new(SECOND_COUNT);
    for t in 0..cues.frames() {
        second.fill(t, &mut row);
        for (cue, sum) in sums.iter_mut().enumerate() {
            *sum += row.cue(cue).iter().copied().map(f64::from).sum::<f64>();
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a short clip")]
    let count = (cues.frames() * MAIN.bins()) as f64;
    let means = sums.map(|sum| sum / count);
    let differs = |(actual, expected): (&f64, &f32)| (actual - f64::from(*expected)).abs() > 1e-3;
    assert!(
        !means.iter().zip(&MEANS).any(differs),
        "retrain the nets: {means:.4?}"
    );
}
