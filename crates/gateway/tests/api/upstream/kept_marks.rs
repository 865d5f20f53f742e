//! Films that providers signed and marked: kept as they came, and told of.

use mediagate_core::domain::assets::sha256_hex;
use reqwest::Method;
use serde_json::{Value, json};
use simulator::{Fault, RequestRole};

use super::{gateway, one_provider, ordered, simulator};

const TRAINED: &str = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia";

/// A film as it comes, and what is to be told of it (`provenance/tests/data/README.md`).
struct Came {
    film: &'static [u8],
    marks: &'static [&'static str],
    /// With the feature `c2pa`: the signer and its program, if it is signed.
    signed: Option<(&'static str, &'static str)>,
    /// By its tags, which anybody can have written.
    tagged: Option<&'static str>,
}

const FILMS: [Came; 3] = [
    // XMP that names IPTC's source type, and a signature by this project's own signer.
    Came {
        film: include_bytes!("../../../../provenance/tests/data/provider.mp4"),
        marks: &["c2pa", "xmp", "iptc"],
        signed: Some((
            "A provider (Self-made certificate, verified by nobody)",
            "Provider Studio 7.1",
        )),
        tagged: Some("Provider Studio"),
    },
    // Signed by the official library for Python, with a time stamp.
    Came {
        film: include_bytes!("../../../../provenance/tests/data/signed_elsewhere.mp4"),
        marks: &["c2pa"],
        signed: Some(("Elsewhere Signing (Elsewhere Films)", "Elsewhere Video 3.2")),
        tagged: Some("Lavf59.27.100"),
    },
    // XMP by ExifTool.
    Came {
        film: include_bytes!("../../../../provenance/tests/data/tagged_elsewhere.mp4"),
        marks: &["xmp", "iptc"],
        signed: None,
        tagged: Some("Elsewhere Video 3.2"),
    },
];

#[tokio::test]
async fn a_film_with_a_providers_marks_is_kept_byte_for_byte_and_told_of() {
    let simulator = simulator().await;
    let gateway = gateway(&one_provider(&simulator)).await;
    for came in &FILMS {
        let another = Fault::Another(came.film.to_vec());
        simulator
            .world()
            .order_fault(another, None, Some(RequestRole::Download), 1);
        let task = ordered(&gateway, "a lake").await;
        let view = gateway.finished(&task).await;
        assert_eq!(view["status"], "succeeded", "{view}");

        let video = &view["output"]["videos"][0];
        assert_eq!(
            (&video["bytes"], &video["sha256"]),
            (&json!(came.film.len()), &json!(sha256_hex(came.film)))
        );
        let url = video["url"].as_str().unwrap();
        assert_eq!(gateway.get(url).await.bytes, came.film);
        let middle = 1000..came.film.len() - 1000;
        let range = format!("bytes={}-{}", middle.start, middle.end - 1);
        let request = gateway.request(Method::GET, url).header("range", range);
        let part = gateway.send(request).await;
        assert_eq!((part.status, &part.bytes[..]), (206, &came.film[middle]));

        assert_told(&video["provenance"], came);
        let id = video["id"].as_str().unwrap();
        let object = gateway.get(&format!("/v1/videos/{id}")).await.ok();
        assert_told(&object["video"]["provenance"], came);
    }
    gateway.stop().await;
}

#[track_caller]
fn assert_told(told: &Value, came: &Came) {
    assert_eq!(told["digital_source_type"], TRAINED, "{told}");
    assert_eq!(told["marks"], json!(came.marks), "{told}");
    let (status, signer, generator) = match came.signed {
        Some((signer, program)) if cfg!(feature = "c2pa") => ("valid", Some(signer), Some(program)),
        _ => ("unverified", None, came.tagged),
    };
    assert_eq!(
        (&told["status"], &told["signer"], &told["generator"]),
        (&json!(status), &json!(signer), &json!(generator)),
        "{told}"
    );
}
