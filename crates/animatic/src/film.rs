//! The film: frames drawn, encoded and collected, on as many threads as a pair of cores keeps busy.
//!
//! One thread draws; two encode, because encoding is the larger part. A group of pictures refers
//! to nothing outside itself, so the encoders take whole groups in turn, and the frames of two
//! groups are drawn alternately: neither encoder waits for the other, and no more than a handful
//! of frames is held. Frames travel in buffers that go round.
//!
//! The groups depend on the length of the film only, never on the machine: the same bytes
//! everywhere. The caller's control functions are only called on the calling thread.

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

/// A frame on its way to an encoder, with its number.
type Numbered = (u32, I420);

/// What came of shooting.
pub(crate) enum Film {
    /// The packets in order, and what was kept of the frames.
    Whole(Vec<Packet>, Keepsakes),
    /// More bytes than allowed; the rest was not encoded.
    TooLarge,
}

/// What came of collecting the packets.
enum Collected {
    Whole(Vec<Packet>),
    TooLarge,
    /// Some never came.
    Missing,
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
        // receiver before the scope waits: the encoders end at their next packet, and the
        // drawing thread at its next frame.
        let (done, arrived) = channel();
        let (spent, empty) = channel();
        let mut lanes = Vec::new();
        for _ in 0..LANES {
            let (full, filled) = sync_channel(QUEUE);
            let (done, spent) = (done.clone(), spent.clone());
            scope.spawn(move || encode(options, quality, &filled, &spent, &done));
            lanes.push(full);
        }
        drop((done, spent));
        let drawing = scope.spawn(move || draw(shot, options, &lanes, &empty));
        let collected = collect(&arrived, quality, options, control);
        drop(arrived);
        let drawn = drawing
            .join()
            .unwrap_or_else(|_| Err(MakeError::Render("the drawing thread failed".to_owned())));
        match (collected, drawn) {
            (Ok(Collected::Whole(packets)), Ok(keepsakes)) => Ok(Film::Whole(packets, keepsakes)),
            (Ok(Collected::TooLarge), Ok(_)) => Ok(Film::TooLarge),
            // Where the frames ran out early, the drawing thread knows why.
            (Err(error), _) | (Ok(_), Err(error)) => Err(error),
            (Ok(Collected::Missing), Ok(_)) => {
                Err(MakeError::Encode("frames are missing".to_owned()))
            }
        }
    })
}

/// Frames from one key frame to the next: whole pyramids, three seconds at most, and about as many
/// groups for the one encoder as for the other.
pub(crate) fn group_length(options: &Options) -> u32 {
    let longest = 3 * options.fps / PYRAMID * PYRAMID;
    let pairs = options.frames().div_ceil(LANES * longest);
    let length = options.frames().div_ceil(LANES * pairs);
    length.next_multiple_of(PYRAMID).min(longest)
}

/// Every frame in the order of drawing, with the lane of its encoder.
fn schedule(frames: u32, group: u32) -> impl Iterator<Item = (usize, u32)> {
    let rounds = (0..frames).step_by((group * LANES) as usize);
    let slots = (0..group).flat_map(|i| (0..LANES).map(move |lane| (lane, i)));
    rounds
        .flat_map(move |start| {
            slots
                .clone()
                .map(move |(lane, i)| (lane as usize, start + lane * group + i))
        })
        .filter(move |(_, frame)| *frame < frames)
}

/// The drawing thread: fills buffers and passes them on, until done or until nobody reads.
fn draw(
    shot: &mut Shot,
    options: &Options,
    lanes: &[SyncSender<Numbered>],
    empty: &Receiver<I420>,
) -> Result<Keepsakes, MakeError> {
    let (width, height) = (options.width, options.height);
    let mut rgba = vec![0; width as usize * height as usize * 4];
    let mut keepsakes = Keepsakes::new(options.frames());
    // What each lane was sent last, where its next frame shows the same.
    let mut last: Vec<Option<I420>> = vec![None; lanes.len()];
    for (lane, frame) in schedule(options.frames(), group_length(options)) {
        let at = frame as usize;
        let wanted = frame == 0 || keepsakes.wants_still(frame);
        let mut yuv = empty
            .try_recv()
            .unwrap_or_else(|_| I420::new(width, height));
        match &last[lane] {
            Some(last) if shot.repeats(at) && !wanted => yuv.copy_from(last),
            _ => {
                shot.draw_yuv(at, &mut rgba, &mut yuv)?;
                last[lane] = shot.repeats(at + 1).then(|| yuv.clone());
            }
        }
        if wanted {
            keepsakes.keep_still(frame, shot.small(at, &rgba, STILL_WIDTH)?);
        }
        if frame == 0 {
            shot.draw(at, &mut rgba)?;
            keepsakes.keep_poster((width, height), &rgba)?;
        }
        if lanes[lane].send((frame, yuv)).is_err() {
            break;
        }
    }
    Ok(keepsakes)
}

