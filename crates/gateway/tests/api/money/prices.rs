//! Prices with dates.

use std::time::Duration;

use mediagate_model::clock::Clock;
use serde_json::json;

use super::{quote, verify_and_stop};
use crate::support::program::{output, program, text};
use crate::support::{TestGateway, videos_order};

#[tokio::test]
async fn a_price_changes_at_its_date_and_a_task_keeps_its_own() {
    let tomorrow = Clock::system().now().plus(Duration::from_hours(24));
    let toml = format!(
        "[models.animatic-1]\nprice = [\n  {{ unit = \"second\", usd = \"0.10\" }},\n  \
         {{ unit = \"video\", usd = \"0.35\", from = \"{}\" }},\n]\n",
        tomorrow.rfc3339()
    );
    let mut gateway = TestGateway::builder()
        .without_workers()
        .manual_clock()
        .toml(&toml)
        .start()
        .await;
    let price = async |gateway: &TestGateway| {
        gateway.get("/v1/models/animatic-1").await.ok()["price"].clone()
    };
    let next = json!({"unit": "video", "usd": "0.35", "from": tomorrow.rfc3339()});
    assert_eq!(
        price(&gateway).await,
        json!({"unit": "second", "usd": "0.10", "next": next})
    );
    let page = gateway.without_key().get("/pricing").await.whole_text();
    assert!(page.contains("0.10 USD per second"), "{page}");
    assert!(page.contains("0.35 USD per video from "), "{page}");
    let answer = gateway.post("/v1/videos", &videos_order()).await;
    let task = answer.header("x-task-id").unwrap().to_owned();

    gateway.app.clock.advance(Duration::from_hours(25));
    assert_eq!(
        price(&gateway).await,
        json!({"unit": "video", "usd": "0.35"})
    );
    let quoted = quote(&gateway, "/v1/videos", &videos_order()).await;
    assert_eq!(quoted["cost_usd"], "0.35");
    let later_answer = gateway.post("/v1/videos", &videos_order()).await;
    assert_eq!(later_answer.header("x-cost-usd"), Some("0.35"));
    let later_answer = later_answer.header("x-task-id").unwrap().to_owned();
    // A reloaded file changes nothing for accepted tasks.
    gateway.reconfigure("[models.animatic-1]\nprice = { unit = \"task\", usd = \"9\" }\n");
    gateway.start_workers().await;
    for (task, cost, unit) in [(task, "0.10", "second"), (later_answer, "0.35", "video")] {
        let view = gateway.finished(&task).await;
        assert_eq!(
            (&view["cost_usd"], &view["billing"]["unit"]),
            (&json!(cost), &json!(unit))
        );
    }
    verify_and_stop(gateway).await;
}

#[tokio::test]
async fn a_price_list_with_a_gap_is_refused_by_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    let entry = |extra: &str| format!("{{ unit = \"second\", usd = \"0.10\"{extra} }}");
    for (prices, expected) in [
        (vec![], "at least one"),
        (
            vec![entry(", until = 2026-01-01"), entry(", from = 2026-02-01")],
            "no price from",
        ),
        (
            vec![entry(", until = 2026-03-01"), entry(", from = 2026-02-01")],
            "two prices from",
        ),
        (vec![entry(""), entry("")], "two prices start"),
        (vec![entry(", until = 2026-03-01")], "no price from"),
        (vec![entry(", from = 2999-01-01")], "no price before"),
        (vec![entry(", from = \"soon\"")], "must be a date"),
        (
            vec![entry("").replace("0.10", "lots")],
            "write a decimal number",
        ),
        (
            vec![entry("").replace("0.10", "-1.00")],
            "write a decimal number",
        ),
        (vec![entry("").replace("second", "stem")], "does not apply"),
        (
            vec![entry("").replace("second", "hour")],
            "expected one of `second`",
        ),
    ] {
        let toml = format!(
            "# prices\n[models.animatic-1]\nprice = [{}]\n",
            prices.join(", ")
        );
        std::fs::write(&file, &toml).unwrap();
        let args = ["config", "check", "--config", file.to_str().unwrap()];
        let result = output(program(&args)).await;
        let stderr = text(&result.stderr);
        assert_eq!(result.status.code(), Some(2), "{toml}{stderr}");
        assert!(stderr.contains(expected), "{toml}{stderr}");
        assert!(stderr.contains("m.toml:3"), "{toml}{stderr}");
    }
}
