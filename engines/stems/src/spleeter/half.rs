//! Conversion between 32-bit and 16-bit floating-point numbers (IEEE 754).

/// The nearest 16-bit number; ties go to the even one. Numbers beyond its range become infinite.
#[expect(clippy::cast_possible_truncation, reason = "parts of a number")]
pub(super) fn to_half(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return sign | 0x7e00;
    }
    // The first number that rounds to more than the largest one, 65,504.
    if magnitude >= 0x477f_f000 {
        return sign | 0x7c00;
    }
    // Below the smallest normal one, 2^-14, all numbers are multiples of 2^-24.
    if magnitude < 0x3880_0000 {
        let multiples = f32::from_bits(magnitude) * 16_777_216.0;
        return sign | to_even(multiples);
    }
    let rounded = magnitude + 0x0fff + ((magnitude >> 13) & 1);
    sign | ((rounded - 0x3800_0000) >> 13) as u16
}

/// The nearest whole number; `value` is at most 1,024.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "at most 1,024"
)]
fn to_even(value: f32) -> u16 {
    value.round_ties_even() as u16
}

pub(super) fn from_half(half: u16) -> f32 {
    let sign = u32::from(half & 0x8000) << 16;
    let (exponent, fraction) = (u32::from(half >> 10) & 0x1f, u32::from(half & 0x03ff));
    match exponent {
        0 => {
            let magnitude = f32::from(half & 0x03ff) / 16_777_216.0;
            f32::from_bits(sign | magnitude.to_bits())
        }
        0x1f => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_survives_and_others_go_to_the_nearest() {
        for half in 0..=u16::MAX {
            let value = from_half(half);
            if value.is_nan() {
                assert!(from_half(to_half(value)).is_nan());
            } else {
                assert_eq!(to_half(value), half, "{value}");
            }
        }
        // The largest number, the first that is too large, a tie between 1 and 1 + 2^-10, one
        // above it, and a tie between nothing and the smallest number.
        let cases = [
            (65_519.0, 0x7bff),
            (65_520.0, 0x7c00),
            (1.0 + 1.0 / 2_048.0, 0x3c00),
            (1.0 + 1.01 / 2_048.0, 0x3c01),
            (-1.0 - 3.0 / 2_048.0, 0xbc02),
            (2.0f32.powi(-25), 0),
            (2.0f32.powi(-25) * 1.01, 1),
        ];
        for (value, half) in cases {
            assert_eq!(to_half(value), half, "{value}");
        }
    }
}
