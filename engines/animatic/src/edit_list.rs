//! The edit list of a finished file: which part of the sound track is played.
//!
//! The first AAC packet only primes the decoder. Players skip it if an edit list says so. Without
//! one, Apple's players skip 2,112 samples, and the sound is early. The MP4 writer does not support
//! edit lists, so one is inserted between the boxes that it wrote. An edit's start is in units of
//! the track's timescale, but ffmpeg's reader, which Chromium uses too, takes it for samples. So
//! the sound track's timescale is set to its sample rate.
//!
//! This module knows boxes (ISO/IEC 14496-12) as far as needed, and nothing about codecs.

use std::ops::Range;

/// Which part of a sound track is played.
pub(crate) struct SoundEdit {
    /// Samples per second.
    pub(crate) rate: u32,
    /// The first sample to play.
    pub(crate) first: u32,
    /// Duration, in the file's timescale.
    pub(crate) length: u32,
}

/// Adds the edit to the sound track of a file. `None` if the file is not as expected.
pub(crate) fn edit_sound(mut mp4: Vec<u8>, edit: &SoundEdit) -> Option<Vec<u8>> {
    let movie = boxes(&mp4, 0..mp4.len()).find(|b| b.is(*b"moov"))?;
    let tracks: Vec<Mp4Box> = boxes(&mp4, movie.content())
        .filter(|b| b.is(*b"trak"))
        .collect();
    let sound = *tracks.iter().find(|track| is_sound(&mp4, track))?;
    // This changes values in place and no lengths, so the boxes found above keep their positions.
    set_sample_timescale(&mut mp4, sound, edit.rate)?;
    let list = edit_list(edit);
    let list_bytes = u32::try_from(list.len()).ok()?;
    // The samples come after all boxes, so every offset to them grows by the list's length. The
    // offsets have 32 bits (`stco`), because no film comes near 4 GiB; a file with others is
    // refused.
    for track in tracks {
        let table = find_box(&mp4, track, &[*b"mdia", *b"minf", *b"stbl", *b"stco"])?;
        for offset in table.content().skip(8).step_by(4) {
            raise(&mut mp4, offset, list_bytes)?;
        }
    }
    // The track header's duration must be the sum of the track's edits (ISO/IEC 14496-12, 8.3.2).
    let header = find_box(&mp4, sound, &[*b"tkhd"])?;
    write(&mut mp4, header.start + TRACK_DURATION, edit.length)?;
    // The list lies in the track, and the track in the movie: both boxes grow.
    raise(&mut mp4, sound.start, list_bytes)?;
    raise(&mut mp4, movie.start, list_bytes)?;
    // The splice comes last: it moves everything behind it, so the positions above become wrong.
    mp4.splice(header.end..header.end, list);
    Some(mp4)
}

/// Sets a track's timescale to its sample rate.
fn set_sample_timescale(mp4: &mut [u8], sound: Mp4Box, rate: u32) -> Option<()> {
    let header = find_box(mp4, sound, &[*b"mdia", *b"mdhd"])?.start;
    let old_timescale = u64::from(read(mp4, header + MEDIA_TIMESCALE)?);
    write(mp4, header + MEDIA_TIMESCALE, rate)?;
    let lengths = find_box(mp4, sound, &[*b"mdia", *b"minf", *b"stbl", *b"stts"])?;
    // The division is exact: the writer counts 90,000 units a second, so a packet of 1,024 samples
    // at 48 kHz has 1,920.
    let mut rescale = |offset: usize| {
        let scaled = u64::from(read(mp4, offset)?) * u64::from(rate);
        write(
            mp4,
            offset,
            u32::try_from(scaled.checked_div(old_timescale)?).ok()?,
        )
    };
    rescale(header + MEDIA_TIMESCALE + 4)?;
    // Pairs of packet count and packet length.
    lengths.content().skip(12).step_by(8).try_for_each(rescale)
}

/// A box with one edit, at normal speed.
fn edit_list(edit: &SoundEdit) -> Vec<u8> {
    // Version 0, with times of 32 bits. The speed is a fixed-point number: 1 << 16 is 1.0.
    let fields = [
        36,
        u32::from_be_bytes(*b"edts"),
        28,
        u32::from_be_bytes(*b"elst"),
        0,
        1,
        edit.length,
        edit.first,
        1 << 16,
    ];
    fields.into_iter().flat_map(u32::to_be_bytes).collect()
}

/// A box: its start, its kind and its end.
#[derive(Clone, Copy)]
struct Mp4Box {
    start: usize,
    kind: [u8; 4],
    end: usize,
}

impl Mp4Box {
    fn is(&self, kind: [u8; 4]) -> bool {
        self.kind == kind
    }

    fn content(&self) -> Range<usize> {
        self.start + 8..self.end
    }
}

/// The boxes of a range, up to the first damaged one.
fn boxes(mp4: &[u8], range: Range<usize>) -> impl Iterator<Item = Mp4Box> {
    let mut offset = range.start;
    std::iter::from_fn(move || {
        // Sizes 0 (up to the end) and 1 (64 bits follow) end the walk: the writer makes neither.
        let size = read(mp4, offset)? as usize;
        let kind = mp4.get(offset + 4..offset + 8)?.try_into().ok()?;
        let end = offset.checked_add(size)?;
        let next_box = (size >= 8 && end <= range.end).then_some(Mp4Box {
            start: offset,
            kind,
            end,
        });
        offset = end;
        next_box
    })
}

/// The box at a path of kinds.
fn find_box(mp4: &[u8], outer: Mp4Box, path: &[[u8; 4]]) -> Option<Mp4Box> {
    path.iter().try_fold(outer, |outer, kind| {
        boxes(mp4, outer.content()).find(|b| b.is(*kind))
    })
}

fn is_sound(mp4: &[u8], track: &Mp4Box) -> bool {
    let handler = find_box(mp4, *track, &[*b"mdia", *b"hdlr"]);
    let kind = handler.and_then(|handler| mp4.get(handler.start + 16..handler.start + 20));
    kind == Some(b"soun")
}

fn read(mp4: &[u8], offset: usize) -> Option<u32> {
    let bytes = mp4.get(offset..offset.checked_add(4)?)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

fn write(mp4: &mut [u8], offset: usize, value: u32) -> Option<()> {
    mp4.get_mut(offset..offset + 4)?
        .copy_from_slice(&value.to_be_bytes());
    Some(())
}

fn raise(mp4: &mut [u8], offset: usize, amount: u32) -> Option<()> {
    let value = read(mp4, offset)?.checked_add(amount)?;
    write(mp4, offset, value)
}

/// Bytes from a track header's start to its duration, where times have 32 bits.
const TRACK_DURATION: usize = 28;

/// Bytes from a media header's start to its timescale; its duration follows.
const MEDIA_TIMESCALE: usize = 20;
