//! Quantities of work: ordered and delivered facts, and what of them is counted.

use providers::StemTarget;

use mediagate_model::price::WorkQuantity;
use mediagate_model::task::{Task, TaskPayload, VideoJob};

/// Tolerance for lengths: results that are shorter by up to this much still count as complete, and
/// results that are longer by up to this much do not count as surplus.
pub(super) const TOLERANCE_MS: u64 = 250;

/// The lengths of short films are rounded down to this.
const FILM_STEP_MS: u64 = 100;

/// Work that an order asks for, as far as prices count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderedWork {
    /// A film.
    Film {
        milliseconds: u64,
        /// `None` if the order leaves it to its picture.
        size: Option<(u32, u32)>,
    },
    /// Stems of a recording of this length.
    Stems { milliseconds: u64, stems: usize },
    /// A song with this many clips.
    Song {
        clips: usize,
        /// The most that any route may make of one clip.
        longest_clip_ms: u64,
    },
}

impl OrderedWork {
    /// The work of a task that was accepted. Its record does not say how long a song may be.
    pub fn of(payload: &TaskPayload) -> Self {
        match payload {
            TaskPayload::VideoV1(job) => Self::film(job),
            TaskPayload::StemsV1(job) => Self::Stems {
                milliseconds: job.milliseconds,
                stems: job.outputs.len(),
            },
            TaskPayload::SongV1(job) => Self::Song {
                clips: job.outputs.len(),
                longest_clip_ms: u64::MAX,
            },
        }
    }

    /// The film of a job.
    pub const fn film(job: &VideoJob) -> Self {
        Self::Film {
            milliseconds: job.milliseconds,
            size: Some((job.width, job.height)),
        }
    }
}

/// Work that was made: facts that were measured or counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveredWork {
    /// A film; what is `None` was not measured.
    Film {
        milliseconds: Option<u64>,
        /// Pixels per frame.
        pixels: Option<u64>,
    },
    /// These stems.
    Stems(Vec<StemTarget>),
    /// A song's clips, and what the order means at the route that made them.
    Song {
        clips: ClipLengths,
        terms: SongTerms,
    },
}

impl DeliveredWork {
    /// The number of films, stems or clips.
    pub fn parts(&self) -> usize {
        match self {
            Self::Film { .. } => 1,
            Self::Stems(stems) => stems.len(),
            Self::Song { clips, .. } => clips.count(),
        }
    }
}

/// Clips of a song.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClipLengths {
    /// The length of each in milliseconds, first of those that were ordered.
    Measured(Vec<u64>),
    /// Their number: nobody fetched and measured them.
    Counted(usize),
}

impl ClipLengths {
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Measured(lengths) => lengths.len(),
            Self::Counted(count) => *count,
        }
    }

    /// The length of the first `count` clips, if they were measured.
    pub(super) fn total_ms(&self, count: usize) -> Option<u64> {
        match self {
            Self::Measured(lengths) => Some(lengths.iter().take(count).sum()),
            Self::Counted(_) => None,
        }
    }
}

/// What a song's order means at one route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SongTerms {
    /// How many clips complete the order.
    pub clips: usize,
    /// The least length of a clip that nobody measures.
    pub least_clip_ms: u64,
}

/// The quantity that an order is quoted at, and that is reserved when it is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotedQuantity(WorkQuantity);

impl QuotedQuantity {
    pub fn of(order: OrderedWork) -> Self {
        let (milliseconds, pixels, parts) = match order {
            // One pixel is the least that a picture can have.
            OrderedWork::Film { milliseconds, size } => (milliseconds, size.map_or(1, area), 1),
            OrderedWork::Stems {
                milliseconds,
                stems,
            } => (milliseconds, 0, stems as u64),
            OrderedWork::Song {
                clips,
                longest_clip_ms,
            } => {
                let clips = clips as u64;
                (clips.saturating_mul(longest_clip_ms), 0, clips)
            }
        };
        Self(WorkQuantity {
            // An order of no length would be free.
            milliseconds: milliseconds.max(1),
            pixels,
            parts: parts.max(1),
            parts_asked: parts.max(1),
        })
    }

    pub const fn work(self) -> WorkQuantity {
        self.0
    }
}

/// The quantity that a task's reservation covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReservedQuantity(WorkQuantity);

impl ReservedQuantity {
    /// By the task's prices. A free task that has none covers what was ordered.
    pub fn of(task: &Task) -> Self {
        let tariff = task.tariff.as_ref();
        let ordered = || QuotedQuantity::of(OrderedWork::of(&task.payload)).work();
        Self(tariff.map_or_else(ordered, |tariff| tariff.asked))
    }

    pub const fn work(self) -> WorkQuantity {
        self.0
    }

