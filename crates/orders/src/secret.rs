//! Text that cannot be printed, logged or serialised by accident, and is wiped when it is dropped.

use std::fmt;
use std::hash::{Hash, Hasher};

use zeroize::Zeroizing;

/// A secret value. `Debug` and `Display` show only that there is one. Its memory is overwritten
/// when it is dropped; a `String` passed to it is moved, not copied.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Wraps a secret.
    pub fn new(value: impl Into<String>) -> Self {
        Self(Zeroizing::new(value.into()))
    }

    /// The secret itself, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl Hash for Secret {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_str().hash(state);
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("********")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("********")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_takes_over_its_text_and_wipes_it() {
        const fn assert_zeroized_on_drop<T: zeroize::ZeroizeOnDrop>(_: &T) {}
        let text = "hunter2".repeat(4);
        let address = text.as_ptr();
        let secret = Secret::new(text);
        assert_eq!(secret.expose().as_ptr(), address, "no copy is left behind");
        // Freed memory cannot be inspected, so the type is checked instead.
        assert_zeroized_on_drop(&secret.0);
    }
}
