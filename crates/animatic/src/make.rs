//! Making a video: joins the modules into a pipeline of two threads.
//!
//! One thread renders and converts, the calling thread encodes, with a short queue between them;
//! the two halves cost about the same. Frames travel in a handful of buffers that go round, so
//! memory does not grow with the length of the video. The caller's control functions are only
//! called on the calling thread.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use crate::encode::{EncodeError, Film, Quality};
use crate::options::{Options, OptionsError};
use crate::picture::Picture;
use crate::render::{RenderError, opaque};
use crate::shot::Shot;
use crate::video::{Keepsakes, STILL_WIDTH, Video};
use crate::yuv::I420;

/// What to make a video of.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The picture to move over; without one a scene is drawn from the prompt.
    pub picture: Option<&'a Picture>,
    /// The direction, and without a picture the scene, in words.
    pub prompt: &'a str,
    /// Size, length, rate and seed; see [`Options::resolve`].
    pub options: Options,
}

/// How the caller follows and stops the work.
pub struct Control<'a> {
    /// Called after each frame with the share of the work that is done, 0 to 1, never falling.
    pub progress: &'a mut dyn FnMut(f32),
    /// Asked before each frame; `true` ends the work with [`MakeError::Cancelled`].
    pub cancelled: &'a dyn Fn() -> bool,
}

impl Control<'static> {
    /// A control that hears nothing and never cancels.
    pub fn unattended() -> Self {
        Self {
            // Boxes of closures that hold nothing do not allocate; leaking them costs nothing.
            progress: Box::leak(Box::new(|_| {})),
            cancelled: &|| false,
        }
    }
}

/// Why there is no video.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MakeError {
    /// The caller's control said stop.
    #[error("cancelled")]
    Cancelled,
    /// An option is outside the offer.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The frames could not be drawn: a fault of this program.
    #[error("the frames could not be drawn: {0}")]
    Render(String),
    /// The video could not be encoded: a fault of this program.
    #[error("the video could not be encoded: {0}")]
    Encode(String),
}

/// Makes a video. The same request gives the same bytes.
pub fn make(request: &Request<'_>, control: &mut Control<'_>) -> Result<Video, MakeError> {
    let options = request.options;
    options.check()?;
    if (control.cancelled)() {
        return Err(MakeError::Cancelled);
    }
    let frames = options.frames();
    let mut shot = Shot::prepare(request)?;
    let understood = shot.understood().to_vec();
    let quality = measure(&mut shot, &options)?;
    let (mp4, keepsakes) = film(shot, quality, &options, control)?;
    let (poster, stills) = keepsakes
        .take()
        .ok_or_else(|| MakeError::Render("no frame was drawn".to_owned()))?;
    Ok(Video {
        mp4,
        width: options.width,
        height: options.height,
        fps: options.fps,
        frames,
        seconds: f64::from(frames) / f64::from(options.fps),
        understood,
        poster,
        stills,
    })
}

/// One frame of the video that [`make`] would make, without making it: for previews. Frames are
/// counted from 0; past the last one, the last is drawn.
pub fn still(request: &Request<'_>, frame: u32) -> Result<Picture, MakeError> {
    let options = request.options;
    options.check()?;
    let mut shot = Shot::prepare(request)?;
    let mut rgba = vec![0; options.width as usize * options.height as usize * 4];
    let last = options.frames().saturating_sub(1);
    shot.draw(frame.min(last) as usize, &mut rgba)?;
    Ok(opaque(options.width, options.height, &rgba)?)
}

/// Picks the film's quality by the frames in its middle, where every move is under way.
fn measure(shot: &mut Shot, options: &Options) -> Result<Quality, MakeError> {
    let mut rgba = vec![0; options.width as usize * options.height as usize * 4];
    let middle = options.frames() as usize / 2;
    let mut sample = Vec::new();
    for frame in middle..middle + SAMPLE.min(options.frames() as usize - middle) {
        shot.draw(frame, &mut rgba)?;
        let mut yuv = I420::new(options.width, options.height);
        yuv.read_rgba(&rgba);
        sample.push(yuv);
    }
    Ok(Quality::measure(&sample, options.fps)?)
}