    /// The number of ordered parts.
    pub(super) fn parts(self) -> usize {
        usize::try_from(self.0.parts_asked).unwrap_or(usize::MAX)
    }
}

/// The quantity that the caller is charged for, at most the reserved one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BilledQuantity(WorkQuantity);

impl BilledQuantity {
    /// Of a delivery; if it is `None`, nobody knows what was made, and what was reserved counts.
    pub fn of(task: &Task, delivered: Option<&DeliveredWork>) -> Self {
        let reserved = ReservedQuantity::of(task);
        let asked = reserved.work();
        Self(match delivered {
            None => asked,
            Some(DeliveredWork::Film {
                milliseconds,
                pixels,
            }) => WorkQuantity {
                milliseconds: film_ms(*milliseconds, asked.milliseconds),
                pixels: known(*pixels).map_or(asked.pixels, |pixels| pixels.min(asked.pixels)),
                ..asked
            },
            // If stems are missing, only a share of the recording's length is charged.
            Some(DeliveredWork::Stems(stems)) => {
                let parts = (stems.len() as u64).min(asked.parts_asked);
                let milliseconds = asked.milliseconds.saturating_mul(parts);
                WorkQuantity {
                    milliseconds: (milliseconds / asked.parts_asked.max(1)).max(1),
                    parts,
                    ..asked
                }
            }
            Some(DeliveredWork::Song { clips, terms }) => song(reserved, clips, *terms),
        })
    }

    pub const fn work(self) -> WorkQuantity {
        self.0
    }
}

/// The length of a film that is charged: the ordered one if the film is close enough, because
/// encoders cut films at frames, else its own, rounded down to a step, and at least one.
fn film_ms(made: Option<u64>, ordered: u64) -> u64 {
    match known(made) {
        Some(made) if made.saturating_add(TOLERANCE_MS) < ordered => {
            (made / FILM_STEP_MS).max(1) * FILM_STEP_MS
        }
        _ => ordered,
    }
}

/// A song counts with its own length, but not with more than was reserved; clips beyond the order
/// do not count. The reservation of a song may be a hundred times its length, so clips that nobody
/// measured count with their least length.
fn song(reserved: ReservedQuantity, clips: &ClipLengths, terms: SongTerms) -> WorkQuantity {
    let asked = reserved.work();
    let complete = terms.clips.max(1);
    let parts = clips.count().min(complete) as u64;
    let measured = known(clips.total_ms(reserved.parts()));
    let milliseconds = measured.unwrap_or_else(|| terms.least_clip_ms.saturating_mul(parts));
    WorkQuantity {
        milliseconds: milliseconds.max(1).min(asked.milliseconds),
        parts,
        // The number of ordered clips is that of the first route, and this one may make fewer.
        parts_asked: complete as u64,
        ..asked
    }
}

/// The quantity that a provider is paid for, unless the provider reports its cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveredQuantity(WorkQuantity);

impl DeliveredQuantity {
    /// What is charged, and what was delivered beyond it. If the delivery is `None`, what was
    /// reserved counts.
    pub fn of(task: &Task, delivered: Option<&DeliveredWork>) -> Self {
        let ordered = ReservedQuantity::of(task).work();
        let mut quantity = BilledQuantity::of(task, delivered).work();
        match delivered {
            Some(DeliveredWork::Film {
                milliseconds,
                pixels,
            }) => {
                let longer = milliseconds.filter(|made| is_longer(*made, ordered.milliseconds));
                let larger = pixels.filter(|made| is_larger(*made, ordered.pixels));
                quantity.milliseconds = longer.unwrap_or(quantity.milliseconds);
                quantity.pixels = larger.unwrap_or(quantity.pixels);
            }
            Some(DeliveredWork::Song { clips, .. }) => {
                let measured = known(clips.total_ms(usize::MAX));
                quantity.milliseconds = measured.unwrap_or(quantity.milliseconds);
            }
            Some(DeliveredWork::Stems(_)) | None => {}
        }
        Self(quantity)
    }

    pub const fn work(self) -> WorkQuantity {
        self.0
    }
}

/// Pixels of a frame, at least one.
fn area((width, height): (u32, u32)) -> u64 {
    (u64::from(width) * u64::from(height)).max(1)
}

/// A number that was measured; files that do not know theirs say zero.
fn known(measured: Option<u64>) -> Option<u64> {
    measured.filter(|number| *number > 0)
}

pub(super) const fn is_longer(delivered_ms: u64, ordered_ms: u64) -> bool {
    delivered_ms > ordered_ms.saturating_add(TOLERANCE_MS)
}

/// Whether the delivered size is of a larger resolution class: sizes of one class differ by less
/// than a fifth, and the next class has twice as many pixels.
pub(super) const fn is_larger(delivered: u64, ordered: u64) -> bool {
    delivered.saturating_mul(5) > ordered.saturating_mul(6)
}
