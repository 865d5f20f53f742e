//! MP4 probe: reads size and length of a video from its container, and checks that the file is complete.
//!
//! The file is untrusted: sizes in it are checked against its length, tables are summed up instead
//! of being stored, and boxes are counted.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Boxes per file: an hour in fragments of a second has a quarter of this.
const BOXES: u32 = 200_000;

/// Nesting depth from a track to its tables.
const TABLES: u8 = 3;
/// Tracks whose fragment defaults are remembered.
const TRACKS: usize = 64;

/// The properties of the video according to its container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VideoProperties {
    pub width: u32,
    pub height: u32,
    pub milliseconds: u64,
}

/// Reads an MP4's container; anything else is refused.
pub fn measure(path: &Path) -> Result<VideoProperties, &'static str> {
    let mut reader = Mp4Reader::open(path)?;
    let size = reader.size;
    let mut start = [0; 12];
    if reader.file.read_exact_at(&mut start, 0).is_err() || &start[4..8] != b"ftyp" {
        return Err("the file is not an MP4 video");
    }
    let (mut video, mut fragments) = (None, FragmentTotals::default());
    let mut at = 0;
    while let Some(next) = reader.next(at, size)? {
        match &next.kind {
            b"moov" => {
                reader.movie(next, &mut video, &mut fragments.defaults)?;
                fragments.track = video.as_ref().map_or(0, |video: &Mp4Track| video.id);
            }
            b"moof" => reader.fragment(next, &mut fragments)?,
            _ => {}
        }
        at = next.end;
    }
    let video = video.ok_or("the file has no video track")?;
    if video.samples == 0 && fragments.samples == 0 {
        return Err(CUT);
    }
    let duration = match video.duration {
        0 => fragments.duration,
        told => told,
    };
    match duration.saturating_mul(1000) / video.timescale.max(1) {
        0 => Err("the video has no duration"),
        milliseconds => Ok(VideoProperties {
            width: video.width,
            height: video.height,
            milliseconds,
        }),
    }
}

const UNREADABLE: &str = "the file cannot be read";
const BROKEN: &str = "the file's container is broken";
const CUT: &str = "the file is truncated";

#[derive(Debug, Clone, Copy)]
struct Mp4Box {
    kind: [u8; 4],
    start: u64,
    end: u64,
}

impl Mp4Box {
    fn length(&self) -> u64 {
        self.end - self.start
    }
}

#[derive(Debug, Default)]
struct Mp4Track {
    is_video: bool,
    id: u32,
    width: u32,
    height: u32,
    timescale: u64,
    /// In the track's timescale; 0 if the fragments contain it.
    duration: u64,
    samples: u64,
}

/// What fragments add to the video track.
#[derive(Debug, Default)]
struct FragmentTotals {
    track: u32,
    /// Track ids with their default sample duration.
    defaults: Vec<(u32, u32)>,
    samples: u64,
    duration: u64,
}

struct Mp4Reader {
    file: File,
    size: u64,
    boxes: u32,
}

