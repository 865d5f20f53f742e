//! Real manifests with deeply nested values put into them: each is refused before the library,
//! which parses by recursion, gets it. A stack overflow would end this test.

#![cfg(feature = "c2pa")]
#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::io::Cursor;

use provenance::credentials::{
    AssetOrigin, CredentialsError, CredentialsStatus, Ingredient, MAX_CBOR_DEPTH, MediaFormat,
    OriginStatement, PemSigner, SignatureAlgorithm, SourceType, TrustAnchors, read, self_made,
    sign,
};
use provenance::marks;

use crate::stores::{PNG, part, png, wav};

const JPEG: &[u8] = include_bytes!("../data/picture.jpg");
const FILM: &[u8] = include_bytes!("../data/film.mp4");
const SIGNED: &[u8] = include_bytes!("../data/signed_elsewhere.mp4");
/// Where a manifest has CBOR: an assertion, the claim, the signature.
const LABELS: [&str; 3] = ["c2pa.actions", "c2pa.claim", "c2pa.signature"];

/// The manifest store of the film that another program signed.
fn store() -> Vec<u8> {
    let range = marks::read(Cursor::new(SIGNED)).unwrap().manifest.unwrap();
    let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
    let store = &SIGNED[range];
    let length = u32::from_be_bytes(store[..4].try_into().unwrap()) as usize;
    store[..length].to_vec()
}

/// The same boxes, with `content` in the boxes named `kind` inside the box with this label.
fn with_content(boxes: &[u8], label: &str, kind: &[u8], content: &[u8]) -> Vec<u8> {
    let (mut rest, mut out, mut is_labelled) = (boxes, Vec::new(), false);
    while !rest.is_empty() {
        let length = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
        let (whole_box, after) = rest.split_at(length);
        let (name, body) = (&whole_box[4..8], &whole_box[8..]);
        match name {
            // Its kind and a byte stand before its label.
            b"jumd" => is_labelled = body[17..].starts_with(label.as_bytes()),
            b"jumb" => {
                out.extend(part(b"jumb", &with_content(body, label, kind, content)));
                rest = after;
                continue;
            }
            _ => {}
        }
        let is_replaced = is_labelled && name == kind;
        out.extend(part(name, if is_replaced { content } else { body }));
        rest = after;
    }
    out
}

/// The store with each of its manifests compressed.
fn compressed(store: &[u8]) -> Vec<u8> {
    let description = u32::from_be_bytes(store[8..12].try_into().unwrap()) as usize;
    let (head, mut rest) = store[8..].split_at(description);
    let mut body = head.to_vec();
    while !rest.is_empty() {
        let length = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
        let (manifest, after) = rest.split_at(length);
        let inner = u32::from_be_bytes(manifest[8..12].try_into().unwrap()) as usize;
        let mut description_box = manifest[8..8 + inner].to_vec();
        description_box[8..12].copy_from_slice(b"c2cm");
        body.extend(part(
            b"jumb",
            &[description_box, part(b"brob", &packed(manifest))].concat(),
        ));
        rest = after;
    }
    part(b"jumb", &body)
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    brotli::BrotliCompress(&mut Cursor::new(bytes), &mut out, &<_>::default()).unwrap();
    out
}

/// A JPEG with the store in several segments, each with the head of the store's box before it.
fn jpeg(store: &[u8]) -> Vec<u8> {
    let mut file = JPEG[..2].to_vec();
    for (number, piece) in (1u32..).zip(store[8..].chunks(5_000)) {
        let number = number.to_be_bytes();
        let body = [b"JP\0\x01", &number[..], &store[..8], piece].concat();
        let length = u16::try_from(body.len() + 2).unwrap().to_be_bytes();
        file.extend([&[0xff, 0xeb][..], &length, &body].concat());
    }
    [&file, &JPEG[2..]].concat()
}

/// A C2PA box for this purpose.
fn uuid(purpose: &[u8], content: &[u8]) -> Vec<u8> {
    let id = 0xd8fe_c3d6_1b0e_483c_9297_5828_877e_c481_u128;
    let body = [&id.to_be_bytes()[..], &[0; 4], purpose, &[0], content].concat();
    part(b"uuid", &body)
}

fn mp4(store: &[u8]) -> Vec<u8> {
    [FILM, &uuid(b"manifest", &[&[0; 8], store].concat())].concat()
}

