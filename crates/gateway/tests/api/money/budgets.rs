//! Orders that cannot be paid are rejected before anything starts.

use std::time::Duration;

use mediagate_core::domain::accounting;
use mediagate_core::domain::audit::ChangeAuthor;
use mediagate_core::domain::keys::NewKey;
use mediagate_core::domain::{accounts, endings, ledger};
use mediagate_model::account::BudgetPeriod;
use mediagate_model::error::Error;
use mediagate_model::money::{ChargeState, MicroDollars};
use mediagate_model::price::Bill;
use mediagate_model::task::{Task, TaskState};
use mediagate_store::tasks::TaskEnding;
use serde_json::json;

use super::{PRICES, rows, verify_and_stop, videos};
use crate::support::gateway::SCRIPT;
use crate::support::{Client, TestGateway, videos_order};

async fn gateway() -> TestGateway {
    TestGateway::builder()
        .without_workers()
        .toml(PRICES)
        .start()
        .await
}

fn budget(usd: &str) -> NewKey {
    NewKey {
        budget: Some(usd.parse().unwrap()),
        ..NewKey::default()
    }
}

async fn credit(gateway: &TestGateway, handle: &str, usd: &str) {
    let account = accounts::ensure(&gateway.app, handle).await.unwrap();
    let credited = accounting::credit(
        &gateway.app,
        ChangeAuthor::command("a test").into(),
        account.id,
        usd.parse().unwrap(),
        None,
    );
    assert!(credited.await.unwrap().money.prepaid);
}

async fn assert_over_budget(caller: &Client, count: u32, text: &str) {
    let answer = caller.post("/v1/chat/completions", &videos(count)).await;
    answer.refused(402, "budget_exceeded");
    assert!(answer.message().contains(text), "{}", answer.message());
}

#[tokio::test]
async fn an_order_fits_the_keys_budget_as_a_whole_or_not_at_all() {
    let gateway = gateway().await;
    let caller = gateway.caller("owls", budget("0.25")).await;
    let before = rows(&gateway).await;
    assert_over_budget(&caller, 3, "0.30 USD").await;
    assert_eq!(
        rows(&gateway).await,
        before,
        "a rejected order leaves nothing"
    );
    caller.post("/v1/videos", &videos_order()).await.ok();
    caller.post("/v1/videos", &videos_order()).await.ok();
    assert_over_budget(&caller, 1, "0.20 USD of the API key's budget of 0.25 USD").await;
    let account = caller.get("/v1/account").await.ok();
    assert_eq!(account["key"]["held_usd"], "0.20");
    assert_eq!(account["key"]["available_usd"], "0.05");
    verify_and_stop(gateway).await;
}

#[tokio::test]
async fn a_prepaid_account_spends_what_it_has() {
    let gateway = gateway().await;
    let caller = gateway.caller("owls", NewKey::default()).await;
    caller.post("/v1/videos", &videos_order()).await.ok();
    credit(&gateway, "owls", "0.25").await;
    // The earlier order counts.
    assert_over_budget(&caller, 2, "the account has 0.15 USD left").await;
    caller.post("/v1/videos", &videos_order()).await.ok();
    assert_over_budget(&caller, 1, "0.05 USD left").await;
    let other_account = gateway.caller("default", NewKey::default()).await;
    other_account.post("/v1/videos", &videos_order()).await.ok();
    verify_and_stop(gateway).await;
}

#[tokio::test]
async fn of_two_concurrent_orders_that_fit_only_alone_one_is_accepted() {
    for is_prepaid in [false, true] {
        let gateway = gateway().await;
        let new = if is_prepaid {
            NewKey::default()
        } else {
            budget("0.25")
        };
        let first = gateway.caller("owls", new.clone()).await;
        let mut second = first.clone();
        if is_prepaid {
            // Two keys of one account have different locks.
            second = gateway.caller("owls", new).await;
            credit(&gateway, "owls", "0.25").await;
        }
        let order =
            json!({"model": "animatic-1", "prompt": "x", "size": "480x480", "seconds": "2"});
        for round in 0..3 {
            let (a, b) = tokio::join!(
                first.post("/v1/videos", &order),
                second.post("/v1/videos", &order)
            );
            let mut statuses = [a.status, b.status];
            statuses.sort_unstable();
            assert_eq!(statuses, [200, 402], "round {round}, prepaid {is_prepaid}");
            let task = gateway.claim().await;
            gateway
                .fail(task.id, mediagate_model::error::ErrorCode::GenerationFailed)
                .await;
            assert_eq!(ledger::verify(&gateway.app).await.unwrap(), []);
        }
        verify_and_stop(gateway).await;
    }
}

