//! What signing and reading cost for the tests' small file of each kind, and for an MP4 and a WAV
//! of a usual size.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark may fail loudly"
)]

use std::time::{Duration, Instant};

use provenance::credentials::{
    AssetOrigin, MediaFormat, OriginStatement, PemSigner, SignatureAlgorithm, SourceType,
    TrustAnchors, read, self_made, sign,
};

const FILES: [(&str, MediaFormat, &[u8]); 7] = [
    (
        "MP4",
        MediaFormat::Mp4,
        include_bytes!("../tests/data/film.mp4"),
    ),
    (
        "M4A",
        MediaFormat::M4a,
        include_bytes!("../tests/data/sound.m4a"),
    ),
    (
        "WAV",
        MediaFormat::Wav,
        include_bytes!("../tests/data/sound.wav"),
    ),
    (
        "FLAC",
        MediaFormat::Flac,
        include_bytes!("../tests/data/sound.flac"),
    ),
    (
        "MP3",
        MediaFormat::Mp3,
        include_bytes!("../tests/data/sound.mp3"),
    ),
    (
        "PNG",
        MediaFormat::Png,
        include_bytes!("../tests/data/picture.png"),
    ),
    (
        "JPEG",
        MediaFormat::Jpeg,
        include_bytes!("../tests/data/picture.jpg"),
    ),
];
const ROUNDS: usize = 40;

fn main() {
    println!("ES256, {ROUNDS} rounds\n");
    println!(
        "| kind | bytes | signed, median | at most | read, median | bytes more |\n|---|---|---|---|---|---|"
    );
    for (name, format, file) in FILES {
        measure(name, format, file);
    }
    // For a long file, most of the time goes into the hash.
    measure("MP4, 10 MB", MediaFormat::Mp4, &longer(FILES[0].2));
    measure("WAV, 10 MB", MediaFormat::Wav, &wav());
}

fn measure(name: &str, format: MediaFormat, file: &[u8]) {
    // The beginning of 2026: the certificates hold for ten years.
    let chain = self_made("An installation", SignatureAlgorithm::Es256, 1_767_225_600).unwrap();
    let signer = PemSigner::new(
        &chain.certificates_pem,
        &chain.key_pem,
        SignatureAlgorithm::Es256,
    )
    .unwrap();
    let statement = OriginStatement {
        title: "clip",
        generator: ("Mediagate", env!("CARGO_PKG_VERSION")),
        model: "video-1",
        provider: Some("Example"),
        prompt: None,
        when: "2026-11-23T12:00:00Z",
        origin: AssetOrigin::Created(SourceType::TrainedAlgorithmicMedia),
    };
    let (mut signing, mut reading, mut added_bytes) = (Vec::new(), Vec::new(), 0);
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let signed = sign(file, format, &statement, &signer).unwrap();
        signing.push(started.elapsed());
        let started = Instant::now();
        read(&signed, format, &TrustAnchors::default()).unwrap();
        reading.push(started.elapsed());
        added_bytes = signed.len() - file.len();
    }
    signing.sort();
    reading.sort();
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    println!(
        "| {name} | {} | {:.1} ms | {:.1} ms | {:.1} ms | {added_bytes} |",
        file.len(),
        ms(signing[ROUNDS / 2]),
        ms(signing[ROUNDS - 1]),
        ms(reading[ROUNDS / 2]),
    );
}

/// The film with a free box of ten million bytes at its end.
fn longer(film: &[u8]) -> Vec<u8> {
    let mut longer = film.to_vec();
    longer.extend(10_000_008u32.to_be_bytes());
    longer.extend(b"free");
    longer.resize(longer.len() + 10_000_000, 7);
    longer
}

/// A minute of silence, in stereo.
fn wav() -> Vec<u8> {
    let bytes = 10_584_000u32;
    let mut wav = Vec::new();
    wav.extend(b"RIFF");
    wav.extend((bytes + 36).to_le_bytes());
    wav.extend(b"WAVEfmt ");
    wav.extend(16u32.to_le_bytes());
    wav.extend([1, 0, 2, 0]);
    wav.extend(44_100u32.to_le_bytes());
    wav.extend(176_400u32.to_le_bytes());
    wav.extend([4, 0, 16, 0]);
    wav.extend(b"data");
    wav.extend(bytes.to_le_bytes());
    wav.resize(wav.len() + bytes as usize, 0);
    wav
}
