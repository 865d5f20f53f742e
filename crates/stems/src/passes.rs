//! The two passes, each from cues to shares by its own net. The second measures its cues on the
//! first one's shares.

use crate::cues::{Cues, Row, Second};
use crate::nets::{self, Net};
use crate::parallel::{Stop, Stopped};
use crate::shares::Shares;
use crate::stft::Spectra;

/// A net that was trained to minimise its own error is too cautious for the filter after it: 0.02 dB
/// on the check songs.
const SHARPER: f32 = 1.1;

pub(crate) struct Judges {
    first: Net,
    second: Net,
}

impl Judges {
    pub(crate) fn shipped() -> Self {
        let [first, second] = nets::shipped();
        Self {
            first: Net::new(nets::FIRST, &first),
            second: Net::new(nets::SECOND, &second).sharper(SHARPER),
        }
    }

    /// Runs both passes over one stretch of sound. `report` gets the finished part, 0 to 1.
    pub(crate) fn judge(
        &self,
        sound: &[Vec<f32>; 2],
        spectra: &[Spectra; 2],
        stop: Stop<'_>,
        report: &mut dyn FnMut(f32),
    ) -> Result<Shares, Stopped> {
        let cues = Cues::measure(sound, spectra, stop, &mut |part| report(0.4 * part))?;
        let guess = first_pass(&self.first, &cues, stop)?;
        report(0.5);
        let second = Second::measure(&cues, &guess, spectra, stop, &mut |part| {
            report(0.5 + 0.35 * part);
        })?;
        let fill = |t: usize, row: &mut Row| second.fill(t, row);
        let shares = judge(&self.second, cues.frames(), nets::SECOND[0], fill, stop)?;
        report(1.0);
        Ok(shares)
    }
}

/// The first net's shares.
pub(crate) fn first_pass(net: &Net, cues: &Cues, stop: Stop<'_>) -> Result<Shares, Stopped> {
    let fill = |t: usize, row: &mut Row| cues.fill(t, row);
    judge(net, cues.frames(), nets::FIRST[0], fill, stop)
}

/// Lets `net` judge the cues of each frame, which `fill` writes into a row of `cues` cues.
fn judge(
    net: &Net,
    frames: usize,
    cues: usize,
    fill: impl Fn(usize, &mut Row) + Sync,
    stop: Stop<'_>,
) -> Result<Shares, Stopped> {
    Shares::build(frames, stop, |t, out| {
        let mut row = Row::new(cues);
        fill(t, &mut row);
        net.judge(&row, out);
    })
}