/// Claims the next task and settles it at its full price.
async fn settle_next(gateway: &TestGateway) -> Task {
    let task = gateway.claim().await;
    let (now, ending_task) = (gateway.app.clock.now(), task.clone());
    let tariff = task.tariff.clone().unwrap();
    let bill = Bill {
        price: tariff.price,
        quantity: tariff.asked,
        cost: task.reserved,
        delivered: None,
        partial: None,
    };
    let ending = TaskEnding {
        state: TaskState::Succeeded,
        cost: bill.cost,
        money: ChargeState::Settled,
        bill: Some(bill),
        output: None,
        failure: None,
    };
    let app = gateway.app.clone();
    let ended = gateway.app.store.write(move |conn| {
        endings::end(conn, &app, &ending_task, Some(SCRIPT), &ending, now, |_| {
            Ok::<_, Error>(())
        })
    });
    assert!(ended.await.unwrap());
    task
}

/// Refunds a dime.
async fn refund(gateway: &TestGateway, task: &Task) {
    let amount = MicroDollars::parse_signed("-0.10").unwrap();
    let note = "too dark".to_owned();
    let author = ChangeAuthor::command("a test").into();
    let refunded = accounting::adjust(&gateway.app, author, task.id, amount, note);
    refunded.await.unwrap();
}

#[tokio::test]
async fn a_refund_counts_only_in_the_period_of_its_order() {
    for (period, days) in [
        (BudgetPeriod::Day, 1),
        (BudgetPeriod::Week, 7),
        (BudgetPeriod::Month, 31),
    ] {
        let gateway = TestGateway::builder()
            .without_workers()
            .manual_clock()
            .toml(PRICES)
            .start()
            .await;
        let new = NewKey {
            budget_period: Some(period),
            ..budget("0.30")
        };
        let caller = gateway.caller("owls", new).await;
        caller
            .post("/v1/chat/completions", &videos(4))
            .await
            .refused(402, "budget_exceeded");
        let order = async || caller.post("/v1/videos", &videos_order()).await;
        for _ in 0..3 {
            order().await.ok();
        }
        let first = settle_next(&gateway).await;
        let second = settle_next(&gateway).await;
        settle_next(&gateway).await;
        order().await.refused(402, "budget_exceeded");
        refund(&gateway, &second).await;
        order().await.ok();
        settle_next(&gateway).await;
        order().await.refused(402, "budget_exceeded");

        let first_day = caller.get("/v1/usage").await.ok()["to"].clone();
        gateway.app.clock.advance(Duration::from_hours(days * 24));
        for _ in 0..3 {
            order().await.ok();
            settle_next(&gateway).await;
        }
        order().await.refused(402, "budget_exceeded");
        refund(&gateway, &first).await;
        order().await.refused(402, "budget_exceeded");
        let account = caller.get("/v1/account").await.ok();
        assert_eq!(account["key"]["available_usd"], "0.00", "{account}");
        let path = format!(
            "/v1/usage?group_by=day&from={}",
            first_day.as_str().unwrap()
        );
        let usage = caller.get(&path).await.ok();
        let spent: Vec<_> = usage["data"].as_array().unwrap().iter().collect();
        assert_eq!(
            [&spent[0]["cost_usd"], &spent[1]["cost_usd"]],
            [&json!("0.20"), &json!("0.30")],
            "{usage}"
        );
        verify_and_stop(gateway).await;
    }
}
