//! Look-ups: which pages are read, which jobs are kept, and that nothing is ordered.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use providers::driver::LookupResult;
use providers::{ErrorClass, MatchCertainty};
use serde_json::{Value, json};

use super::plain::{driver_and_provider, order};
use super::server::{CLOSE, ReceivedRequest, Server, json as reply};

/// Answers with these pages, and then with the last one for ever.
async fn serve_pages(pages: Vec<Value>) -> Server {
    Server::start(move |request| {
        let page_number = page_number(request);
        let page = pages.get(page_number - 1).or(pages.last());
        reply(200, page.unwrap())
    })
    .await
}

fn page_number(request: &ReceivedRequest) -> usize {
    request
        .line
        .rsplit_once("page=")
        .unwrap()
        .1
        .parse()
        .unwrap()
}

async fn find(server: &Server) -> LookupResult {
    let (driver, provider, secret) = driver_and_provider(&server.url());
    let since = UNIX_EPOCH + Duration::from_secs(1_000);
    let lookup = driver.find(&provider, &secret, &order("film"), since).await;
    lookup.unwrap().unwrap()
}

fn ids(lookup: &LookupResult) -> Vec<&str> {
    let jobs = lookup.jobs.iter();
    jobs.map(|job| job.handle.text("id")).collect()
}

#[tokio::test]
async fn jobs_of_all_pages_come_oldest_first_and_once() {
    let server = serve_pages(vec![
        json!({"jobs": [{"id": "c", "at": 1_003}, {"id": "x"}, {"id": "b", "at": 1_002}], "more": true}),
        json!({"jobs": [{"id": "b", "at": 1_002}, {"id": "a", "at": 961}, {"id": "old", "at": 900}]}),
    ])
    .await;
    let lookup = find(&server).await;
    assert_eq!(ids(&lookup), ["a", "b", "c", "x"]);
    assert_eq!(lookup.certain(), None);
    let first = &lookup.jobs[0];
    assert_eq!(first.identity, MatchCertainty::Likely);
    assert_eq!(
        first.created_at,
        Some(UNIX_EPOCH + Duration::from_secs(961))
    );
}

#[tokio::test]
async fn the_certain_job_ends_the_look_up() {
    let server = serve_pages(vec![
        json!({"jobs": [{"id": "a"}, {"id": "b", "key": "another"}], "more": true}),
        json!({"jobs": [{"id": "c"}, {"id": "d", "key": "key-1", "at": 5}], "more": true}),
    ])
    .await;
    let lookup = find(&server).await;
    assert_eq!(ids(&lookup), ["d"]);
    assert_eq!(lookup.certain(), lookup.jobs.first());
    assert_eq!(server.received().len(), 2);
}

#[tokio::test]
async fn an_endless_list_is_given_up() {
    let server = serve_pages(vec![json!({"jobs": [], "more": true})]).await;
    assert_eq!(find(&server).await.jobs, []);
    assert_eq!(server.received().len(), 5);
}

#[tokio::test]
async fn a_look_up_is_tried_only_twice() {
    let tries = AtomicUsize::new(0);
    let server = Server::start(move |_| match tries.fetch_add(1, Ordering::Relaxed) {
        1 => reply(200, &json!({"jobs": [{"id": "a"}]})),
        _ => CLOSE,
    })
    .await;
    assert_eq!(ids(&find(&server).await), ["a"]);
    let (driver, provider, secret) = driver_and_provider(&server.url());
    let film = order("film");
    let second_lookup = driver.find(&provider, &secret, &film, UNIX_EPOCH).await;
    assert!(second_lookup.unwrap_err().class.is_transient());
    assert_eq!(server.received().len(), 4);
}

#[tokio::test]
async fn a_look_up_orders_nothing_and_some_models_have_none() {
    let server = serve_pages(vec![json!({"jobs": []})]).await;
    let (driver, provider, secret) = driver_and_provider(&server.url());
    let find = async |model| {
        let order = order(model);
        driver.find(&provider, &secret, &order, UNIX_EPOCH).await
    };
    assert_eq!(find("unasked").await.unwrap(), None);
    assert_eq!(find("paid").await.unwrap_err().class, ErrorClass::Unclear);
    assert_eq!(server.received().len(), 0);
}
