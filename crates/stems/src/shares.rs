//! Who owns how much of each bin: four shares that sum to one.
//!
//! It runs the two passes, cues and net and again, and keeps the result for those who turn shares
//! into sound.

use crate::cues::{Cues, Row, Second};
use crate::nets::{self, Net};
use crate::parallel::{Stop, Stopped, fill_rows};
use crate::stem::STEMS;
use crate::stft::{MAIN, Spectra};
use crate::wiener::Wiener;

/// Four shares for each bin: frame by frame, and within a frame stem by stem.
pub(crate) struct Shares(Vec<f32>);

const BINS: usize = MAIN.size / 2 + 1;
const FRAME: usize = STEMS * BINS;

impl Shares {
    /// Lets `net` judge the cues of each of `frames`, which `fill` writes into rows of `cues`.
    pub(crate) fn judge(
        net: &Net,
        frames: usize,
        cues: usize,
        fill: impl Fn(usize, &mut Row) + Sync,
        stop: Stop<'_>,
    ) -> Result<Self, Stopped> {
        let mut data = vec![0.0; frames * FRAME];
        fill_rows(&mut data, FRAME, stop, |t, out| {
            let mut row = Row::new(cues);
            fill(t, &mut row);
            net.judge(&row, out);
        })?;
        Ok(Self(data))
    }

    /// A quarter of every bin to each stem.
    #[cfg(test)]
    pub(crate) fn even(frames: usize) -> Self {
        Self(vec![0.25; frames * FRAME])
    }

    pub(crate) fn frames(&self) -> usize {
        self.0.len() / FRAME
    }

    /// One stem's shares of a frame.
    pub(crate) fn stem(&self, t: usize, stem: usize) -> &[f32] {
        &self.0[t * FRAME + stem * BINS..][..BINS]
    }

    /// Where each stem stands in the stereo image, at every frequency.
    pub(crate) fn places(
        &self,
        spectra: &[Spectra; 2],
        anywhere: f32,
        stop: Stop<'_>,
    ) -> Result<Wiener, Stopped> {
        let [left, right] = spectra;
        let rows = |t: usize| [left.row(t), right.row(t)];
        Wiener::learn(
            self.frames(),
            BINS,
            rows,
            |t, stem| self.stem(t, stem),
            anywhere,
            stop,
        )
    }
}

/// A net that was taught to err as little as possible on its own is too careful for the filter
/// behind it: 0.02 dB on the check songs.
const SHARPER: f32 = 1.1;

/// Both nets, ready to run.
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

    /// Both passes over one stretch of sound. `report` hears the finished part.
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
        let shares = Shares::judge(&self.second, cues.frames(), nets::SECOND[0], fill, stop)?;
        report(1.0);
        Ok(shares)
    }
}

/// What the first net makes of the first cues.
pub(crate) fn first_pass(net: &Net, cues: &Cues, stop: Stop<'_>) -> Result<Shares, Stopped> {
    let fill = |t: usize, row: &mut Row| cues.fill(t, row);
    Shares::judge(net, cues.frames(), nets::FIRST[0], fill, stop)
}
