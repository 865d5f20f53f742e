//! Endpoints of fal as `endpoints.tsv` lists them: one a line.

use std::sync::LazyLock;

use crate::frame_size;

/// The format of a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LengthFormat {
    /// `5`
    Number,
    /// `"5"`
    Text,
    /// `"5s"`
    Seconds,
}

/// A line of `endpoints.tsv`.
#[derive(Debug, Clone)]
pub(super) struct FalEndpoint {
    pub(super) path: String,
    /// The field for the picture or the first frame.
    pub(super) picture: Option<&'static str>,
    pub(super) last: Option<&'static str>,
    pub(super) references: Option<&'static str>,
    /// Whether a picture is required.
    pub(super) needs_picture: bool,
    pub(super) seconds: Vec<u32>,
    pub(super) default_seconds: u32,
    /// The format of the length; `None` if there is no field for it.
    pub(super) length: Option<LengthFormat>,
    /// Resolutions by the shorter side, with the word for each, the default first.
    pub(super) tiers: Vec<(u32, &'static str)>,
    /// Whether there is a field `resolution`.
    pub(super) has_resolution: bool,
    /// Names of shapes; empty if there is no field for them.
    pub(super) shapes: Vec<&'static str>,
    /// `n` if it takes a negative prompt, `s` if it takes a seed; for the choice of sound see
    /// [`AUDIO`].
    pub(super) flags: &'static str,
}

/// Letters of the last column: the field that chooses between sound and none, and the default
/// without it.
const AUDIO: [(char, &str, bool); 4] = [
    ('a', "generate_audio", true),
    ('q', "generate_audio", false),
    ('w', "generate_audio_switch", false),
    ('v', "audio", true),
];

static KNOWN_ENDPOINTS: LazyLock<Vec<FalEndpoint>> =
    LazyLock::new(|| lines().filter_map(FalEndpoint::read).collect());

impl FalEndpoint {
    /// Reads a line; `None` when it is not one.
    pub(super) fn read(line: &'static str) -> Option<Self> {
        let mut columns = line.split('\t');
        let mut next_column = || columns.next();
        let path = next_column()?.to_owned();
        let (picture, picture_needed) = member(next_column()?);
        let (last, _) = member(next_column()?);
        let (references, references_needed) = member(next_column()?);
        let (lengths, default_length) = match next_column()?.split_once('/') {
            Some((lengths, default_length)) => (lengths, Some(default_length)),
            None => (path_length(line)?, None),
        };
        let numbers = lengths.trim_end_matches(|sign: char| sign.is_ascii_alphabetic());
        let length = match lengths.get(numbers.len()..)? {
            "n" => Some(LengthFormat::Number),
            "t" => Some(LengthFormat::Text),
            "s" => Some(LengthFormat::Seconds),
            _ => None,
        };
        let seconds = seconds(numbers)?;
        let tiers = next_column()?;
        let fixed_tiers = tiers.strip_prefix('=');
        let words = fixed_tiers.unwrap_or(tiers).split(',');
        let tiers = words.map(|word| Some((shorter_side(word)?, word)));
        let shapes = next_column()?.split(',').filter(|shape| *shape != "-");
        let flags = next_column()?;
        Some(Self {
            path,
            picture,
            last,
            references,
            needs_picture: picture_needed || references_needed,
            default_seconds: match default_length {
                Some(default_length) => default_length.parse().ok()?,
                None => *seconds.first()?,
            },
            seconds,
            length,
            tiers: tiers.collect::<Option<_>>()?,
            has_resolution: fixed_tiers.is_none(),
            shapes: shapes.collect(),
            flags,
        })
    }

    /// An unlisted endpoint, with what most models offer.
    pub(super) fn guess(path: &str) -> Self {
        let is_text_endpoint = path.contains("/text-to-video");
        let is_picture_endpoint = path.contains("-to-video") && !is_text_endpoint;
        Self {
            path: path.to_owned(),
            picture: (!is_text_endpoint).then_some("image_url"),
            last: None,
            references: None,
            needs_picture: is_picture_endpoint,
            seconds: vec![5],
            default_seconds: 5,
            length: Some(LengthFormat::Number),
            tiers: vec![(720, "720p")],
            has_resolution: true,
            // A picture brings its own shape.
            shapes: if is_picture_endpoint {
                Vec::new()
            } else {
                vec!["16:9", "9:16"]
            },
            flags: "s",
        }
    }

