//! `/pricing`.

use reqwest::Method;

use crate::support::TestGateway;

#[tokio::test]
async fn the_price_list_is_a_page_and_json_with_the_same_facts() {
    let gateway = TestGateway::builder()
        .without_workers()
        .toml("[models.animatic-1]\nprice = { unit = \"second\", usd = \"0.10\" }")
        .start()
        .await;
    let anyone = gateway.without_key();
    let facts = anyone.get("/pricing.json").await.ok();
    assert_eq!(facts, gateway.get("/v1/models").await.ok());
    let answer = anyone
        .request(Method::GET, "/pricing")
        .header("accept", "application/json");
    let answer = anyone.send(answer).await;
    assert_eq!(answer.header("vary"), Some("accept"));
    assert_eq!(answer.ok(), facts);
    for accept in [
        "text/html,application/xhtml+xml,*/*;q=0.8",
        "*/*",
        "text/html, application/json",
    ] {
        let page = anyone
            .request(Method::GET, "/pricing")
            .header("accept", accept);
        let page = anyone.send(page).await;
        assert_eq!(
            (page.status, page.header("content-type")),
            (200, Some("text/html; charset=utf-8"))
        );
        let text = String::from_utf8(page.bytes.to_vec()).unwrap();
        for fact in ["animatic-1", "stems-dsp-1", "0.10", "chirp-*", "free"] {
            assert!(text.contains(fact), "{fact} is not on the page");
        }
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_model_that_is_switched_off_is_gone() {
    let gateway = TestGateway::builder()
        .without_workers()
        .toml("[models.animatic-1]\nenabled = false")
        .start()
        .await;
    let facts = gateway.get("/pricing.json").await.ok();
    assert_eq!(facts["data"].as_array().unwrap().len(), 1);
    let order = crate::support::video_order();
    gateway
        .post("/v1/chat/completions", &order)
        .await
        .refused(404, "model_not_found");
    gateway.stop().await;
}
