//! Sizes as providers write them.

/// The size as in `1280x720`, with `separator` between the numbers.
pub fn size_text((width, height): (u32, u32), separator: char) -> String {
    format!("{width}{separator}{height}")
}

/// The usual name of a size's shape: `16:9`, `9:16`, `1:1`, `4:3`, `3:4`,
/// `21:9`, … whichever is nearest.
pub fn ratio(size: (u32, u32)) -> &'static str {
    nearest(size).0
}

/// Whether a size has nearly the shape that [`ratio`] returns, so that naming the ratio does not
/// change the shape of the result.
pub fn has_usual_ratio(size: (u32, u32)) -> bool {
    // 854×480 and 1366×768 are called 16:9, 1024×1792 is called 9:16.
    nearest(size).1 < 0.025
}

/// The named shape nearest to a size, and the distance: 0.01 means that the ratios differ by 1 %.
fn nearest((width, height): (u32, u32)) -> (&'static str, f64) {
    const NAMED_RATIOS: [(&str, f64); 9] = [
        ("16:9", 16.0 / 9.0),
        ("9:16", 9.0 / 16.0),
        ("1:1", 1.0),
        ("4:3", 4.0 / 3.0),
        ("3:4", 3.0 / 4.0),
        ("3:2", 3.0 / 2.0),
        ("2:3", 2.0 / 3.0),
        ("21:9", 21.0 / 9.0),
        ("9:21", 9.0 / 21.0),
    ];
    let target_ratio = f64::from(width.max(1)) / f64::from(height.max(1));
    // By the logarithm, in which wide and tall shapes are equally far apart.
    let distances = NAMED_RATIOS.map(|(name, ratio)| (name, (ratio / target_ratio).ln().abs()));
    let nearest = distances.into_iter().min_by(|a, b| a.1.total_cmp(&b.1));
    nearest.unwrap_or(("16:9", 0.0))
}

/// The usual name of a size's resolution, by its shorter side: `480p`, `720p`, …
pub fn tier((width, height): (u32, u32)) -> String {
    format!("{}p", width.min(height))
}

/// Whether a name matches a pattern, which may have `*` at either end.
pub(crate) fn fits(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(_), Some(_)) => name.contains(pattern.trim_matches('*')),
        (Some(suffix), None) => name.ends_with(suffix),
        (None, Some(prefix)) => name.starts_with(prefix),
        (None, None) => pattern == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_usual_names() {
        assert_eq!(size_text((1280, 720), ':'), "1280:720");
        assert_eq!(
            (ratio((1280, 720)), tier((1280, 720)).as_str()),
            ("16:9", "720p")
        );
        assert_eq!(
            (ratio((720, 1280)), tier((720, 1280)).as_str()),
            ("9:16", "720p")
        );
        assert_eq!(ratio((1024, 1792)), "9:16");
        assert_eq!(ratio((1470, 630)), "21:9");
        for usual in [
            (1366, 768),
            (480, 854),
            (1024, 1792),
            (1470, 630),
            (960, 960),
        ] {
            assert!(has_usual_ratio(usual), "{usual:?}");
        }
        for strange in [(1000, 720), (1920, 800), (600, 500), (4000, 720)] {
            assert!(!has_usual_ratio(strange), "{strange:?}");
        }
    }
}
