//! Cues: measurements of each time-frequency bin that hint at the source that made it.
//!
//! Thirty-one numbers per bin, all from classical work on separation, all scaled to about -1..1:
//! where it lies in frequency, its position in the stereo image (`stereo`), whether it is a line
//! in time or in frequency (`harmonic`), its attack and decay (`change`), whether it repeats
//! (`repeat`), and whether it belongs to the sung melody or the bass line (`pitch`). This module
//! only measures: the nets interpret the numbers.

mod estimate_cues;
mod mix_cues;
#[cfg(test)]
mod pinned_means;
mod row;

mod change;
mod harmonic;
mod pitch;
mod repeat;
mod stereo;

pub(crate) use estimate_cues::{COUNT as SECOND_COUNT, EstimateCues};
pub(crate) use mix_cues::MixCues;
pub(crate) use row::{COUNT, CueRow};
