//! MP4 probe: reads the codec, size and length of a video from its container, which may be a
//! `QuickTime` file, and checks that the file is complete.
//!
//! The file is untrusted: sizes in it are checked against its length, tables are summed up instead
//! of being stored, and boxes are counted.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::film_probe::{BROKEN, NO_VIDEO, TRUNCATED, UNREADABLE, VideoProperties};
use super::video_codec;

/// Maximum number of boxes per file: an hour in one-second fragments has a quarter of this.
const MAX_BOXES: u32 = 200_000;

/// Nesting depth from a track to its tables.
const TABLE_DEPTH: u8 = 3;
/// Maximum number of tracks whose fragment defaults are remembered.
const MAX_TRACKS: usize = 64;

/// Reads the container of a file that begins as an MP4 or a `QuickTime` file. The second value is the
/// name of the codec, if it has one here.
pub(super) fn measure(
    path: &Path,
) -> Result<(VideoProperties, Option<&'static str>), &'static str> {
    let mut reader = Mp4Reader::open(path)?;
    let size = reader.size;
    let (mut video, mut fragments) = (None, FragmentTotals::default());
    let mut offset = 0;
    while let Some(next) = reader.next(offset, size)? {
        match &next.kind {
            b"moov" => {
                reader.read_movie(next, &mut video, &mut fragments.defaults)?;
                fragments.track = video.as_ref().map_or(0, |video: &Mp4Track| video.id);
            }
            b"moof" => reader.read_fragment(next, &mut fragments)?,
            _ => {}
        }
        offset = next.end;
    }
    let video = video.ok_or(NO_VIDEO)?;
    if video.samples == 0 && fragments.samples == 0 {
        return Err(TRUNCATED);
    }
    let duration = match video.duration {
        0 => fragments.duration,
        duration => duration,
    };
    match duration.saturating_mul(1000) / video.timescale.max(1) {
        0 => Err("the video has no duration"),
        milliseconds => {
            let properties = VideoProperties {
                width: video.width,
                height: video.height,
                milliseconds,
            };
            Ok((properties, video.codec))
        }
    }
}

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
    codec: Option<&'static str>,
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

    /// The box at `offset`, in a box that ends at `end`.
    fn next(&mut self, offset: u64, end: u64) -> Result<Option<Mp4Box>, &'static str> {
        // Too short for a box: padding.
        if end.saturating_sub(offset) < 8 {
            return Ok(None);
        }
        self.boxes += 1;
        if self.boxes > MAX_BOXES {
            return Err(BROKEN);
        }
        let [a, b, c, d, kind @ ..] = self.bytes::<8>(offset)?;
        // ISO/IEC 14496-12: a box of length 0 extends to the end of the file. Only `mdat` may do
        // that here; other zeros are padding. With 1, the real length follows in 64 bits.
        let (head, length) = match u32::from_be_bytes([a, b, c, d]) {
            0 if &kind == b"mdat" => (8, end - offset),
            0 => return Ok(None),
            1 if end - offset >= 16 => (16, u64::from_be_bytes(self.bytes(offset + 8)?)),
            length => (8, u64::from(length)),
        };
        if length < head {
            return Err(BROKEN);
        }
        if length > end - offset {
            // A box that exceeds the file was cut short. One that exceeds another box is wrong.
            return Err(if end == self.size { TRUNCATED } else { BROKEN });
        }
        let (start, end) = (offset + head, offset + length);
        Ok(Some(Mp4Box { kind, start, end }))
    }

    fn bytes<const N: usize>(&self, offset: u64) -> Result<[u8; N], &'static str> {
        let mut bytes = [0; N];
        let read = self.file.read_exact_at(&mut bytes, offset);
        read.map(|()| bytes).map_err(|_| UNREADABLE)
    }

    /// The 32-bit number at `offset` in a box.
    fn number(&self, from: Mp4Box, offset: u64) -> Result<u32, &'static str> {
        if from.length() < offset + 4 {
            return Err(BROKEN);
        }
        Ok(u32::from_be_bytes(self.bytes(from.start + offset)?))
    }

    /// Calls `visit` for each child box.
    fn for_each_box(
        &mut self,
        parent: Mp4Box,
        visit: &mut dyn FnMut(&mut Self, Mp4Box) -> Result<(), &'static str>,
    ) -> Result<(), &'static str> {
        let mut offset = parent.start;
        while let Some(next) = self.next(offset, parent.end)? {
            visit(self, next)?;
            offset = next.end;
        }
        Ok(())
    }

    /// Finds the first video track.
    fn read_movie(
        &mut self,
        movie: Mp4Box,
        video: &mut Option<Mp4Track>,
        defaults: &mut Vec<(u32, u32)>,
    ) -> Result<(), &'static str> {
        self.for_each_box(movie, &mut |reader, next| match &next.kind {
            b"trak" => {
                let mut track = Mp4Track::default();
                reader.read_track(next, &mut track, TABLE_DEPTH)?;
                if track.is_video && video.is_none() {
                    *video = Some(track);
                }
                Ok(())
            }
            b"mvex" => reader.for_each_box(next, &mut |reader, next| {
                if &next.kind == b"trex" {
                    defaults.truncate(MAX_TRACKS - 1);
                    defaults.push((reader.number(next, 4)?, reader.number(next, 12)?));
                }
                Ok(())
            }),
            _ => Ok(()),
        })
    }

    fn read_track(
        &mut self,
        parent: Mp4Box,
        track: &mut Mp4Track,
        depth: u8,
    ) -> Result<(), &'static str> {
        self.for_each_box(parent, &mut |reader, next| {
            // In version 1 of these boxes times take 64 bits, which moves the fields after them.
            let is_long = |reader: &Self| reader.number(next, 0).map(|word| word >> 24 == 1);
            match &next.kind {
                b"mdia" | b"minf" | b"stbl" if depth > 0 => {
                    reader.read_track(next, track, depth - 1)?;
                }
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
                b"stsd" => track.codec = reader.codec(next)?,
                b"stsz" => track.samples = reader.samples(next)?,
                b"stco" => reader.chunks(next, 4)?,
                b"co64" => reader.chunks(next, 8)?,
                _ => {}
            }
            Ok(())
        })
    }

    /// The codec of the first entry of a table of sample descriptions.
    fn codec(&self, table: Mp4Box) -> Result<Option<&'static str>, &'static str> {
        // The table's head and the entry's size come before the entry's type.
        const KIND_OFFSET: u64 = 12;
        if table.length() < KIND_OFFSET + 4 {
            return Ok(None);
        }
        let kind = self.number(table, KIND_OFFSET)?.to_be_bytes();
        Ok(video_codec::named_by_sample_entry(kind))
    }

    /// Number of samples in a table; all of them must fit into the file.
    fn samples(&self, table: Mp4Box) -> Result<u64, &'static str> {
        let (sample_size, count) = (self.number(table, 4)?, self.number(table, 8)?.into());
        let sum = match sample_size {
            0 => self.sum(table, 12, count, 4)?,
            sample_size => u64::from(sample_size) * count,
        };
        // A count is accepted only if the file has room for that many samples.
        if sum > self.size {
            Err(TRUNCATED)
        } else {
            Ok(count)
        }
    }

    /// Checks that the offsets in a table lie in the file.
    fn chunks(&self, table: Mp4Box, width: u64) -> Result<(), &'static str> {
        let mut are_inside = true;
        let count = self.number(table, 4)?.into();
        self.entries(table, 8, count, width, &mut |entry| {
            let offset = entry
                .iter()
                .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
            are_inside &= offset < self.size;
        })?;
        if are_inside { Ok(()) } else { Err(TRUNCATED) }
    }

    fn read_fragment(
        &mut self,
        parent: Mp4Box,
        totals: &mut FragmentTotals,
    ) -> Result<(), &'static str> {
        self.for_each_box(parent, &mut |reader, next| {
            if &next.kind != b"traf" {
                return Ok(());
            }
            let mut default = None;
            reader.for_each_box(next, &mut |reader, next| {
                match &next.kind {
                    b"tfhd" if reader.number(next, 4)? == totals.track => {
                        default = Some(reader.default(next, totals)?);
                    }
                    b"trun" => {
                        if let Some(default) = default {
                            reader.run(next, default, totals)?;
                        }
                    }
                    _ => {}
                }
                Ok(())
            })
        })
    }

    /// The default sample duration of a fragment.
    fn default(&self, head: Mp4Box, totals: &FragmentTotals) -> Result<u32, &'static str> {
        // Flag 0x8: there is a default duration. Flags 0x1 and 0x2: a field comes before it.
        let flags = self.number(head, 0)?;
        if flags & 0x8 == 0 {
            let default = totals
                .defaults
                .iter()
                .find(|(track, _)| *track == totals.track);
            return Ok(default.map_or(0, |(_, duration)| *duration));
        }
        let base = if flags & 0x1 == 0 { 0 } else { 8 };
        let description = if flags & 0x2 == 0 { 0 } else { 4 };
        self.number(head, 8 + base + description)
    }

    fn run(
        &self,
        run: Mp4Box,
        default: u32,
        totals: &mut FragmentTotals,
    ) -> Result<(), &'static str> {
        const DURATION: u32 = 0x100;
        // Flags 0x1 and 0x4 each add a field to the head, flags 0x100 to 0x800 to every sample.
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
        totals.samples = totals.samples.saturating_add(count);
        totals.duration = totals.duration.saturating_add(duration);
        Ok(())
    }

    /// The sum of the first 32 bits of each entry of a table.
    fn sum(&self, table: Mp4Box, head: u64, count: u64, width: u64) -> Result<u64, &'static str> {
        let mut sum = 0_u64;
        self.entries(table, head, count, width, &mut |entry| {
            if let [a, b, c, d, ..] = *entry {
                sum = sum.saturating_add(u32::from_be_bytes([a, b, c, d]).into());
            }
        })?;
        Ok(sum)
    }

    /// Calls `visit` for each entry of a table after a box's first `head` bytes.
    fn entries(
        &self,
        table: Mp4Box,
        head: u64,
        count: u64,
        width: u64,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<(), &'static str> {
        const MAX_BATCH: u64 = 4096;
        // Checked before anything is read, because the count comes from the untrusted file.
        if table.length().saturating_sub(head) < count.saturating_mul(width) {
            return Err(BROKEN);
        }
        let (Ok(entry_size), true) = (usize::try_from(width), width > 0) else {
            return Ok(());
        };
        let (mut remaining, mut offset) = (count, table.start + head);
        let mut buffer = Vec::new();
        while remaining > 0 {
            let batch = remaining.min(MAX_BATCH);
            buffer.resize(entry_size * usize::try_from(batch).unwrap_or(0), 0);
            let read = self.file.read_exact_at(&mut buffer, offset);
            read.map_err(|_| UNREADABLE)?;
            buffer.chunks_exact(entry_size).for_each(&mut *visit);
            (remaining, offset) = (remaining - batch, offset + batch * width);
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

    fn mp4_box(kind: &str, content: &[&[u8]]) -> Vec<u8> {
        let content = content.concat();
        let length = u32::try_from(content.len() + 8).unwrap();
        [&length.to_be_bytes()[..], kind.as_bytes(), &content].concat()
    }

    fn numbers(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|n| n.to_be_bytes()).collect()
    }

    fn measure_bytes(file: &[u8]) -> Result<VideoProperties, &'static str> {
        let mut on_disk = tempfile::NamedTempFile::new().unwrap();
        on_disk.write_all(file).unwrap();
        measure(on_disk.path()).map(|(properties, _)| properties)
    }

    fn codec_with(tables: &[&[u8]]) -> Option<&'static str> {
        let mut on_disk = tempfile::NamedTempFile::new().unwrap();
        let sizes = mp4_box("stsz", &[&numbers(&[0, 0, 2, 30, 40])]);
        let mut tables = tables.to_vec();
        tables.push(&sizes);
        on_disk.write_all(&film(2000, &tables, &[])).unwrap();
        measure(on_disk.path()).unwrap().1
    }

    /// A film with `tables` in its sample table, and `other_boxes` after its `moov`.
    fn film(duration: u32, tables: &[&[u8]], other_boxes: &[&[u8]]) -> Vec<u8> {
        let mut head = [0; 21];
        (head[3], head[19], head[20]) = (1, 640 << 16, 360 << 16);
        let track = [
            mp4_box("tkhd", &[&numbers(&head)]),
            mp4_box(
                "mdia",
                &[
                    &mp4_box("mdhd", &[&numbers(&[0, 0, 0, 1000, duration])]),
                    &mp4_box("hdlr", &[&numbers(&[0, 0]), b"vide"]),
                    &mp4_box("minf", &[&mp4_box("stbl", tables)]),
                ],
            ),
        ];
        let extends = mp4_box(
            "mvex",
            &[&mp4_box("trex", &[&numbers(&[0, 1, 1, 40, 0, 0])])],
        );
        let movie = mp4_box("moov", &[&mp4_box("trak", &[&track.concat()]), &extends]);
        let start = mp4_box("ftyp", &[b"isom\0\0\0\0"]);
        [
            &start[..],
            &movie,
            &other_boxes.concat(),
            &mp4_box("mdat", &[&[0; 100]]),
        ]
        .concat()
    }

    const FILM: VideoProperties = VideoProperties {
        width: 640,
        height: 360,
        milliseconds: 2000,
    };

    #[test]
    fn sample_tables_are_checked_against_the_file() {
        let sizes = mp4_box("stsz", &[&numbers(&[0, 0, 2, 30, 40])]);
        let chunks = mp4_box("stco", &[&numbers(&[0, 1, 100])]);
        assert_eq!(
            measure_bytes(&film(2000, &[&sizes, &chunks], &[])),
            Ok(FILM)
        );
        let far = mp4_box("stco", &[&numbers(&[0, 1, 1 << 20])]);
        assert_eq!(
            measure_bytes(&film(2000, &[&sizes, &far], &[])),
            Err(TRUNCATED)
        );
        let whole = film(2000, &[&sizes, &chunks], &[]);
        assert_eq!(measure_bytes(&whole[..whole.len() - 1]), Err(TRUNCATED));
        let padded = [&whole[..], &[0; 13]].concat();
        assert_eq!(measure_bytes(&padded), Ok(FILM));
    }

    #[test]
    fn the_codec_is_that_of_the_first_description() {
        let entries = |kinds: &[&str]| {
            let count = u32::try_from(kinds.len()).unwrap();
            let boxes: Vec<u8> = kinds
                .iter()
                .flat_map(|kind| mp4_box(kind, &[&[0; 78]]))
                .collect();
            mp4_box("stsd", &[&numbers(&[0, count]), &boxes])
        };
        for (kind, codec) in [
            ("avc1", Some("h264")),
            ("avc3", Some("h264")),
            ("hvc1", Some("hevc")),
            ("hev1", Some("hevc")),
            ("av01", Some("av1")),
            ("vp09", Some("vp9")),
            ("vp08", Some("vp8")),
            ("mp4v", Some("mpeg4")),
            ("apcn", Some("prores")),
            ("xxxx", None),
        ] {
            assert_eq!(codec_with(&[&entries(&[kind])]), codec, "{kind}");
        }
        assert_eq!(codec_with(&[&entries(&["vp09", "avc1"])]), Some("vp9"));
        assert_eq!(codec_with(&[&entries(&[])]), None, "without an entry");
        assert_eq!(codec_with(&[]), None, "without descriptions");
    }

    #[test]
    fn fragments_have_their_own_durations_or_the_defaults() {
        let no_samples = mp4_box("stsz", &[&numbers(&[0, 0, 0])]);
        let head = mp4_box("tfhd", &[&numbers(&[0, 1])]);
        let by_default = mp4_box("trun", &[&numbers(&[0, 25])]);
        let own_durations = mp4_box("trun", &[&numbers(&[0x301, 2, 0, 400, 9, 600, 9])]);
        let fragment = mp4_box(
            "moof",
            &[&mp4_box("traf", &[&head, &by_default, &own_durations])],
        );
        assert_eq!(
            measure_bytes(&film(0, &[&no_samples], &[&fragment])),
            Ok(FILM)
        );
        assert_eq!(measure_bytes(&film(0, &[&no_samples], &[])), Err(TRUNCATED));
    }

    /// A reader that keeps a record of each sample would need 300 GB for this.
    #[test]
    fn samples_that_do_not_fit_into_the_file_are_refused() {
        let sizes = mp4_box("stsz", &[&numbers(&[0, 1, u32::MAX])]);
        assert_eq!(measure_bytes(&film(2000, &[&sizes], &[])), Err(TRUNCATED));
        let sizes = mp4_box("stsz", &[&numbers(&[0, 0, u32::MAX])]);
        assert_eq!(measure_bytes(&film(2000, &[&sizes], &[])), Err(BROKEN));
        let head = mp4_box("tfhd", &[&numbers(&[0, 1])]);
        let run = mp4_box("trun", &[&numbers(&[0, u32::MAX])]);
        let fragment = mp4_box("moof", &[&mp4_box("traf", &[&head, &run])]);
        // Counted, not stored.
        measure_bytes(&film(2000, &[], &[&fragment])).unwrap();
    }

    #[test]
    fn the_depth_and_number_of_boxes_are_limited() {
        let mut deep = Vec::new();
        for _ in 0..4000 {
            deep = mp4_box("mdia", &[&deep]);
        }
        assert_eq!(measure_bytes(&film(2000, &[&deep], &[])), Err(TRUNCATED));
        let many: Vec<u8> = mp4_box("free", &[]).repeat(200_001);
        assert_eq!(measure_bytes(&film(2000, &[], &[&many])), Err(BROKEN));
    }
}
