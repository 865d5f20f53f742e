//! Settings that a provider reads from the text of a prompt. A setting that changes the result or
//! its cost would bypass the price, so no prompt with such a setting is sent.

/// The settings that Seedance reads, at any provider: `--dur 5`, in the long form or the short one.
pub const SEEDANCE: &[&str] = &[
    "resolution",
    "rs",
    "ratio",
    "rt",
    "duration",
    "dur",
    "frames",
    "framespersecond",
    "fps",
    "watermark",
    "wm",
    "seed",
    "camerafixed",
    "camera_fixed",
    "cf",
    "generate_audio",
    "draft",
    "service_tier",
];

/// The first of these settings in a prompt: after two hyphens, in upper or lower case.
pub fn setting_in(prompt: &str, names: &[&'static str]) -> Option<&'static str> {
    if names.is_empty() {
        return None;
    }
    let candidates = prompt
        .match_indices("--")
        .map(|(start, _)| prompt[start..].trim_start_matches('-'));
    candidates
        .filter_map(|text| {
            let is_name_char = |c: char| c.is_ascii_alphabetic() || c == '_';
            let end = text.find(|c| !is_name_char(c)).unwrap_or(text.len());
            let name = &text[..end];
            names
                .iter()
                .find(|setting| setting.eq_ignore_ascii_case(name))
        })
        .copied()
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_found_in_any_form() {
        for (prompt, setting) in [
            ("a lake --rs 1080p", "rs"),
            ("a lake --Resolution=1080p", "resolution"),
            ("--dur12 a lake", "dur"),
            ("a lake\n--duration 12", "duration"),
            ("a lake,--fps 60", "fps"),
            ("a lake ---rt 1:1", "rt"),
            ("a lake --unknown 1 --seed 5", "seed"),
            ("a lake --cf", "cf"),
            ("湖 --wm false", "wm"),
        ] {
            assert_eq!(setting_in(prompt, SEEDANCE), Some(setting), "{prompt}");
        }
        for prompt in [
            "a lake -- ratio of gold",
            "a durable--durable thing",
            "a lake -rs 1080p",
            "rs 1080p, dur 12",
            "a lake --",
            "a lake — rs 1080p",
        ] {
            assert_eq!(setting_in(prompt, SEEDANCE), None, "{prompt}");
        }
        assert_eq!(setting_in("a lake --rs 1080p", &[]), None);
    }
}
