//! `/{brand}/clips` and `/{brand}/feed`.

use mediagate_core::domain::keys::NewKey;
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
    let second_page = gateway
        .get(&format!("/musicgen/clips?limit=2&after={}", id(1)))
        .await
        .ok();
    assert_eq!(
        (ids(&second_page["data"]), &second_page["has_more"]),
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
        answer.on_param(param);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn the_feed_omits_unknown_clips() {
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
    // No id is left out without a word.
    let too_many = vec![id; 101].join(",");
    let answer = gateway.get(&format!("/musicgen/feed/{too_many}")).await;
    answer.refused(400, "invalid_value").on_param("ids");
    gateway.stop().await;
}

#[tokio::test]
async fn another_account_never_learns_that_a_clip_exists() {
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

#[tokio::test]
async fn stems_are_downloaded_together_named_after_their_song() {
    let gateway = TestGateway::start().await;
    let song = gateway.upload("Für Elise / live").await;
    let id = song["id"].as_str().unwrap();
    let without_stems = gateway
        .get(&format!("/musicgen/clips/{id}/stems.zip"))
        .await;
    without_stems.refused(409, "clip_not_ready");
    let task = gateway.separate(id, "two").await;
    let task = task["id"].as_str().unwrap();
    gateway.finished(task).await;
    let record = gateway.get(&format!("/musicgen/tasks/{task}")).await.ok();
    let stems = record["clips"].as_array().unwrap();
    let audio = async |clip: &Value| {
        let address = clip["audio_url"].as_str().unwrap();
        let request = gateway.without_key().request(reqwest::Method::GET, address);
        gateway.send(request).await
    };
    let mut files = std::collections::BTreeMap::new();
    for stem in stems {
        let file = audio(stem).await;
        let group = stem["metadata"]["stem_type_group_name"].as_str().unwrap();
        let disposition = file.header("content-disposition").unwrap();
        assert_eq!(
            disposition,
            format!(
                "inline; filename=\"F_r Elise live - {group}.flac\"; filename*=UTF-8''F%C3%BCr%20Elise%20live%20%E2%80%93%20{group}.flac"
            )
        );
        files.insert(
            format!("Für Elise live – {group}.flac"),
            file.bytes.to_vec(),
        );
    }
    assert_eq!(files.len(), 2);
    let song_file = audio(&song).await;
    let disposition = song_file.header("content-disposition").unwrap();
    assert!(
        disposition.ends_with("UTF-8''F%C3%BCr%20Elise%20live.flac"),
        "{disposition}"
    );

    // The song and each of its stems have the same archive.
    for clip in [id, stems[1]["id"].as_str().unwrap()] {
        let archive = gateway
            .get(&format!("/musicgen/clips/{clip}/stems.zip"))
            .await;
        assert_eq!(archive.header("content-type"), Some("application/zip"));
        let disposition = archive.header("content-disposition").unwrap();
        assert!(
            disposition.starts_with("attachment;") && disposition.ends_with("%20stems.zip"),
            "{disposition}"
        );
        assert_eq!(
            archive.header("content-length").unwrap(),
            archive.bytes.len().to_string()
        );
        let mut archived = std::collections::BTreeMap::new();
        let reader = std::io::Cursor::new(archive.bytes.to_vec());
        let mut archive_reader = zip::ZipArchive::new(reader).unwrap();
        for index in 0..archive_reader.len() {
            let mut file = archive_reader.by_index(index).unwrap();
            let mut bytes = Vec::new();
            // Reading to the end checks the checksum, too.
            std::io::Read::read_to_end(&mut file, &mut bytes).unwrap();
            archived.insert(file.name().unwrap().into_owned(), bytes);
        }
        assert_eq!(
            archived.keys().collect::<Vec<_>>(),
            files.keys().collect::<Vec<_>>()
        );
        assert!(archived == files, "every file is whole");
    }
    let stranger = gateway.caller("foxes", NewKey::default()).await;
    let strangers_answer = stranger
        .get(&format!("/musicgen/clips/{id}/stems.zip"))
        .await;
    strangers_answer.refused(404, "clip_not_found");
}
