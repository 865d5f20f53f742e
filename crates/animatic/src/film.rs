//! The film: frames drawn and encoded side by side.
//!
//! One thread draws, the calling thread encodes, by two threads of the encoder's own. No more
//! than a handful of frames is held; they travel in buffers that go round. The caller's control
//! functions are only called on the calling thread.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use crate::encode::{EncodeError, Quality, format};
use crate::h264::{Encoder, PYRAMID};
use crate::make::{Control, MakeError};
use crate::options::Options;
use crate::shot::Shot;
use crate::video::{Keepsakes, STILL_WIDTH};
use crate::yuv::I420;

/// An encoded frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packet {
    /// Annex B.
    pub(crate) bytes: Vec<u8>,
    /// Whether playing can start here.
    pub(crate) key: bool,
}

/// What came of shooting.
pub(crate) enum Film {
    /// The packets in order, and what was kept of the frames.
    Whole(Vec<Packet>, Keepsakes),
    /// More bytes than allowed; the rest was not encoded.
    TooLarge,
}

/// Draws and encodes every frame.
pub(crate) fn shoot(
    shot: &mut Shot,
    quality: Quality,
    options: &Options,
    control: &mut Control<'_>,
) -> Result<Film, MakeError> {
    thread::scope(|scope| {
        // Made in here, so that even a panic out of the caller's control functions drops the
        // receiver before the scope waits: the drawing thread ends at its next frame.
        let (full, filled) = sync_channel(QUEUE);
        let (spent, empty) = channel();
        let drawing = scope.spawn(move || draw(shot, options, &full, &empty));
        let encoded = encode(quality, options, &filled, &spent, control);
        drop(filled);
        let drawn = drawing
            .join()
            .unwrap_or_else(|_| Err(MakeError::Render("the drawing thread failed".to_owned())));
        match (encoded?, drawn?) {
            (None, _) => Ok(Film::TooLarge),
            // Where the frames ran out early, the drawing thread has said why.
            (Some(packets), keepsakes) => Ok(Film::Whole(packets, keepsakes)),
        }
    })
}

/// Frames from one key frame to the next: whole pyramids, and groups about as long as each other.
pub(crate) fn group_length(options: &Options) -> u32 {
    let longest = LONGEST_GROUP_SECONDS.0 * options.fps / LONGEST_GROUP_SECONDS.1;
    let groups = options.frames().div_ceil(longest / PYRAMID * PYRAMID);
    options.frames().div_ceil(groups).next_multiple_of(PYRAMID)
}

/// The drawing thread: fills buffers and passes them on, until done or until nobody reads.
fn draw(
    shot: &mut Shot,
    options: &Options,
    full: &SyncSender<I420>,
    empty: &Receiver<I420>,
) -> Result<Keepsakes, MakeError> {
    let (width, height) = (options.width, options.height);
    let mut rgba = vec![0; width as usize * height as usize * 4];
    let mut keepsakes = Keepsakes::new(options.frames());
    // The last frame, where the next shows the same.
    let mut last: Option<I420> = None;
    for frame in 0..options.frames() {
        let at = frame as usize;
        let wanted = frame == 0 || keepsakes.wants_still(frame);
        let mut yuv = empty
            .try_recv()
            .unwrap_or_else(|_| I420::new(width, height));
        match &last {
            Some(last) if shot.repeats(at) && !wanted => yuv.copy_from(last),
            _ => {
                shot.draw_yuv(at, &mut rgba, &mut yuv)?;
                last = shot.repeats(at + 1).then(|| yuv.clone());
            }
        }
        if wanted {
            keepsakes.keep_still(frame, shot.small(at, &rgba, STILL_WIDTH)?);
        }
        if frame == 0 {
            shot.draw(at, &mut rgba)?;
            keepsakes.keep_poster((width, height), &rgba)?;
        }
        if full.send(yuv).is_err() {
            break;
        }
    }
    Ok(keepsakes)
}

/// The calling thread: encodes every frame that comes, for as long as they stay within the
/// ceiling.
fn encode(
    quality: Quality,
    options: &Options,
    filled: &Receiver<I420>,
    spent: &Sender<I420>,
    control: &mut Control<'_>,
) -> Result<Option<Vec<Packet>>, MakeError> {
    let frames = options.frames();
    let mut encoder =
        Encoder::new(format(options), quality.quantiser()).map_err(EncodeError::from)?;
    let mut packets = Vec::new();
    let mut total = 0;
    for yuv in filled {
        if (control.cancelled)() {
            return Err(MakeError::Cancelled);
        }
        let mut bytes = Vec::new();
        let key = encoder
            .encode(&yuv, &mut bytes)
            .map_err(EncodeError::from)?;
        // The drawing thread may have finished already and want no buffer back.
        let _ = spent.send(yuv);
        total += bytes.len() as u64;
        if total > options.max_video_bytes() && quality.coarser().is_some() {
            return Ok(None);
        }
        packets.push(Packet { bytes, key });
        #[expect(clippy::cast_precision_loss, reason = "at most 600 frames")]
        (control.progress)(packets.len() as f32 / frames as f32);
    }
    Ok(Some(packets))
}

/// Seconds from key frame to key frame at most, as a fraction: a key frame takes as many bytes
/// as half a second of what moves, but seeking decodes from it.
const LONGEST_GROUP_SECONDS: (u32, u32) = (16, 3);

/// Frames that may wait for the encoder: enough to even out a slow frame, at 1.5 bytes a pixel.
const QUEUE: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_whole_pyramids_of_five_seconds_or_so() {
        let lengths = [
            (5.0, 30, 152),
            (5.0, 25, 128),
            (1.0, 24, 24),
            (10.0, 30, 152),
            (20.0, 30, 152),
            (20.0, 24, 120),
        ];
        for (seconds, fps, length) in lengths {
            let options = Options {
                width: 480,
                height: 480,
                seconds,
                fps,
                seed: 0,
            };
            assert_eq!(group_length(&options), length, "{seconds} s at {fps}");
        }
    }
}
