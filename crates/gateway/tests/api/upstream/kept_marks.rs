//! A film that a provider signed and marked: kept as it came, and told of.

use mediagate::domain::assets::sha256_hex;
use reqwest::Method;
use serde_json::{Value, json};
use simulator::{Fault, Role};

use super::{gateway, one_provider, ordered, simulator};

/// A film with XMP that names IPTC's source type, signed by "A provider"
/// (`provenance/examples/provider_film.rs`).
const FILM: &[u8] = include_bytes!("../../../../provenance/tests/data/provider.mp4");
const TRAINED: &str = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia";

#[tokio::test]
async fn a_film_with_a_providers_marks_is_kept_byte_for_byte_and_told_of() {
    let simulator = simulator().await;
    let another = Fault::Another(FILM.to_vec());
    simulator
        .world()
        .order(another, None, Some(Role::Download), 1);
    let gateway = gateway(&one_provider(&simulator)).await;
    let task = ordered(&gateway, "a lake").await;
    let view = gateway.finished(&task).await;
    assert_eq!(view["status"], "succeeded", "{view}");

    let video = &view["output"]["videos"][0];
    assert_eq!(
        (&video["bytes"], &video["sha256"]),
        (&json!(FILM.len()), &json!(sha256_hex(FILM)))
    );
    let url = video["url"].as_str().unwrap();
    assert_eq!(gateway.get(url).await.bytes, FILM);
    let middle = 1000..FILM.len() - 1000;
    let range = format!("bytes={}-{}", middle.start, middle.end - 1);
    let request = gateway.request(Method::GET, url).header("range", range);
    let part = gateway.send(request).await;
    assert_eq!((part.status, &part.bytes[..]), (206, &FILM[middle]));

    assert_told(&video["provenance"]);
    let id = video["id"].as_str().unwrap();
    let object = gateway.get(&format!("/v1/videos/{id}")).await.ok();
    assert_told(&object["video"]["provenance"]);
    gateway.stop().await;
}

#[track_caller]
fn assert_told(told: &Value) {
    assert_eq!(told["digital_source_type"], TRAINED, "{told}");
    assert_eq!(told["marks"], json!(["c2pa", "xmp", "iptc"]), "{told}");
    if cfg!(feature = "c2pa") {
        assert_eq!(
            (&told["status"], &told["generator"]),
            (&json!("valid"), &json!("Provider Studio 7.1"))
        );
        let signer = told["signer"].as_str().unwrap();
        assert!(signer.starts_with("A provider ("), "{signer}");
    } else {
        assert_eq!(
            (&told["status"], &told["signer"], &told["generator"]),
            (
                &json!("unverified"),
                &Value::Null,
                &json!("Provider Studio")
            )
        );
    }
}
