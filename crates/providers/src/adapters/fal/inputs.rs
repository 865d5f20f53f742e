//! The inputs of fal's video endpoints, which each model names by itself:
//! `endpoints.tsv`, and its source, and what it leaves to guess.
//!
//! A model is several endpoints: one for text, and beside it those for a
//! picture, two frames or references. Which one an order goes to is told by its
//! pictures; a picture that none of them takes is refused before anything is
//! sent. fal checks inputs when a job starts, so a wrong member ends as a failed
//! job (422), which fal may charge for if a runner had begun.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::limits::{Durations, Pictures, Purpose, VideoLimits};
use crate::order::{File, PictureRole, Video};
use crate::shape;

/// How a length is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    /// `5`
    Number,
    /// `"5"`
    Text,
    /// `"5s"`
    Seconds,
}

/// Where a file goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Into this member.
    Member(&'static str),
    /// Into the list under this member.
    List(&'static str),
}

/// A line of `endpoints.tsv`.
#[derive(Debug, Clone)]
struct Endpoint {
    path: String,
    /// The member for the picture or the first frame.
    picture: Option<&'static str>,
    last: Option<&'static str>,
    references: Option<&'static str>,
    /// Whether nothing is made without a picture.
    needs_picture: bool,
    seconds: Vec<u32>,
    default_seconds: u32,
    /// How the length is written; without it there is no member for it.
    length: Option<Length>,
    /// Finenesses by the shorter side and the word for each, the default first.
    tiers: Vec<(u32, &'static str)>,
    /// Whether `resolution` is a member.
    has_resolution: bool,
    /// Names of shapes; none where there is no member for it.
    shapes: Vec<&'static str>,
    /// `n` where it takes a negative prompt, `s` where it takes a seed; how sound
    /// is chosen: see [`AUDIO`].
    takes: &'static str,
}

/// Letters of the last column: the member that chooses between sound and none,
/// and what comes without it.
const AUDIO: [(char, &str, bool); 3] = [
    ('a', "generate_audio", true),
    ('q', "generate_audio", false),
    ('w', "generate_audio_switch", false),
];

/// Most references that every model takes that takes any.
const REFERENCES: usize = 3;

static KNOWN: LazyLock<Vec<Endpoint>> =
    LazyLock::new(|| lines().filter_map(Endpoint::read).collect());

fn lines() -> impl Iterator<Item = &'static str> {
    let all = include_str!("endpoints.tsv").lines();
    all.filter(|line| !line.starts_with('#') && !line.is_empty())
}

/// A model: the endpoint that was named, and those beside it.
#[derive(Debug, Clone)]
pub(super) struct Inputs {
    named: Endpoint,
    picture: Option<Endpoint>,
    frames: Option<Endpoint>,
    references: Option<Endpoint>,
}

/// How a model is asked.
pub(super) fn of(model: &str) -> Inputs {
    let beside = |path: String| known(&path);
    let Some(named) = known(model) else {
        return Inputs {
            named: Endpoint::unknown(model),
            picture: swapped(model).map(|path| Endpoint::unknown(&path)),
            frames: None,
            references: None,
        };
    };
    if named.picture.is_some() || named.references.is_some() {
        return Inputs {
            named,
            picture: None,
            frames: None,
            references: None,
        };
    }
    let of_references = if model.contains("/text-to-video") {
        model.replacen("/text-to-video", "/reference-to-video", 1)
    } else {
        format!("{model}/reference-to-video")
    };
    // One that makes less than the others do would be another model.
    let covers = |one: &Endpoint| {
        let sizes = one.sizes();
        one.references.is_some()
            && named
                .seconds
                .iter()
                .all(|length| one.seconds.contains(length))
            && named.sizes().iter().all(|size| sizes.contains(size))
    };
    let of_picture = swapped(model).unwrap_or_else(|| format!("{model}/image-to-video"));
    Inputs {
        picture: beside(of_picture),
        frames: beside(format!("{model}/first-last-frame-to-video")),
        references: beside(of_references).filter(covers),
        named,
    }
}

impl Inputs {
    pub(super) fn limits(&self) -> VideoLimits {
        let named = &self.named;
        let takes = self.picture.as_ref().unwrap_or(named);
        let sizes = named.sizes();
        let others = takes.sizes();
        // What only some of the endpoints offer would depend on the pictures.
        let offered = |size: &(u32, u32)| {
            let short = size.0.min(size.1);
            others.iter().any(|other| other.0.min(other.1) == short)
        };
        let mut seconds = named.seconds.clone();
        seconds.retain(|one| takes.seconds.contains(one));
        let of_references = named.picture.is_none() && named.references.is_some();
        let last = self.frames.is_some() || takes.last.is_some();
        let most = match (takes.picture, last) {
            _ if of_references => REFERENCES,
            (None, _) => 0,
            (Some(_), false) => 1,
            (Some(_), true) => 2,
        };
        VideoLimits {
            sizes: sizes.into_iter().filter(offered).collect(),
            durations: Durations::Only(seconds),
            default_seconds: named.default_seconds,
            pictures: Pictures {
                needed: named.needs_picture,
                purpose: if of_references {
                    Purpose::References
                } else {
                    Purpose::Frames
                },
                references: if self.references.is_some()
                    || (!of_references && named.references.is_some())
                {
                    REFERENCES
                } else {
                    0
                },
                ..Pictures::frames(most)
            },
            negative_prompt: named.takes.contains('n') && takes.takes.contains('n'),
            seed: named.takes.contains('s') && takes.takes.contains('s'),
            audio: named
                .audio()
                .map(|(_, usual)| usual)
                .filter(|_| takes.audio() == named.audio()),
            max_prompt: 2_000,
        }
    }

    /// Whether the endpoint has a word for this size's fineness.
    pub(super) fn can_say(&self, size: (u32, u32)) -> bool {
        let short = size.0.min(size.1);
        // What is not known may take any.
        known(&self.named.path).is_none_or(|one| {
            let has_shape =
                one.shapes.contains(&shape::ratio(size)) && shape::has_usual_ratio(size);
            let is_fine = one.tiers.iter().any(|(tier, _)| *tier == short);
            is_fine && (one.shapes.is_empty() || has_shape)
        })
    }

    /// The endpoint that makes a video of these pictures.
    fn endpoint(&self, video: &Video) -> &Endpoint {
        let first = video.picture(PictureRole::FirstFrame).is_some();
        let last = video.picture(PictureRole::LastFrame).is_some();
        let frames = self.frames.as_ref().filter(|_| last);
        let picture = self.picture.as_ref().filter(|_| first);
        let about = video.references().next().is_some();
        let references = self.references.as_ref().filter(|_| about);
        frames.or(picture).or(references).unwrap_or(&self.named)
    }

    /// The path, the input, and the files that belong into it.
    pub(super) fn fill(
        &self,
        video: &Video,
        length: Option<Length>,
    ) -> (String, Map<String, Value>, Vec<(Place, File)>) {
        let endpoint = self.endpoint(video);
        let mut input = Map::new();
        let mut put = |name: &str, value: Value| input.insert(name.to_owned(), value);
        put("prompt", json!(video.prompt));
        let seconds = video.seconds;
        match length.or(endpoint.length) {
            Some(Length::Number) => put("duration", json!(seconds)),
            Some(Length::Text) => put("duration", json!(seconds.to_string())),
            Some(Length::Seconds) => put("duration", json!(format!("{seconds}s"))),
            None => None,
        };
        if !endpoint.shapes.is_empty() {
            put("aspect_ratio", json!(shape::ratio(video.size)));
        }
        if endpoint.has_resolution {
            put("resolution", json!(endpoint.tier(video.size)));
        }
        if let Some(negative) = &video.negative_prompt
            && endpoint.takes.contains('n')
        {
            put("negative_prompt", json!(negative));
        }
        if let Some(seed) = video.seed
            && endpoint.takes.contains('s')
        {
            put("seed", json!(seed));
        }
        if let Some(on) = video.audio
            && let Some((member, _)) = endpoint.audio()
        {
            put(member, json!(on));
        }
        let frames = [
            (endpoint.picture, PictureRole::FirstFrame),
            (endpoint.last, PictureRole::LastFrame),
        ];
        let frames = frames.into_iter().filter_map(|(member, role)| {
            Some((Place::Member(member?), video.picture(role)?.clone()))
        });
        let references = endpoint.references.into_iter().flat_map(|member| {
            let files = video.references();
            files.map(move |file| (Place::List(member), file.clone()))
        });
        (
            endpoint.path.clone(),
            input,
            frames.chain(references).collect(),
        )
    }
}

impl Endpoint {
    /// Reads a line; `None` when it is not one.
    fn read(line: &'static str) -> Option<Self> {
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
            "n" => Some(Length::Number),
            "t" => Some(Length::Text),
            "s" => Some(Length::Seconds),
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
    fn unknown(path: &str) -> Self {
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
            length: Some(Length::Number),
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

    fn sizes(&self) -> Vec<(u32, u32)> {
        let shapes = match (self.shapes.is_empty(), self.needs_picture) {
            (false, _) => &self.shapes[..],
            // The picture decides.
            (true, true) => &["16:9", "9:16"],
            (true, false) => &["16:9"],
        };
        // The usual one first, whatever the endpoint's own order.
        let wide = shapes.iter().filter(|shape| **shape == "16:9");
        let shapes: Vec<&str> = wide
            .chain(shapes.iter().filter(|shape| **shape != "16:9"))
            .copied()
            .collect();
        let tiers = self.tiers.iter();
        let all = tiers.flat_map(|(tier, _)| shapes.iter().filter_map(|shape| size(*tier, shape)));
        all.collect()
    }

    /// The member that chooses between sound and none, and what comes without it.
    fn audio(&self) -> Option<(&'static str, bool)> {
        let found = AUDIO
            .iter()
            .find(|(letter, ..)| self.takes.contains(*letter));
        found.map(|(_, member, usual)| (*member, *usual))
    }

    /// The word for a size's fineness. An endpoint that is not known is asked
    /// for what the operator's limits say, in the usual word.
    fn tier(&self, size: (u32, u32)) -> String {
        let short = size.0.min(size.1);
        let found = self.tiers.iter().find(|(tier, _)| *tier == short);
        found.map_or_else(|| shape::tier(size), |(_, word)| (*word).to_owned())
    }
}

fn known(path: &str) -> Option<Endpoint> {
    KNOWN.iter().find(|one| one.path == path).cloned()
}

/// The path of the endpoint for a picture beside one for text.
fn swapped(path: &str) -> Option<String> {
    path.contains("/text-to-video")
        .then(|| path.replacen("/text-to-video", "/image-to-video", 1))
}

/// The lengths of an endpoint that has but one and no member for it.
fn path_length(line: &'static str) -> Option<&'static str> {
    line.split('\t').nth(4)
}

/// A member's name, and whether it is needed.
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

/// `720p`, `768P`, `4k`, or a bare number.
fn shorter_side(word: &str) -> Option<u32> {
    match word {
        "4k" | "4K" => Some(2160),
        "2k" | "2K" => Some(1440),
        word => word.trim_end_matches(['p', 'P']).parse().ok(),
    }
}

/// A size of this shape whose shorter side is the tier. Coders want even
/// numbers: 854×480, 1366×768.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read() {
        assert!(lines().count() > 100);
        for line in lines() {
            let endpoint = Endpoint::read(line).unwrap_or_else(|| panic!("{line}"));
            let limits = of(&endpoint.path).limits();
            assert!(!limits.sizes.is_empty(), "{line}");
            let default = f64::from(limits.default_seconds);
            assert!(limits.durations.contains(default), "{line}: {limits:?}");
        }
    }

    #[test]
    fn sizes_are_those_of_the_endpoint() {
        let sizes = |model: &str| of(model).limits().sizes;
        assert!(sizes("fal-ai/veo3.1").contains(&(1920, 1080)));
        assert!(!sizes("fal-ai/veo3.1").contains(&(3840, 2160)));
        assert!(sizes("fal-ai/veo3.1/reference-to-video").contains(&(3840, 2160)));
        assert_eq!(
            sizes("fal-ai/minimax/hailuo-2.3/pro/text-to-video"),
            [(1920, 1080)]
        );
        assert_eq!(sizes("fal-ai/ltx-2/text-to-video/fast").len(), 3);
    }

    #[test]
    fn a_fineness_has_the_endpoints_own_word() {
        let word = |model: &str, size| {
            let mut order = crate::adapters::tests::video(model);
            if let crate::order::Work::Video(video) = &mut order.work {
                video.size = size;
                return of(model).fill(video, None).1["resolution"].clone();
            }
            Value::Null
        };
        assert_eq!(word("minimax/h3/text-to-video", (2560, 1440)), "2K");
        assert_eq!(word("minimax/h3/text-to-video", (3840, 2160)), "4K");
        assert_eq!(word("minimax/h3-max/text-to-video", (854, 480)), "480P");
        assert_eq!(word("acme/new/text-to-video", (1920, 1080)), "1080p");
        let says = |model: &str, size| of(model).can_say(size);
        assert!(!says("minimax/h3-max/text-to-video", (2560, 1440)));
        assert!(says("acme/new/text-to-video", (1920, 1080)));
    }

    #[test]
    fn a_picture_goes_where_it_is_taken_or_nowhere() {
        let most = |model: &str| of(model).limits().pictures.max;
        for (model, pictures) in [
            ("fal-ai/kling-video/v2.6/pro/text-to-video", 2),
            ("fal-ai/kling-video/v2.1/master/text-to-video", 1),
            ("fal-ai/ltx-2/text-to-video/fast", 1),
            ("fal-ai/sora-2/text-to-video/pro", 1),
            ("fal-ai/luma-dream-machine/ray-2", 2),
            ("fal-ai/veo3.1", 2),
            ("fal-ai/veo3", 1),
            // There is no endpoint for a picture beside it.
            ("fal-ai/vidu/q2/text-to-video", 0),
            ("fal-ai/kling-video/o3/pro/reference-to-video", 2),
            ("fal-ai/veo3.1/reference-to-video", REFERENCES),
        ] {
            assert_eq!(most(model), pictures, "{model}");
        }
    }
}
