//! What cannot be paid is refused before anything starts.

use mediagate::domain::audit::By;
use mediagate::domain::books;
use mediagate::domain::keys::NewKey;
use mediagate::domain::{accounts, ledger};
use serde_json::json;

use super::{PRICED, end, rows, videos};
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
    let credited = books::credit(
        &gateway.app,
        By::command("a test").into(),
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
    refused_for(&caller, 1, "0.20 of the API key's budget of 0.25 USD").await;
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
                .fail(task.id, mediagate::error::ErrorCode::GenerationFailed)
                .await;
            assert_eq!(ledger::verify(&gateway.app).await.unwrap(), []);
        }
        end(gateway).await;
    }
}
