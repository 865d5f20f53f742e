//! The `OpenAI` Videos dialect, and the video object that all dialects share.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::domain::pictures::PictureSource;
use crate::domain::video::{Params, VideoOrder};
use crate::error::{Error, ErrorCode};
use crate::http::wire::fields::{self, Fields};
use crate::http::wire::video_fields::{self as shared, ADDRESS};
use crate::http::wire::words;
use crate::model::task::{Payload, Task, TaskState};

/// Longest prompt in characters.
pub(super) const PROMPT: usize = 32_000;

/// A finished video.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct VideoFile {
    /// `video_` and the task's id without dashes.
    pub id: String,
    /// Plays in a browser and needs no header; empty once removed.
    pub url: String,
    /// Always `video/mp4`.
    pub mime_type: &'static str,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Measured length in seconds.
    pub seconds: f64,
    /// Size of the file.
    pub bytes: u64,
    /// SHA-256 of the file, in lower-case hex.
    pub sha256: String,
    /// When the file is removed.
    pub expires_at: String,
    /// Whether it has been removed.
    pub removed: bool,
    /// The first frame as a picture, where there is one; empty once removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poster_url: Option<String>,
}

/// A video job as the `OpenAI` SDKs know it.
#[derive(Debug, Serialize, ToSchema)]
pub struct VideoObject {
    /// `video_` and the task's id without dashes.
    pub id: String,
    /// Always `video`.
    pub object: &'static str,
    /// The model that makes it.
    pub model: String,
    /// `queued`, `in_progress`, `completed` or `failed`.
    pub status: &'static str,
    /// 0–100.
    pub progress: u8,
    /// Unix seconds.
    pub created_at: i64,
    /// Unix seconds.
    #[schema(required = true)]
    pub completed_at: Option<i64>,
    /// Unix seconds.
    #[schema(required = true)]
    pub expires_at: Option<i64>,
    /// What was asked for.
    #[schema(required = true)]
    pub prompt: Option<String>,
    /// Length in seconds, as text.
    pub seconds: String,
    /// Width and height, as in `1280x720`.
    pub size: String,
    /// Always null: remixes are not made.
    #[schema(required = true)]
    pub remixed_from_video_id: Option<String>,
    /// Why it failed.
    #[schema(required = true)]
    pub error: Option<VideoError>,
    /// The finished file, beside what the SDKs know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub video: Option<VideoFile>,
}

/// Why a video failed.
#[derive(Debug, Serialize, ToSchema)]
pub struct VideoError {
    /// Stable name.
    pub code: &'static str,
    /// For people.
    pub message: String,
}

/// A deleted video.
#[derive(Debug, Serialize, ToSchema)]
pub struct VideoDeleted {
    /// The video's id.
    pub id: String,
    /// Always `video.deleted`.
    pub object: &'static str,
    /// Always true.
    pub deleted: bool,
}

impl VideoObject {
    /// A video task in this dialect; `None` for a task of another kind.
    pub fn new(task: &Task, file: Option<VideoFile>) -> Option<Self> {
        let Payload::VideoV1(job) = &task.payload else {
            return None;
        };
        let expires_at = match &task.output {
            Some(crate::model::task::Output::VideoV1(output)) => {
                Some(output.expires_at_micros.div_euclid(1_000_000))
            }
            _ => None,
        };
        Some(Self {
            id: task.id.video(),
            object: "video",
            model: task.model.clone(),
            status: words::video(task.state),
            progress: task.progress,
            created_at: task.created_at.seconds(),
            completed_at: task
                .finished_at
                .filter(|_| task.state == TaskState::Succeeded)
                .map(crate::clock::Timestamp::seconds),
            expires_at,
            prompt: Some(job.prompt.clone()),
            seconds: seconds_text(job.milliseconds),
            size: format!("{}x{}", job.width, job.height),
            remixed_from_video_id: None,
            error: task.failure.as_ref().map(|failure| VideoError {
                code: failure.code.name(),
                message: failure.message.clone(),
            }),
            video: file,
        })
    }
}

/// `4` or `4.5`.
fn seconds_text(milliseconds: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a video's length is small")]
    let seconds = milliseconds as f64 / 1000.0;
    seconds.to_string()
}

/// The body of a creation, for the documentation.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "documents what the reader below takes")]
pub struct VideoRequest {
    /// What the video shall show.
    prompt: String,
    /// The model; the default video model when left out.
    model: Option<String>,
    /// Length in seconds; a number is taken too.
    seconds: Option<String>,
    /// Width and height, as in `1280x720`.
    size: Option<String>,
    /// The first frame: an object with `image_url` (http, https or data:), or in a multipart form a file.
    #[schema(value_type = Option<Object>)]
    input_reference: Option<Value>,
    /// In place of the size: its fineness, as in `1080p`.
    resolution: Option<String>,
    /// In place of the size: its shape, as in `16:9`.
    aspect_ratio: Option<String>,
    /// The last frame: an address (http, https or data:), or in a multipart form a file.
    end_image: Option<String>,
    /// Pictures of what the video is about: addresses, or in a multipart form files.
    reference_images: Option<Vec<String>>,
    /// With sound or without, where the model can choose.
    audio: Option<bool>,
    /// Decides everything that the prompt leaves to chance.
    seed: Option<u64>,
    /// What the video shall not show.
    negative_prompt: Option<String>,
    /// Fields for the provider itself, where the operator lets them through.
    #[schema(value_type = Option<Object>)]
    provider_options: Option<Value>,
    /// Your own name for your end user.
    user: Option<String>,
}