fn files(store: &[u8]) -> [(MediaFormat, Vec<u8>); 4] {
    [
        (MediaFormat::Png, png(store)),
        (MediaFormat::Wav, wav(store)),
        (MediaFormat::Jpeg, jpeg(store)),
        (MediaFormat::Mp4, mp4(store)),
    ]
}

fn problems(file: &[u8], format: MediaFormat) -> Vec<String> {
    let report = read(file, format, &TrustAnchors::default()).unwrap();
    assert_eq!(
        report.status,
        CredentialsStatus::Invalid,
        "{format:?} {report:?}"
    );
    report.problems
}

fn signer() -> PemSigner {
    let chain = self_made(
        "An installation",
        SignatureAlgorithm::Ed25519,
        1_767_225_600,
    )
    .unwrap();
    PemSigner::new(
        &chain.certificates_pem,
        &chain.key_pem,
        SignatureAlgorithm::Ed25519,
    )
    .unwrap()
}

fn statement(origin: AssetOrigin<'_>) -> OriginStatement<'_> {
    OriginStatement {
        title: "clip",
        generator: ("Mediagate", "0.1.0"),
        model: "video-1",
        provider: None,
        prompt: None,
        when: "2026-11-23T12:00:00Z",
        origin,
    }
}

fn created() -> OriginStatement<'static> {
    statement(AssetOrigin::Created(SourceType::AlgorithmicMedia))
}

/// 8,000 tags around a number.
fn tags() -> Vec<u8> {
    [&[0xc1; 8_000][..], &[0]].concat()
}

#[test]
fn tags_in_an_assertion_the_claim_or_the_signature_are_refused() {
    let store = store();
    // In a byte string, as COSE has its protected header.
    let in_string = [&[0xd2, 0x84, 0x59, 0x1f, 0x41][..], &tags(), &[0xa0]].concat();
    for label in LABELS {
        for deep in [tags(), in_string.clone()] {
            let deep = with_content(&store, label, b"cbor", &deep);
            assert_ne!(deep, store, "{label}");
            for (format, file) in files(&deep) {
                let problems = problems(&file, format);
                assert_eq!(problems, ["manifest.tooDeep"], "{label} {format:?}");
                // Reading also returns if the caller declares another format.
                let other_format = if format == MediaFormat::Png {
                    MediaFormat::Mp4
                } else {
                    MediaFormat::Png
                };
                drop(read(&file, other_format, &TrustAnchors::default()));
            }
        }
    }
}

#[test]
fn a_compressed_manifest_is_looked_into() {
    let fine = compressed(&store());
    let deep = compressed(&with_content(&store(), LABELS[0], b"cbor", &tags()));
    for (format, file) in files(&fine) {
        // The manifest is invalid only because it was signed for another file.
        let problems = problems(&file, format);
        let is_ours = |problem: &String| problem.starts_with("manifest.");
        assert!(!problems.iter().any(is_ours), "{format:?} {problems:?}");
    }
    for (format, file) in files(&deep) {
        assert_eq!(problems(&file, format), ["manifest.tooDeep"], "{format:?}");
    }
    let description_box = &store()[8..38];
    let filler = part(b"free", &vec![0; 17 << 20]);
    let bomb = part(b"jumb", &[description_box, &filler].concat());
    let bomb = compressed(&part(b"jumb", &[description_box, &bomb].concat()));
    assert!(bomb.len() < 1000);
    let refused = read(&png(&bomb), MediaFormat::Png, &TrustAnchors::default());
    assert!(
        matches!(refused, Err(CredentialsError::ManifestTooLong(_))),
        "{refused:?}"
    );
}

#[test]
fn a_merkle_box_is_looked_at_before_a_film_is_read_or_signed() {
    let huge = [&[0xa1, 0x00, 0x5b][..], &(1u64 << 40).to_be_bytes()].concat();
    for (content, problem) in [(tags(), "manifest.tooDeep"), (huge, "manifest.malformed")] {
        let film = [mp4(&store()), uuid(b"merkle", &content)].concat();
        assert_eq!(problems(&film, MediaFormat::Mp4), [problem]);
        let refused = sign(&film, MediaFormat::Mp4, &created(), &signer());
        assert!(
            matches!(
                refused,
                Err(CredentialsError::ManifestTooDeep | CredentialsError::ManifestMalformed)
            ),
            "{refused:?}"
        );
    }
}

