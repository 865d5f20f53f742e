//! `/{brand}/clips` and `/{brand}/feed`.

use mediagate::domain::keys::NewKey;
use serde_json::{Value, json};

use crate::support::gateway::upload;
use crate::support::spec::assert_clip;
use crate::support::{TestGateway, sound};

fn ids(list: &Value) -> Vec<&Value> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|clip| &clip["id"])
        .collect()
}

#[tokio::test]
async fn clips_are_listed_trashed_and_restored() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let tiny = sound::wav_of(8_000, 1, &[100; 800]);
    let mut clips = Vec::new();
    for number in 0..3 {
        clips.push(upload(&gateway, &format!("Song {number}"), tiny.clone()).await);
    }
    let id = |n: usize| clips[n]["id"].as_str().unwrap();
    let list = gateway.get("/musicgen/clips?limit=2").await.ok();
    assert_eq!(list["object"], "list");
    assert_eq!(ids(&list["data"]), [id(2), id(1)]);
    assert_eq!(
        (&list["has_more"], &list["last_id"]),
        (&json!(true), &clips[1]["id"])
    );
    list["data"]
        .as_array()
        .unwrap()
        .iter()
        .for_each(assert_clip);
    let rest = gateway
        .get(&format!("/musicgen/clips?limit=2&after={}", id(1)))
        .await
        .ok();
    assert_eq!(
        (ids(&rest["data"]), &rest["has_more"]),
        (vec![&clips[0]["id"]], &json!(false))
    );

    let trashed = gateway
        .delete(&format!("/musicgen/clips/{}", id(1)))
        .await
        .ok();
    assert_clip(&trashed);
    assert_eq!(trashed["is_trashed"], true);
    assert_eq!(
        ids(&gateway.get("/musicgen/clips").await.ok()["data"]),
        [id(2), id(0)]
    );
    assert_eq!(
        ids(&gateway.get("/musicgen/clips?is_trashed=true").await.ok()["data"]),
        [id(1)]
    );
    assert_eq!(
        gateway
            .get(&format!("/musicgen/clips/{}", id(1)))
            .await
            .ok()["is_trashed"],
        true
    );
    let restored = gateway
        .post(&format!("/musicgen/clips/{}/restore", id(1)), &json!({}))
        .await
        .ok();
    assert_eq!(restored["is_trashed"], false);
    assert_eq!(
        gateway.get("/musicgen/clips").await.ok()["data"]
            .as_array()
            .unwrap()
            .len(),
        3
    );

    for (query, param) in [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("after=x", "after"),
        ("is_trashed=maybe", "is_trashed"),
    ] {
        let answer = gateway.get(&format!("/musicgen/clips?{query}")).await;
        assert_eq!(answer.status, 400, "{query}");
        answer.at(param);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn the_feed_leaves_out_what_is_not_there() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let clip = gateway.upload("Song").await;
    let id = clip["id"].as_str().unwrap();
    let record = gateway.separate(id, "two").await;
    let stem = record["clips"][0]["id"].as_str().unwrap();
    let feed = gateway
        .get(&format!(
            "/musicgen/feed/{stem},x,0193a000-0000-7000-8000-000000000099,{id}"
        ))
        .await
        .ok();
    assert_eq!(ids(&feed), [stem, id]);
    feed.as_array().unwrap().iter().for_each(assert_clip);
    assert_eq!(feed[0]["metadata"]["stem_task"], "two");
    gateway.stop().await;
}

#[tokio::test]
async fn another_account_never_learns_that_a_clip_is_there() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let clip = gateway.upload("Song").await;
    let stranger = gateway.caller("stranger", NewKey::default()).await;
    for id in [
        clip["id"].as_str().unwrap(),
        "0193a000-0000-7000-8000-000000000099",
        "x",
    ] {
        stranger
            .get(&format!("/musicgen/clips/{id}"))
            .await
            .refused(404, "clip_not_found");
        stranger
            .delete(&format!("/musicgen/clips/{id}"))
            .await
            .refused(404, "clip_not_found");
        stranger
            .post(&format!("/musicgen/clips/{id}/restore"), &json!({}))
            .await
            .refused(404, "clip_not_found");
        assert_eq!(
            stranger.get(&format!("/musicgen/feed/{id}")).await.ok(),
            json!([])
        );
    }
    assert_eq!(
        stranger.get("/musicgen/clips").await.ok()["data"],
        json!([])
    );
    let path = format!("/musicgen/clips/{}", clip["id"].as_str().unwrap());
    assert_eq!(gateway.get(&path).await.ok()["is_trashed"], false);
    gateway.stop().await;
}
