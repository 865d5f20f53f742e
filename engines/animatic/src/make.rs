//! The entry point of the engine: makes a video from a request, using all other modules.

use std::thread;

use crate::encode::write_file;
use crate::error::MakeError;
use crate::film::{self, FilmOutcome};
use crate::options::RenderOptions;
use crate::picture::Picture;
use crate::quality::Quality;
use crate::render::opaque;
use crate::request::{FrameRetouch, RenderControl, RenderRequest};
use crate::shot::Shot;
use crate::sound::{Ambience, aac::packets};
use crate::video::Video;
use h264::I420Frame;

/// Makes a video, with the sounds in the prompt. The same request gives the same bytes.
pub fn make(
    request: &RenderRequest<'_>,
    control: &mut RenderControl<'_>,
) -> Result<Video, MakeError> {
    make_with(request, &[], control)
}

/// Like [`make`], with more kinds of ambience besides those in the prompt.
pub fn make_with(
    request: &RenderRequest<'_>,
    ambience: &[Ambience],
    control: &mut RenderControl<'_>,
) -> Result<Video, MakeError> {
    make_retouched(request, ambience, control, &mut |_, _| {})
}

/// Like [`make_with`], but `retouch` changes each frame before it is encoded. The poster and the
/// stills do not have that change.
pub fn make_retouched(
    request: &RenderRequest<'_>,
    ambience: &[Ambience],
    control: &mut RenderControl<'_>,
    retouch: &mut FrameRetouch<'_>,
) -> Result<Video, MakeError> {
    let mut shot = Shot::prepare(request, control)?;
    let options = request.options;
    let reading = shot.reading().clone();
    let mut kinds = shot.ambience().to_vec();
    kinds.extend(ambience);
    kinds.sort_unstable();
    kinds.dedup();
    let mut reported = 0.0;
    let mut control = RenderControl {
        // If the film is encoded again, progress must not go back.
        progress: &mut |share: f32| {
            if share > reported {
                reported = share;
                (control.progress)(share);
            }
        },
        cancelled: control.cancelled,
    };
    let (mp4, collector) = thread::scope(|scope| {
        // The sound does not depend on the quality, so it is made once, in parallel with all
        // attempts at the picture.
        let sound = scope.spawn(|| sound(&kinds, &options));
        // Most films fit at the best quality, so quality is measured only after that has failed. If
        // the film does not fit at the measured quality either, quality falls one step at a time.
        // At the last step every film is kept.
        let mut quality = Quality::BEST;
        let (packets, collector) = loop {
            match film::render_film(&mut shot, quality, &options, &mut control, retouch)? {
                FilmOutcome::Whole(packets, collector) => break (packets, collector),
                FilmOutcome::TooLarge if quality == Quality::BEST => {
                    quality = measure(&mut shot, &options)?;
                }
                FilmOutcome::TooLarge => quality = quality.coarser().unwrap_or(quality),
            }
        };
        let sound = sound
            .join()
            .unwrap_or_else(|_| Err(MakeError::Encode("the sound thread failed".to_owned())))?;
        Ok::<_, MakeError>((write_file(&options, packets, &sound)?, collector))
    })?;
    let (poster, stills) = collector
        .take()
        .ok_or_else(|| MakeError::Render("no frame was drawn".to_owned()))?;
    let frames = options.frames();
    Ok(Video {
        mp4,
        width: options.width,
        height: options.height,
        fps: options.fps,
        frames,
        seconds: f64::from(frames) / f64::from(options.fps),
        reading,
        poster,
        stills,
    })
}

/// One frame of the video that [`make`] would make, for previews. Frames count from 0; past the
/// end, the last one is drawn.
pub fn still(request: &RenderRequest<'_>, frame: u32) -> Result<Picture, MakeError> {
    let options = request.options;
    let mut shot = Shot::prepare(request, &RenderControl::unattended())?;
    let mut rgba = vec![0; options.width as usize * options.height as usize * 4];
    let last = options.frames().saturating_sub(1);
    shot.draw(frame.min(last) as usize, &mut rgba)?;
    Ok(opaque(options.width, options.height, &rgba)?)
}

/// Picks the quality of a film that exceeds its ceiling at the best quality, from frames in its
/// middle, where every move is under way.
fn measure(shot: &mut Shot, options: &RenderOptions) -> Result<Quality, MakeError> {
    let mut rgba = vec![0; options.width as usize * options.height as usize * 4];
    let middle = options.frames() as usize / 2;
    let mut sample = Vec::new();
    for frame in middle..middle + SAMPLE_FRAMES.min(options.frames() as usize - middle) {
        let mut yuv = I420Frame::new(options.width, options.height);
        shot.draw_yuv(frame, &mut rgba, &mut yuv)?;
        sample.push(yuv);
    }
    Ok(Quality::measure(&sample, options)?)
}

/// The sound of the whole film; no packets without ambience.
fn sound(ambience: &[Ambience], options: &RenderOptions) -> Result<Vec<Vec<u8>>, MakeError> {
    if ambience.is_empty() {
        return Ok(Vec::new());
    }
    let seconds = f64::from(options.frames()) / f64::from(options.fps);
    packets(ambience, seconds, options.seed).map_err(|error| MakeError::Encode(error.to_string()))
}

/// Frames to measure quality on: a key frame and one of the encoder's pyramids.
const SAMPLE_FRAMES: usize = 9;
