//! Settings that change while tasks wait and jobs run.

use mediagate_store::StoreError;
use serde_json::json;
use simulator::{PlannedEnd, RequestRole};

use super::{
    SOME, arrives, film, gateway, one_provider, ordered, plan, provider, simulator, submissions,
};
use crate::support::eventually;

#[tokio::test]
async fn jobs_go_on_while_the_settings_change() {
    let (old, new) = (simulator().await, simulator().await);
    plan(&old, SOME, PlannedEnd::Success);
    let gateway = gateway(&one_provider(&old)).await;
    let task = ordered(&gateway, "a lake").await;
    arrives(&old, RequestRole::Poll, 1).await;
    // Another provider makes the model from now on, the old one is still there.
    let toml = provider("acme", "openai-videos", &old, "")
        + &provider("better", "openai-videos", &new, "")
        + &film(r#"{ provider = "better", model = "sora-2" }"#);
    gateway.reconfigure(&toml);
    let next = ordered(&gateway, "a lake").await;
    for task in [&task, &next] {
        assert_eq!(gateway.finished(task).await["status"], "succeeded");
    }
    assert_eq!((submissions(&old), submissions(&new)), (1, 1));
    gateway.stop().await;
}

#[tokio::test]
async fn a_job_of_a_model_that_was_taken_away_comes_to_its_end() {
    let simulator = simulator().await;
    plan(&simulator, SOME, PlannedEnd::Success);
    // Another model answers to the name of this one once it is gone.
    let table = provider("acme", "openai-videos", &simulator, "");
    let toml = |aliases: &str| {
        format!(
            "{table}{}",
            film(r#"{ provider = "acme", model = "sora-2" }"#)
        )
        .replace(
            "[models.film]",
            &format!("[models.animatic-1]\naliases = [{aliases}]\n[models.film]"),
        )
    };
    let gateway = gateway(&toml("")).await;
    let task = ordered(&gateway, "a lake").await;
    arrives(&simulator, RequestRole::Poll, 1).await;
    let without = format!("{table}[models.animatic-1]\naliases = [\"film\"]\n");
    gateway.reconfigure(&without);
    let refused = gateway
        .post("/v1/videos", &json!({"model": "none", "prompt": "x"}))
        .await;
    refused.refused(404, "model_not_found");
    let done = gateway.finished(&task).await;
    assert_eq!(
        (&done["status"], &done["cost_usd"]),
        (&json!("succeeded"), &json!("0.40")),
        "{done}"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_job_waits_for_a_provider_that_was_taken_away_and_comes_back() {
    let simulator = simulator().await;
    plan(&simulator, SOME, PlannedEnd::Success);
    let toml = one_provider(&simulator);
    let gateway = gateway(&toml).await;
    let task = ordered(&gateway, "a lake").await;
    arrives(&simulator, RequestRole::Poll, 1).await;
    let gateway = gateway.restart(Some("")).await;
    eventually("the job is looked for in vain", async || {
        let due = gateway.app.store.read(|conn| {
            conn.one(
                "SELECT COUNT(*) FROM tasks WHERE lease_owner IS NULL AND due_at > created_at",
                &[],
                |row| row.int(0),
            )
        });
        let due: Result<Option<i64>, StoreError> = due.await;
        (due.unwrap() == Some(1)).then_some(())
    })
    .await;
    let view = gateway.get(&format!("/v1/tasks/{task}")).await.ok();
    assert_eq!(view["status"], "running", "{view}");
    let gateway = gateway.restart(Some(&toml)).await;
    let done = gateway.finished(&task).await;
    assert_eq!(done["status"], "succeeded", "{done}");
    assert_eq!(submissions(&simulator), 1);
    gateway.stop().await;
}
