//! What cannot be paid is refused before anything starts.

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

use super::{PRICED, end, rows, videos};
use crate::support::gateway::SCRIPT;
use crate::support::{Client, TestGateway, videos_order};

async fn gateway() -> TestGateway {
    TestGateway::builder()
        .without_workers()
        .toml(PRICED)
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

async fn refused_for(caller: &Client, count: u32, words: &str) {
    let answer = caller.post("/v1/chat/completions", &videos(count)).await;
    answer.refused(402, "budget_exceeded");
    assert!(answer.message().contains(words), "{}", answer.message());
}

#[tokio::test]
async fn all_of_an_order_fits_the_keys_budget_or_none_of_it() {
    let gateway = gateway().await;
    let caller = gateway.caller("owls", budget("0.25")).await;
    let before = rows(&gateway).await;
    refused_for(&caller, 3, "0.30 USD").await;
    assert_eq!(rows(&gateway).await, before, "nothing is left of it");
    caller.post("/v1/videos", &videos_order()).await.ok();
    caller.post("/v1/videos", &videos_order()).await.ok();
    refused_for(&caller, 1, "0.20 USD of the API key's budget of 0.25 USD").await;
    let account = caller.get("/v1/account").await.ok();
    assert_eq!(account["key"]["held_usd"], "0.20");
    assert_eq!(account["key"]["available_usd"], "0.05");
    end(gateway).await;
}

#[tokio::test]
async fn a_prepaid_account_spends_what_it_has() {
    let gateway = gateway().await;
    let caller = gateway.caller("owls", NewKey::default()).await;
    caller.post("/v1/videos", &videos_order()).await.ok();
    credit(&gateway, "owls", "0.25").await;
    // The order that was there before counts.
    refused_for(&caller, 2, "the account has 0.15 USD left").await;
    caller.post("/v1/videos", &videos_order()).await.ok();
    refused_for(&caller, 1, "0.05 USD left").await;
    let others = gateway.caller("default", NewKey::default()).await;
    others.post("/v1/videos", &videos_order()).await.ok();
    end(gateway).await;
}

#[tokio::test]
async fn of_two_orders_that_fit_alone_and_not_together_one_is_taken() {
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
            // Two keys of one account are not told apart by the key's lock.
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
        end(gateway).await;
    }
}

/// Ends the next task as a worker would that made all of it.
async fn make(gateway: &TestGateway) -> Task {
    let task = gateway.claim().await;
    let (now, ended) = (gateway.app.clock.now(), task.clone());
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
    let made = gateway.app.store.write(move |conn| {
        endings::end(conn, &app, &ended, Some(SCRIPT), &ending, now, |_| {
            Ok::<_, Error>(())
        })
    });
    assert!(made.await.unwrap());
    task
}

/// Gives a dime back.
async fn refund(gateway: &TestGateway, task: &Task) {
    let amount = MicroDollars::parse_signed("-0.10").unwrap();
    let note = "too dark".to_owned();
    let by = ChangeAuthor::command("a test").into();
    let refunded = accounting::adjust(&gateway.app, by, task.id, amount, note);
    refunded.await.unwrap();
}

#[tokio::test]
async fn a_refund_makes_room_in_the_period_of_its_order_and_in_no_other() {
    for (period, days) in [
        (BudgetPeriod::Day, 1),
        (BudgetPeriod::Week, 7),
        (BudgetPeriod::Month, 31),
    ] {
        let gateway = TestGateway::builder()
            .without_workers()
            .manual_clock()
            .toml(PRICED)
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
        let first = make(&gateway).await;
        let second = make(&gateway).await;
        make(&gateway).await;
        order().await.refused(402, "budget_exceeded");
        refund(&gateway, &second).await;
        order().await.ok();
        make(&gateway).await;
        order().await.refused(402, "budget_exceeded");

        let first_day = caller.get("/v1/usage").await.ok()["to"].clone();
        gateway.app.clock.advance(Duration::from_hours(days * 24));
        for _ in 0..3 {
            order().await.ok();
            make(&gateway).await;
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
        end(gateway).await;
    }
}
