//! Orders for hosted providers at an account's storage limit and on a full disk.

use serde_json::json;

use super::{film, order_film, provider, simulator, submissions, without_workers};

/// A song is refused at the limit, and a film is too: the provider gets no order.
#[tokio::test]
async fn what_would_be_stored_is_refused() {
    let simulator = simulator().await;
    let tables = provider("acme", "openai-videos", &simulator, "")
        + &provider("singers", "minimax", &simulator, "")
        + &film(r#"{ provider = "acme", model = "sora-2" }"#)
        + "[models.singer]\nkind = \"music\"\nprice = { unit = \"task\", usd = \"0.20\" }\nroutes = [{ provider = \"singers\", model = \"music-2.0\" }]\n";
    let song = json!({"prompt": "[Verse] rain on the sea", "tags": "slow blues", "mv": "singer"});
    let order = json!({"model": "film", "prompt": "a lake"});
    let mut gateway = without_workers(&format!("storage_limit = \"100kB\"\n{tables}")).await;
    let taken = order_film(&gateway, "a lake").await;
    for (path, body) in [("/v1/videos", &order), ("/musicgen/submit/music", &song)] {
        let refused = gateway.post(path, body).await;
        refused.refused(413, "storage_full");
        let quote = json!({"endpoint": path, "body": body});
        let quote = gateway.post("/v1/quote", &quote).await.ok();
        assert!(quote["note"].as_str().unwrap().contains("storage_limit"));
    }
    gateway.start_workers().await;
    assert_eq!(gateway.finished(&taken).await["status"], "succeeded");
    // Nothing is held for a refused order.
    let account = gateway.get("/v1/account").await.ok();
    assert_eq!(account["held_usd"], "0.00", "{account}");
    assert_eq!(submissions(&simulator), 1);
    let gateway = gateway
        .restart(Some(&format!("disk_floor = \"1000TB\"\n{tables}")))
        .await;
    for (path, body) in [("/v1/videos", &order), ("/musicgen/submit/music", &song)] {
        gateway.post(path, body).await.refused(503, "overloaded");
    }
    assert_eq!(submissions(&simulator), 1);
    gateway.stop().await;
}

/// With `results = "link"` nothing is stored, so nothing is refused.
#[tokio::test]
async fn films_that_stay_at_their_provider_need_no_room() {
    let simulator = simulator().await;
    let tables = provider("acme", "runway", &simulator, "results = \"link\"\n")
        + &film(r#"{ provider = "acme", model = "gen4.5" }"#);
    // The simulated provider is at a private address, whose links callers would not get.
    let limits = "storage_limit = \"0\"\ndisk_floor = \"1000TB\"\nfetch.allow_networks = [\"127.0.0.0/8\"]\n";
    let gateway = super::gateway(&format!("{limits}{tables}")).await;
    let body = json!({"endpoint": "/v1/videos", "body": {"model": "film", "prompt": "a lake"}});
    let quote = gateway.post("/v1/quote", &body).await.ok();
    assert_eq!(quote["note"], json!(null));
    let task = order_film(&gateway, "a lake").await;
    assert_eq!(gateway.finished(&task).await["status"], "succeeded");
    gateway.stop().await;
}
