//! Films that providers signed and marked: kept as received, and described to callers.

use mediagate_core::domain::assets::sha256_hex;
use reqwest::Method;
use serde_json::{Value, json};
use simulator::{Fault, RequestRole};

use super::{gateway, one_provider, order_film, simulator};

const TRAINED: &str = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia";

/// A film as received, and its expected provenance (`provenance/tests/data/README.md`).
struct ReceivedFilm {
    film: &'static [u8],
    marks: &'static [&'static str],
    /// With the feature `c2pa`: the signer and its program, if it is signed.
    signed: Option<(&'static str, &'static str)>,
    /// The generator by its tags, which anybody can have written.
    tagged: Option<&'static str>,
}

const FILMS: [ReceivedFilm; 3] = [
    // XMP that names IPTC's source type, and a signature by this project's own signer.
    ReceivedFilm {
        film: include_bytes!("../../../../../engines/provenance/tests/data/provider.mp4"),
        marks: &["c2pa", "xmp", "iptc"],
        signed: Some((
            "A provider (Self-made certificate, verified by nobody)",
            "Provider Studio 7.1",
        )),
        tagged: Some("Provider Studio"),
    },
    // Signed by the official library for Python, with a time stamp.
    ReceivedFilm {
        film: include_bytes!("../../../../../engines/provenance/tests/data/signed_elsewhere.mp4"),
        marks: &["c2pa"],
        signed: Some(("Elsewhere Signing (Elsewhere Films)", "Elsewhere Video 3.2")),
        tagged: Some("Lavf59.27.100"),
    },
    // XMP by ExifTool.
    ReceivedFilm {
        film: include_bytes!("../../../../../engines/provenance/tests/data/tagged_elsewhere.mp4"),
        marks: &["xmp", "iptc"],
        signed: None,
        tagged: Some("Elsewhere Video 3.2"),
    },
];

#[tokio::test]
async fn a_film_with_a_providers_marks_is_kept_byte_for_byte_and_described() {
    let simulator = simulator().await;
    let gateway = gateway(&one_provider(&simulator)).await;
    for received in &FILMS {
        let other_film = Fault::Another(received.film.to_vec());
        simulator
            .world()
            .order_fault(other_film, None, Some(RequestRole::Download), 1);
        let task = order_film(&gateway, "a lake").await;
        let view = gateway.finished(&task).await;
        assert_eq!(view["status"], "succeeded", "{view}");

        let video = &view["output"]["videos"][0];
        assert_eq!(
            (&video["bytes"], &video["sha256"]),
            (
                &json!(received.film.len()),
                &json!(sha256_hex(received.film))
            )
        );
        let url = video["url"].as_str().unwrap();
        assert_eq!(gateway.get(url).await.bytes, received.film);
        let middle = 1000..received.film.len() - 1000;
        let range = format!("bytes={}-{}", middle.start, middle.end - 1);
        let request = gateway.request(Method::GET, url).header("range", range);
        let part = gateway.send(request).await;
        assert_eq!(
            (part.status, &part.bytes[..]),
            (206, &received.film[middle])
        );

        assert_provenance(&video["provenance"], received);
        let id = video["id"].as_str().unwrap();
        let object = gateway.get(&format!("/v1/videos/{id}")).await.ok();
        assert_provenance(&object["video"]["provenance"], received);
    }
    gateway.stop().await;
}

#[track_caller]
fn assert_provenance(provenance: &Value, received: &ReceivedFilm) {
    assert_eq!(provenance["digital_source_type"], TRAINED, "{provenance}");
    assert_eq!(provenance["marks"], json!(received.marks), "{provenance}");
    let (status, signer, generator) = match received.signed {
        Some((signer, program)) if cfg!(feature = "c2pa") => ("valid", Some(signer), Some(program)),
        _ => ("unverified", None, received.tagged),
    };
    assert_eq!(
        (
            &provenance["status"],
            &provenance["signer"],
            &provenance["generator"]
        ),
        (&json!(status), &json!(signer), &json!(generator)),
        "{provenance}"
    );
}