/// Runs the two halves side by side.
fn film(
    shot: Shot,
    quality: Quality,
    options: &Options,
    control: &mut Control<'_>,
) -> Result<(Vec<u8>, Keepsakes), MakeError> {
    thread::scope(|scope| {
        // Made in here, so that even a panic out of the caller's control functions drops the
        // receiver before the scope waits for the drawing thread, which then ends.
        let (full, filled) = sync_channel(QUEUE);
        let (spent, empty) = channel();
        let drawing = scope.spawn(move || draw(shot, options, &full, &empty));
        let film = Film::new(options.width, options.height, options.fps, quality);
        let encoded = film
            .map_err(MakeError::from)
            .and_then(|film| encode(film, options, control, &filled, &spent));
        // Without a reader the drawing thread's next send fails, and it ends.
        drop(filled);
        let drawn = drawing
            .join()
            .unwrap_or_else(|_| Err(MakeError::Render("the drawing thread failed".to_owned())));
        match (encoded, drawn) {
            (Ok(Some(mp4)), Ok(keepsakes)) => Ok((mp4, keepsakes)),
            // Where the frames ran out early, the drawing half knows why.
            (Err(error), _) | (Ok(_), Err(error)) => Err(error),
            (Ok(None), Ok(_)) => Err(MakeError::Render("frames are missing".to_owned())),
        }
    })
}

/// The drawing half: fills buffers and passes them on, until done or until nobody reads.
fn draw(
    mut shot: Shot,
    options: &Options,
    full: &SyncSender<I420>,
    empty: &Receiver<I420>,
) -> Result<Keepsakes, MakeError> {
    let (width, height) = (options.width, options.height);
    let frames = options.frames();
    let mut rgba = vec![0; width as usize * height as usize * 4];
    let mut keepsakes = Keepsakes::new(frames);
    let mut last: Option<I420> = None;
    for frame in 0..frames {
        let at = frame as usize;
        let mut yuv = empty
            .try_recv()
            .unwrap_or_else(|_| I420::new(width, height));
        match &last {
            Some(last) if shot.repeats(at) => yuv.copy_from(last),
            _ => {
                shot.draw(at, &mut rgba)?;
                yuv.read_rgba(&rgba);
                // Only worth a copy when the next frame will show the same.
                last = shot.repeats(at + 1).then(|| yuv.clone());
            }
        }
        if frame == 0 {
            keepsakes.keep_poster((width, height), &rgba)?;
        }
        if keepsakes.wants_still(frame) {
            keepsakes.keep_still(shot.shrink(&rgba, STILL_WIDTH)?);
        }
        if full.send(yuv).is_err() {
            break;
        }
    }
    Ok(keepsakes)
}

/// The encoding half. `None` when the frames end before the last one.
fn encode(
    mut film: Film,
    options: &Options,
    control: &mut Control<'_>,
    filled: &Receiver<I420>,
    spent: &Sender<I420>,
) -> Result<Option<Vec<u8>>, MakeError> {
    let frames = options.frames();
    for frame in 0..frames {
        if (control.cancelled)() {
            return Err(MakeError::Cancelled);
        }
        let Ok(yuv) = filled.recv() else {
            return Ok(None);
        };
        film.push(&yuv)?;
        // The drawing thread may have finished already and want no buffer back.
        let _ = spent.send(yuv);
        #[expect(clippy::cast_precision_loss, reason = "at most 600 frames")]
        (control.progress)((frame + 1) as f32 / frames as f32);
    }
    Ok(Some(film.finish()?))
}

impl From<RenderError> for MakeError {
    fn from(error: RenderError) -> Self {
        Self::Render(error.to_string())
    }
}

impl From<EncodeError> for MakeError {
    fn from(error: EncodeError) -> Self {
        Self::Encode(error.to_string())
    }
}

/// Frames that may wait for the encoder: enough to even out a slow frame, at 1.5 bytes a pixel.
const QUEUE: usize = 3;

/// Frames from which the quality is measured.
const SAMPLE: usize = 4;