impl Mp4Reader {
    fn open(path: &Path) -> Result<Self, &'static str> {
        let open = || -> std::io::Result<_> {
            let file = File::open(path)?;
            let size = file.metadata()?.len();
            Ok((file, size))
        };
        let (file, size) = open().map_err(|_| UNREADABLE)?;
        Ok(Self {
            file,
            size,
            boxes: 0,
        })
    }

    /// The box at `at`, in a box that ends at `end`.
    fn next(&mut self, at: u64, end: u64) -> Result<Option<Mp4Box>, &'static str> {
        // Too short for a box, or zeros: padding.
        if end.saturating_sub(at) < 8 {
            return Ok(None);
        }
        self.boxes += 1;
        if self.boxes > BOXES {
            return Err(BROKEN);
        }
        let [a, b, c, d, kind @ ..] = self.bytes::<8>(at)?;
        // ISO/IEC 14496-12: with a length of 0 a box goes to the end of the file, with 1 its real
        // length follows in 64 bits.
        let (head, length) = match u32::from_be_bytes([a, b, c, d]) {
            0 if &kind == b"mdat" => (8, end - at),
            0 => return Ok(None),
            1 if end - at >= 16 => (16, u64::from_be_bytes(self.bytes(at + 8)?)),
            length => (8, u64::from(length)),
        };
        if length < head {
            return Err(BROKEN);
        }
        if length > end - at {
            // Only the file itself can have been cut short. A box inside another one is wrong.
            return Err(if end == self.size { CUT } else { BROKEN });
        }
        let (start, end) = (at + head, at + length);
        Ok(Some(Mp4Box { kind, start, end }))
    }

    fn bytes<const N: usize>(&self, at: u64) -> Result<[u8; N], &'static str> {
        let mut bytes = [0; N];
        let read = self.file.read_exact_at(&mut bytes, at);
        read.map(|()| bytes).map_err(|_| UNREADABLE)
    }

    /// The 32-bit number at `at` in a box.
    fn number(&self, from: Mp4Box, at: u64) -> Result<u32, &'static str> {
        if from.length() < at + 4 {
            return Err(BROKEN);
        }
        Ok(u32::from_be_bytes(self.bytes(from.start + at)?))
    }

    /// Calls `visit` for each child box.
    fn each(
        &mut self,
        within: Mp4Box,
        visit: &mut dyn FnMut(&mut Self, Mp4Box) -> Result<(), &'static str>,
    ) -> Result<(), &'static str> {
        let mut at = within.start;
        while let Some(next) = self.next(at, within.end)? {
            visit(self, next)?;
            at = next.end;
        }
        Ok(())
    }

    /// Finds the first video track.
    fn movie(
        &mut self,
        movie: Mp4Box,
        video: &mut Option<Mp4Track>,
        defaults: &mut Vec<(u32, u32)>,
    ) -> Result<(), &'static str> {
        self.each(movie, &mut |reader, next| match &next.kind {
            b"trak" => {
                let mut track = Mp4Track::default();
                reader.track(next, &mut track, TABLES)?;
                if track.is_video && video.is_none() {
                    *video = Some(track);
                }
                Ok(())
            }
            b"mvex" => reader.each(next, &mut |reader, next| {
                if &next.kind == b"trex" {
                    defaults.truncate(TRACKS - 1);
                    defaults.push((reader.number(next, 4)?, reader.number(next, 12)?));
                }
                Ok(())
            }),
            _ => Ok(()),
        })
    }

    fn track(
        &mut self,
        within: Mp4Box,
        track: &mut Mp4Track,
        depth: u8,
    ) -> Result<(), &'static str> {
        self.each(within, &mut |reader, next| {
            // In version 1 of these boxes times take 64 bits, which moves what follows.
            let is_long = |reader: &Self| reader.number(next, 0).map(|word| word >> 24 == 1);
            match &next.kind {
                b"mdia" | b"minf" | b"stbl" if depth > 0 => reader.track(next, track, depth - 1)?,
                b"tkhd" => {
                    let (id, size) = if is_long(reader)? { (20, 88) } else { (12, 76) };
                    track.id = reader.number(next, id)?;
                    // In units of 1/65536 of a pixel.
                    track.width = reader.number(next, size)? >> 16;
                    track.height = reader.number(next, size + 4)? >> 16;
                }
                b"mdhd" if is_long(reader)? => {
                    track.timescale = reader.number(next, 20)?.into();
                    let high = u64::from(reader.number(next, 24)?);
                    let low = u64::from(reader.number(next, 28)?);
                    track.duration = known_duration(high << 32 | low, u64::MAX);
                }
                b"mdhd" => {
                    track.timescale = reader.number(next, 12)?.into();
                    track.duration =
                        known_duration(reader.number(next, 16)?.into(), u32::MAX.into());
                }
                b"hdlr" => track.is_video = reader.number(next, 8)?.to_be_bytes() == *b"vide",
                b"stsz" => track.samples = reader.samples(next)?,
                b"stco" => reader.chunks(next, 4)?,
                b"co64" => reader.chunks(next, 8)?,
                _ => {}
            }
            Ok(())
        })
    }

    /// Number of samples in a table; all of them must fit into the file.
    fn samples(&self, table: Mp4Box) -> Result<u64, &'static str> {
        let (each, count) = (self.number(table, 4)?, self.number(table, 8)?.into());
        let sum = match each {
            0 => self.sum(table, 12, count, 4)?,
            each => u64::from(each) * count,
        };
        // A count is accepted only if the file has room for that many samples.
        if sum > self.size { Err(CUT) } else { Ok(count) }
    }

    /// Checks that the offsets in a table lie in the file.
    fn chunks(&self, table: Mp4Box, width: u64) -> Result<(), &'static str> {
        let mut lie_in = true;
        let count = self.number(table, 4)?.into();
        self.entries(table, 8, count, width, &mut |entry| {
            let place = entry
                .iter()
                .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
            lie_in &= place < self.size;
        })?;
        if lie_in { Ok(()) } else { Err(CUT) }
    }

    fn fragment(&mut self, within: Mp4Box, all: &mut FragmentTotals) -> Result<(), &'static str> {
        self.each(within, &mut |reader, next| {
            if &next.kind != b"traf" {
                return Ok(());
            }
            let mut default = None;
            reader.each(next, &mut |reader, next| {
                match &next.kind {
                    b"tfhd" if reader.number(next, 4)? == all.track => {
                        default = Some(reader.default(next, all)?);
                    }
                    b"trun" => {
                        if let Some(default) = default {
                            reader.run(next, default, all)?;
                        }
                    }
                    _ => {}
                }
                Ok(())
            })
        })
    }

    /// The default sample duration of a fragment.
    fn default(&self, head: Mp4Box, all: &FragmentTotals) -> Result<u32, &'static str> {
        // Flag 0x8 means that there is a default duration, 0x1 and 0x2 which fields come before it.
        let flags = self.number(head, 0)?;
        if flags & 0x8 == 0 {
            let told = all.defaults.iter().find(|(track, _)| *track == all.track);
            return Ok(told.map_or(0, |(_, duration)| *duration));
        }
        let base = if flags & 0x1 == 0 { 0 } else { 8 };
        let description = if flags & 0x2 == 0 { 0 } else { 4 };
        self.number(head, 8 + base + description)
    }

    fn run(&self, run: Mp4Box, default: u32, all: &mut FragmentTotals) -> Result<(), &'static str> {
        const DURATION: u32 = 0x100;
        // Flags 0x1 and 0x4 add a field to the head, those from 0x100 to 0x800 one to each sample.
        let flags = self.number(run, 0)?;
        let count = u64::from(self.number(run, 4)?);
        let head = 8 + 4 * u64::from((flags & 0x5).count_ones());
        let width = 4 * u64::from((flags & 0xf00).count_ones());
        let duration = if flags & DURATION == 0 {
            self.entries(run, head, count, width, &mut |_| {})?;
            u64::from(default) * count
        } else {
            // The duration is the first field of a sample.
            self.sum(run, head, count, width)?
        };
        all.samples = all.samples.saturating_add(count);
        all.duration = all.duration.saturating_add(duration);
        Ok(())
    }

    /// The sum of the first 32 bits of each entry of a table.
    fn sum(&self, of: Mp4Box, head: u64, count: u64, width: u64) -> Result<u64, &'static str> {
        let mut sum = 0_u64;
        self.entries(of, head, count, width, &mut |entry| {
            if let [a, b, c, d, ..] = *entry {
                sum = sum.saturating_add(u32::from_be_bytes([a, b, c, d]).into());
            }
        })?;
        Ok(sum)
    }

    /// Calls `visit` for each entry of a table after a box's first `head` bytes.
    fn entries(
        &self,
        of: Mp4Box,
        head: u64,
        count: u64,
        width: u64,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<(), &'static str> {
        const PIECE: u64 = 4096;
        // Checked before anything is read, because the count comes from the untrusted file.
        if of.length().saturating_sub(head) < count.saturating_mul(width) {
            return Err(BROKEN);
        }
        let (Ok(each), true) = (usize::try_from(width), width > 0) else {
            return Ok(());
        };
        let (mut left, mut at) = (count, of.start + head);
        let mut piece = Vec::new();
        while left > 0 {
            let now = left.min(PIECE);
            piece.resize(each * usize::try_from(now).unwrap_or(0), 0);
            let read = self.file.read_exact_at(&mut piece, at);
            read.map_err(|_| UNREADABLE)?;
            piece.chunks_exact(each).for_each(&mut *visit);
            (left, at) = (left - now, at + now * width);
        }
        Ok(())
    }
}

