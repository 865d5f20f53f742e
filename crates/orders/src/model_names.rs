//! Model names that someone other than the operator can influence: a route for `*` passes on the
//! caller's name, and some protocols put it into a path.
//!
//! A name that passes is sent unchanged. Nothing in it can be read as another path, so the name
//! that the gateway looked up is the one that the provider gets.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Which model names can be sent to a provider.
///
/// A name has 1 to 200 of the characters `A-Z a-z 0-9 . _ : / @ -`, no empty segment, and no two
/// dots in a row. An adapter may restrict names to the form of its provider's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelNames {
    /// Maximum number of segments between slashes.
    pub most_segments: usize,
    /// Whether a colon may be in a name; not if it separates a verb, or a version that is sent
    /// instead of the name.
    pub colons: bool,
    /// Segments that mean something else to the provider.
    pub reserved: &'static [&'static str],
}

impl ModelNames {
    /// Any name in this alphabet.
    pub const ANY: Self = Self {
        most_segments: usize::MAX,
        colons: true,
        reserved: &[],
    };

    /// One segment of a path, without a verb.
    pub const SEGMENT: Self = Self {
        most_segments: 1,
        colons: false,
        reserved: &[],
    };

    /// Whether this name can be sent.
    pub fn takes(&self, name: &str) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/@-".contains(&byte);
        let is_allowed = |segment: &str| {
            !segment.is_empty() && segment != "." && !self.reserved.contains(&segment)
        };
        name.len() <= MAX_NAME_BYTES
            && name.bytes().all(is_plain)
            && !name.contains("..")
            && (self.colons || !name.contains(':'))
            && name.split('/').all(is_allowed)
            && name.split('/').count() <= self.most_segments
    }
}

/// A name as part of a path, each of its segments encoded.
pub fn encode_path(name: &str) -> Cow<'_, str> {
    const PATH_CHARS: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'.')
        .remove(b'_')
        .remove(b':')
        .remove(b'/')
        .remove(b'@')
        .remove(b'-');
    utf8_percent_encode(name, PATH_CHARS).into()
}

/// Whether a path means what is written: no segment, even if decoded repeatedly, changes the path,
/// and nothing ends it early.
pub fn is_plain_path(path: &str) -> bool {
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    if path.contains(['\\', '#']) || path.contains("//") || path.contains(char::is_control) {
        return false;
    }
    let mut text = path.to_owned();
    loop {
        let leads_away = |segment: &str| matches!(segment, "." | "..");
        if text.split(['/', '\\']).any(leads_away) || text.contains(char::is_control) {
            return false;
        }
        let decoded = percent_encoding::percent_decode_str(&text)
            .decode_utf8_lossy()
            .into_owned();
        if decoded == text {
            return true;
        }
        text = decoded;
    }
}

const MAX_NAME_BYTES: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    /// Path traversals that were once possible.
    const PATH_TRAVERSALS: [&str; 18] = [
        "veo-x/../../billing/x?y=1",
        "veo-x/%2e%2e/billing",
        "veo-x%2f..%2fbilling",
        "veo-x%252f..%252fbilling",
        "veo-x/./billing",
        "veo-x\\..\\billing",
        "veo-x#billing",
        "veo-x//billing",
        "veo-x\r\nbilling",
        "veo-x\tbilling",
        "veo-x/..",
        "veo-x..",
        "..",
        ".",
        "/veo-x",
        "veo-x/",
        "veo-x?y=1",
        "",
    ];

    #[test]
    fn path_traversals_are_not_accepted_as_names() {
        for name in PATH_TRAVERSALS {
            assert!(!ModelNames::ANY.takes(name), "{name:?}");
        }
        for name in [
            "veo-3.1",
            "fal-ai/veo3.1",
            "google/veo:1f2e",
            "@cf/black_forest",
        ] {
            assert!(ModelNames::ANY.takes(name), "{name:?}");
        }
        assert!(!ModelNames::ANY.takes(&"x".repeat(201)));
    }

    #[test]
    fn an_adapter_can_narrow_the_accepted_names() {
        for name in ["veo-3.1/operations", "veo-3.1:delete"] {
            assert!(!ModelNames::SEGMENT.takes(name), "{name:?}");
        }
        let two_segments = ModelNames {
            most_segments: 2,
            reserved: &["requests"],
            ..ModelNames::ANY
        };
        assert!(
            two_segments.takes("a/b")
                && !two_segments.takes("a/b/c")
                && !two_segments.takes("a/requests")
        );
    }

    #[test]
    fn only_plain_paths_are_sent() {
        for path in [
            "/videos/task_1",
            "/upload/",
            "",
            "/a%2Fb",
            "/a?next=../b//c#",
        ] {
            assert!(is_plain_path(path), "{path:?}");
        }
        for path in [
            "/a/../b",
            "/a/%2e%2E/b",
            "/a%2f..%2fb",
            "/a%252f%252e.%252fb",
            "/a/./b",
            "/a\\b",
            "/a#b",
            "/a//b",
            "/a\r\nb",
            "/a%0d%0ab",
            "/a/..",
        ] {
            assert!(!is_plain_path(path), "{path:?}");
        }
    }
}
