//! Content Credentials, as files and as bare manifests.

use std::io::Cursor;

use provenance::credentials::{
    CredentialsStatus, MAX_LISTED, MAX_TEXT_CHARS, MediaFormat, TrustAnchors, read,
};
use provenance::marks::{self, FileKind};

use super::FuzzTarget;

pub(crate) const CREDENTIALS: FuzzTarget = FuzzTarget {
    name: "credentials",
    run,
    seeds,
    cases: 600,
};

/// Bytes that begin like a manifest are put into a picture, a recording and a film whose lengths
/// are right, so that damage reaches the parsers of the manifest.
fn run(bytes: &[u8]) {
    if bytes.get(4..8) == Some(b"jumb") {
        // With a wrong length the containers would be refused before the manifest is read.
        let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
        let store = [&length[..], &bytes[4..]].concat();
        for (format, file) in [
            (MediaFormat::Png, png(&store)),
            (MediaFormat::Wav, wav(&store)),
            (MediaFormat::Mp4, mp4(&store)),
        ] {
            let status = read_credentials(&file, format);
            assert!(
                status != Some(CredentialsStatus::Valid),
                "it was signed for another file"
            );
        }
        return;
    }
    let format = match marks::read(Cursor::new(bytes)).map(|marks| marks.kind) {
        Ok(FileKind::Mp4) => MediaFormat::Mp4,
        Ok(FileKind::Wav) => MediaFormat::Wav,
        Ok(FileKind::Flac) => MediaFormat::Flac,
        Ok(FileKind::Mp3) => MediaFormat::Mp3,
        Ok(FileKind::Jpeg) => MediaFormat::Jpeg,
        Ok(FileKind::Png) | Err(_) => MediaFormat::Png,
    };
    read_credentials(bytes, format);
}

/// Checks that no signer is trusted and that the reported values are within the limits.
fn read_credentials(file: &[u8], format: MediaFormat) -> Option<CredentialsStatus> {
    let report = read(file, format, &TrustAnchors::default()).ok()?;
    assert!(report.status != CredentialsStatus::Trusted);
    let lists = [&report.problems, &report.ingredients];
    assert!(lists.iter().all(|list| list.len() <= MAX_LISTED));
    assert!(report.actions.len() <= MAX_LISTED);
    let single = [
        &report.generator,
        &report.digital_source_type,
        &report.prompt,
    ];
    let texts = single
        .into_iter()
        .flatten()
        .chain(lists.into_iter().flatten());
    for text in texts {
        assert!(text.chars().count() <= MAX_TEXT_CHARS);
    }
    Some(report.status)
}

const PNG: &[u8] = include_bytes!("../../../engines/provenance/tests/data/picture.png");
const WAV: &[u8] = include_bytes!("../../../engines/provenance/tests/data/sound.wav");
const FILM: &[u8] = include_bytes!("../../../engines/provenance/tests/data/film.mp4");
/// Signed by another program, with a time stamp.
const SIGNED: &[u8] = include_bytes!("../../../engines/provenance/tests/data/signed_elsewhere.mp4");

/// The film that another program signed, its manifest alone and in other files, and three small
/// manifests: flat, nested as deep as allowed, and nested deeper.
fn seeds() -> Vec<Vec<u8>> {
    let range = marks::read(Cursor::new(SIGNED)).unwrap().manifest.unwrap();
    let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
    let store = &SIGNED[range];
    let length = u32::from_be_bytes(*store.first_chunk().unwrap());
    let store = &store[..usize::try_from(length).unwrap()];
    vec![
        store.to_vec(),
        // CBOR: a small map, sixty nested tags, and three hundred nested lists.
        small_store(&[0xa1, 0x61, b'x', 0]),
        small_store(&[0xc1; 60]),
        small_store(&[0x81; 300]),
        SIGNED.to_vec(),
        png(store),
        wav(store),
        [mp4(store), merkle(&[0xa1, 0x68])].concat(),
    ]
}

fn part(kind: &[u8], body: &[u8]) -> Vec<u8> {
    let size = u32::try_from(body.len() + 8).unwrap();
    [&size.to_be_bytes()[..], kind, body].concat()
}

/// A store of one manifest with this claim.
fn small_store(claim: &[u8]) -> Vec<u8> {
    let superbox = |kind: &[u8], label: &str, content: &[u8]| {
        let rest = [0, 0x11, 0, 0x10, 0x80, 0, 0, 0xaa, 0, 0x38, 0x9b, 0x71];
        let description = [kind, &rest, &[3], label.as_bytes(), &[0]].concat();
        part(
            b"jumb",
            &[&part(b"jumd", &description)[..], content].concat(),
        )
    };
    let content = [
        superbox(b"c2as", "c2pa.assertions", &[]),
        superbox(b"c2cl", "c2pa.claim.v2", &part(b"cbor", claim)),
        superbox(b"c2cs", "c2pa.signature", &part(b"cbor", &[0xd2, 0x84])),
    ];
    superbox(
        b"c2pa",
        "c2pa",
        &superbox(b"c2ma", "urn:c2pa:1", &content.concat()),
    )
}

fn png(store: &[u8]) -> Vec<u8> {
    let length = u32::try_from(store.len()).unwrap().to_be_bytes();
    // The checksum is left zero, because the library does not check it.
    let chunk = [&length[..], b"caBX", store, &[0; 4]].concat();
    [&PNG[..33], &chunk, &PNG[33..]].concat()
}

fn wav(store: &[u8]) -> Vec<u8> {
    let length = u32::try_from(store.len()).unwrap().to_le_bytes();
    let mut file = [WAV, b"C2PA", &length, store, &vec![0; store.len() % 2]].concat();
    let riff_size = u32::try_from(file.len() - 8).unwrap();
    file[4..8].copy_from_slice(&riff_size.to_le_bytes());
    file
}

fn mp4(store: &[u8]) -> Vec<u8> {
    [FILM, &uuid(b"manifest\0", &[&[0; 8], store].concat())].concat()
}

fn merkle(content: &[u8]) -> Vec<u8> {
    uuid(b"merkle\0", content)
}

/// A box of C2PA's for this purpose.
fn uuid(purpose: &[u8], content: &[u8]) -> Vec<u8> {
    let id = 0xd8fe_c3d6_1b0e_483c_9297_5828_877e_c481_u128;
    let body = [&id.to_be_bytes()[..], &[0; 4], purpose, content].concat();
    part(b"uuid", &body)
}
