//! Random numbers from a seed: equal seeds give equal numbers, and each concurrent actor
//! has a generator of its own.

use std::time::Duration;

/// A generator, `splitmix64`.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Independent dice for a concurrent actor.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.next())
    }

    /// A random number from 0 to `below`, exclusive.
    pub(crate) fn roll(&mut self, below: u64) -> u64 {
        self.next() % below.max(1)
    }

    /// A random number from `least` to `most`, both included.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.roll(most - least + 1)
    }

    /// True with this probability.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.roll(100) < percent
    }

    /// One of them.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        let index = usize::try_from(self.roll(items.len() as u64)).unwrap();
        &items[index]
    }

    /// A time between these.
    pub(crate) fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.between(least, most))
    }

    /// A mark for one intent, found wherever it leaves a trace.
    pub(crate) fn tag(&mut self) -> String {
        format!("mg-{:016x}{:016x}", self.next(), self.next())
    }
}

/// Length of a tag.
const TAG: usize = 35;

/// The tag in a text, if there is one.
pub(crate) fn tag_in(text: &str) -> Option<&str> {
    text.match_indices("mg-").find_map(|(start, _)| {
        let tag = text.get(start..start + TAG)?;
        let is_tag = tag[3..].bytes().all(|byte| byte.is_ascii_hexdigit());
        is_tag.then_some(tag)
    })
}
