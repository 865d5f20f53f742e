//! The settings in effect, and their reload.

use mediagate_config::Settings;
use mediagate_core::domain::settings_reload;
use serde_json::{Value, json};

use super::{audit_entries, operator};
use crate::support::TestGateway;
use crate::support::program::{output, program, text};

#[tokio::test]
async fn settings_are_shown_masked_and_every_reload_is_logged() {
    let secret = "sk-secret-0123456789";
    let toml = format!(
        "[providers.acme]\nprotocol = \"openai-videos\"\nbase_url = \"http://127.0.0.1:1/v1\"\napi_key = \"{secret}\"\n"
    );
    let gateway = TestGateway::builder().toml(&toml).start().await;
    let operator = operator(&gateway).await;
    let first = operator.get("/v1/admin/config").await.ok();
    let settings = first["toml"].as_str().unwrap();
    assert!(
        settings.contains("[providers.acme]") && !settings.contains(secret),
        "{settings}"
    );
    assert_eq!(first["last_reload"], Value::Null);

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("other.toml");
    let overrides = Settings {
        config: Some(file.clone()),
        ..Settings::default()
    };
    let priced = "[models.animatic-1]\nprice = { unit = \"second\", usd = \"0.25\" }\n";
    std::fs::write(&file, priced).unwrap();
    settings_reload::reload(&gateway.app, &overrides)
        .await
        .unwrap();
    let reloaded = operator.get("/v1/admin/config").await.ok();
    let settings = reloaded["toml"].as_str().unwrap();
    assert!(
        settings.contains("0.25") && !settings.contains("acme"),
        "{settings}"
    );
    assert_eq!(reloaded["last_reload"]["applied"], true);

    std::fs::write(
        &file,
        "[models.animatic-1]\nprice = { unit = \"egg\", usd = \"1\" }\n",
    )
    .unwrap();
    settings_reload::reload(&gateway.app, &overrides)
        .await
        .unwrap();
    let refused = operator.get("/v1/admin/config").await.ok();
    assert_eq!(refused["toml"], reloaded["toml"], "the old settings stay");
    let reason = refused["last_reload"]["error"].as_str().unwrap();
    let folder_path = folder.path().to_str().unwrap();
    assert!(
        reason.contains("other.toml:2") && !reason.contains(folder_path),
        "{reason}"
    );

    let log = audit_entries(&operator, "config.reload").await;
    assert_eq!(log.len(), 2, "{log:?}");
    assert_eq!(
        (&log[0]["actor"]["kind"], &log[0]["actor"]["name"]),
        (&json!("configuration"), &json!("other.toml"))
    );
    assert_eq!(log[0]["after"]["refused"], reason);
    assert_eq!(
        (
            &log[1]["before"]["providers"],
            &log[1]["after"]["providers"]
        ),
        (&json!(["acme"]), &json!([]))
    );
}

/// A provider and a model with these values.
fn film_settings(key: &str, usd: &str, cost: &str, token: &str) -> String {
    format!(
        "[providers.acme]\nprotocol = \"openai-videos\"\nbase_url = \"http://127.0.0.1:1/v1\"\napi_key = \"{key}\"\n\
         [models.film]\nkind = \"video\"\nprice = {{ unit = \"second\", usd = \"{usd}\" }}\n\
         routes = [{{ provider = \"acme\", model = \"sora-2\", cost = {{ unit = \"second\", usd = \"{cost}\" }}, \
         extra = {{ partner_token = \"{token}\" }} }}]\n"
    )
}

#[tokio::test]
async fn a_reload_logs_what_differs_but_no_secret() {
    let first = film_settings("hunter-1", "0.10", "0.05", "hunter-2");
    let gateway = TestGateway::builder().toml(&first).start().await;
    let operator = operator(&gateway).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    let settings = Settings {
        config: Some(file.clone()),
        ..Settings::default()
    };
    let reload = async |text: String| {
        std::fs::write(&file, text).unwrap();
        settings_reload::reload(&gateway.app, &settings)
            .await
            .unwrap();
        let entry = audit_entries(&operator, "config.reload").await[0].clone();
        assert!(!entry.to_string().contains("hunter"), "{entry}");
        (entry["before"].clone(), entry["after"].clone())
    };
    let priced = reload(film_settings("hunter-1", "0.90", "0.05", "hunter-2")).await;
    let price = |usd: &str| json!({"models.film.price.usd": usd});
    assert_eq!(priced, (price("0.10"), price("0.90")));
    let costly = reload(film_settings("hunter-1", "0.90", "0.07", "hunter-2")).await;
    let cost = |usd: &str| json!({"models.film.routes[0].cost.usd": usd});
    assert_eq!(costly, (cost("0.05"), cost("0.07")));
    // Only that a secret has changed is said.
    let (before, after) = reload(film_settings("hunter-3", "0.90", "0.07", "hunter-2")).await;
    let names: Vec<&String> = after.as_object().unwrap().keys().collect();
    assert_eq!(names, ["providers.acme.credentials"]);
    assert_ne!(before, after);
    let (_, after) = reload(film_settings("hunter-3", "0.90", "0.07", "hunter-4")).await;
    assert_eq!(after, json!({"models.film": "******** (changed)"}));
    let unchanged = reload(film_settings("hunter-3", "0.90", "0.07", "hunter-4")).await;
    assert_eq!(unchanged, (json!({}), json!({})));

    let options = gateway.options();
    let mut args = vec!["audit"];
    args.extend(options.iter().map(String::as_str));
    let listed = output(program(&args)).await;
    let listed = text(&listed.stdout);
    assert!(
        listed.contains("models.film.price.usd: 0.10 → 0.90"),
        "{listed}"
    );
}

