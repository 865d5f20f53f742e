//! Settings that change while tasks wait and jobs run.

use mediagate_store::StoreError;
use serde_json::json;
use simulator::{PlannedEnd, RequestRole};

use super::{
    BRIEF, film, gateway, one_provider, order_film, plan, provider, simulator, submissions,
    wait_for_requests,
};
use crate::support::eventually;

#[tokio::test]
async fn jobs_continue_while_the_settings_change() {
    let (old, new) = (simulator().await, simulator().await);
    plan(&old, BRIEF, PlannedEnd::Success);
    let gateway = gateway(&one_provider(&old)).await;
    let task = order_film(&gateway, "a lake").await;
    wait_for_requests(&old, RequestRole::Poll, 1).await;
    // The model's route now goes to another provider; the old provider stays.
    let toml = provider("acme", "openai-videos", &old, "")
        + &provider("better", "openai-videos", &new, "")
        + &film(r#"{ provider = "better", model = "sora-2" }"#);
    gateway.reconfigure(&toml);
    let next = order_film(&gateway, "a lake").await;
    for task in [&task, &next] {
        assert_eq!(gateway.finished(task).await["status"], "succeeded");
    }
    assert_eq!((submissions(&old), submissions(&new)), (1, 1));
    gateway.stop().await;
}

#[tokio::test]
async fn a_job_of_a_removed_model_finishes() {
    let simulator = simulator().await;
    plan(&simulator, BRIEF, PlannedEnd::Success);
    // Another model takes this one's name as an alias once it is removed.
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
    let task = order_film(&gateway, "a lake").await;
    wait_for_requests(&simulator, RequestRole::Poll, 1).await;
    let without_film = format!("{table}[models.animatic-1]\naliases = [\"film\"]\n");
    gateway.reconfigure(&without_film);
    let refused = gateway
        .post("/v1/videos", &json!({"model": "none", "prompt": "x"}))
        .await;
    refused.refused(404, "model_not_found");
    let finished = gateway.finished(&task).await;
    assert_eq!(
        (&finished["status"], &finished["cost_usd"]),
        (&json!("succeeded"), &json!("0.40")),
        "{finished}"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_job_waits_while_its_provider_is_removed() {
    let simulator = simulator().await;
    plan(&simulator, BRIEF, PlannedEnd::Success);
    let toml = one_provider(&simulator);
    let gateway = gateway(&toml).await;
    let task = order_film(&gateway, "a lake").await;
    wait_for_requests(&simulator, RequestRole::Poll, 1).await;
    let gateway = gateway.restart(Some("")).await;
    eventually("the task is put off", async || {
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
    let finished = gateway.finished(&task).await;
    assert_eq!(finished["status"], "succeeded", "{finished}");
    assert_eq!(submissions(&simulator), 1);
    gateway.stop().await;
}
