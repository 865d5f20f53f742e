//! Redaction of text that a provider wrote: removes the credential and its parts, strings that look
//! like keys, URLs, hosts, and file paths.
//!
//! Providers quote requests in their errors, and their errors reach callers,
//! logs and the console.

use std::net::{IpAddr, SocketAddr};

use crate::error::ProviderError;
use crate::secret::Secret;

/// Longest message.
const MAX_MESSAGE_CHARS: usize = 300;
/// Longest code.
const MAX_CODE_CHARS: usize = 100;
/// Shortest part of a secret that is removed, in bytes.
const MIN_SECRET_PART: usize = 6;
/// A run of characters as long as this may be a key.
const MIN_KEY_CHARS: usize = 32;
/// Replaces removed text.
const REDACTED: &str = "…";

/// The error without secret text.
#[must_use]
pub fn error(mut error: ProviderError, secret: &Secret) -> ProviderError {
    error.message = short(&error.message, secret, MAX_MESSAGE_CHARS);
    error.code = error.code.map(|code| short(&code, secret, MAX_CODE_CHARS));
    error
}

/// The text without secrets, shortened.
pub fn redact(text: &str, secret: &Secret) -> String {
    short(text, secret, MAX_MESSAGE_CHARS)
}

/// Like [`redact`], with at most this many characters.
pub fn short(text: &str, secret: &Secret, max_chars: usize) -> String {
    let text = one_line(text);
    let text = without_secret(&text, secret);
    let text = without_keys(&without_hosts(&without_addresses(&text)));
    // A placeholder such as `[address]` may itself be the secret, or complete it.
    let text = without_secret(&text, secret);
    if text.chars().count() <= max_chars {
        return text;
    }
    let shortened: String = text.chars().take(max_chars.saturating_sub(1)).collect();
    format!("{shortened}{REDACTED}")
}

/// Replaces control characters and bidirectional marks by spaces.
fn one_line(text: &str) -> String {
    let is_hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    let visible: String = text
        .chars()
        .map(|c| if is_hidden(c) { ' ' } else { c })
        .collect();
    visible.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn without_secret(text: &str, secret: &Secret) -> String {
    let secret = secret.expose();
    // Keys may be pairs (`ID:KEY`), and a provider may quote one half. Shorter parts are left,
    // because they may occur in ordinary words.
    let parts = secret
        .split([':', '|'])
        .filter(|part| part.len() >= MIN_SECRET_PART);
    let mut secret_parts: Vec<&str> = parts
        .chain((!secret.is_empty()).then_some(secret))
        .collect();
    // The longest first: otherwise, removing a shorter part first would leave the rest of a longer
    // one.
    secret_parts.sort_by_key(|part| std::cmp::Reverse(part.len()));
    let mut text = text.to_owned();
    for part in secret_parts {
        text = text.replace(part, REDACTED);
    }
    text
}

/// Removes `scheme://…` up to the first character that cannot be in a URL.
fn without_addresses(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(separator) = rest.find("://") {
        let prefix = &rest[..separator];
        let scheme =
            prefix.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || "+.-".contains(c));
        out.push_str(scheme);
        out.push_str("[address]");
        let end = rest[separator..].find([' ', '"', '\'', '<', '>', ')', ']', '}', '`', '|']);
        rest = end.map_or("", |end| &rest[separator + end..]);
    }
    out.push_str(rest);
    out
}

/// Removes IP addresses, hosts with a port, and names that exist only in private networks.
fn without_hosts(text: &str) -> String {
    let in_host = |c: char| c.is_ascii_alphanumeric() || ".:-_[]".contains(c);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let (gap, from_run) = rest.split_at(rest.find(in_host).unwrap_or(rest.len()));
        let end = from_run.find(|c| !in_host(c)).unwrap_or(from_run.len());
        let (run, after) = from_run.split_at(end);
        // A sentence may end after the host.
        let name = run.trim_end_matches(['.', ':', '-']);
        // `peer:10.0.0.1`
        let label_end = name.find(':').map_or(0, |colon| colon + 1);
        let starts = [0, label_end];
        let start = starts.into_iter().find(|start| is_host(&name[*start..]));
        out.push_str(gap);
        match start {
            Some(start) => {
                out.push_str(&name[..start]);
                out.push_str("[address]");
                out.push_str(&run[name.len()..]);
            }
            None => out.push_str(run),
        }
        rest = after;
    }
    out
}