    pub(super) fn sizes(&self) -> Vec<(u32, u32)> {
        let shapes = match (self.shapes.is_empty(), self.needs_picture) {
            (false, _) => &self.shapes[..],
            // The picture decides the shape.
            (true, true) => &["16:9", "9:16"],
            (true, false) => &["16:9"],
        };
        // The most common shape first, whatever the endpoint's own order.
        let landscape = shapes.iter().filter(|shape| **shape == "16:9");
        let shapes: Vec<&str> = landscape
            .chain(shapes.iter().filter(|shape| **shape != "16:9"))
            .copied()
            .collect();
        let tiers = self.tiers.iter();
        let sizes =
            tiers.flat_map(|(tier, _)| shapes.iter().filter_map(|shape| size(*tier, shape)));
        sizes.collect()
    }

    /// The field that chooses between sound and none, and the default without it.
    pub(super) fn audio(&self) -> Option<(&'static str, bool)> {
        let column = AUDIO
            .iter()
            .find(|(letter, ..)| self.flags.contains(*letter));
        column.map(|(_, field, default)| (*field, *default))
    }

    /// The word for a size's resolution. A size that is not listed comes from the operator's
    /// limits, and gets the most common format.
    pub(super) fn tier(&self, size: (u32, u32)) -> String {
        let shorter_side = size.0.min(size.1);
        let known_tier = self.tiers.iter().find(|(tier, _)| *tier == shorter_side);
        known_tier.map_or_else(|| frame_size::tier(size), |(_, word)| (*word).to_owned())
    }
}

pub(super) fn lines() -> impl Iterator<Item = &'static str> {
    let file_lines = include_str!("endpoints.tsv").lines();
    file_lines.filter(|line| !line.starts_with('#') && !line.is_empty())
}

pub(super) fn find_endpoint(path: &str) -> Option<FalEndpoint> {
    KNOWN_ENDPOINTS
        .iter()
        .find(|endpoint| endpoint.path == path)
        .cloned()
}

/// The length of an endpoint that has only one and no field for it.
fn path_length(line: &'static str) -> Option<&'static str> {
    line.split('\t').nth(4)
}

/// A field's name, and whether it is required.
fn member(text: &'static str) -> (Option<&'static str>, bool) {
    let name = text.trim_end_matches('!');
    (
        Some(name).filter(|name| *name != "-"),
        name.len() < text.len(),
    )
}

/// `5,10` or `3..15`.
fn seconds(text: &str) -> Option<Vec<u32>> {
    if let Some((min, max)) = text.split_once("..") {
        return Some((min.parse().ok()?..=max.parse().ok()?).collect());
    }
    text.split(',').map(|length| length.parse().ok()).collect()
}

/// `720p`, `768P`, `true_1080p`, `4k`, or a bare number.
fn shorter_side(word: &str) -> Option<u32> {
    match word {
        "4k" | "4K" => Some(2160),
        "2k" | "2K" => Some(1440),
        word => {
            let word = word.trim_start_matches("true_");
            word.trim_end_matches(['p', 'P']).parse().ok()
        }
    }
}

/// A size of this shape whose shorter side is the tier. Video codecs need even numbers: 854×480,
/// 1366×768.
fn size(tier: u32, shape: &str) -> Option<(u32, u32)> {
    let (width, height) = shape.split_once(':')?;
    let (width, height): (u32, u32) = (width.parse().ok()?, height.parse().ok()?);
    let (short, long) = (width.min(height), width.max(height));
    let long = (tier * long).div_ceil(short).next_multiple_of(2);
    Some(if width >= height {
        (long, tier)
    } else {
        (tier, long)
    })
}
