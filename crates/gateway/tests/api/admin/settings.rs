//! The settings in effect, and reading them anew.

use mediagate::config::Settings;
use mediagate::domain::settings;
use serde_json::{Value, json};

use super::{audited, operator};
use crate::support::TestGateway;

#[tokio::test]
async fn the_settings_are_shown_masked_and_every_reload_is_noted() {
    let secret = "sk-secret-0123456789";
    let toml = format!(
        "[providers.acme]\nprotocol = \"openai-videos\"\nbase_url = \"http://127.0.0.1:1/v1\"\napi_key = \"{secret}\"\n"
    );
    let gateway = TestGateway::builder().toml(&toml).start().await;
    let operator = operator(&gateway).await;
    let first = operator.get("/v1/admin/config").await.ok();
    let shown = first["toml"].as_str().unwrap();
    assert!(
        shown.contains("[providers.acme]") && !shown.contains(secret),
        "{shown}"
    );
    assert_eq!(first["last_reload"], Value::Null);

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("other.toml");
    let other = Settings {
        config: Some(file.clone()),
        ..Settings::default()
    };
    let priced = "[models.animatic-1]\nprice = { unit = \"second\", usd = \"0.25\" }\n";
    std::fs::write(&file, priced).unwrap();
    settings::reload(&gateway.app, &other).await.unwrap();
    let now = operator.get("/v1/admin/config").await.ok();
    let shown = now["toml"].as_str().unwrap();
    assert!(shown.contains("0.25") && !shown.contains("acme"), "{shown}");
    assert_eq!(now["last_reload"]["applied"], true);

    std::fs::write(
        &file,
        "[models.animatic-1]\nprice = { unit = \"egg\", usd = \"1\" }\n",
    )
    .unwrap();
    settings::reload(&gateway.app, &other).await.unwrap();
    let refused = operator.get("/v1/admin/config").await.ok();
    assert_eq!(refused["toml"], now["toml"], "the old ones stay");
    let why = refused["last_reload"]["error"].as_str().unwrap();
    let place = folder.path().to_str().unwrap();
    assert!(
        why.contains("other.toml:2") && !why.contains(place),
        "{why}"
    );

    let log = audited(&operator, "config.reload").await;
    assert_eq!(log.len(), 2, "{log:?}");
    assert_eq!(
        (&log[0]["actor"]["kind"], &log[0]["actor"]["name"]),
        (&json!("configuration"), &json!("other.toml"))
    );
    assert_eq!(log[0]["after"]["refused"], why);
    assert_eq!(
        (
            &log[1]["before"]["providers"],
            &log[1]["after"]["providers"]
        ),
        (&json!(["acme"]), &json!([]))
    );
}
