//! `/metrics`.

use mediagate::domain::keys::NewKey;
use mediagate::model::account::Scope;
use serde_json::json;

use crate::support::TestGateway;

#[tokio::test]
async fn only_an_admin_sees_what_is_counted_and_nothing_secret_is() {
    let gateway = TestGateway::builder()
        .toml(
            r#"
            [providers.studio]
            protocol = "openai-videos"
            base_url = "http://127.0.0.1:9/v1"
            api_key = "sk-of-the-studio"
            [models.film-1]
            kind = "video"
            routes = [{ provider = "studio", model = "film" }]
            "#,
        )
        .start()
        .await;
    gateway
        .post(
            "/v1/videos",
            &json!({"model": "animatic-1", "prompt": "a heron in the reeds", "seconds": "4"}),
        )
        .await
        .ok();
    let tasks = gateway.get("/v1/tasks").await.ok();
    gateway
        .finished(tasks["data"][0]["id"].as_str().unwrap())
        .await;

    let usual = Scope::ALL
        .iter()
        .copied()
        .filter(|scope| *scope != Scope::Admin);
    let usual = NewKey {
        name: "no admin".into(),
        scopes: usual.collect(),
        ..NewKey::default()
    };
    let usual = gateway.caller("default", usual).await;
    let refused = usual.get("/metrics").await;
    refused.refused(403, "insufficient_scope");

    let admin = NewKey {
        name: "admin".into(),
        scopes: vec![Scope::Admin],
        ..NewKey::default()
    };
    let admin = gateway.caller("default", admin).await;
    let answer = admin.get("/metrics").await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    let text = answer.text();
    for line in [
        "# TYPE mediagate_tasks_ended_total counter",
        r#"mediagate_tasks_accepted_total{kind="video",model="animatic-1"}"#,
        r#"mediagate_tasks_ended_total{kind="video",model="animatic-1",outcome="succeeded"}"#,
        r#"mediagate_upstream_open_jobs{provider="studio"} 0"#,
        "mediagate_build_info{version=",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    let secrets = [&usual.key, &admin.key, &gateway.key];
    for secret in secrets.into_iter().flatten() {
        assert!(!text.contains(secret.as_str()));
    }
    assert!(!text.contains("sk-of-the-studio") && !text.contains("heron"));
    // Several gateways in one process count together, and none fails.
    let other = TestGateway::builder().without_workers().start().await;
    assert_eq!(other.get("/healthz").await.status, 200);
    other.stop().await;
    gateway.stop().await;
}
