//! Signing, in a build that has it: results are signed, and their signatures verify.

use serde_json::json;

use super::provenance::{check, make_film};
use crate::support::TestGateway;
use crate::support::gateway::upload;
use crate::support::sound;

const DRAWN: &str = "http://cv.iptc.org/newscodes/digitalsourcetype/algorithmicMedia";

#[tokio::test]
async fn a_film_is_signed_and_a_change_is_detected() {
    let gateway = TestGateway::start().await;
    let (_, video, mut bytes) = make_film(&gateway, json!({"seconds": "1"})).await;
    let provenance = &video["provenance"];
    assert_eq!(
        (&provenance["status"], &provenance["digital_source_type"]),
        (&json!("valid"), &json!(DRAWN))
    );
    let signer = provenance["signer"].as_str().unwrap();
    assert!(signer.contains("verified by nobody"), "{signer}");
    assert_eq!(provenance["marks"], json!(["c2pa", "watermark"]));
    assert_eq!(video["bytes"], bytes.len());
    let digest = mediagate_core::domain::assets::sha256_hex(&bytes);
    assert_eq!(video["sha256"], digest, "the digest is the signed file's");
    let report = check(&gateway, bytes.clone()).await.ok();
    assert_eq!(
        report["ours"],
        json!({"signed": true, "watermarked": true, "exact": true})
    );
    assert_eq!(report["actions"][0]["action"], "c2pa.created");
    assert_eq!(report["actions"][0]["software"], "animatic-1");
    assert_eq!(report["prompt"], json!(null));
    let manifest = String::from_utf8_lossy(&bytes);
    assert!(
        !manifest.contains("slow pan left"),
        "no prompt unless configured"
    );
    let index = bytes.len() - 100;
    bytes[index] ^= 1;
    let report = check(&gateway, bytes).await.ok();
    assert_eq!(
        (&report["provenance"]["status"], &report["ours"]["signed"]),
        (&json!("invalid"), &json!(false))
    );
    // Another installation has another certificate.
    let other = TestGateway::start().await;
    let (_, _, other_film) = make_film(&other, json!({"seconds": "1"})).await;
    let report = check(&gateway, other_film).await.ok();
    assert_eq!(
        (&report["provenance"]["status"], &report["ours"]["signed"]),
        (&json!("valid"), &json!(false))
    );
    other.stop().await;
    gateway.stop().await;
}

