//! The inputs of fal's video endpoints. Their names differ by model: `endpoints.tsv` lists them
//! with their source, and for unlisted models they are guessed.
//!
//! A model consists of several endpoints: one for text, and others for a picture, two frames or
//! references. The pictures of an order decide which one is used; a picture that none of them takes
//! is refused before anything is sent. fal checks inputs when a job starts, so a wrong field ends
//! as a failed job (422), which fal may charge for if a runner had started.

use serde_json::{Map, Value, json};

use super::endpoint::{FalEndpoint, LengthFormat, find_endpoint};
use crate::adapters::input_slot::InputSlot;
use crate::frame_size;
use crate::limits::{Durations, PicturePurpose, SourcePictureLimits, VideoLimits};
use crate::order::{MediaFile, PictureRole, VideoSpec};

/// The number of references that every model with references accepts.
const REFERENCES: usize = 3;

/// A model: the endpoint that was named, and its sibling endpoints.
#[derive(Debug, Clone)]
pub(super) struct EndpointFamily {
    named: FalEndpoint,
    picture: Option<FalEndpoint>,
    frames: Option<FalEndpoint>,
    references: Option<FalEndpoint>,
}

/// The endpoints of a model, whose name may have slashes at its ends.
pub(super) fn endpoint_family(model: &str) -> EndpointFamily {
    let model = model.trim_matches('/');
    let sibling = |path: String| find_endpoint(&path);
    let Some(named) = find_endpoint(model) else {
        return EndpointFamily {
            named: FalEndpoint::guess(model),
            picture: image_endpoint_path(model).map(|path| FalEndpoint::guess(&path)),
            frames: None,
            references: None,
        };
    };
    // An operator who configures an endpoint for pictures means only that one, without its
    // siblings.
    if named.picture.is_some() || named.references.is_some() {
        return EndpointFamily {
            named,
            picture: None,
            frames: None,
            references: None,
        };
    }
    let task_path = |task: &str| {
        if model.contains("/text-to-video") {
            model.replacen("text-to-video", task, 1)
        } else {
            format!("{model}/{task}")
        }
    };
    // Otherwise the offered lengths and sizes would depend on the references.
    let offers_as_much = |endpoint: &FalEndpoint| {
        let sizes = endpoint.sizes();
        endpoint.references.is_some()
            && named
                .seconds
                .iter()
                .all(|length| endpoint.seconds.contains(length))
            && named.sizes().iter().all(|size| sizes.contains(size))
    };
    EndpointFamily {
        picture: sibling(task_path("image-to-video")),
        frames: sibling(task_path("first-last-frame-to-video")),
        references: sibling(task_path("reference-to-video")).filter(offers_as_much),
        named,
    }
}

impl EndpointFamily {
    pub(super) fn limits(&self) -> VideoLimits {
        let named = &self.named;
        let picture_endpoint = self.picture.as_ref().unwrap_or(named);
        let sizes = named.sizes();
        let picture_sizes = picture_endpoint.sizes();
        // Otherwise the offered sizes would depend on the pictures.
        let is_offered = |size: &(u32, u32)| {
            let short = size.0.min(size.1);
            picture_sizes
                .iter()
                .any(|picture_size| picture_size.0.min(picture_size.1) == short)
        };
        let mut seconds = named.seconds.clone();
        seconds.retain(|length| picture_endpoint.seconds.contains(length));
        let takes_references = named.picture.is_none() && named.references.is_some();
        let takes_last_frame = self.frames.is_some() || picture_endpoint.last.is_some();
        let max_pictures = match (picture_endpoint.picture, takes_last_frame) {
            _ if takes_references => REFERENCES,
            (None, _) => 0,
            (Some(_), false) => 1,
            (Some(_), true) => 2,
        };
        let reference_pictures =
            if self.references.is_some() || (!takes_references && named.references.is_some()) {
                REFERENCES
            } else {
                0
            };
        let pictures = SourcePictureLimits {
            needed: named.needs_picture,
            purpose: if takes_references {
                PicturePurpose::References
            } else {
                PicturePurpose::Frames
            },
            references: reference_pictures,
            ..SourcePictureLimits::frames(max_pictures)
        };
        VideoLimits {
            sizes: sizes.into_iter().filter(is_offered).collect(),
            durations: Durations::Only(seconds),
            default_seconds: named.default_seconds,
            pictures,
            negative_prompt: named.flags.contains('n') && picture_endpoint.flags.contains('n'),
            seed: named.flags.contains('s') && picture_endpoint.flags.contains('s'),
            audio: named
                .audio()
                .map(|(_, default)| default)
                .filter(|_| picture_endpoint.audio() == named.audio()),
            max_prompt: 2_000,
            ..VideoLimits::default()
        }
    }

    /// Whether the endpoint has a word for this size's resolution.
    pub(super) fn can_express_size(&self, size: (u32, u32)) -> bool {
        let short = size.0.min(size.1);
        // An unknown endpoint may take any size.
        find_endpoint(&self.named.path).is_none_or(|endpoint| {
            let has_ratio = endpoint.shapes.contains(&frame_size::ratio(size))
                && frame_size::has_usual_ratio(size);
            let has_tier = endpoint.tiers.iter().any(|(tier, _)| *tier == short);
            has_tier && (endpoint.shapes.is_empty() || has_ratio)
        })
    }