/// An encoding thread: every frame that comes, until none does or nobody listens.
fn encode(
    options: &Options,
    quality: Quality,
    filled: &Receiver<Numbered>,
    spent: &Sender<I420>,
    done: &Sender<Result<(u32, Packet), EncodeError>>,
) {
    let mut encoder = match Encoder::new(format(options), quality.quantiser()) {
        Ok(encoder) => encoder,
        Err(error) => {
            // Nobody listens any more: nobody wants to know.
            let _ = done.send(Err(error.into()));
            return;
        }
    };
    for (frame, yuv) in filled {
        let mut bytes = Vec::new();
        let encoded = encoder.encode(&yuv, &mut bytes);
        let failed = encoded.is_err();
        let packet = encoded
            .map(|key| (frame, Packet { bytes, key }))
            .map_err(EncodeError::from);
        if done.send(packet).is_err() || failed {
            return;
        }
        // The drawing thread may have finished already and want no buffer back.
        let _ = spent.send(yuv);
    }
}

/// The calling thread: puts the packets in order, for as long as they stay within the ceiling.
fn collect(
    arrived: &Receiver<Result<(u32, Packet), EncodeError>>,
    quality: Quality,
    options: &Options,
    control: &mut Control<'_>,
) -> Result<Collected, MakeError> {
    let frames = options.frames();
    let mut packets: Vec<Option<Packet>> = vec![None; frames as usize];
    let mut bytes = 0;
    for count in 1..=frames {
        if (control.cancelled)() {
            return Err(MakeError::Cancelled);
        }
        let Ok(packet) = arrived.recv() else {
            return Ok(Collected::Missing);
        };
        let (frame, packet) = packet?;
        bytes += packet.bytes.len() as u64;
        if bytes > options.max_video_bytes() && quality.coarser().is_some() {
            return Ok(Collected::TooLarge);
        }
        packets[frame as usize] = Some(packet);
        #[expect(clippy::cast_precision_loss, reason = "at most 600 frames")]
        (control.progress)(count as f32 / frames as f32);
    }
    let whole: Option<Vec<Packet>> = packets.into_iter().collect();
    Ok(whole.map_or(Collected::Missing, Collected::Whole))
}

/// Encoders at work.
const LANES: u32 = 2;

/// Frames that may wait for an encoder: enough to even out a slow frame, at 1.5 bytes a pixel.
const QUEUE: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn options(seconds: f64, fps: u32) -> Options {
        Options {
            width: 480,
            height: 480,
            seconds,
            fps,
            seed: 0,
        }
    }

    #[test]
    fn every_frame_is_drawn_once_and_every_lane_sees_whole_groups_in_order() {
        for (frames, group) in [(1, 1), (24, 12), (125, 32), (600, 60), (7, 60)] {
            let order: Vec<(usize, u32)> = schedule(frames, group).collect();
            let mut seen: Vec<u32> = order.iter().map(|(_, frame)| *frame).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..frames).collect::<Vec<u32>>());
            for lane in 0..2 {
                let own: Vec<u32> = order.iter().filter(|o| o.0 == lane).map(|o| o.1).collect();
                assert!(own.is_sorted());
                let parity = |frame: &u32| (frame / group) as usize % 2 == lane;
                assert!(own.iter().all(parity), "{frames} {group}");
            }
        }
    }

    #[test]
    fn groups_are_whole_pyramids_of_three_seconds_at_most() {
        for (seconds, fps, length) in [(5.0, 30, 80), (5.0, 25, 64), (1.0, 24, 16), (20.0, 30, 80)]
        {
            assert_eq!(group_length(&options(seconds, fps)), length);
        }
    }
}