/// A tag of this version with these frames, in front of a recording.
fn tagged(version: u8, frames: &[u8]) -> Vec<u8> {
    let size = syncsafe(frames.len());
    [
        &[b'I', b'D', b'3', version, 0, 0][..],
        &size,
        frames,
        include_bytes!("../data/sound.mp3"),
    ]
    .concat()
}

fn syncsafe(length: usize) -> [u8; 4] {
    [21, 14, 7, 0].map(|bits| u8::try_from(length >> bits & 0x7f).unwrap())
}

fn frame(version: u8, name: &[u8], flags: u8, body: &[u8]) -> Vec<u8> {
    let size = match version {
        3 => u32::try_from(body.len()).unwrap().to_be_bytes(),
        _ => syncsafe(body.len()),
    };
    [name, &size[..], &[0, flags], body].concat()
}

#[test]
fn chapters_in_chapters_and_packed_frames_of_a_tag_are_not_read() {
    let signer = signer();
    let chapter = |version, inside: &[u8]| {
        frame(
            version,
            b"CHAP",
            0,
            &[&b"a\0"[..], &[0; 16], inside].concat(),
        )
    };
    let title = |version| frame(version, b"TIT2", 0, b"\x03one");
    for version in [3, 4] {
        let mut deep = Vec::new();
        for _ in 0..3_000 {
            deep = chapter(version, &deep);
        }
        let flat = chapter(version, &title(version)).repeat(200);
        let in_flat = chapter(version, &frame(version, b"CTOC", 0, b"b\0\x03\x01a\0"));
        let packed_flag = if version == 3 { 0x80 } else { 0x08 };
        let packed = frame(
            version,
            b"TIT2",
            packed_flag,
            &[0x78, 0x9c, 1, 2, 3, 4, 5, 6],
        );
        let inside = chapter(version, &packed);
        for (frames, is_fine) in [
            (deep, false),
            (packed, false),
            (inside, false),
            (flat.repeat(2), false),
            ([flat, in_flat].concat(), true),
        ] {
            let file = tagged(version, &[title(version), frames].concat());
            let signed = sign(&file, MediaFormat::Mp3, &created(), &signer);
            assert_eq!(signed.is_ok(), is_fine, "{version} {:?}", signed.err());
        }
    }
}

#[test]
fn nothing_is_made_of_a_file_with_such_a_manifest() {
    let signer = signer();
    let deep = with_content(&store(), LABELS[0], b"cbor", &tags());
    for (format, file) in files(&deep) {
        let ingredient = Ingredient {
            title: "the source",
            format,
            bytes: &file,
        };
        let edited = statement(AssetOrigin::Edited(ingredient));
        let refused = sign(PNG, MediaFormat::Png, &edited, &signer);
        assert!(
            matches!(refused, Err(CredentialsError::ManifestTooDeep)),
            "{format:?} {refused:?}"
        );
        if format == MediaFormat::Mp4 {
            continue; // the library cannot replace a manifest behind a film
        }
        // A manifest that is replaced is not parsed.
        let signed = sign(&file, format, &created(), &signer).unwrap();
        let report = read(&signed, format, &TrustAnchors::default()).unwrap();
        assert_eq!(
            report.status,
            CredentialsStatus::Valid,
            "{format:?} {report:?}"
        );
    }
}

#[test]
fn manifests_of_the_allowed_depth_reach_the_library() {
    for opens in [
        &[0xc1][..],
        &[0x81],
        &[0x9f],
        &[0xa1, 0x61, b'x'],
        &[0xc1, 0x81],
    ] {
        let levels = MAX_CBOR_DEPTH / opens.len().min(if opens[0] == 0xa1 { 1 } else { 2 });
        let closes = vec![0xff; if opens == [0x9f] { levels } else { 0 }];
        let deep = [opens.repeat(levels), vec![0], closes].concat();
        for label in LABELS {
            let store = with_content(&store(), label, b"cbor", &deep);
            for (format, file) in files(&store) {
                let problems = problems(&file, format);
                assert!(!problems.contains(&"manifest.tooDeep".to_owned()));
            }
        }
    }
}
