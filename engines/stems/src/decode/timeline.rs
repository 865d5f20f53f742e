//! The timeline of a recording: where its packets belong, what is missing between them, and whether
//! so much is missing that the rest must not be taken for the whole.
//!
//! The one rule for all formats: a hole is silence of its own length and is listed; a recording that
//! lacks more than a tenth, or that is shorter than it states itself, is an error.

use std::ops::Range;

use super::error::DecodeError;
use super::format::AudioFormat;

/// A part of a recording that could not be read and is silent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DamagedSpan {
    /// In seconds.
    pub start: f64,
    /// In seconds. The start, if the recording ends there although more should follow.
    pub end: f64,
}

/// Most spans that are listed. Spans beyond are joined to the last one.
const MAX_SPANS: usize = 100;

/// How far positions may differ from what was counted before anything counts as missing, in
/// samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Precision {
    /// Every packet states its position to the sample.
    Exact,
    /// Positions are rounded, so less than half a packet is no hole.
    Rounded,
}

/// Places packets one after the other.
pub(super) struct Timeline {
    precision: Precision,
    /// Where the next packet is expected, in samples of the stream's own time.
    expected: Option<i64>,
    /// Samples of the latest packet.
    latest: u64,
    /// Missing samples, as positions in what was passed on.
    holes: Vec<Range<u64>>,
    missing: u64,
    ends_early: bool,
}

impl Timeline {
    pub(super) fn new(precision: Precision, origin: Option<i64>) -> Self {
        Self {
            precision,
            expected: origin,
            latest: 0,
            holes: Vec::new(),
            missing: 0,
            ends_early: false,
        }
    }

    /// Places a packet; returns how many samples are missing before it.
    pub(super) fn place(&mut self, start: i64, length: u64) -> u64 {
        let gap = self
            .expected
            .map_or(0, |expected| start.saturating_sub(expected));
        let tolerance = match self.precision {
            Precision::Exact => 0,
            Precision::Rounded => self.latest.max(length) / 2,
        };
        let gap = u64::try_from(gap).unwrap_or(0);
        let gap = if gap > tolerance { gap } else { 0 };
        let end = start.saturating_add(i64::try_from(length).unwrap_or(i64::MAX));
        self.expected = Some(end);
        self.latest = length;
        gap
    }

    /// Gives the latest packet its length, which its container did not state.
    pub(super) fn extend(&mut self, length: u64) {
        self.latest = length;
        if let (Some(end), Ok(length)) = (&mut self.expected, i64::try_from(length)) {
            *end = end.saturating_add(length);
        }
    }

    /// Whether the packets end before this position.
    pub(super) fn ends_before(&self, position: i64) -> bool {
        self.expected.is_some_and(|end| end < position)
    }

    /// The next packet begins a stream of its own.
    pub(super) fn restart(&mut self) {
        self.expected = None;
    }

    /// Notes that `length` samples at `position` are missing.
    pub(super) fn add_hole(&mut self, position: u64, length: u64) {
        self.missing += length;
        let end = position + length;
        let is_full = self.holes.len() >= MAX_SPANS;
        match self.holes.last_mut() {
            Some(last) if last.end == position || is_full => last.end = end,
            _ => self.holes.push(position..end),
        }
    }

    /// Notes that the recording ends although more should follow.
    pub(super) fn end_early(&mut self) {
        self.ends_early = true;
    }

    /// Samples at most that a total may be missed by.
    fn slack(&self) -> u64 {
        match self.precision {
            Precision::Exact => 0,
            Precision::Rounded => 2 * self.latest,
        }
    }

    /// Judges the whole: `span` is the recording's part of the samples, `stated` the number that the
    /// file itself gives for it.
    pub(super) fn judge(
        self,
        format: AudioFormat,
        rate: u32,
        span: &Range<usize>,
        stated: Option<u64>,
    ) -> Result<Vec<DamagedSpan>, DecodeError> {
        let damaged = |reason: String| Err(DecodeError::Damaged { format, reason });
        let length = span.len() as u64;
        let at = |position: u64| seconds(position.saturating_sub(span.start as u64), rate);
        if let Some(stated) = stated.filter(|stated| *stated > length + self.slack()) {
            return damaged(format!(
                "it ends at {:.2} of {:.2} seconds",
                seconds(length, rate),
                seconds(stated, rate)
            ));
        }
        if self.missing.saturating_mul(10) > length {
            let first = self.holes.first().cloned().unwrap_or_default();
            return damaged(format!(
                "{:.2} of {:.2} seconds cannot be read, the first at {:.2} to {:.2} seconds",
                seconds(self.missing, rate),
                seconds(length, rate),
                at(first.start),
                at(first.end)
            ));
        }
        let end = span.end as u64;
        let inside = self.holes.iter().filter(|hole| hole.start < end);
        let mut spans: Vec<DamagedSpan> = inside
            .map(|hole| DamagedSpan {
                start: at(hole.start),
                end: at(hole.end.min(end)),
            })
            .filter(|span| span.end > span.start)
            .collect();
        if self.ends_early {
            let end = seconds(length, rate);
            spans.push(DamagedSpan { start: end, end });
        }
        Ok(spans)
    }
}

#[expect(clippy::cast_precision_loss, reason = "lengths are far below 2^52")]
fn seconds(samples: u64, rate: u32) -> f64 {
    samples as f64 / f64::from(rate.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_found_by_position() {
        let mut exact = Timeline::new(Precision::Exact, Some(0));
        let gaps =
            [(0, 10), (10, 10), (25, 10), (35, 5)].map(|(at, length)| exact.place(at, length));
        assert_eq!(gaps, [0, 0, 5, 0]);
        let mut rounded = Timeline::new(Precision::Rounded, None);
        let gaps = [(7, 10), (18, 10), (27, 10), (47, 10)];
        assert_eq!(
            gaps.map(|(at, length)| rounded.place(at, length)),
            [0, 0, 0, 10]
        );
        let mut unstated = Timeline::new(Precision::Rounded, None);
        let gaps = [0, 10, 21, 50].map(|at| {
            let gap = unstated.place(at, 0);
            unstated.extend(10);
            gap
        });
        assert_eq!(gaps, [0, 0, 0, 19]);
    }

    #[test]
    fn a_tenth_is_told_and_more_is_refused() {
        let judge = |missing, stated| {
            let mut timeline = Timeline::new(Precision::Exact, Some(0));
            timeline.add_hole(20, missing);
            timeline.judge(AudioFormat::Flac, 10, &(0..100), stated)
        };
        assert_eq!(
            judge(10, Some(100)),
            Ok(vec![DamagedSpan {
                start: 2.0,
                end: 3.0
            }])
        );
        let text = |result: Result<_, DecodeError>| result.unwrap_err().to_string();
        assert!(text(judge(11, None)).contains("the first at 2.00 to 3.10 seconds"));
        assert!(text(judge(1, Some(101))).contains("ends at 10.00 of 10.10 seconds"));
    }
}
