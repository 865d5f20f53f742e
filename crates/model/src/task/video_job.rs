//! The job of a video: an order with all defaults filled in, and its form in the database.

use orders::order::{Choice, PictureRole, VideoOptions};
use orders::{FrameShape, VideoDemand};
use serde::{Deserialize, Serialize};

use crate::ids::AssetId;

/// A video to make, with all defaults filled in.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredVideoJob", into = "StoredVideoJob")]
pub struct VideoJob {
    pub prompt: String,
    /// Source pictures: those without a role in the request first, in its order.
    pub pictures: Vec<JobPicture>,
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    /// Length.
    pub milliseconds: u64,
    /// Frames in a second, for an engine of this gateway. A provider decides its own.
    pub fps: Option<u32>,
    /// What the caller chose, with its defaults.
    pub options: VideoOptions,
}

/// A source picture of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobPicture {
    /// What it is for. If the request named no role, its position decides, and the route that makes
    /// the video has the last word.
    pub role: Choice<PictureRole>,
    pub file: AssetId,
}

impl VideoJob {
    /// What it demands of a route.
    pub fn demand(&self) -> VideoDemand<'_> {
        let count = |role| {
            let pictures = self.pictures.iter();
            pictures.filter(|picture| picture.role == role).count()
        };
        let last_frames = count(Choice::Asked(PictureRole::LastFrame));
        let references = count(Choice::Asked(PictureRole::Reference));
        #[expect(clippy::cast_precision_loss, reason = "a video's length is small")]
        let seconds = self.milliseconds as f64 / 1000.0;
        VideoDemand {
            prompt: &self.prompt,
            options: &self.options,
            seconds: Some(seconds),
            size: Some((self.width, self.height)),
            shape: FrameShape::default(),
            frames: self.pictures.len() - last_frames - references,
            has_last_frame: last_frames > 0,
            references,
        }
    }

    /// The picture in this role.
    pub fn picture(&self, role: PictureRole) -> Option<AssetId> {
        self.pictures_as(role).next()
    }

    /// The pictures in this role.
    pub fn pictures_as(&self, role: PictureRole) -> impl Iterator<Item = AssetId> {
        let pictures = self.pictures.iter();
        let fitting = pictures.filter(move |picture| picture.role.value() == role);
        fitting.map(|picture| picture.file)
    }
}

/// The job as the database has it. The previous version reads it too, so its fields stay.
#[derive(Serialize, Deserialize)]
struct StoredVideoJob {
    prompt: String,
    /// The first picture without a role in the request, then the others.
    picture: Option<AssetId>,
    width: u32,
    height: u32,
    milliseconds: u64,
    /// 0 at a provider.
    fps: u32,
    /// Without meaning if a provider chooses the seed.
    seed: u64,
    #[serde(default)]
    seed_is_asked: bool,
    #[serde(default)]
    more_pictures: Vec<AssetId>,
    /// The one of `more_pictures` that is the last frame on every route.
    #[serde(default)]
    last_frame: Option<AssetId>,
    /// The pictures with a role in the request.
    #[serde(default)]
    end_picture: Option<AssetId>,
    #[serde(default)]
    references: Vec<AssetId>,
    #[serde(default)]
    audio: Option<bool>,
    #[serde(default)]
    audio_is_asked: bool,
    #[serde(flatten)]
    options: VideoOptions,
}

impl From<StoredVideoJob> for VideoJob {
    fn from(stored: StoredVideoJob) -> Self {
        let fps = (stored.fps > 0).then_some(stored.fps);
        let seed = if stored.seed_is_asked {
            Some(Choice::Asked(stored.seed))
        } else {
            // Only engines of this gateway use a seed that the caller did not choose.
            fps.map(|_| Choice::Default(stored.seed))
        };
        let audio = stored.audio.map(|with_sound| {
            if stored.audio_is_asked {
                Choice::Asked(with_sound)
            } else {
                Choice::Default(with_sound)
            }
        });
        let picture = |role, file| JobPicture { role, file };
        let first = stored.picture.into_iter();
        let first = first.map(|file| picture(Choice::Default(PictureRole::FirstFrame), file));
        let more = stored.more_pictures.into_iter().map(|file| {
            let is_last = stored.last_frame == Some(file);
            let role = if is_last {
                PictureRole::LastFrame
            } else {
                PictureRole::Reference
            };
            picture(Choice::Default(role), file)
        });
        let end = stored.end_picture.into_iter();
        let end = end.map(|file| picture(Choice::Asked(PictureRole::LastFrame), file));
        let references = stored.references.into_iter();
        let references =
            references.map(|file| picture(Choice::Asked(PictureRole::Reference), file));
        Self {
            prompt: stored.prompt,
            pictures: first.chain(more).chain(end).chain(references).collect(),
            width: stored.width,
            height: stored.height,
            milliseconds: stored.milliseconds,
            fps,
            options: VideoOptions {
                seed,
                audio,
                ..stored.options
            },
        }
    }
}

impl From<VideoJob> for StoredVideoJob {
    fn from(job: VideoJob) -> Self {
        let (seed, audio) = (job.options.seed, job.options.audio);
        let files = |is_fitting: &dyn Fn(Choice<PictureRole>) -> bool| -> Vec<AssetId> {
            let pictures = job
                .pictures
                .iter()
                .filter(|picture| is_fitting(picture.role));
            pictures.map(|picture| picture.file).collect()
        };
        let placed =
            files(&|role| role.asked().is_none() || role == Choice::Asked(PictureRole::FirstFrame));
        Self {
            prompt: job.prompt,
            picture: placed.first().copied(),
            width: job.width,
            height: job.height,
            milliseconds: job.milliseconds,
            fps: job.fps.unwrap_or_default(),
            seed: seed.map_or(0, Choice::value),
            seed_is_asked: seed.and_then(Choice::asked).is_some(),
            last_frame: files(&|role| role == Choice::Default(PictureRole::LastFrame)).pop(),
            end_picture: files(&|role| role == Choice::Asked(PictureRole::LastFrame)).pop(),
            references: files(&|role| role == Choice::Asked(PictureRole::Reference)),
            more_pictures: placed.into_iter().skip(1).collect(),
            audio: audio.map(Choice::value),
            audio_is_asked: audio.and_then(Choice::asked).is_some(),
            options: job.options,
        }
    }
}