/// The fields of this dialect.
const PARAMS: Params = Params {
    seconds: "seconds",
    size: "size",
    resolution: "resolution",
    aspect_ratio: "aspect_ratio",
    audio: "audio",
    seed: "seed",
    negative_prompt: "negative_prompt",
    prompt: "prompt",
    picture: "input_reference",
    end_picture: "end_image",
    references: "reference_images",
};

/// Reads a JSON body.
pub fn read(body: &Value) -> Result<VideoOrder, Error> {
    fields::read(body, order)
}

/// The fields of a form that may be files.
pub const FILES: [&str; 4] = [
    PARAMS.picture,
    PARAMS.end_picture,
    PARAMS.references,
    "reference_images[]",
];

/// Reads a form's text fields, nested as their brackets say; `files` are those
/// uploaded in [`FILES`].
pub fn read_form(
    form: &Value,
    files: Vec<(&'static str, bytes::Bytes)>,
) -> Result<VideoOrder, Error> {
    let mut read = fields::read_form(form, order)?;
    for (name, bytes) in files {
        let picture = (PictureSource::Bytes(bytes), name.to_owned());
        if name == PARAMS.picture {
            read.pictures.insert(0, picture);
        } else if name == PARAMS.end_picture {
            read.end_picture = Some(picture);
        } else {
            read.references.push(picture);
        }
    }
    let most = shared::REFERENCES;
    if read.references.len() > most {
        let message = format!("Must have at most {most} items.");
        return Err(Error::at(
            ErrorCode::InvalidValue,
            PARAMS.references,
            message,
        ));
    }
    Ok(read)
}

fn order(body: &Fields<'_>) -> Option<VideoOrder> {
    body.require("prompt");
    let prompt = body.string("prompt", PROMPT);
    if prompt
        .as_ref()
        .is_some_and(|prompt| prompt.trim().is_empty())
    {
        body.fault("prompt", ErrorCode::InvalidValue, "Must not be empty.");
    }
    let order = VideoOrder {
        model: body.filled_string("model", 200),
        prompt: prompt.clone().unwrap_or_default(),
        pictures: reference(body).into_iter().collect(),
        end_picture: shared::end_image(body),
        references: shared::reference_images(body),
        seconds: shared::seconds(body),
        size: shared::size(body),
        frame: shared::frame(body),
        audio: body.boolean("audio"),
        seed: shared::seed(body),
        negative_prompt: body.filled_string("negative_prompt", PROMPT),
        provider_options: shared::provider_options(body),
        count: 1,
        conversation: Vec::new(),
        user: body.filled_string("user", 512),
        params: PARAMS,
    };
    prompt.map(|_| order)
}

/// `input_reference`: an object with an address, or the address itself.
fn reference(body: &Fields<'_>) -> Option<(PictureSource, String)> {
    if let Value::String(_) = body.value("input_reference")? {
        let address = body.filled_string("input_reference", ADDRESS)?;
        Some((
            PictureSource::Address(address),
            body.path("input_reference"),
        ))
    } else {
        let object = body.object("input_reference")?;
        if object.value("file_id").is_some() {
            let message = "Files are not kept here; send the picture itself or its address.";
            object.fault("file_id", ErrorCode::UnsupportedValue, message);
            return None;
        }
        object.require("image_url");
        let address = object.filled_string("image_url", ADDRESS)?;
        Some((PictureSource::Address(address), object.path("image_url")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_forms_of_the_sdks_are_read() {
        let order =
            read(&json!({"prompt": "a lake", "seconds": "4", "size": "1280x720", "seed": 7}))
                .unwrap();
        assert_eq!(
            (order.seconds, order.size, order.seed),
            (Some(4.0), Some((1280, 720)), Some(7))
        );
        let form = json!({"prompt": "a lake", "seconds": "4", "seed": "7", "input_reference": {"image_url": "https://x/a.png"}});
        let order = read_form(&form, Vec::new()).unwrap();
        assert_eq!(order.seed, Some(7));
        assert_eq!(order.pictures[0].1, "input_reference.image_url");
        let form = json!({"prompt": "a lake", "audio": "false", "aspect_ratio": "9:16",
            "reference_images": ["https://x/a.png"], "provider_options": "{\"style\": 1}"});
        let file = bytes::Bytes::from_static(b"png");
        let order = read_form(
            &form,
            vec![("reference_images[]", file.clone()), ("end_image", file)],
        );
        let order = order.unwrap();
        assert_eq!(order.audio, Some(false));
        assert_eq!(order.references.len(), 2);
        assert!(order.end_picture.is_some());
        assert_eq!(order.provider_options["style"], 1);
    }

    #[test]
    fn nonsense_is_named() {
        for (body, param) in [
            (json!({}), "prompt"),
            (json!({"prompt": " "}), "prompt"),
            (json!({"prompt": "x", "seconds": "soon"}), "seconds"),
            (json!({"prompt": "x", "seconds": true}), "seconds"),
            (json!({"prompt": "x", "size": "big"}), "size"),
            (json!({"prompt": "x", "size": "0x0"}), "size"),
            (json!({"prompt": "x", "seed": -1}), "seed"),
            (
                json!({"prompt": "x", "input_reference": {}}),
                "input_reference.image_url",
            ),
            (
                json!({"prompt": "x", "input_reference": {"file_id": "f"}}),
                "input_reference.file_id",
            ),
            (
                json!({"prompt": "x", "input_reference": 1}),
                "input_reference",
            ),
        ] {
            assert_eq!(read(&body).unwrap_err().param(), Some(param), "{body}");
        }
    }
}
