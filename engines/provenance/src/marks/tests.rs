//! Files put together by hand, damaged ones among them.

use std::io::Cursor;

use proptest::prelude::*;

use super::*;

const PACKET: &str = r#"<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF><rdf:Description xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/" Iptc4xmpExt:DigitalSourceType="http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"/></rdf:RDF></x:xmpmeta>"#;
const TRAINED: &str = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia";

fn marks(bytes: &[u8]) -> Result<FileMarks, MarksError> {
    read(Cursor::new(bytes))
}

/// Bytes that look like a manifest store: a string of CBOR among other bytes.
fn manifest() -> Vec<u8> {
    let mut bytes = b"\x00\x00\x00\x80jumb...digitalSourceType\x78".to_vec();
    bytes.push(u8::try_from(TRAINED.len()).unwrap());
    bytes.extend(TRAINED.bytes());
    bytes.extend(b"fabcdef");
    bytes
}

fn mp4_box(kind: &[u8], body: &[u8]) -> Vec<u8> {
    let size = u32::try_from(body.len() + 8).unwrap();
    [&size.to_be_bytes()[..], kind, body].concat()
}

fn c2pa_box(manifest: &[u8]) -> Vec<u8> {
    let id = [
        0xd8, 0xfe, 0xc3, 0xd6, 0x1b, 0x0e, 0x48, 0x3c, 0x92, 0x97, 0x58, 0x28, 0x87, 0x7e, 0xc4,
        0x81,
    ];
    let body = [&id[..], &[0; 4], b"manifest\0", &[0; 8], manifest].concat();
    mp4_box(b"uuid", &body)
}

fn mp4(boxes: &[u8]) -> Vec<u8> {
    [&mp4_box(b"ftyp", b"isom\0\0\0\0")[..], boxes].concat()
}

fn chunk(kind: &[u8], body: &[u8]) -> Vec<u8> {
    let size = u32::try_from(body.len()).unwrap();
    [&size.to_be_bytes()[..], kind, body, &[0; 4]].concat()
}

fn png(chunks: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    bytes.extend(chunk(b"IHDR", &[0; 13]));
    bytes.extend(chunks.concat());
    bytes.extend(chunk(b"IEND", &[]));
    bytes
}

fn riff(kind: &[u8], body: &[u8]) -> Vec<u8> {
    let size = u32::try_from(body.len()).unwrap();
    let mut bytes = [kind, &size.to_le_bytes()[..], body].concat();
    bytes.extend(vec![0; body.len() % 2]);
    bytes
}

fn wav(chunks: &[Vec<u8>]) -> Vec<u8> {
    [b"RIFF\0\0\0\0WAVE", &chunks.concat()[..]].concat()
}

