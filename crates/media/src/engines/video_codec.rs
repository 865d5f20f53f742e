//! The names of video codecs, and how containers write them.

use mediagate_model::media::MediaType;

/// The codec of the embedded model's films.
pub const H264: &str = "h264";

/// A codec, and what says so in a container.
struct CodecEntry {
    name: &'static str,
    /// Its sample entries in MP4 and `QuickTime`.
    sample_entries: &'static [&'static [u8; 4]],
    /// Its codec ids in Matroska and `WebM`.
    codec_ids: &'static [&'static str],
    /// The containers that hold no other codec.
    containers: &'static [MediaType],
}

/// The codecs that have a name here. The sample entries are those of <https://mp4ra.org>, the codec
/// ids those of the Matroska codec specification.
static CODECS: [CodecEntry; 13] = [
    CodecEntry {
        name: H264,
        sample_entries: &[b"avc1", b"avc2", b"avc3", b"avc4", b"dvav", b"dva1"],
        codec_ids: &["V_MPEG4/ISO/AVC"],
        containers: &[],
    },
    CodecEntry {
        name: "hevc",
        sample_entries: &[b"hvc1", b"hev1", b"hvc2", b"hev2", b"dvhe", b"dvh1"],
        codec_ids: &["V_MPEGH/ISO/HEVC"],
        containers: &[],
    },
    CodecEntry {
        name: "vvc",
        sample_entries: &[b"vvc1", b"vvi1"],
        codec_ids: &["V_MPEGI/ISO/VVC"],
        containers: &[],
    },
    CodecEntry {
        name: "av1",
        sample_entries: &[b"av01"],
        codec_ids: &["V_AV1"],
        containers: &[],
    },
    CodecEntry {
        name: "vp9",
        sample_entries: &[b"vp09"],
        codec_ids: &["V_VP9"],
        containers: &[],
    },
    CodecEntry {
        name: "vp8",
        sample_entries: &[b"vp08"],
        codec_ids: &["V_VP8"],
        containers: &[],
    },
    CodecEntry {
        name: "mpeg4",
        sample_entries: &[b"mp4v"],
        codec_ids: &["V_MPEG4/ISO/SP", "V_MPEG4/ISO/ASP", "V_MPEG4/ISO/AP"],
        containers: &[],
    },
    CodecEntry {
        name: "prores",
        sample_entries: &[b"apch", b"apcn", b"apcs", b"apco", b"ap4h", b"ap4x"],
        codec_ids: &["V_PRORES"],
        containers: &[],
    },
    CodecEntry {
        name: "mjpeg",
        sample_entries: &[b"jpeg", b"mjpa", b"mjpb"],
        codec_ids: &["V_MJPEG"],
        containers: &[],
    },
    CodecEntry {
        name: "mpeg2",
        sample_entries: &[],
        codec_ids: &["V_MPEG2"],
        containers: &[],
    },
    CodecEntry {
        name: "theora",
        sample_entries: &[],
        codec_ids: &["V_THEORA"],
        // A film in Ogg is recognised by it.
        containers: &[MediaType::Ogv],
    },
    CodecEntry {
        name: "gif",
        sample_entries: &[],
        codec_ids: &[],
        containers: &[MediaType::Gif],
    },
    CodecEntry {
        name: "webp",
        sample_entries: &[],
        codec_ids: &[],
        containers: &[MediaType::Webp],
    },
];

fn name(is_matching: impl Fn(&CodecEntry) -> bool) -> Option<&'static str> {
    let entry = CODECS.iter().find(|entry| is_matching(entry));
    entry.map(|entry| entry.name)
}

/// The codec of a sample entry in MP4 or `QuickTime`.
pub(super) fn named_by_sample_entry(kind: [u8; 4]) -> Option<&'static str> {
    name(|codec| codec.sample_entries.iter().any(|entry| **entry == kind))
}

/// The codec of a codec id in Matroska.
pub(super) fn named_by_codec_id(id: &[u8]) -> Option<&'static str> {
    name(|codec| codec.codec_ids.iter().any(|known| known.as_bytes() == id))
}

/// The codec of a container that holds no other.
pub(super) fn named_by_container(media: MediaType) -> Option<&'static str> {
    name(|codec| codec.containers.contains(&media))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codecs_have_one_name_in_every_container() {
        for (kind, id, codec) in [
            (b"avc1", "V_MPEG4/ISO/AVC", "h264"),
            (b"hev1", "V_MPEGH/ISO/HEVC", "hevc"),
            (b"av01", "V_AV1", "av1"),
            (b"vp09", "V_VP9", "vp9"),
            (b"vp08", "V_VP8", "vp8"),
            (b"mp4v", "V_MPEG4/ISO/ASP", "mpeg4"),
            (b"apch", "V_PRORES", "prores"),
        ] {
            assert_eq!(named_by_sample_entry(*kind), Some(codec));
            assert_eq!(named_by_codec_id(id.as_bytes()), Some(codec));
        }
        assert_eq!(named_by_container(MediaType::Gif), Some("gif"));
    }

    #[test]
    fn an_unknown_codec_has_no_name() {
        assert_eq!(named_by_sample_entry(*b"mp4a"), None);
        assert_eq!(named_by_codec_id(b"V_UNCOMPRESSED"), None);
        assert_eq!(named_by_container(MediaType::Mp4), None);
    }
}
