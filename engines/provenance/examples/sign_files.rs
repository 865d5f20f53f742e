//! Signs the test files with a self-made chain and prints what that costs, so that other readers
//! of Content Credentials can be tested on the results.
//!
//! `cargo run --release -p provenance --features c2pa --example sign_files -- FOLDER`

#![expect(clippy::print_stdout, reason = "a measuring program")]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use provenance::credentials::{
    AssetOrigin, MediaFormat, OriginStatement, PemSigner, SignatureAlgorithm, SourceType,
    TrustAnchors, read, self_made, sign,
};

const FILES: [(&str, MediaFormat); 7] = [
    ("film.mp4", MediaFormat::Mp4),
    ("sound.m4a", MediaFormat::M4a),
    ("sound.wav", MediaFormat::Wav),
    ("sound.flac", MediaFormat::Flac),
    ("sound.mp3", MediaFormat::Mp3),
    ("picture.png", MediaFormat::Png),
    ("picture.jpg", MediaFormat::Jpeg),
];

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("give a folder to write to")?;
    let source_folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    // The beginning of 2026: the certificates hold for ten years.
    let chain = self_made("An installation", SignatureAlgorithm::Es256, 1_767_225_600)?;
    let signer = PemSigner::new(
        &chain.certificates_pem,
        &chain.key_pem,
        SignatureAlgorithm::Es256,
    )?;
    let statement = OriginStatement {
        title: "clip",
        generator: ("Mediagate", env!("CARGO_PKG_VERSION")),
        model: "video-1",
        provider: Some("Example"),
        prompt: None,
        when: "2026-11-23T12:00:00Z",
        origin: AssetOrigin::Created(SourceType::TrainedAlgorithmicMedia),
    };
    for (name, format) in FILES {
        let file = std::fs::read(source_folder.join(name))?;
        let started = Instant::now();
        let signed = sign(&file, format, &statement, &signer)?;
        let signing = started.elapsed();
        let started = Instant::now();
        let report = read(&signed, format, &TrustAnchors::default())?;
        println!(
            "{name}: signed in {:.1} ms, {} bytes more, read in {:.1} ms: {:?}",
            signing.as_secs_f64() * 1000.0,
            signed.len() - file.len(),
            started.elapsed().as_secs_f64() * 1000.0,
            report.status
        );
        std::fs::write(Path::new(&folder).join(name), signed)?;
    }
    Ok(())
}
