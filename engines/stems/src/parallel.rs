//! A few threads for work on rows, and cooperative cancellation.
//!
//! Work is divided by position, and each piece computes the same numbers wherever it runs, so
//! results do not depend on the number of threads.

use crate::SeparateError;

/// The work was cancelled. Converted to the public error at the crate's public functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkCancelled;

impl From<WorkCancelled> for SeparateError {
    fn from(_: WorkCancelled) -> Self {
        Self::Cancelled
    }
}

/// Checks for cancellation, once per row of work.
#[derive(Clone, Copy)]
pub(crate) struct CancelCheck<'a>(pub(crate) &'a (dyn Fn() -> bool + Sync));

impl CancelCheck<'_> {
    pub(crate) fn check(self) -> Result<(), WorkCancelled> {
        if (self.0)() {
            Err(WorkCancelled)
        } else {
            Ok(())
        }
    }
}

/// More threads bring little: the work is memory-bound.
const MAX_THREADS: usize = 4;

/// Rows below which starting a thread costs more than it saves.
const MIN_ROWS: usize = 32;

/// Fills rows of `width` values, each by `fill(row index, row)`, on a few threads.
pub(crate) fn fill_rows<T: Send>(
    data: &mut [T],
    width: usize,
    stop: CancelCheck<'_>,
    fill: impl Fn(usize, &mut [T]) + Sync,
) -> Result<(), WorkCancelled> {
    let width = width.max(1);
    fill_bands(data, width, |first, band| {
        for (i, row) in band.chunks_exact_mut(width).enumerate() {
            stop.check()?;
            fill(first + i, row);
        }
        Ok(())
    })
}

/// Cuts rows of `width` values into one band for each thread and fills each band by `fill(index of
/// its first row, band)`. The content of a row must not depend on its band.
pub(crate) fn fill_bands<T: Send>(
    data: &mut [T],
    width: usize,
    fill: impl Fn(usize, &mut [T]) -> Result<(), WorkCancelled> + Sync,
) -> Result<(), WorkCancelled> {
    let width = width.max(1);
    let rows = data.len() / width;
    let threads = threads().min(rows / MIN_ROWS).max(1);
    let rows_per_thread = rows.div_ceil(threads).max(1);
    if threads == 1 {
        return fill(0, data);
    }
    std::thread::scope(|scope| {
        let fill = &fill;
        let bands = data.chunks_mut(rows_per_thread * width).enumerate();
        let handles: Vec<_> = bands
            .map(|(i, band)| scope.spawn(move || fill(i * rows_per_thread, band)))
            .collect();
        handles.into_iter().try_for_each(join)
    })
}

/// Runs two pieces of work in parallel if there is a second core.
pub(crate) fn run_both<A: Send, B: Send>(
    first: impl FnOnce() -> Result<A, WorkCancelled> + Send,
    second: impl FnOnce() -> Result<B, WorkCancelled> + Send,
) -> Result<(A, B), WorkCancelled> {
    if threads() == 1 {
        return Ok((first()?, second()?));
    }
    std::thread::scope(|scope| {
        let first = scope.spawn(first);
        let second = second();
        Ok((join(first)?, second?))
    })
}

/// Computes `compute(0..count)` on a few threads; results are in order.
pub(crate) fn map<T: Send>(
    count: usize,
    stop: CancelCheck<'_>,
    compute: impl Fn(usize) -> T + Sync,
) -> Result<Vec<T>, WorkCancelled> {
    let threads = threads().min(count).max(1);
    let per_thread = count.div_ceil(threads).max(1);
    let compute_chunk = |first: usize| {
        (first..count.min(first + per_thread))
            .map(|i| stop.check().map(|()| compute(i)))
            .collect()
    };
    if threads == 1 {
        return compute_chunk(0);
    }
    std::thread::scope(|scope| {
        let compute_chunk = &compute_chunk;
        let starts = (0..count).step_by(per_thread);
        let handles: Vec<_> = starts
            .map(|first| scope.spawn(move || compute_chunk(first)))
            .collect();
        let mut results = Vec::with_capacity(count);
        for thread in handles {
            results.extend(join::<Vec<T>>(thread)?);
        }
        Ok(results)
    })
}

/// The thread's result; if it panicked, panics too, as without threads.
fn join<T>(
    thread: std::thread::ScopedJoinHandle<'_, Result<T, WorkCancelled>>,
) -> Result<T, WorkCancelled> {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
thread_local! {
    /// Lets a test choose the number of threads.
    pub(crate) static FORCED_THREADS: std::cell::Cell<Option<usize>> =
        const { std::cell::Cell::new(None) };
}

fn threads() -> usize {
    #[cfg(test)]
    if let Some(threads) = FORCED_THREADS.get() {
        return threads;
    }
    std::thread::available_parallelism()
        .map_or(1, std::num::NonZero::get)
        .min(MAX_THREADS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_filled_once_and_a_cancellation_stops() {
        let mut data = vec![0usize; 1_000 * 3];
        fill_rows(&mut data, 3, CancelCheck(&|| false), |i, row| {
            row.fill(i + 1);
        })
        .unwrap();
        assert!(data.chunks(3).enumerate().all(|(i, row)| row == [i + 1; 3]));
        assert_eq!(
            fill_rows(&mut data, 3, CancelCheck(&|| true), |_, _| ()),
            Err(WorkCancelled)
        );
        assert_eq!(
            map(100, CancelCheck(&|| false), |i| i),
            Ok((0..100).collect::<Vec<_>>())
        );
        assert_eq!(run_both(|| Ok(1), || Ok(2)), Ok((1, 2)));
    }
}
