//! Pictures, recordings and films.

use std::io::{Cursor, Write as _};
use std::path::Path;
use std::sync::LazyLock;

use animatic::picture::{decode, probe};
use animatic::{
    Direction, PictureLimits, RenderControl, RenderOptions, RenderRequest, RequestedOptions,
};
use image::{DynamicImage, ImageFormat, RgbImage};
use mediagate_media::engines::film_probe;
use stems::DecodeLimits;
use stems::decode::{Recording, replay, scan};

use crate::FuzzTarget;

pub(crate) const PICTURE: FuzzTarget = FuzzTarget {
    name: "picture",
    run: picture,
    seeds: pictures,
    cases: 1000,
};

pub(crate) const RECORDING: FuzzTarget = FuzzTarget {
    name: "recording",
    run: recording,
    seeds: recordings,
    cases: 400,
};

pub(crate) const FILM: FuzzTarget = FuzzTarget {
    name: "film",
    run: film,
    seeds: films,
    cases: 1500,
};

/// Checks that a decoded picture matches its header and the limits.
fn picture(bytes: &[u8]) {
    const LIMITS: PictureLimits = PictureLimits {
        max_megapixels: 2,
        max_side: 4000,
        max_memory_bytes: 32 << 20,
    };
    let probed = probe(bytes, &LIMITS);
    if let Ok(picture) = decode(bytes, &LIMITS) {
        // Limits are checked with `probe`, before anything is decoded. So it must know every
        // picture that can be decoded.
        let probed = probed.unwrap();
        assert_eq!(picture.size(), (probed.width, probed.height));
        assert!(u64::from(probed.width) * u64::from(probed.height) <= 2_000_000);
        assert!(probed.decoding_bytes <= LIMITS.max_memory_bytes);
    }
}

/// Checks that two readings are equal, finite, and within the limits.
fn recording(bytes: &[u8]) {
    const LIMITS: DecodeLimits = DecodeLimits {
        max_seconds: 30,
        max_channels: 4,
        max_rate: 96_000,
        max_bytes: 8 << 20,
        fold_down: false,
    };
    let recording = Recording::from(bytes.to_vec());
    let Ok(scanned) = scan(&recording, &LIMITS) else {
        return;
    };
    assert!(scanned.shape.channels <= 4 && scanned.shape.rate <= 96_000);
    let mut frames = 0;
    let read = replay(&recording, &LIMITS, &scanned, &mut |piece| {
        frames += piece[0].len();
        assert!(piece.iter().flatten().all(|sample| sample.is_finite()));
        true
    });
    assert_eq!(read.map(|()| frames), Ok(scanned.shape.frames));
}

/// Checks that a film has a length, or an error that explains why not.
fn film(bytes: &[u8]) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    // Only the tables are read in this process. The gateway decodes frames in a confined child,
    // which is not tried here.
    drop(animatic::playback::check_playable(Cursor::new(bytes)));
    let film = film_probe::probe(file.path());
    if let Some(film) = film.ok().and_then(|film| film.properties) {
        assert!(film.milliseconds > 0 && film.width < 65_536 && film.height < 65_536);
    }
}

fn pictures() -> Vec<Vec<u8>> {
    let pixel = |x: u32, y: u32| [x * 7 % 256, y * 11 % 256, (x + y) * 3 % 256];
    let rgb = RgbImage::from_fn(40, 28, |x, y| {
        image::Rgb(pixel(x, y).map(|value| u8::try_from(value).unwrap()))
    });
    let image = DynamicImage::ImageRgb8(rgb);
    let encoded = |format| {
        let mut out = Cursor::new(Vec::new());
        image.write_to(&mut out, format).unwrap();
        out.into_inner()
    };
    [
        ImageFormat::Png,
        ImageFormat::Jpeg,
        ImageFormat::WebP,
        ImageFormat::Gif,
        ImageFormat::Bmp,
        ImageFormat::Tiff,
    ]
    .map(encoded)
    .into()
}