/// Whether a text is an IP address, a dotted name with a port, or a private name.
fn is_host(text: &str) -> bool {
    const PRIVATE_ENDINGS: [&str; 6] =
        [".internal", ".local", ".localhost", ".lan", ".corp", ".svc"];
    let literal = text.trim_start_matches('[').trim_end_matches(']');
    // `::` alone is more often a separator.
    if literal.len() > 2 && literal.parse::<IpAddr>().is_ok() || text.parse::<SocketAddr>().is_ok()
    {
        return true;
    }
    let is_port = |port: &str| port.len() >= 2 && port.parse::<u16>().is_ok();
    let (name, has_port) = match text.rsplit_once(':') {
        Some((name, port)) if is_port(port) => (name, true),
        _ => (text, false),
    };
    let is_label = |label: &str| {
        !label.is_empty()
            && label
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
    };
    let mut last_label = name.rsplit('.').next().unwrap_or_default().chars();
    let is_dotted = name.contains('.') && last_label.all(|c| c.is_ascii_alphabetic());
    let lower_case = name.to_ascii_lowercase();
    let is_private = PRIVATE_ENDINGS.iter().any(|end| lower_case.ends_with(end));
    is_dotted && name.split('.').all(is_label) && (has_port || is_private)
}

/// Removes keys and paths, by examining runs of the characters that they consist of.
fn without_keys(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut previous_run = "";
    while !rest.is_empty() {
        let (gap, from_run) = rest.split_at(rest.find(in_run).unwrap_or(rest.len()));
        let end = from_run.find(|c| !in_run(c));
        let (run, after) = from_run.split_at(end.unwrap_or(from_run.len()));
        out.push_str(gap);
        let names_secret = is_named(previous_run, gap, run);
        out.push_str(match () {
            () if is_path(run) => "[path]",
            () if names_secret || is_key(run) => REDACTED,
            () => run,
        });
        (previous_run, rest) = (run, after);
    }
    out
}

fn in_run(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-+/.\\~*%".contains(c)
}

/// Whether a run is a path: `/home/…`, `C:\…`, `../…`.
fn is_path(run: &str) -> bool {
    let separators = run.matches(['/', '\\']).count();
    let starts_like_path =
        run.starts_with(['/', '\\']) || run.starts_with("~/") || run.starts_with("..");
    starts_like_path && separators >= 2 || run.starts_with("~/")
}

/// Whether the text before a run says that it is a secret: `Bearer abc`, `api_key=abc1`,
/// `"token": "abc1"`.
fn is_named(previous_run: &str, gap: &str, run: &str) -> bool {
    let previous_run = previous_run.to_ascii_lowercase();
    if gap == " " && matches!(previous_run.as_str(), "bearer" | "basic") {
        return true;
    }
    let names = ["key", "token", "secret", "password", "authorization"];
    let has_secret_name = names.iter().any(|name| previous_run.ends_with(name));
    let is_assigned = gap.contains([':', '=']) && gap.chars().all(|c| ":=\"' ".contains(c));
    // "Invalid key: please check" is a sentence, not a key.
    let is_word = run.chars().all(|c| c.is_ascii_alphabetic());
    has_secret_name && is_assigned && run.len() >= MIN_SECRET_PART && !is_word
}

fn is_key(run: &str) -> bool {
    const BEGINNINGS: [&str; 8] = ["sk-", "sk_", "pk_", "rk_", "r8_", "hf_", "xai-", "AIza"];
    let has_known_prefix = BEGINNINGS.iter().any(|start| run.starts_with(start));
    if has_known_prefix && run.len() >= 12 {
        return true;
    }
    // Names of models and errors are long too, but made of words and numbers.
    let segments = run.split(['-', '_', '.', '/']);
    let random_chars: usize = segments
        .filter(|segment| !is_word(segment))
        .map(str::len)
        .sum();
    run.len() >= MIN_KEY_CHARS && random_chars * 2 >= run.len()
}

