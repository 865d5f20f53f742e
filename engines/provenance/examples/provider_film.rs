//! Makes a film as a provider delivers it, for the tests: XMP that names IPTC's source type, and
//! credentials of a signer of its own.
//!
//! `cargo run -p provenance --features c2pa --example provider_film -- tests/data/provider.mp4`

use std::error::Error;
use std::path::Path;

use provenance::credentials::{
    AssetOrigin, MediaFormat, OriginStatement, PemSigner, SignatureAlgorithm, SourceType,
    self_made, sign,
};

/// The `uuid` of XMP.
const UUID: [u8; 16] = [
    0xbe, 0x7a, 0xcf, 0xcb, 0x97, 0xa9, 0x42, 0xe8, 0x9c, 0x71, 0x99, 0x94, 0x91, 0xe3, 0xaf, 0xac,
];
const XMP: &str = r#"<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description rdf:about="" xmlns:xmp="http://ns.adobe.com/xap/1.0/" xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/" xmp:CreatorTool="Provider Studio" Iptc4xmpExt:DigitalSourceType="http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"/></rdf:RDF></x:xmpmeta>"#;

fn main() -> Result<(), Box<dyn Error>> {
    let target = std::env::args().nth(1).ok_or("give a file to write to")?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/film.mp4");
    let mut film = std::fs::read(source)?;
    film.extend(u32::try_from(8 + UUID.len() + XMP.len())?.to_be_bytes());
    film.extend(b"uuid");
    film.extend(UUID);
    film.extend(XMP.as_bytes());
    // The beginning of 2026: the certificates hold for ten years.
    let chain = self_made("A provider", SignatureAlgorithm::Es256, 1_767_225_600)?;
    let signer = PemSigner::new(
        &chain.certificates_pem,
        &chain.key_pem,
        SignatureAlgorithm::Es256,
    )?;
    let statement = OriginStatement {
        title: "output.mp4",
        generator: ("Provider Studio", "7.1"),
        model: "film-3",
        provider: None,
        prompt: None,
        when: "2026-11-23T12:00:00Z",
        origin: AssetOrigin::Created(SourceType::TrainedAlgorithmicMedia),
    };
    std::fs::write(target, sign(&film, MediaFormat::Mp4, &statement, &signer)?)?;
    Ok(())
}
