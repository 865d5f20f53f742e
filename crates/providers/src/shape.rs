//! Sizes as providers write them.

/// `1280x720`, with any character between the numbers.
pub fn size_text((width, height): (u32, u32), between: char) -> String {
    format!("{width}{between}{height}")
}

/// The usual name of a size's shape: `16:9`, `9:16`, `1:1`, `4:3`, `3:4`,
/// `21:9`, … whichever is nearest.
pub fn ratio((width, height): (u32, u32)) -> &'static str {
    const USUAL: [(&str, f64); 9] = [
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
    let wanted = f64::from(width.max(1)) / f64::from(height.max(1));
    let distance = |ratio: f64| (ratio / wanted).ln().abs();
    let nearest = USUAL
        .iter()
        .min_by(|a, b| distance(a.1).total_cmp(&distance(b.1)));
    nearest.map_or("16:9", |(name, _)| name)
}

/// The usual name of a size's fineness, by its shorter side: `480p`, `720p`, …
pub fn tier((width, height): (u32, u32)) -> String {
    format!("{}p", width.min(height))
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
    }
}
