//! Signatures: rotation, key pairs, and a signing secret that is replaced.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use super::{builder, id, is_signed, order, register, start};
use crate::support::{TestGateway, path_of};
use simulator::WebhookReceiver;

async fn send_test(gateway: &TestGateway, endpoint: &Value) {
    let path = format!("/v1/webhooks/{}/test", id(endpoint));
    gateway.post(&path, &Value::Null).await.ok();
}

#[tokio::test]
async fn both_secrets_are_valid_for_a_day_after_a_rotation() {
    let (gateway, receiver) = start().await;
    let endpoint = register(&gateway, &receiver, json!({})).await;
    let rotated = gateway
        .post(
            &format!("/v1/webhooks/{}/rotate", id(&endpoint)),
            &Value::Null,
        )
        .await
        .ok();
    assert_ne!(rotated["secret"], endpoint["secret"]);
    send_test(&gateway, &endpoint).await;
    let posted = receiver.wait_for_count(1).await;
    for secret in [&endpoint["secret"], &rotated["secret"]] {
        assert!(is_signed(&posted[0], secret.as_str().unwrap()));
    }
    let callbacks = gateway.get("/v1/webhooks/secret").await.ok();
    let new_secret = gateway
        .post("/v1/webhooks/secret/rotate", &Value::Null)
        .await
        .ok();
    assert_eq!(gateway.get("/v1/webhooks/secret").await.ok(), new_secret);
    order(&gateway, json!({"callback_url": receiver.url("/called")})).await;
    let posted = receiver.wait_for_count(3).await;
    let callback = posted.iter().find(|post| post.path == "/called").unwrap();
    for secret in [&callbacks["secret"], &new_secret["secret"]] {
        assert!(is_signed(callback, secret.as_str().unwrap()));
    }
}

/// A double click, or a retry after a lost answer.
#[tokio::test]
async fn a_second_rotation_does_not_end_the_first_secret() {
    let (gateway, receiver) = start().await;
    let endpoint = register(&gateway, &receiver, json!({})).await;
    let path = format!("/v1/webhooks/{}/rotate", id(&endpoint));
    let first = gateway.post(&path, &Value::Null).await.ok();
    let second = gateway.post(&path, &Value::Null).await.ok();
    send_test(&gateway, &endpoint).await;
    let posted = receiver.wait_for_count(1).await;
    for shown in [&endpoint, &first, &second] {
        assert!(is_signed(&posted[0], shown["secret"].as_str().unwrap()));
    }
    for path in [path.as_str(), "/v1/webhooks/secret/rotate"] {
        let done = if path.contains("secret") { 0 } else { 2 };
        for _ in done..5 {
            gateway.post(path, &Value::Null).await.ok();
        }
        let refused = gateway.post(path, &Value::Null).await;
        refused.refused(409, "limit_reached");
    }
}

#[tokio::test]
async fn an_old_secret_is_invalid_after_a_day() {
    let gateway = builder().manual_clock().start().await;
    let receiver = WebhookReceiver::start().await.unwrap();
    let endpoint = register(&gateway, &receiver, json!({})).await;
    let rotated = gateway
        .post(
            &format!("/v1/webhooks/{}/rotate", id(&endpoint)),
            &Value::Null,
        )
        .await
        .ok();
    gateway
        .app
        .clock
        .advance(std::time::Duration::from_hours(25));
    send_test(&gateway, &endpoint).await;
    let posted = receiver.wait_for_count(1).await;
    assert!(is_signed(&posted[0], rotated["secret"].as_str().unwrap()));
    assert!(!is_signed(&posted[0], endpoint["secret"].as_str().unwrap()));
}

#[tokio::test]
async fn an_ed25519_signature_verifies_with_the_public_key() {
    let (gateway, receiver) = start().await;
    let endpoint = register(&gateway, &receiver, json!({"scheme": "ed25519"})).await;
    let shown = gateway
        .get(&format!("/v1/webhooks/{}", id(&endpoint)))
        .await
        .ok();
    assert_eq!(shown["public_key"], endpoint["secret"]);
    send_test(&gateway, &endpoint).await;
    let posted = &receiver.wait_for_count(1).await[0];
    let public = endpoint["secret"]
        .as_str()
        .unwrap()
        .strip_prefix("whpk_")
        .unwrap();
    let public = BASE64.decode(public).unwrap();
    let signature = posted
        .header("webhook-signature")
        .strip_prefix("v1a,")
        .unwrap();
    let (message, time) = (
        posted.header("webhook-id"),
        posted.header("webhook-timestamp"),
    );
    let signed = format!("{message}.{time}.{}", posted.body);
    ring::signature::UnparsedPublicKey::new(&ring::signature::ED25519, public)
        .verify(signed.as_bytes(), &BASE64.decode(signature).unwrap())
        .unwrap();
}

#[tokio::test]
async fn a_new_signing_secret_with_the_old_one_keeps_urls_and_secrets_valid() {
    const OLD: &str = "the old one, and it is long enough";
    const NEW: &str = "the new one, and it is long enough";
    let gateway = builder()
        .toml(&format!("signing_secret = \"{OLD}\""))
        .start()
        .await;
    let receiver = WebhookReceiver::start().await.unwrap();
    let endpoint = register(&gateway, &receiver, json!({})).await;
    let task = order(&gateway, json!({})).await;
    let film = gateway.finished(&task).await["output"]["videos"][0]["url"].clone();
    receiver.wait_for_count(1).await;
    let both = format!("signing_secrets = [\"{NEW}\", \"{OLD}\"]");
    let gateway = gateway.restart(Some(&both)).await;
    let film = path_of(film.as_str().unwrap());
    assert_eq!(gateway.without_key().get(&film).await.status, 200);
    send_test(&gateway, &endpoint).await;
    let posted = receiver.wait_for_count(2).await;
    assert!(is_signed(&posted[1], endpoint["secret"].as_str().unwrap()));
    let gateway = gateway
        .restart(Some(&format!("signing_secrets = [\"{NEW}\"]")))
        .await;
    gateway
        .without_key()
        .get(&film)
        .await
        .refused(404, "media_not_found");
}
