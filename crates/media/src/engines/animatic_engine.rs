//! `animatic-1`: the embedded video model, on the `animatic` crate.

use animatic::{
    Direction, FramePlanes, MakeError, OptionsError, Picture, PictureLimits, RenderControl,
    RenderOptions, RenderRequest,
};

pub use animatic::PromptReading;
use orders::{Durations, ModelLimits, SourcePictureLimits, VideoLimits};

use crate::engines::label::AiLabel;
use crate::engines::retouch::{FrameRetoucher, RetouchOptions};
use crate::engines::{EngineControl, EngineError, fingerprints};
use mediagate_model::catalog::{EmbeddedEngine, Model, ModelBackend};
use mediagate_model::provenance::PerceptualFingerprint;
use mediagate_model::task::{Choice, PictureRole, VideoJob};

/// The model's description and limits.
pub fn model() -> Model {
    Model {
        id: "animatic-1".into(),
        aliases: Vec::new(),
        summary: "Makes an animatic: a camera move over your image, or over a scene drawn from the prompt.".into(),
        notes: vec![
            "Runs in this gateway. No data leaves the machine.".into(),
            "Uses no pretrained weights. It moves a camera and does not generate new content.".into(),
        ],
        limits: ModelLimits::Video(VideoLimits {
            sizes: sizes(),
            durations: Durations::range(
                whole_seconds(animatic::MIN_SECONDS),
                whole_seconds(animatic::MAX_SECONDS),
            ),
            default_seconds: 5,
            pictures: SourcePictureLimits::frames(1),
            seed: true,
            max_prompt: usize::MAX,
            label: true,
            fractions: true,
            ..VideoLimits::default()
        }),
        price: None,
        passthrough_fields: Vec::new(),
        backend: ModelBackend::Embedded {
            engine: EmbeddedEngine::Animatic,
            version: env!("CARGO_PKG_VERSION").into(),
        },
    }
}

/// Supported sizes, the default first.
fn sizes() -> Vec<(u32, u32)> {
    let default = (1280, 720);
    let others = animatic::SIZES.iter().filter(|size| **size != default);
    std::iter::once(default).chain(others.copied()).collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small constants"
)]
fn whole_seconds(seconds: f64) -> u32 {
    seconds as u32
}

/// The options that a caller set explicitly.
#[derive(Debug, Clone, Copy)]
pub struct CallerOptions {
    pub size: Option<(u32, u32)>,
    pub seconds: Option<f64>,
    pub seed: Option<u64>,
    pub picture_size: Option<(u32, u32)>,
}

/// Decides every option from the order, the prompt's words and the picture.
pub fn resolve_options(
    prompt: &str,
    requested: CallerOptions,
) -> Result<RenderOptions, OptionsError> {
    let requested = animatic::RequestedOptions {
        size: requested.size,
        seconds: requested.seconds,
        fps: None,
        seed: requested.seed,
        picture: requested.picture_size,
    };
    RenderOptions::resolve(&requested, &Direction::parse(prompt))
}

/// Seconds as whole milliseconds.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a video's length is small and positive"
)]
pub fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1000.0).round() as u64
}

/// JPEG quality of posters and sheets, from 1 to 100.
const JPEG_QUALITY: u8 = 88;

/// A finished video.
pub struct MadeVideo {
    pub mp4: Vec<u8>,
    /// Its first frame, JPEG.
    pub poster: Vec<u8>,
    /// A contact sheet, JPEG.
    pub sheet: Vec<u8>,
    pub width: u32,
    pub height: u32,
    pub milliseconds: u64,
    /// How the prompt was understood.
    pub reading: PromptReading,
    /// The fingerprint by which it is recognised.
    pub fingerprint: PerceptualFingerprint,
    /// Whether it has the requested watermark.
    pub is_marked: bool,
}

/// How the prompt of a job will be understood.
pub fn prompt_reading(job: &VideoJob) -> Result<PromptReading, EngineError> {
    let has_picture = job.picture(PictureRole::FirstFrame).is_some();
    Ok(PromptReading::of(
        &job.prompt,
        &render_options(job)?,
        has_picture,
    ))
}

fn render_options(job: &VideoJob) -> Result<RenderOptions, EngineError> {
    let Some(fps) = job.fps else {
        return Err(EngineError::Broken("the order has no frame rate".into()));
    };
    #[expect(clippy::cast_precision_loss, reason = "a video's length is small")]
    Ok(RenderOptions {
        width: job.width,
        height: job.height,
        seconds: job.milliseconds as f64 / 1000.0,
        fps,
        seed: job.options.seed.map_or(0, Choice::value),
    })
}

/// Decodes a source picture. Blocks.
pub fn decode(bytes: &[u8]) -> Result<Picture, EngineError> {
    animatic::picture::decode(bytes, &PictureLimits::default())
        .map_err(|error| EngineError::Source(error.to_string()))
}

/// Makes the video. Blocks until it is done or stopped.
pub fn make(
    job: &VideoJob,
    picture: Option<&Picture>,
    retouch_options: RetouchOptions,
    engine_control: &EngineControl,
) -> Result<MadeVideo, EngineError> {
    let options = render_options(job)?;
    let request = RenderRequest {
        picture,
        prompt: &job.prompt,
        options,
    };
    let mut control = RenderControl {
        progress: &mut |share| engine_control.report(share),
        cancelled: &|| engine_control.is_stopped(),
    };
    let mut retoucher = FrameRetoucher::new(retouch_options, job.width, job.height, options.fps);
    let mut retouch = |frame: u32, planes: &mut FramePlanes<'_>| retoucher.retouch(frame, planes);
    let video = animatic::make_retouched(&request, &[], &mut control, &mut retouch);
    let video = video.map_err(|error| match error {
        MakeError::Cancelled => EngineError::Stopped,
        other => EngineError::Broken(other.to_string()),
    })?;
    let broken = |error: animatic::picture::WriteError| EngineError::Broken(error.to_string());
    // The label is on the poster too, which is often what people see first.
    let jpeg = |picture: &Picture| {
        if retouch_options.label {
            AiLabel::draw_on(picture).to_jpeg(JPEG_QUALITY)
        } else {
            picture.to_jpeg(JPEG_QUALITY)
        }
    };
    Ok(MadeVideo {
        poster: jpeg(video.poster()).map_err(broken)?,
        sheet: jpeg(&video.sheet()).map_err(broken)?,
        width: video.width,
        height: video.height,
        milliseconds: milliseconds(video.seconds),
        reading: video.reading.clone(),
        mp4: video.mp4,
        fingerprint: fingerprints::stored_video(&retoucher.print),
        is_marked: retoucher.is_marked(),
    })
}