#[tokio::test]
async fn stems_name_their_recording_and_keep_its_manifest() {
    for gateway in [TestGateway::builder(), TestGateway::builder().on_postgres()] {
        let gateway = gateway.start().await;
        let clip = upload(&gateway, "Song", sound::wav(2, 1)).await;
        let task = gateway.separate(clip["id"].as_str().unwrap(), "two").await;
        let view = gateway.finished(task["id"].as_str().unwrap()).await;
        let stem = &view["output"]["clips"][0];
        assert_eq!(stem["provenance"]["status"], "valid", "{view}");
        assert_eq!(stem["provenance"]["digital_source_type"], json!(null));
        let audio = gateway.get(stem["audio_url"].as_str().unwrap()).await.bytes;
        let report = check(&gateway, audio.to_vec()).await.ok();
        let actions: Vec<_> = report["actions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|action| &action["action"])
            .collect();
        assert_eq!(actions, ["c2pa.opened", "c2pa.edited"]);
        assert_eq!(report["ours"]["signed"], true);
        let cover = gateway.get(stem["image_url"].as_str().unwrap()).await.bytes;
        let report = check(&gateway, cover.to_vec()).await.ok();
        assert_eq!(
            (
                &report["mime_type"],
                &report["provenance"]["digital_source_type"]
            ),
            (&json!("image/png"), &json!(DRAWN))
        );
        // Cover pictures of unsigned recordings are signed too, because they are drawn here.
        let cover = gateway.get(clip["image_url"].as_str().unwrap()).await.bytes;
        let report = check(&gateway, cover.to_vec()).await.ok();
        assert_eq!(report["ours"]["signed"], true, "{report}");
        // A signed recording that is uploaded is an ingredient of the clip.
        let reuploaded = upload(&gateway, "Again", audio.to_vec()).await;
        assert_eq!(reuploaded["provenance"]["status"], "valid", "{reuploaded}");
        let stored = gateway
            .get(reuploaded["audio_url"].as_str().unwrap())
            .await
            .bytes;
        let report = check(&gateway, stored.to_vec()).await.ok();
        assert_eq!(
            (&report["ours"]["signed"], &report["ingredients"]),
            (&json!(true), &json!(["Again"]))
        );
        gateway.stop().await;
    }
}

#[tokio::test]
async fn pictures_of_a_film_name_it_and_an_avatar_is_signed() {
    let gateway = TestGateway::start().await;
    let (task, _, _) = make_film(&gateway, json!({"seconds": "1", "label": "ai"})).await;
    let id = format!("video_{}", task.replace('-', ""));
    for variant in ["thumbnail", "spritesheet"] {
        let path = format!("/v1/videos/{id}/content?variant={variant}");
        let picture = gateway.get(&path).await.bytes;
        let report = check(&gateway, picture.to_vec()).await.ok();
        assert_eq!(
            (&report["mime_type"], &report["ours"]["signed"]),
            (&json!("image/jpeg"), &json!(true)),
            "{report}"
        );
        assert_eq!(
            report["ingredients"].as_array().unwrap().len(),
            1,
            "{report}"
        );
        assert_eq!(report["actions"][0]["action"], "c2pa.opened");
    }
    let clip = upload(&gateway, "Voice", sound::wav(2, 1)).await;
    let order = json!({"root_clip_id": clip["id"], "name": "Ada", "description": "A voice."});
    let persona = gateway.post("/musicgen/persona/create", &order).await.ok();
    let avatar = gateway
        .get(persona["image_s3_id"].as_str().unwrap())
        .await
        .bytes;
    let report = check(&gateway, avatar.to_vec()).await.ok();
    assert_eq!(
        (&report["mime_type"], &report["ours"]["signed"]),
        (&json!("image/png"), &json!(true)),
        "{report}"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_prompt_is_included_if_configured() {
    let gateway = TestGateway::builder()
        .toml("[provenance]\nprompt = true")
        .start()
        .await;
    let (_, _, bytes) = make_film(&gateway, json!({"seconds": "1"})).await;
    let report = check(&gateway, bytes).await.ok();
    assert_eq!(
        report["prompt"], "a lake at dawn, slow pan left",
        "{report}"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn an_unreachable_signer_fails_the_task_and_a_certificate_is_used() {
    use provenance::credentials::{SignatureAlgorithm, self_made};
    let now = mediagate_model::clock::Clock::system().now().seconds();
    let chain = self_made("Acme Media", SignatureAlgorithm::Ed25519, now).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("c.pem"), folder.path().join("k.pem"));
    std::fs::write(&certificate, &chain.certificates_pem).unwrap();
    std::fs::write(&key, &chain.key_pem).unwrap();
    let with_certificate = format!(
        "[provenance]\ncertificate = \"{}\"\n",
        certificate.display()
    );
    let with_unreachable_signer = format!("{with_certificate}signer = \"http://127.0.0.1:9/sign\"");
    let toml = format!("{with_certificate}key = \"{}\"", key.display());
    let gateway = TestGateway::builder().toml(&toml).start().await;
    let (_, video, _) = make_film(&gateway, json!({"seconds": "1"})).await;
    assert!(
        video["provenance"]["signer"]
            .as_str()
            .unwrap()
            .starts_with("Acme Media")
    );
    gateway.stop().await;
    let gateway = TestGateway::builder()
        .toml(&with_unreachable_signer)
        .start()
        .await;
    let order =
        json!({"model": "animatic-1", "prompt": "a lake", "size": "480x480", "seconds": "1"});
    let answer = gateway.post("/v1/videos", &order).await;
    let view = gateway.finished(answer.header("x-task-id").unwrap()).await;
    assert_eq!(
        (&view["status"], &view["error"]["code"]),
        (&json!("failed"), &json!("generation_failed"))
    );
    gateway.stop().await;
}
