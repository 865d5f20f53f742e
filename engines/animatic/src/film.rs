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
    pub(crate) is_key: bool,
}

/// The result of [`render_film`].
pub(crate) enum FilmOutcome {
    /// The packets in order, and the poster and the stills.
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
        let (frame_tx, frame_rx) = sync_channel(QUEUE);
        let (buffer_tx, buffer_rx) = channel();
        let draw_thread = scope.spawn(move || draw(shot, options, &frame_tx, &buffer_rx));
        let encode_result = encode(quality, options, &frame_rx, &buffer_tx, control, retouch);
        drop(frame_rx);
        let draw_result = draw_thread
            .join()
            .unwrap_or_else(|_| Err(MakeError::Render("the drawing thread failed".to_owned())));
        match (encode_result?, draw_result?) {
            (None, _) => Ok(FilmOutcome::TooLarge),
            // If the frames ended early, the drawing thread has returned the reason.
            (Some(packets), collector) => Ok(FilmOutcome::Whole(packets, collector)),
        }
    })
}

/// The drawing thread: fills buffers and sends them, until done or until the receiver is gone.
fn draw(
    shot: &mut Shot,
    options: &RenderOptions,
    frame_tx: &SyncSender<I420Frame>,
    buffer_rx: &Receiver<I420Frame>,
) -> Result<StillCollector, MakeError> {
    let (width, height) = (options.width, options.height);
    let mut rgba = vec![0; width as usize * height as usize * 4];
    let mut collector = StillCollector::new(options.frames());
    // The previous frame, while the next one is the same.
    let mut previous: Option<I420Frame> = None;
    for frame in 0..options.frames() {
        let index = frame as usize;
        let needs_still = frame == 0 || collector.wants_still(frame);
        // Never waits for a buffer to come back: the bounded queue already limits how many there
        // are.
        let mut yuv = buffer_rx
            .try_recv()
            .unwrap_or_else(|_| I420Frame::new(width, height));
        match &previous {
            Some(previous) if shot.repeats(index) && !needs_still => yuv.copy_from(previous),
            _ => {
                shot.draw_yuv(index, &mut rgba, &mut yuv)?;
                // Most shots never stand still, so the frame is copied only if the next one is the
                // same.
                previous = shot.repeats(index + 1).then(|| yuv.clone());
            }
        }
        if needs_still {
            collector.keep_still(frame, shot.small_copy(index, &rgba, STILL_WIDTH)?);
        }
        if frame == 0 {
            // A shot without effects is drawn straight as YUV, so the poster needs a drawing of its
            // own.
            shot.draw(index, &mut rgba)?;
            collector.keep_poster((width, height), &rgba)?;
        }
        // The encoder stopped: cancelled, failed, or over the ceiling. Its own result says which.
        if frame_tx.send(yuv).is_err() {
            break;
        }
    }
    Ok(collector)
}

/// Encodes every frame that arrives, while the total stays below the ceiling.
fn encode(
    quality: Quality,
    options: &RenderOptions,
    frame_rx: &Receiver<I420Frame>,
    buffer_tx: &Sender<I420Frame>,
    control: &mut RenderControl<'_>,
    retouch: &mut FrameRetouch<'_>,
) -> Result<Option<Vec<VideoPacket>>, MakeError> {
    let frames = options.frames();
    let mut encoder = Encoder::new(format(options), quality.quantiser())?;
    let mut packets = Vec::new();
    let mut total = 0;
    for (frame, mut yuv) in (0..).zip(frame_rx) {
        if (control.cancelled)() {
            return Err(MakeError::Cancelled);
        }
        // A repeated frame is a fresh copy from before its retouch, so no frame is retouched twice.
        retouch(frame, &mut yuv.frame_planes_mut());
        let mut bytes = Vec::new();
        let is_key = encoder.encode(&yuv, &mut bytes)?;
        // The drawing thread may have finished and need no buffer.
        let _ = buffer_tx.send(yuv);
        total += bytes.len() as u64;
        // At the coarsest quality a film is kept whatever its size: there is nothing left to lower.
        if total > options.max_video_bytes() && quality.coarser().is_some() {
            return Ok(None);
        }
        packets.push(VideoPacket { bytes, is_key });
        #[expect(clippy::cast_precision_loss, reason = "at most 600 frames")]
        (control.progress)(packets.len() as f32 / frames as f32);
    }
    Ok(Some(packets))
}

/// Frames that may wait for the encoder: enough to even out a slow frame, at 1.5 bytes per pixel.
const QUEUE: usize = 4;
