//! The gamma of PNG files that say nothing else about their colours. Shown as if it were sRGB, a
//! picture with linear samples would be dark.

/// A table from the file's values to sRGB; `None` if they are sRGB, or if the file has a profile.
pub(super) fn table(png: &[u8]) -> Option<[u8; 256]> {
    /// What `gAMA` says of sRGB, in hundred-thousandths.
    const SRGB: u32 = 45_455;
    /// Differences that nobody sees.
    const TOLERANCE: u32 = 1_500;
    let mut rest = png.get(8..)?;
    let mut gamma = None;
    loop {
        let length = u32::from_be_bytes(*rest.first_chunk()?) as usize;
        let contents = rest.get(8..8_usize.checked_add(length)?)?;
        match &rest[4..8] {
            b"gAMA" => gamma = contents.first_chunk().copied().map(u32::from_be_bytes),
            b"sRGB" | b"iCCP" | b"cICP" => return None,
            b"IDAT" | b"IEND" => break,
            _ => {}
        }
        rest = rest.get(12 + length..)?;
    }
    // Values outside this range are errors of programs.
    let gamma = gamma.filter(|gamma| (10_000..=500_000).contains(gamma))?;
    (gamma.abs_diff(SRGB) > TOLERANCE).then(|| to_srgb(f64::from(gamma) / 100_000.0))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "values from 0 to 255"
)]
fn to_srgb(gamma: f64) -> [u8; 256] {
    std::array::from_fn(|value| {
        let linear = (value as f64 / 255.0).powf(1.0 / gamma);
        let encoded = if linear <= 0.003_130_8 {
            linear * 12.92
        } else {
            1.055 * linear.powf(1.0 / 2.4) - 0.055
        };
        (encoded * 255.0).round().clamp(0.0, 255.0) as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(chunks: &[(&[u8; 4], &[u8])]) -> Vec<u8> {
        let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
        for (kind, contents) in chunks {
            file.extend(u32::try_from(contents.len()).unwrap().to_be_bytes());
            file.extend(*kind);
            file.extend(*contents);
            file.extend([0; 4]);
        }
        file
    }

    #[test]
    fn only_a_lone_gamma_counts() {
        let gamma = |gamma: u32| gamma.to_be_bytes();
        let of = |chunks: &[(&[u8; 4], &[u8])]| table(&png(chunks));
        let linear = of(&[(b"gAMA", &gamma(100_000)), (b"IDAT", b"")]).unwrap();
        assert_eq!((linear[0], linear[55], linear[255]), (0, 128, 255));
        assert_eq!(of(&[(b"gAMA", &gamma(45_455)), (b"IDAT", b"")]), None);
        assert_eq!(of(&[(b"gAMA", &gamma(0)), (b"IDAT", b"")]), None);
        let profiled = [
            (b"gAMA", &gamma(100_000)[..]),
            (b"sRGB", b"\0"),
            (b"IDAT", b""),
        ];
        assert_eq!(of(&profiled), None);
        assert_eq!(of(&[(b"IDAT", b"")]), None);
    }
}
