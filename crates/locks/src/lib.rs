//! Locks of the standard library without their poisoning.
//!
//! A panic ends one request or one task. The state behind a lock must stay usable for all others, so
//! each change under a lock leaves that state valid before anything that may panic.

use std::sync::{LockResult, Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also after a panic of another thread that held it.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    ignore_poison(mutex.lock())
}

/// The guard of any lock (`RwLock::read`, `Condvar::wait`), also after a panic of another thread
/// that held it.
pub fn ignore_poison<G>(result: LockResult<G>) -> G {
    result.unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::{Mutex, RwLock};

    use super::{ignore_poison, lock};

    #[test]
    fn a_panic_under_a_lock_leaves_its_value_to_others() {
        let mutex = Mutex::new(1);
        let shared = RwLock::new(1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            *lock(&mutex) = 2;
            let _mutex = lock(&mutex);
            let _shared = ignore_poison(shared.write());
            panic!("under both locks");
        }));
        assert!(panicked.is_err());
        assert!(mutex.is_poisoned() && shared.is_poisoned());
        assert_eq!(*lock(&mutex), 2);
        assert_eq!(*ignore_poison(shared.read()), 1);
    }
}
