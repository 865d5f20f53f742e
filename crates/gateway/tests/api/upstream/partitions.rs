//! A process that is cut off from the database, in every way that networks fail: others
//! do its tasks, once, and its callers get 503.

use std::time::Duration;

use simulator::{LinkState, NetworkState, PlannedEnd, RequestRole};

use super::{one_provider, order_film, plan, replica, simulator, submissions, wait_for_requests};
use crate::support::postgres::{TestDatabase, proxy_to};
use crate::support::{eventually, videos_order};

const HELD: LinkState = LinkState::held();
const OPEN: LinkState = LinkState::with_delay(Duration::ZERO);

async fn check_taken_over(up: LinkState, down: LinkState, refuses: bool) {
    let simulator = simulator().await;
    plan(&simulator, Duration::from_secs(3), PlannedEnd::Success);
    let toml = one_provider(&simulator);
    let database = TestDatabase::create().await;
    let (proxy, url) = proxy_to(&database.url).await;
    let cut_off = replica(&url, &toml).await;
    let task = order_film(&cut_off, "a lake").await;
    wait_for_requests(&simulator, RequestRole::Poll, 1).await;
    let other = replica(&database.url, &toml).await;
    proxy.set(NetworkState { up, down, refuses });
    if refuses {
        proxy.reset();
    }
    let caller = other.with_key(cut_off.client.key.as_ref().unwrap());
    let (order, path) = (videos_order(), format!("/v1/tasks/{task}"));
    let (finished, refused) = tokio::join!(
        crate::support::gateway::finished(&caller, &task),
        futures_util::future::join(cut_off.get(&path), cut_off.post("/v1/videos", &order)),
    );
    assert_eq!(finished["status"], "succeeded", "{finished}");
    for answer in [refused.0, refused.1] {
        answer.refused(503, "overloaded");
    }
    proxy.heal();
    eventually("the process is connected again", async || {
        let view = cut_off.get(&path).await;
        (view.status == 200).then(|| assert_eq!(view.json["status"], "succeeded"))
    })
    .await;
    let task = order_film(&cut_off, "a sea").await;
    assert_eq!(cut_off.finished(&task).await["status"], "succeeded");
    cut_off.stop().await;
    other.stop().await;
    assert_eq!(submissions(&simulator), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_a_process_cut_off_from_the_database_are_taken_over() {
    tokio::join!(
        check_taken_over(HELD, HELD, false),
        check_taken_over(OPEN, OPEN, true),
    );
}

/// One direction of the network fails: first the one to the process, then the one from it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_a_process_cut_off_in_one_direction_are_taken_over() {
    tokio::join!(
        check_taken_over(OPEN, HELD, false),
        check_taken_over(HELD, OPEN, false),
    );
}