fn tag(version: u8, frames: &[(&[u8], Vec<u8>)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (kind, data) in frames {
        let size = u32::try_from(data.len()).unwrap();
        assert!(size < 1 << 14);
        let size = if version == 3 {
            size.to_be_bytes()
        } else {
            syncsafe(size)
        };
        body.extend([kind, &size[..], &[0; 2], data].concat());
    }
    let size = syncsafe(u32::try_from(body.len()).unwrap());
    [b"ID3", &[version, 0, 0][..], &size, &body].concat()
}

fn syncsafe(size: u32) -> [u8; 4] {
    [size >> 21, size >> 14, size >> 7, size].map(|bits| (bits & 0x7f).to_le_bytes()[0])
}

fn object(manifest: &[u8]) -> Vec<u8> {
    [b"\0application/c2pa\0c2pa\0c2pa manifest store\0", manifest].concat()
}

fn flac(blocks: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = b"fLaC".to_vec();
    for (index, (kind, body)) in blocks.iter().enumerate() {
        let last = if index + 1 == blocks.len() { 0x80 } else { 0 };
        let size = u32::try_from(body.len()).unwrap().to_be_bytes();
        bytes.extend([&[kind | last][..], &size[1..], body].concat());
    }
    bytes
}

fn comments(entries: &[&str]) -> Vec<u8> {
    let counted = |text: &str| {
        let size = u32::try_from(text.len()).unwrap().to_le_bytes();
        [&size[..], text.as_bytes()].concat()
    };
    let mut bytes = counted("reference 1");
    bytes.extend(u32::try_from(entries.len()).unwrap().to_le_bytes());
    bytes.extend(entries.iter().flat_map(|entry| counted(entry)));
    bytes
}

fn segment(kind: u8, body: &[u8]) -> Vec<u8> {
    let size = u16::try_from(body.len() + 2).unwrap();
    [&[0xff, kind][..], &size.to_be_bytes(), body].concat()
}

/// One part of a box that is spread over several segments.
fn part(number: u32, bytes: &[u8]) -> Vec<u8> {
    segment(
        0xeb,
        &[b"JP\x02\x11", &number.to_be_bytes()[..], bytes].concat(),
    )
}

fn jpeg(segments: &[Vec<u8>]) -> Vec<u8> {
    let pixels = segment(0xda, &[0; 10]);
    [
        &[0xff, 0xd8][..],
        &segments.concat(),
        &pixels,
        &[0xff, 0xd9],
    ]
    .concat()
}

/// A manifest store with its description, by which it is recognised in a JPEG.
fn described() -> Vec<u8> {
    [
        &b"\0\0\0\x80jumb\0\0\0\x1ejumdc2pa"[..],
        &[0; 18],
        &manifest(),
    ]
    .concat()
}

fn samples() -> Vec<Vec<u8>> {
    let xmp = [b"XML:com.adobe.xmp\0\0\0\0\0", PACKET.as_bytes()].concat();
    let private = [b"XMP\0", PACKET.as_bytes()].concat();
    vec![
        mp4(&c2pa_box(&manifest())),
        mp4(&mp4_box(
            b"moov",
            &mp4_box(b"udta", &mp4_box(b"XMP_", PACKET.as_bytes())),
        )),
        png(&[chunk(b"caBX", &manifest()), chunk(b"iTXt", &xmp)]),
        wav(&[
            riff(b"fmt ", &[0; 16]),
            riff(b"C2PA", &manifest()),
            riff(b"_PMX", PACKET.as_bytes()),
        ]),
        [
            tag(3, &[(b"GEOB", object(&manifest()))]),
            flac(&[(0, vec![0; 34])]),
        ]
        .concat(),
        [
            tag(4, &[(b"GEOB", object(&manifest())), (b"PRIV", private)]),
            vec![0xff, 0xfb],
        ]
        .concat(),
        jpeg(&[
            segment(
                0xe1,
                &[b"http://ns.adobe.com/xap/1.0/\0", PACKET.as_bytes()].concat(),
            ),
            part(1, &described()),
        ]),
    ]
}

#[test]
fn a_manifest_in_several_segments_is_one() {
    let box_bytes = described();
    let (start, rest) = box_bytes.split_at(60);
    let head = &box_bytes[..8];
    let bytes = jpeg(&[part(1, start), part(2, &[head, rest].concat())]);
    let result = marks(&bytes).unwrap();
    assert_eq!(result.manifests, 1);
    let range = result.manifest.unwrap();
    assert!(bytes[..usize::try_from(range.end).unwrap()].ends_with(rest));
    // Other boxes, and the thumbnails of cameras, are not manifests.
    let other = [&b"\0\0\0\x80jumb\0\0\0\x1ejumdjson"[..], &[0; 40]].concat();
    let result = marks(&jpeg(&[
        part(1, &other),
        segment(0xeb, b"HDR_RI"),
        segment(0xed, b"Photoshop 3.0\08BIM\x04\x04"),
    ]));
    let result = result.unwrap();
    assert_eq!((result.manifests, result.iptc), (0, true));
    let broken = [
        &[0xff, 0xd8][..],
        &segment(0xe0, b"JFIF"),
        &[0x12, 0x34, 0, 9],
    ]
    .concat();
    assert!(matches!(marks(&broken), Err(MarksError::Damaged { .. })));
}

#[test]
fn finds_each_manifest_where_it_lies() {
    for bytes in [0, 2, 3, 4, 5].map(|index| samples()[index].clone()) {
        let marks = marks(&bytes).unwrap();
        let range = marks.manifest.unwrap();
        let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
        assert_eq!(bytes[range], manifest(), "{:?}", marks.kind);
        assert_eq!(marks.manifests, 1);
        assert_eq!(marks.digital_source_type.as_deref(), Some(TRAINED));
    }
}

#[test]
fn tells_the_kinds_apart() {
    let kinds = samples()
        .iter()
        .map(|bytes| marks(bytes).unwrap().kind)
        .collect::<Vec<_>>();
    assert_eq!(
        kinds,
        [
            FileKind::Mp4,
            FileKind::Mp4,
            FileKind::Png,
            FileKind::Wav,
            FileKind::Flac,
            FileKind::Mp3,
            FileKind::Jpeg
        ]
    );
}

#[test]
fn reads_xmp_in_each_of_its_places() {
    for index in [1, 2, 3, 5, 6] {
        let marks = marks(&samples()[index]).unwrap();
        assert!(marks.xmp && marks.iptc, "{:?}", marks.kind);
        assert_eq!(marks.digital_source_type.as_deref(), Some(TRAINED));
    }
}

#[test]
fn a_property_is_read_in_every_serialisation() {
    for packet in [
        "<r xmlns:a='b' e:DigitalSourceType = 'x:y'/>",
        "<e:DigitalSourceType>x:y</e:DigitalSourceType>",
        "<e:DigitalSourceType rdf:resource=\"x:y\"/>",
        "<e:DigitalSourceType><rdf:Bag><rdf:li>x:y</rdf:li></rdf:Bag></e:DigitalSourceType>",
        "<e:DigitalSourceTypeOther>no</e:DigitalSourceTypeOther><e:DigitalSourceType>x:y</e:DigitalSourceType>",
    ] {
        let mut marks = FileMarks::for_kind(FileKind::Png);
        origin_text::xmp(packet.as_bytes(), &mut marks);
        assert_eq!(
            marks.digital_source_type.as_deref(),
            Some("x:y"),
            "{packet}"
        );
    }
}

#[test]
fn a_manifest_elsewhere_is_reported_and_not_fetched() {
    let mut marks = FileMarks::for_kind(FileKind::Png);
    origin_text::xmp(
        b"<r dcterms:provenance=\"https://example.org/m.c2pa\"/>",
        &mut marks,
    );
    assert_eq!(
        marks.remote_manifest.as_deref(),
        Some("https://example.org/m.c2pa")
    );
}

#[test]
fn reads_chinas_label_in_each_container() {
    let label = r#"{"Label":"1","ContentProducer":"x"}"#;
    let keys = [&[0; 4][..], &1u32.to_be_bytes(), &mp4_box(b"mdta", b"AIGC")].concat();
    let data = mp4_box(b"data", &[&[0; 8][..], label.as_bytes()].concat());
    let item = mp4_box(&1u32.to_be_bytes(), &data);
    let meta = [
        &[0; 4][..],
        &mp4_box(b"keys", &keys),
        &mp4_box(b"ilst", &item),
    ]
    .concat();
    let info = [b"INFO", &riff(b"AIGC", label.as_bytes())[..]].concat();
    for bytes in [
        mp4(&mp4_box(b"moov", &mp4_box(b"meta", &meta))),
        png(&[chunk(b"tEXt", format!("AIGC\0{label}").as_bytes())]),
        wav(&[riff(b"LIST", &info)]),
        flac(&[(4, comments(&[&format!("aigc={label}")]))]),
        tag(3, &[(b"TXXX", format!("\0AIGC\0{label}").into_bytes())]),
    ] {
        assert_eq!(marks(&bytes).unwrap().aigc.as_deref(), Some(label));
    }
}

#[test]
fn frames_with_stuffed_zeros_are_read_and_grouped_ones_skipped() {
    // UTF-16 with a byte order mark, in which every 0xff is followed by a zero.
    let text = "AIGC\0{\"a\":1}".encode_utf16().flat_map(u16::to_le_bytes);
    let stuffed: Vec<u8> = [1, 0xff, 0, 0xfe].into_iter().chain(text).collect();
    let with_flags = |tag_flags: u8, frame_flags: u8| {
        let mut bytes = tag(4, &[(b"TXXX", stuffed.clone())]);
        (bytes[5], bytes[19]) = (tag_flags, frame_flags);
        marks(&bytes).unwrap().aigc
    };
    assert_eq!(with_flags(0x80, 0).as_deref(), Some("{\"a\":1}"));
    assert_eq!(with_flags(0, 0x02).as_deref(), Some("{\"a\":1}"));
    assert_eq!(with_flags(0, 0x42), None, "the first byte is the group's");
    let mut bytes = tag(4, &[(b"GEOB", object(&manifest()))]);
    assert!(marks(&bytes).unwrap().manifest.is_some());
    bytes[5] = 0x80;
    assert!(marks(&bytes).unwrap().manifest.is_none());
}

#[test]
fn a_file_without_marks_has_none() {
    let plain = [
        mp4(&mp4_box(b"mdat", b"film")),
        png(&[]),
        wav(&[riff(b"data", b"ab")]),
    ];
    for bytes in plain {
        assert!(!marks(&bytes).unwrap().has_origin_claim());
    }
    assert!(matches!(
        marks(b"GIF89a......"),
        Err(MarksError::UnknownKind)
    ));
}

#[test]
fn two_manifests_are_counted() {
    let bytes = mp4(&[c2pa_box(&manifest()), c2pa_box(b"second")].concat());
    assert_eq!(marks(&bytes).unwrap().manifests, 2);
}

#[test]
fn lengths_past_the_end_are_refused() {
    let huge = [&1u32.to_be_bytes()[..], b"uuid", &u64::MAX.to_be_bytes()].concat();
    assert!(matches!(
        marks(&mp4(&huge)),
        Err(MarksError::Damaged { .. })
    ));
    let long = [&u32::MAX.to_be_bytes()[..], b"caBX"].concat();
    let bytes = [b"\x89PNG\r\n\x1a\n", &long[..]].concat();
    assert!(matches!(
        marks(&bytes),
        Err(MarksError::Damaged { offset: 16, .. })
    ));
    let bytes = wav(&[[b"C2PA", &u32::MAX.to_le_bytes()[..]].concat()]);
    assert!(matches!(marks(&bytes), Err(MarksError::Damaged { .. })));
}

#[test]
fn deep_and_many_boxes_are_refused() {
    let mut deep = mp4_box(b"meta", &[0; 4]);
    for _ in 0..20 {
        deep = mp4_box(b"udta", &deep);
    }
    assert!(matches!(marks(&mp4(&deep)), Err(MarksError::TooManyParts)));
    let many = mp4_box(b"free", &[]).repeat(MAX_PARTS as usize + 1);
    assert!(matches!(marks(&mp4(&many)), Err(MarksError::TooManyParts)));
}

#[test]
fn a_vocabulary_that_is_named_again_and_again_is_not_searched_back_each_time() {
    // If each were searched back to the beginning of its piece, this would take minutes.
    let repeated = b"/digitalsourcetype/".repeat(200_000);
    let result = marks(&mp4(&c2pa_box(&repeated))).unwrap();
    assert_eq!(result.digital_source_type, None);
    let followed = [&repeated[..], &manifest()].concat();
    let result = marks(&mp4(&c2pa_box(&followed))).unwrap();
    assert_eq!(result.digital_source_type.as_deref(), Some(TRAINED));
}

proptest! {
    #[test]
    fn any_bytes_give_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = marks(&bytes);
    }

    #[test]
    fn a_damaged_file_never_claims_bytes_it_has_not(
        sample in 0..samples().len(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in any::<prop::sample::Index>(),
        shortened in any::<bool>(),
    ) {
        let mut bytes = samples()[sample].clone();
        for (position, value) in changes {
            let position = position.index(bytes.len());
            bytes[position] = value;
        }
        if shortened {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(marks) = marks(&bytes) && let Some(range) = marks.manifest {
            prop_assert!(range.start <= range.end && range.end <= bytes.len() as u64);
        }
    }
}