/// A duration, or 0 if it is the value for "unknown".
fn known_duration(duration: u64, unknown: u64) -> u64 {
    if duration == unknown { 0 } else { duration }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn of(kind: &str, content: &[&[u8]]) -> Vec<u8> {
        let content = content.concat();
        let length = u32::try_from(content.len() + 8).unwrap();
        [&length.to_be_bytes()[..], kind.as_bytes(), &content].concat()
    }

    fn numbers(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|n| n.to_be_bytes()).collect()
    }

    fn measured(file: &[u8]) -> Result<VideoProperties, &'static str> {
        let mut on_disk = tempfile::NamedTempFile::new().unwrap();
        on_disk.write_all(file).unwrap();
        measure(on_disk.path())
    }

    /// A film with these boxes in its sample table, or in fragments.
    fn film(duration: u32, tables: &[&[u8]], more: &[&[u8]]) -> Vec<u8> {
        let mut head = [0; 21];
        (head[3], head[19], head[20]) = (1, 640 << 16, 360 << 16);
        let track = [
            of("tkhd", &[&numbers(&head)]),
            of(
                "mdia",
                &[
                    &of("mdhd", &[&numbers(&[0, 0, 0, 1000, duration])]),
                    &of("hdlr", &[&numbers(&[0, 0]), b"vide"]),
                    &of("minf", &[&of("stbl", tables)]),
                ],
            ),
        ];
        let extends = of("mvex", &[&of("trex", &[&numbers(&[0, 1, 1, 40, 0, 0])])]);
        let movie = of("moov", &[&of("trak", &[&track.concat()]), &extends]);
        let start = of("ftyp", &[b"isom\0\0\0\0"]);
        [
            &start[..],
            &movie,
            &more.concat(),
            &of("mdat", &[&[0; 100]]),
        ]
        .concat()
    }

    const FILM: VideoProperties = VideoProperties {
        width: 640,
        height: 360,
        milliseconds: 2000,
    };

    #[test]
    fn tables_say_what_there_is() {
        let sizes = of("stsz", &[&numbers(&[0, 0, 2, 30, 40])]);
        let chunks = of("stco", &[&numbers(&[0, 1, 100])]);
        assert_eq!(measured(&film(2000, &[&sizes, &chunks], &[])), Ok(FILM));
        let far = of("stco", &[&numbers(&[0, 1, 1 << 20])]);
        assert_eq!(measured(&film(2000, &[&sizes, &far], &[])), Err(CUT));
        let whole = film(2000, &[&sizes, &chunks], &[]);
        assert_eq!(measured(&whole[..whole.len() - 1]), Err(CUT));
        let padded = [&whole[..], &[0; 13]].concat();
        assert_eq!(measured(&padded), Ok(FILM));
    }

    #[test]
    fn fragments_say_their_lengths_or_take_the_defaults() {
        let none = of("stsz", &[&numbers(&[0, 0, 0])]);
        let head = of("tfhd", &[&numbers(&[0, 1])]);
        let by_default = of("trun", &[&numbers(&[0, 25])]);
        let each = of("trun", &[&numbers(&[0x301, 2, 0, 400, 9, 600, 9])]);
        let fragment = of("moof", &[&of("traf", &[&head, &by_default, &each])]);
        assert_eq!(measured(&film(0, &[&none], &[&fragment])), Ok(FILM));
        assert_eq!(measured(&film(0, &[&none], &[])), Err(CUT));
    }

    /// A reader that keeps a record of each sample takes 300 GB for this.
    #[test]
    fn samples_that_take_no_room_in_the_file_are_not_believed() {
        let sizes = of("stsz", &[&numbers(&[0, 1, u32::MAX])]);
        assert_eq!(measured(&film(2000, &[&sizes], &[])), Err(CUT));
        let sizes = of("stsz", &[&numbers(&[0, 0, u32::MAX])]);
        assert_eq!(measured(&film(2000, &[&sizes], &[])), Err(BROKEN));
        let head = of("tfhd", &[&numbers(&[0, 1])]);
        let run = of("trun", &[&numbers(&[0, u32::MAX])]);
        let fragment = of("moof", &[&of("traf", &[&head, &run])]);
        // Counted, not held.
        measured(&film(2000, &[], &[&fragment])).unwrap();
    }

    #[test]
    fn boxes_in_boxes_come_to_an_end() {
        let mut deep = Vec::new();
        for _ in 0..4000 {
            deep = of("mdia", &[&deep]);
        }
        assert_eq!(measured(&film(2000, &[&deep], &[])), Err(CUT));
        let many: Vec<u8> = of("free", &[]).repeat(200_001);
        assert_eq!(measured(&film(2000, &[], &[&many])), Err(BROKEN));
    }
}
