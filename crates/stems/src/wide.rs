//! Lets inner loops use the widest vector instructions that the machine has.
//!
//! The crate is built for any processor of its kind, which on x86 means vectors of four numbers.
//! Work given to [`wide`] is compiled a second time for AVX2 and chosen at run time. Additions and
//! multiplications stay what they are written as, so that both give the same bytes.

/// Runs `work`; what it calls must be inlined to profit.
#[expect(clippy::inline_always, reason = "a function of its own would not be compiled twice")]
#[inline(always)]
pub fn wide<R>(work: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(work)
}