    /// The endpoint that makes a video of these pictures.
    fn endpoint(&self, video: &VideoSpec) -> &FalEndpoint {
        let has_first_frame = video.picture(PictureRole::FirstFrame).is_some();
        let has_last_frame = video.picture(PictureRole::LastFrame).is_some();
        let frames = self.frames.as_ref().filter(|_| has_last_frame);
        let picture = self.picture.as_ref().filter(|_| has_first_frame);
        let has_references = video.references().next().is_some();
        let references = self.references.as_ref().filter(|_| has_references);
        frames.or(picture).or(references).unwrap_or(&self.named)
    }

    /// The path, the input, and the files to insert.
    pub(super) fn fill(
        &self,
        video: &VideoSpec,
        length: Option<LengthFormat>,
    ) -> (String, Map<String, Value>, Vec<(InputSlot, MediaFile)>) {
        let endpoint = self.endpoint(video);
        let mut input = Map::new();
        let mut put = |name: &str, value: Value| input.insert(name.to_owned(), value);
        put("prompt", json!(video.prompt));
        let seconds = video.seconds;
        match length.or(endpoint.length) {
            Some(LengthFormat::Number) => put("duration", json!(seconds)),
            Some(LengthFormat::Text) => put("duration", json!(seconds.to_string())),
            Some(LengthFormat::Seconds) => put("duration", json!(format!("{seconds}s"))),
            None => None,
        };
        if !endpoint.shapes.is_empty() {
            put("aspect_ratio", json!(frame_size::ratio(video.size)));
        }
        if endpoint.has_resolution {
            put("resolution", json!(endpoint.tier(video.size)));
        }
        if let Some(negative) = &video.options.negative_prompt
            && endpoint.flags.contains('n')
        {
            put("negative_prompt", json!(negative));
        }
        if let Some(seed) = video.seed()
            && endpoint.flags.contains('s')
        {
            put("seed", json!(seed));
        }
        if let Some(with_audio) = video.audio()
            && let Some((field, _)) = endpoint.audio()
        {
            put(field, json!(with_audio));
        }
        let frames = [
            (endpoint.picture, PictureRole::FirstFrame),
            (endpoint.last, PictureRole::LastFrame),
        ];
        let frames = frames.into_iter().filter_map(|(field, role)| {
            Some((
                InputSlot::Member(field?.into()),
                video.picture(role)?.clone(),
            ))
        });
        let references = endpoint.references.into_iter().flat_map(|field| {
            let files = video.references();
            files.map(move |file| (InputSlot::List(field.into()), file.clone()))
        });
        (
            endpoint.path.clone(),
            input,
            frames.chain(references).collect(),
        )
    }
}

/// The path of the picture endpoint that belongs to a text endpoint.
fn image_endpoint_path(path: &str) -> Option<String> {
    path.contains("/text-to-video")
        .then(|| path.replacen("/text-to-video", "/image-to-video", 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::fal::endpoint::lines;

    #[test]
    fn every_line_is_read() {
        assert!(lines().count() > 100);
        for line in lines() {
            let endpoint = FalEndpoint::read(line).unwrap_or_else(|| panic!("{line}"));
            let limits = endpoint_family(&endpoint.path).limits();
            assert!(!limits.sizes.is_empty(), "{line}");
            let default = f64::from(limits.default_seconds);
            assert!(limits.durations.contains(default), "{line}: {limits:?}");
        }
    }

    #[test]
    fn sizes_are_those_of_the_endpoint() {
        let sizes = |model: &str| endpoint_family(model).limits().sizes;
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
    fn a_resolution_has_the_endpoints_own_word() {
        let word = |model: &str, size| {
            let mut order = crate::adapters::tests::video(model);
            if let crate::order::WorkSpec::Video(video) = &mut order.work {
                video.size = size;
                return endpoint_family(model).fill(video, None).1["resolution"].clone();
            }
            Value::Null
        };
        assert_eq!(
            word("fal-ai/sora-2/text-to-video/pro", (1920, 1080)),
            "true_1080p"
        );
        assert_eq!(word("minimax/h3/text-to-video", (2560, 1440)), "2K");
        assert_eq!(word("minimax/h3/text-to-video", (3840, 2160)), "4K");
        assert_eq!(word("minimax/h3-max/text-to-video", (854, 480)), "480P");
        assert_eq!(word("acme/new/text-to-video", (1920, 1080)), "1080p");
        let can_express = |model: &str, size| endpoint_family(model).can_express_size(size);
        assert!(!can_express("minimax/h3-max/text-to-video", (2560, 1440)));
        assert!(can_express("acme/new/text-to-video", (1920, 1080)));
    }

    #[test]
    fn a_picture_goes_where_it_is_taken_or_nowhere() {
        let max_pictures = |model: &str| endpoint_family(model).limits().pictures.max;
        for (model, pictures) in [
            ("fal-ai/kling-video/v2.6/pro/text-to-video", 2),
            ("fal-ai/kling-video/v2.1/master/text-to-video", 1),
            ("fal-ai/ltx-2/text-to-video/fast", 1),
            ("fal-ai/sora-2/text-to-video/pro", 1),
            ("fal-ai/luma-dream-machine/ray-2", 2),
            ("fal-ai/veo3.1", 2),
            ("fal-ai/veo3", 1),
            // It has no endpoint for a picture.
            ("fal-ai/vidu/q2/text-to-video", 0),
            ("fal-ai/kling-video/o3/pro/reference-to-video", 2),
            ("fal-ai/veo3.1/reference-to-video", REFERENCES),
        ] {
            assert_eq!(max_pictures(model), pictures, "{model}");
        }
    }
}
