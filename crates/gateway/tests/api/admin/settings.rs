//! The settings in effect, and reading them anew.

use mediagate_config::Settings;
use mediagate_core::domain::settings_reload;
use serde_json::{Value, json};

use super::{audited, operator};
use crate::support::TestGateway;
use crate::support::program::{output, program, text};

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
    settings_reload::reload(&gateway.app, &other).await.unwrap();
    let now = operator.get("/v1/admin/config").await.ok();
    let shown = now["toml"].as_str().unwrap();
    assert!(shown.contains("0.25") && !shown.contains("acme"), "{shown}");
    assert_eq!(now["last_reload"]["applied"], true);

    std::fs::write(
        &file,
        "[models.animatic-1]\nprice = { unit = \"egg\", usd = \"1\" }\n",
    )
    .unwrap();
    settings_reload::reload(&gateway.app, &other).await.unwrap();
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

/// Every kind of place that may hold a secret; each has "hunter" in it.
const PLANTED: &str = r#"database = "sqlite"
[webhooks]
proxy = "http://hunter1:hunter2@127.0.0.1:9/"
[provenance]
timestamp = "https://hunter1:hunter2@stamp.example/tsa?hunter3"
[telemetry]
otlp = "https://collector.example/?api-key=hunter3"
[providers.acme]
protocol = "openai-videos"
base_url = "http://127.0.0.1:1/v1"
api_key = "sk-hunter4"
[models.acme-video]
kind = "video"
routes = [{ provider = "acme", model = "sora-2", extra = { partner_token = "hunter5", nested = { password = "hunter6" } } }]
"#;

#[tokio::test]
async fn no_secret_is_shown_wherever_it_stands_in_the_settings() {
    let gateway = TestGateway::builder().toml(PLANTED).start().await;
    let operator = operator(&gateway).await;
    let config = operator.get("/v1/admin/config").await.ok();
    let served = config["toml"].as_str().unwrap().to_owned();

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    std::fs::write(&file, PLANTED).unwrap();
    let path = file.to_str().unwrap();
    let checked = output(program(&["config", "check", "--config", path])).await;
    let said = [&checked.stdout, &checked.stderr].map(|bytes| text(bytes).to_owned());
    assert_eq!(checked.status.code(), Some(0), "{said:?}");
    for shown in [&served, &said[0]] {
        for told in [
            "http://127.0.0.1:9/",
            "https://stamp.example/tsa",
            "https://collector.example/",
            "http://127.0.0.1:1/v1",
            "partner_token",
        ] {
            assert!(shown.contains(told), "{told}: {shown}");
        }
    }
    for shown in [&served, &said[0], &said[1]] {
        assert!(!shown.contains("hunter"), "{shown}");
    }

    // A faulty file tells no more.
    let faulty = PLANTED.replace(
        "http://127.0.0.1:1/v1",
        "http://hunter1:hunter2@a.example/v1/",
    );
    std::fs::write(&file, faulty).unwrap();
    let refused = output(program(&["config", "check", "--config", path])).await;
    let said = text(&refused.stderr);
    assert!(said.contains("must not contain credentials"), "{said}");
    assert!(!said.contains("hunter"), "{said}");
}

#[tokio::test]
async fn every_address_may_be_named_by_a_variable() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    let toml = PLANTED
        .replace(
            "\"http://hunter1:hunter2@127.0.0.1:9/\"",
            "\"env:MG_PROXY\"",
        )
        .replace("\"hunter5\"", "\"env:MG_TOKEN\"")
        .replace("\"http://127.0.0.1:1/v1\"", "\"env:MG_BASE\"");
    std::fs::write(&file, toml).unwrap();
    let (path, data) = (file.to_str().unwrap(), folder.path().to_str().unwrap());
    let set = |mut command: std::process::Command| {
        command
            .env("MG_PROXY", "http://hunter1:hunter2@127.0.0.1:9/")
            .env("MG_TOKEN", "hunter5")
            .env("MG_BASE", "http://127.0.0.1:1/v1");
        command
    };
    let check = || program(&["config", "check", "--config", path]);
    let checked = output(set(check())).await;
    let shown = text(&checked.stdout);
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
    for name in ["env:MG_PROXY", "env:MG_TOKEN", "env:MG_BASE"] {
        assert!(shown.contains(name), "{shown}");
    }
    assert!(!shown.contains("hunter"), "{shown}");

    let unset = output(check()).await;
    assert_eq!(unset.status.code(), Some(2));
    let said = text(&unset.stderr);
    assert!(
        said.contains(":3: `webhooks.proxy`: the environment variable MG_PROXY is not set"),
        "{said}"
    );
    // A command that asks nobody needs none of them.
    let list = output(program(&["keys", "list", "--config", path, "--data", data])).await;
    assert_eq!(list.status.code(), Some(0), "{}", text(&list.stderr));
}