fn recordings() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../engines/stems/tests/data");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let is_text = |path: &Path| path.extension().is_some_and(|extension| extension == "md");
    let files = paths.into_iter().filter(|path| !is_text(path));
    files.map(|path| std::fs::read(path).unwrap()).collect()
}

/// A film, and a fragmented one.
fn films() -> Vec<Vec<u8>> {
    static FILM_SAMPLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let requested = RequestedOptions {
            size: Some((480, 480)),
            seconds: Some(1.0),
            fps: None,
            seed: Some(1),
            picture: None,
        };
        let options = RenderOptions::resolve(&requested, &Direction::parse("still")).unwrap();
        let request = RenderRequest {
            picture: None,
            prompt: "still",
            options,
        };
        let mut control = RenderControl {
            progress: &mut |_| {},
            cancelled: &|| false,
        };
        animatic::make(&request, &mut control).unwrap().mp4
    });
    vec![FILM_SAMPLE.clone(), fragmented_film(), matroska_film()]
}

/// A `WebM` with almost no content.
fn matroska_film() -> Vec<u8> {
    let element = |id: &[u8], content: &[u8]| {
        let length = u8::try_from(content.len()).unwrap();
        [id, &[0x40, length], content].concat()
    };
    let header = element(&[0x1a, 0x45, 0xdf, 0xa3], &element(&[0x42, 0x82], b"webm"));
    let duration = element(&[0x44, 0x89], &2000.0_f64.to_be_bytes());
    let frame = [element(&[0xb0], &[2, 128]), element(&[0xba], &[1, 104])].concat();
    let track = element(&[0xae], &element(&[0xe0], &frame));
    let segment = [
        element(&[0x15, 0x49, 0xa9, 0x66], &duration),
        element(&[0x16, 0x54, 0xae, 0x6b], &track),
        element(&[0x1f, 0x43, 0xb6, 0x75], &[0; 8]),
    ];
    let segment = element(&[0x18, 0x53, 0x80, 0x67], &segment.concat());
    [header, segment].concat()
}

/// A fragmented film with almost no content.
fn fragmented_film() -> Vec<u8> {
    let mp4_box = |kind: &[u8; 4], content: &[u8]| {
        let length = u32::try_from(content.len() + 8).unwrap();
        [&length.to_be_bytes()[..], kind, content].concat()
    };
    let numbers = |numbers: &[u32]| -> Vec<u8> {
        numbers
            .iter()
            .flat_map(|number| number.to_be_bytes())
            .collect()
    };
    let mut head = [0; 21];
    (head[3], head[19], head[20]) = (1, 640 << 16, 360 << 16);
    let media = [
        mp4_box(b"mdhd", &numbers(&[0, 0, 0, 1000, 0])),
        mp4_box(b"hdlr", b"\0\0\0\0\0\0\0\0vide"),
        mp4_box(
            b"minf",
            &mp4_box(b"stbl", &mp4_box(b"stsz", &numbers(&[0, 0, 0]))),
        ),
    ];
    let track = [
        mp4_box(b"tkhd", &numbers(&head)),
        mp4_box(b"mdia", &media.concat()),
    ];
    let extends = mp4_box(b"mvex", &mp4_box(b"trex", &numbers(&[0, 1, 1, 40, 0, 0])));
    let runs = [
        mp4_box(b"tfhd", &numbers(&[0, 1])),
        mp4_box(b"trun", &numbers(&[0, 25])),
        mp4_box(b"trun", &numbers(&[0x301, 2, 0, 400, 9, 600, 9])),
    ];
    [
        mp4_box(b"ftyp", b"isom\0\0\0\0"),
        mp4_box(
            b"moov",
            &[mp4_box(b"trak", &track.concat()), extends].concat(),
        ),
        mp4_box(b"moof", &mp4_box(b"traf", &runs.concat())),
        mp4_box(b"mdat", &[0; 40]),
    ]
    .concat()
}
