//! The render loop: draws and encodes frames in parallel.
//!
//! One thread draws; the calling thread encodes. Only a few frames are in memory, in buffers that
//! are reused. The caller's control functions are called only on the calling thread.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use crate::error::MakeError;
use crate::options::RenderOptions;
use crate::quality::{Quality, format};
use crate::request::{FrameRetouch, RenderControl};
use crate::shot::Shot;
use crate::video::{STILL_WIDTH, StillCollector};
use h264::Encoder;
use h264::I420Frame;

/// An encoded frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VideoPacket {
    /// Annex B.
    pub(crate) bytes: Vec<u8>,
    /// Whether playback can start here.
    pub(crate) key: bool,
}

/// The result of [`render_film`].
pub(crate) enum FilmOutcome {
    /// The packets in order, and what was kept of the frames.
    Whole(Vec<VideoPacket>, StillCollector),
    /// More bytes than allowed; the rest was not encoded.
    TooLarge,
}

/// Draws and encodes every frame.
pub(crate) fn render_film(
    shot: &mut Shot,
    quality: Quality,
    options: &RenderOptions,
    control: &mut RenderControl<'_>,
    retouch: &mut FrameRetouch<'_>,
) -> Result<FilmOutcome, MakeError> {
    thread::scope(|scope| {
        // Created here, so that even a panic in the caller's control functions drops the receiver
        // before the scope waits, and the drawing thread ends at its next frame.
        let (full, filled) = sync_channel(QUEUE);
        let (spent, empty) = channel();
        let drawing = scope.spawn(move || draw(shot, options, &full, &empty));
        let encoded = encode(quality, options, &filled, &spent, control, retouch);
        drop(filled);
        let drawn = drawing
            .join()
            .unwrap_or_else(|_| Err(MakeError::Render("the drawing thread failed".to_owned())));
        match (encoded?, drawn?) {
            (None, _) => Ok(FilmOutcome::TooLarge),
            // If the frames ended early, the drawing thread has returned the reason.
            (Some(packets), keepsakes) => Ok(FilmOutcome::Whole(packets, keepsakes)),
        }
    })
}

/// The drawing thread: fills buffers and sends them, until done or until the receiver is gone.
fn draw(
    shot: &mut Shot,
    options: &RenderOptions,
    full: &SyncSender<I420Frame>,
    empty: &Receiver<I420Frame>,
) -> Result<StillCollector, MakeError> {
    let (width, height) = (options.width, options.height);
    let mut rgba = vec![0; width as usize * height as usize * 4];
    let mut keepsakes = StillCollector::new(options.frames());
    // The previous frame, while the next one is the same.
    let mut last: Option<I420Frame> = None;
    for frame in 0..options.frames() {
        let at = frame as usize;
        let wanted = frame == 0 || keepsakes.wants_still(frame);
        // It never waits for a buffer to come back: the bounded queue already limits how many there
        // are.
        let mut yuv = empty
            .try_recv()
            .unwrap_or_else(|_| I420Frame::new(width, height));
        match &last {
            Some(last) if shot.repeats(at) && !wanted => yuv.copy_from(last),
            _ => {
                shot.draw_yuv(at, &mut rgba, &mut yuv)?;
                // Most shots never stand still, so the frame is copied only if the next one is the
                // same.
                last = shot.repeats(at + 1).then(|| yuv.clone());
            }
        }
        if wanted {
            keepsakes.keep_still(frame, shot.small(at, &rgba, STILL_WIDTH)?);
        }
        if frame == 0 {
            // A shot without effects is drawn straight as YUV, so the poster needs a drawing of its
            // own.
            shot.draw(at, &mut rgba)?;
            keepsakes.keep_poster((width, height), &rgba)?;
        }
        // The encoder stopped: cancelled, failed, or over the ceiling. Its own result says which.
        if full.send(yuv).is_err() {
            break;
        }
    }
    Ok(keepsakes)
}

/// Encodes every frame that arrives, while the total stays below the ceiling.
fn encode(
    quality: Quality,
    options: &RenderOptions,
    filled: &Receiver<I420Frame>,
    spent: &Sender<I420Frame>,
    control: &mut RenderControl<'_>,
    retouch: &mut FrameRetouch<'_>,
) -> Result<Option<Vec<VideoPacket>>, MakeError> {
    let frames = options.frames();
    let mut encoder = Encoder::new(format(options), quality.quantiser())?;
    let mut packets = Vec::new();
    let mut total = 0;
    for (frame, mut yuv) in (0..).zip(filled) {
        if (control.cancelled)() {
            return Err(MakeError::Cancelled);
        }
        // A repeated frame is a fresh copy from before its retouch, so no frame is retouched twice.
        retouch(frame, &mut yuv.frame_planes_mut());
        let mut bytes = Vec::new();
        let key = encoder.encode(&yuv, &mut bytes)?;
        // The drawing thread may have finished and need no buffer.
        let _ = spent.send(yuv);
        total += bytes.len() as u64;
        // At the coarsest quality a film is kept whatever its size: there is nothing left to lower.
        if total > options.max_video_bytes() && quality.coarser().is_some() {
            return Ok(None);
        }
        packets.push(VideoPacket { bytes, key });
        #[expect(clippy::cast_precision_loss, reason = "at most 600 frames")]
        (control.progress)(packets.len() as f32 / frames as f32);
    }
    Ok(Some(packets))
}

/// Frames that may wait for the encoder: enough to even out a slow frame, at 1.5 bytes per pixel.
const QUEUE: usize = 4;