/// Every kind of setting that may contain a secret; each contains "hunter".
const SECRET_SETTINGS: &str = r#"database = "sqlite"
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
price = "free"
routes = [{ provider = "acme", model = "sora-2", extra = { partner_token = "hunter5", nested = { password = "hunter6" } } }]
"#;

#[tokio::test]
async fn no_secret_in_the_settings_is_shown() {
    let gateway = TestGateway::builder().toml(SECRET_SETTINGS).start().await;
    let operator = operator(&gateway).await;
    let config = operator.get("/v1/admin/config").await.ok();
    let served = config["toml"].as_str().unwrap().to_owned();

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    std::fs::write(&file, SECRET_SETTINGS).unwrap();
    let path = file.to_str().unwrap();
    let result = output(program(&["config", "check", "--config", path])).await;
    let printed = [&result.stdout, &result.stderr].map(|bytes| text(bytes).to_owned());
    assert_eq!(result.status.code(), Some(0), "{printed:?}");
    for settings in [&served, &printed[0]] {
        for visible in [
            "http://127.0.0.1:9/",
            "https://stamp.example/tsa",
            "https://collector.example/",
            "http://127.0.0.1:1/v1",
            "partner_token",
        ] {
            assert!(settings.contains(visible), "{visible}: {settings}");
        }
    }
    for settings in [&served, &printed[0], &printed[1]] {
        assert!(!settings.contains("hunter"), "{settings}");
    }

    // The errors of a faulty file reveal no more.
    let faulty = SECRET_SETTINGS.replace(
        "http://127.0.0.1:1/v1",
        "http://hunter1:hunter2@a.example/v1/",
    );
    std::fs::write(&file, faulty).unwrap();
    let refused = output(program(&["config", "check", "--config", path])).await;
    let printed = text(&refused.stderr);
    assert!(
        printed.contains("must not contain credentials"),
        "{printed}"
    );
    assert!(!printed.contains("hunter"), "{printed}");
}

#[tokio::test]
async fn every_address_can_come_from_a_variable() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    let toml = SECRET_SETTINGS
        .replace(
            "\"http://hunter1:hunter2@127.0.0.1:9/\"",
            "\"env:MG_PROXY\"",
        )
        .replace("\"hunter5\"", "\"env:MG_TOKEN\"")
        .replace("\"http://127.0.0.1:1/v1\"", "\"env:MG_BASE\"");
    std::fs::write(&file, toml).unwrap();
    let (path, data) = (file.to_str().unwrap(), folder.path().to_str().unwrap());
    let with_variables = |mut command: std::process::Command| {
        command
            .env("MG_PROXY", "http://hunter1:hunter2@127.0.0.1:9/")
            .env("MG_TOKEN", "hunter5")
            .env("MG_BASE", "http://127.0.0.1:1/v1");
        command
    };
    let check = || program(&["config", "check", "--config", path]);
    let result = output(with_variables(check())).await;
    let settings = text(&result.stdout);
    assert_eq!(result.status.code(), Some(0), "{}", text(&result.stderr));
    for name in ["env:MG_PROXY", "env:MG_TOKEN", "env:MG_BASE"] {
        assert!(settings.contains(name), "{settings}");
    }
    assert!(!settings.contains("hunter"), "{settings}");

    let unset = output(check()).await;
    assert_eq!(unset.status.code(), Some(2));
    let stderr = text(&unset.stderr);
    assert!(
        stderr.contains(":3: `webhooks.proxy`: the environment variable MG_PROXY is not set"),
        "{stderr}"
    );
    let migrate = program(&["migrate", "--config", path, "--data", data]);
    let migrated = output(with_variables(migrate)).await;
    assert_eq!(
        migrated.status.code(),
        Some(0),
        "{}",
        text(&migrated.stderr)
    );
    // A command that calls no service needs none of the variables.
    let list = output(program(&["keys", "list", "--config", path, "--data", data])).await;
    assert_eq!(list.status.code(), Some(0), "{}", text(&list.stderr));
}
