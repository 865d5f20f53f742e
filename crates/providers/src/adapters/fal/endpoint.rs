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
    /// Names of shapes; empty if there is no field for it.
    pub(super) shapes: Vec<&'static str>,
    /// `n` if it takes a negative prompt, `s` if it takes a seed; for the choice of sound see
    /// [`AUDIO`].
    pub(super) takes: &'static str,
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
        let mut next = || columns.next();
        let path = next()?.to_owned();
        let (picture, picture_needed) = member(next()?);
        let (last, _) = member(next()?);
        let (references, references_needed) = member(next()?);
        let (lengths, default) = match next()?.split_once('/') {
            Some((lengths, default)) => (lengths, Some(default)),
            None => (path_length(line)?, None),
        };
        let bare = lengths.trim_end_matches(|sign: char| sign.is_ascii_alphabetic());
        let length = match lengths.get(bare.len()..)? {
            "n" => Some(LengthFormat::Number),
            "t" => Some(LengthFormat::Text),
            "s" => Some(LengthFormat::Seconds),
            _ => None,
        };
        let seconds = seconds(bare)?;
        let tiers = next()?;
        let fixed = tiers.strip_prefix('=');
        let words = fixed.unwrap_or(tiers).split(',');
        let tiers = words.map(|word| Some((shorter_side(word)?, word)));
        let shapes = next()?.split(',').filter(|shape| *shape != "-");
        let takes = next()?;
        Some(Self {
            path,
            picture,
            last,
            references,
            needs_picture: picture_needed || references_needed,
            default_seconds: match default {
                Some(default) => default.parse().ok()?,
                None => *seconds.first()?,
            },
            seconds,
            length,
            tiers: tiers.collect::<Option<_>>()?,
            has_resolution: fixed.is_none(),
            shapes: shapes.collect(),
            takes,
        })
    }

    /// What most models offer.
    pub(super) fn guess(path: &str) -> Self {
        let of_text = path.contains("/text-to-video");
        let of_picture = path.contains("-to-video") && !of_text;
        Self {
            path: path.to_owned(),
            picture: (!of_text).then_some("image_url"),
            last: None,
            references: None,
            needs_picture: of_picture,
            seconds: vec![5],
            default_seconds: 5,
            length: Some(LengthFormat::Number),
            tiers: vec![(720, "720p")],
            has_resolution: true,
            // A picture brings its own shape.
            shapes: if of_picture {
                Vec::new()
            } else {
                vec!["16:9", "9:16"]
            },
            takes: "s",
        }
    }

    pub(super) fn sizes(&self) -> Vec<(u32, u32)> {
        let shapes = match (self.shapes.is_empty(), self.needs_picture) {
            (false, _) => &self.shapes[..],
            // The picture decides.
            (true, true) => &["16:9", "9:16"],
            (true, false) => &["16:9"],
        };
        // The most common one first, whatever the endpoint's own order.
        let wide = shapes.iter().filter(|shape| **shape == "16:9");
        let shapes: Vec<&str> = wide
            .chain(shapes.iter().filter(|shape| **shape != "16:9"))
            .copied()
            .collect();
        let tiers = self.tiers.iter();
        let all = tiers.flat_map(|(tier, _)| shapes.iter().filter_map(|shape| size(*tier, shape)));
        all.collect()
    }

    /// The field that chooses between sound and none, and the default without it.
    pub(super) fn audio(&self) -> Option<(&'static str, bool)> {
        let found = AUDIO
            .iter()
            .find(|(letter, ..)| self.takes.contains(*letter));
        found.map(|(_, member, usual)| (*member, *usual))
    }

    /// The word for a size's resolution. An unknown endpoint gets the size from the operator's
    /// limits, in the most common format.
    pub(super) fn tier(&self, size: (u32, u32)) -> String {
        let short = size.0.min(size.1);
        let found = self.tiers.iter().find(|(tier, _)| *tier == short);
        found.map_or_else(|| frame_size::tier(size), |(_, word)| (*word).to_owned())
    }
}

pub(super) fn lines() -> impl Iterator<Item = &'static str> {
    let all = include_str!("endpoints.tsv").lines();
    all.filter(|line| !line.starts_with('#') && !line.is_empty())
}

pub(super) fn find_endpoint(path: &str) -> Option<FalEndpoint> {
    KNOWN_ENDPOINTS.iter().find(|one| one.path == path).cloned()
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
    text.split(',').map(|one| one.parse().ok()).collect()
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
