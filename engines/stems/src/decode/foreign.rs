//! Names of files and codecs that are not supported, found by their first bytes, so that a message
//! can say what was sent.

/// Magic numbers: offset, bytes, name.
const MAGIC: [(usize, &[u8], &str); 45] = [
    (0, b"\x30\x26\xb2\x75", "Windows Media Audio"),
    (0, b"wvpk", "WavPack audio"),
    (0, b"MAC ", "Monkey's Audio"),
    (0, b"TTA1", "True Audio (TTA)"),
    (0, b"TTA2", "True Audio (TTA)"),
    (0, b"#!AMR", "AMR audio"),
    (0, b"#!SILK", "SILK audio"),
    (0, b"\x02#!SILK", "SILK audio"),
    (0, b".snd", "Sun AU audio"),
    (0, b"dns.", "Sun AU audio"),
    (0, b"Creative Voice File", "Creative Voice (VOC) audio"),
    (0, b"\x7f\xfe\x80\x01", "DTS audio"),
    (0, b"\xfe\x7f\x01\x80", "DTS audio"),
    (0, b"\x1f\xff\xe8\x00", "DTS audio"),
    (0, b"\xff\x1f\x00\xe8", "DTS audio"),
    (0, b"DTSHDHDR", "DTS audio"),
    (0, b"\x0b\x77", "AC-3 audio"),
    (4, b"\xf8\x72\x6f\xba", "TrueHD audio"),
    (4, b"\xf8\x72\x6f\xbb", "MLP audio"),
    (0, b"MThd", "a MIDI file"),
    (0, b"MP+", "Musepack audio"),
    (0, b"MPCK", "Musepack audio"),
    (0, b"ajkg", "Shorten audio"),
    (0, b"OFR ", "OptimFROG audio"),
    (0, b"DSD ", "DSD audio"),
    (0, b"FRM8", "DSD audio"),
    (0, b"ADIF", "AAC in ADIF"),
    (0, b"FLV\x01", "a Flash video"),
    (8, b"AVI ", "an AVI film"),
    (0, b"\0\0\x01\xba", "an MPEG program stream"),
    (0, b"\0\0\x01\xb3", "an MPEG film"),
    (0, b".RMF", "RealMedia"),
    (0, b".ra\xfd", "RealAudio"),
    (0, b"IMPM", "a tracker module"),
    (0, b"Extended Module", "a tracker module"),
    (0, b"%PDF", "a PDF document"),
    (0, b"\x89PNG", "a PNG picture"),
    (0, b"\xff\xd8\xff", "a JPEG picture"),
    (0, b"GIF8", "a GIF picture"),
    (8, b"WEBP", "a WebP picture"),
    (0, b"PK\x03\x04", "a ZIP archive"),
    (0, b"\x1f\x8b", "a gzip archive"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (0, b"Rar!", "a RAR archive"),
    (0, b"#EXTM3U", "a playlist"),
];

/// The name of a file that is not supported.
pub(super) fn name(bytes: &[u8]) -> Option<&'static str> {
    let has = |offset: usize, magic: &[u8]| {
        bytes
            .get(offset..)
            .is_some_and(|bytes| bytes.starts_with(magic))
    };
    if let Some((.., name)) = MAGIC.iter().find(|(offset, magic, _)| has(*offset, magic)) {
        return Some(name);
    }
    let repeats = |byte: u8, first: usize, distance: usize| {
        (0..3).all(|n| bytes.get(first + n * distance) == Some(&byte))
    };
    if repeats(0x47, 0, 188) || repeats(0x47, 4, 192) {
        return Some("an MPEG transport stream");
    }
    if is_loas(bytes) {
        return Some("AAC in a LATM stream");
    }
    let is_markup = bytes.trim_ascii_start().first() == Some(&b'<');
    is_markup.then_some("a web page or XML")
}

/// The frames of LOAS begin with eleven bits of a mark and thirteen of their length.
fn is_loas(bytes: &[u8]) -> bool {
    let length = |bytes: &[u8]| match bytes {
        &[0x56, b, c, ..] if b & 0xe0 == 0xe0 => {
            Some(3 + (usize::from(b & 0x1f) << 8 | usize::from(c)))
        }
        _ => None,
    };
    let next = length(bytes).and_then(|first| bytes.get(first..));
    next.is_some_and(|next| length(next).is_some())
}

/// The name of an Ogg stream's codec, by its first packet.
pub(super) fn ogg_codec(packet: &[u8]) -> Option<&'static str> {
    const CODECS: [(&[u8], &str); 6] = [
        (b"Speex   ", "Speex audio"),
        (b"\x80theora", "Theora video"),
        (b"\x80kate", "Kate text"),
        (b"CELT    ", "CELT audio"),
        (b"PCM     ", "PCM in Ogg"),
        (b"fishead", "an Ogg skeleton"),
    ];
    let codec = CODECS.iter().find(|(start, _)| packet.starts_with(start));
    codec.map(|(_, name)| *name)
}

/// The name of a sound sample of MPEG-4 that no decoder here knows, by its four characters.
pub(super) fn mp4_codec(kind: [u8; 4]) -> Option<&'static str> {
    Some(match &kind {
        b"samr" => "AMR audio",
        b"sawb" | b"sawp" => "AMR wideband audio",
        b"ac-3" => "AC-3 audio",
        b"ec-3" => "E-AC-3 audio",
        b"ac-4" => "AC-4 audio",
        b"dtsc" | b"dtsh" | b"dtsl" | b"dtse" | b"dtsx" => "DTS audio",
        b"mlpa" => "TrueHD audio",
        b"agsm" => "GSM audio",
        b"QDM2" | b"QDMC" | b"Qclp" | b"sqcp" | b"sevc" => "an old codec of phones or QuickTime",
        b"mha1" | b"mhm1" => "MPEG-H audio",
        _ => return None,
    })
}

/// The name of a Matroska sound track's codec that no decoder here knows.
pub(super) fn matroska_codec(head: &[u8]) -> Option<&'static str> {
    const CODECS: [(&[u8], &str); 6] = [
        (b"A_AC3", "AC-3 audio"),
        (b"A_EAC3", "E-AC-3 audio"),
        (b"A_DTS", "DTS audio"),
        (b"A_TRUEHD", "TrueHD audio"),
        (b"A_WAVPACK4", "WavPack audio"),
        (b"A_TTA1", "True Audio (TTA)"),
    ];
    let found = |codec: &[u8]| head.windows(codec.len()).any(|window| window == codec);
    let codec = CODECS.iter().find(|(codec, _)| found(codec));
    codec.map(|(_, name)| *name)
}
