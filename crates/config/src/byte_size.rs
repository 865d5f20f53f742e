//! Byte sizes: `20GB`, `512MiB`, `1000000`.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
use serde::ser::{Serialize, Serializer};

/// The units, largest first; a number is shown in the first that divides it.
const UNITS: [(&str, u64); 9] = [
    ("TB", 1_000_000_000_000),
    ("TiB", 1 << 40),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("kB", 1000),
    ("KiB", 1 << 10),
    ("B", 1),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// Not a byte size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a number of bytes such as \"20GB\" or \"512MiB\"")]
pub struct InvalidByteSize;

impl FromStr for ByteSize {
    type Err = InvalidByteSize;

    fn from_str(text: &str) -> Result<Self, InvalidByteSize> {
        let text = text.trim();
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| InvalidByteSize)?;
        let unit = match unit.trim_start() {
            "" => 1,
            unit => UNITS
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(unit))
                .map(|(_, bytes)| *bytes)
                .ok_or(InvalidByteSize)?,
        };
        let bytes = number.checked_mul(unit).ok_or(InvalidByteSize)?;
        // The database stores them as i64.
        i64::try_from(bytes).map_err(|_| InvalidByteSize)?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only a unit that divides it without a remainder, so that what is shown reads back as the
        // same number.
        let fits = |(_, bytes): &&(&str, u64)| self.0 >= *bytes && self.0.is_multiple_of(*bytes);
        let (name, bytes) = UNITS.iter().find(fits).unwrap_or(&("B", 1));
        write!(f, "{}{name}", self.0 / bytes)
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ByteSizeVisitor;

        impl Visitor<'_> for ByteSizeVisitor {
            type Value = ByteSize;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes such as \"20GB\"")
            }

            // TOML has only signed integers.
            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<ByteSize, E> {
                u64::try_from(number)
                    .map(ByteSize)
                    .map_err(|_| E::custom(InvalidByteSize))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ByteSize, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer
            .deserialize_any(ByteSizeVisitor)
            .map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_shown() {
        for (text, bytes, shown) in [
            ("20GB", 20_000_000_000, "20GB"),
            ("20 gb", 20_000_000_000, "20GB"),
            ("512MiB", 536_870_912, "512MiB"),
            ("1000000", 1_000_000, "1MB"),
            ("1234", 1234, "1234B"),
            ("0", 0, "0B"),
        ] {
            let size: ByteSize = text.parse().unwrap();
            assert_eq!((size.0, size.to_string().as_str()), (bytes, shown));
            assert_eq!(size.to_string().parse(), Ok(size));
        }
        for text in ["", "GB", "-1", "1.5GB", "20XB", "99999999999TB"] {
            assert_eq!(text.parse::<ByteSize>(), Err(InvalidByteSize), "{text}");
        }
    }
}
