//! Files with provenance marks.

use std::io::Cursor;

use provenance::marks;

use super::FuzzTarget;

pub(crate) const MARKS: FuzzTarget = FuzzTarget {
    name: "marks",
    run,
    seeds,
    cases: 1000,
};

fn run(bytes: &[u8]) {
    let Ok(file_marks) = marks::read(Cursor::new(bytes)) else {
        return;
    };
    if let Some(range) = file_marks.manifest {
        assert!(range.start <= range.end && range.end <= bytes.len() as u64);
    }
    let values = [
        file_marks.digital_source_type,
        file_marks.aigc,
        file_marks.software,
    ];
    for text in values.iter().flatten() {
        assert!(text.chars().count() <= marks::MAX_VALUE_CHARS);
    }
}

/// The samples of `provenance`, and three of them with marks added.
fn seeds() -> Vec<Vec<u8>> {
    let film = include_bytes!("../../../engines/provenance/tests/data/film.mp4");
    let picture = include_bytes!("../../../engines/provenance/tests/data/picture.png");
    vec![
        film.to_vec(),
        picture.to_vec(),
        include_bytes!("../../../engines/provenance/tests/data/sound.flac").to_vec(),
        include_bytes!("../../../engines/provenance/tests/data/sound.m4a").to_vec(),
        include_bytes!("../../../engines/provenance/tests/data/sound.mp3").to_vec(),
        include_bytes!("../../../engines/provenance/tests/data/sound.wav").to_vec(),
        [&film[..], &uuid_box()].concat(),
        with_chunks(picture),
        with_segments(include_bytes!(
            "../../../engines/provenance/tests/data/picture.jpg"
        )),
    ]
}

const XMP: &[u8] = b"<x:xmpmeta><rdf:Description \
    Iptc4xmpExt:DigitalSourceType=\"trainedAlgorithmicMedia\"/></x:xmpmeta>";

/// The box that C2PA puts into MP4.
fn uuid_box() -> Vec<u8> {
    let id = 0xd8fe_c3d6_1b0e_483c_9297_5828_877e_c481_u128;
    let body = [
        &[0; 4][..],
        b"manifest\0",
        &[0; 8],
        b"\0\0\0\x10jumb\0\0\0\x08jumd",
    ]
    .concat();
    let size = u32::try_from(24 + body.len()).unwrap();
    [&size.to_be_bytes()[..], b"uuid", &id.to_be_bytes(), &body].concat()
}

/// Inserts a manifest and XMP after the header of a PNG.
fn with_chunks(picture: &[u8]) -> Vec<u8> {
    const HEAD: usize = 8 + 25;
    let chunk = |name: &[u8], body: &[u8]| {
        let size = u32::try_from(body.len()).unwrap();
        [&size.to_be_bytes()[..], name, body, &[0; 4]].concat()
    };
    let text = [b"XML:com.adobe.xmp\0\0\0\0\0", XMP].concat();
    [
        &picture[..HEAD],
        &chunk(b"caBX", b"\0\0\0\x08jumb"),
        &chunk(b"iTXt", &text),
        &picture[HEAD..],
    ]
    .concat()
}

/// Inserts a manifest, in two segments, and XMP into a JPEG.
fn with_segments(picture: &[u8]) -> Vec<u8> {
    const HEAD: usize = 2;
    let segment = |kind: u8, body: &[u8]| {
        let size = u16::try_from(body.len() + 2).unwrap();
        [&[0xff, kind][..], &size.to_be_bytes(), body].concat()
    };
    let store = b"\0\0\0\x30jumb\0\0\0\x1ejumdc2pa";
    let first = [&b"JP\0\x01\0\0\0\x01"[..], store, &[0; 20]].concat();
    let second = [&b"JP\0\x01\0\0\0\x02"[..], &store[..8], &[0; 40]].concat();
    let packet = [b"http://ns.adobe.com/xap/1.0/\0", XMP].concat();
    [
        &picture[..HEAD],
        &segment(0xeb, &first),
        &segment(0xeb, &second),
        &segment(0xe1, &packet),
        &picture[HEAD..],
    ]
    .concat()
}