/// Whether a segment is a number, or letters in words of ordinary length (`CamelCase` too).
fn is_word(segment: &str) -> bool {
    if segment.chars().all(|c| c.is_ascii_digit()) {
        return segment.len() < MIN_KEY_CHARS;
    }
    let word_count = 1 + segment.chars().filter(char::is_ascii_uppercase).count();
    let is_all_capitals = segment.chars().all(|c| c.is_ascii_uppercase());
    let longest = segment
        .split(|c: char| c.is_ascii_uppercase())
        .map(str::len)
        .max();
    segment.chars().all(|c| c.is_ascii_alphabetic())
        && if is_all_capitals {
            segment.len() < 24
        } else {
            longest.unwrap_or(0) < 24 && segment.len() / word_count >= 3
        }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn redact_text(text: &str) -> String {
        redact(text, &Secret::new("id-4711:top|hunter2hunter2"))
    }

    #[test]
    fn keys_addresses_and_paths_are_cut() {
        for (text, shown) in [
            ("Incorrect API key: hunter2hunter2", "Incorrect API key: …"),
            ("id-4711 may not do this", "… may not do this"),
            ("id-4711:top|hunter2hunter2 is wrong", "… is wrong"),
            (
                "Incorrect API key provided: sk-abc***********xyz.",
                "Incorrect API key provided: …",
            ),
            (
                "Authorization: Bearer abc.def is wrong",
                "Authorization: Bearer … is wrong",
            ),
            ("{\"api_key\": \"a1b2c3d4\"}", "{\"api_key\": \"…\"}"),
            ("see https://x.com/a?sig=1, then", "see [address] then"),
            ("(http://10.0.0.1:8000/x)", "([address])"),
            ("host 10.1.2.3 said no", "host [address] said no"),
            ("peer 192.168.0.5:8443 reset", "peer [address] reset"),
            ("peer:192.168.0.5, reset.", "peer:[address], reset."),
            (
                "at [fd00::1]:80 and fe80::1.",
                "at [address] and [address].",
            ),
            (
                "connect to render-7.internal.acme.example:9000 failed",
                "connect to [address] failed",
            ),
            ("no Gpu-3.Render.SVC: gone", "no [address]: gone"),
            (
                "veo-3.1 v1.2.3 at 12:30:45: std::vec, x::y, input.seconds: 10, see docs.acme.com.",
                "veo-3.1 v1.2.3 at 12:30:45: std::vec, x::y, input.seconds: 10, see docs.acme.com.",
            ),
            ("no /home/me/models/wan.safetensors", "no [path]"),
            ("no C:\\Users\\me\\x.mp4", "no C:[path]"),
            (
                "id 9f86d081884c7d659a2feaa0c55ad015 is busy",
                "id … is busy",
            ),
            ("3f2b8c1d-77aa-4c1e-9b1d-0a1b2c3d4e5f", "…"),
            (
                "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2ln",
                "…",
            ),
            ("a\nb\u{202e}c\u{0}d", "a b c d"),
        ] {
            assert_eq!(redact_text(text), shown);
        }
    }

    #[test]
    fn helpful_text_is_kept() {
        for text in [
            "Model veo-3.0-fast-generate-preview-001 was not found",
            "InputImageSensitiveContentDetected.PrivacyInformation",
            "CONTENT_POLICY_VIOLATION_DETECTED_IN_PROMPT",
            "doubao-seedance-1-0-pro-fast-251015 and/or 1/2",
            "the provider's answer has no data.task_id",
            "Invalid key: please check",
            "视频生成失败: 40% (code 1026)",
        ] {
            assert_eq!(redact_text(text), text);
        }
    }

    proptest! {
        #[test]
        fn no_secret_survives(
            secret in "[!-~]{6,60}",
            before in ".{0,200}",
            after in ".{0,200}",
        ) {
            let text = format!("{before}{secret}{after}");
            let shown = redact(&text, &Secret::new(&secret));
            prop_assert!(!shown.contains(&secret), "{shown}");
            for part in secret.split([':', '|']).filter(|part| part.len() >= MIN_SECRET_PART) {
                prop_assert!(!shown.contains(part), "{shown}");
            }
            prop_assert!(shown.chars().count() <= MAX_MESSAGE_CHARS);
            prop_assert!(!shown.chars().any(char::is_control));
        }
    }
}
