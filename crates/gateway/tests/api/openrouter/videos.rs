//! `/api/v1/videos`.

use mediagate_core::domain::keys::NewKey;
use mediagate_model::error::ErrorCode;
use mediagate_model::ids::TaskId;
use reqwest::Method;
use serde_json::json;

use super::{VIDEOS, gateway, member_names, order, without_workers};
use crate::support::files::Files;
use crate::support::{path_of, sound};

#[tokio::test]
async fn a_video_is_paid_once_polled_and_downloaded() {
    let gateway = gateway().await;
    let answer = gateway.post(VIDEOS, &order("a lake at dawn")).await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    assert_eq!(answer.header("x-cost-usd"), Some("0.10"));
    let video = answer.accepted();
    let id = format!("video_{}", task.replace('-', ""));
    let polling_url = format!("{}{VIDEOS}/{id}", gateway.base);
    assert_eq!(
        video,
        json!({"id": id, "polling_url": polling_url, "status": "pending"})
    );
    gateway.finished(&task).await;
    let video = gateway.get(&path_of(&polling_url)).await.ok();
    let completed = [
        "id",
        "polling_url",
        "status",
        "generation_id",
        "unsigned_urls",
        "urls",
        "expires_at",
        "usage",
    ];
    let mut names = member_names(&video);
    names.sort_unstable();
    let mut expected = completed.to_vec();
    expected.sort_unstable();
    assert_eq!(names, expected);
    assert_eq!(video["status"], "completed");
    assert_eq!(video["generation_id"], task);
    assert_eq!(video["usage"], json!({"cost": 0.1, "is_byok": false}));
    assert_eq!(video["urls"], video["unsigned_urls"]);
    let view = gateway.get(&format!("/v1/videos/{id}")).await.ok();
    assert_eq!(view["status"], "completed");
    assert_eq!(view["expires_at"], video["expires_at"]);

    let url = video["unsigned_urls"][0].as_str().unwrap();
    let film = gateway.without_key().get(url).await;
    assert_eq!(
        (film.status, film.header("content-type")),
        (200, Some("video/mp4"))
    );
    // Clients that send their key to it get the film too.
    assert_eq!(gateway.get(url).await.bytes, film.bytes);
    for query in ["", "?index=0"] {
        let content = gateway.get(&format!("{VIDEOS}/{id}/content{query}")).await;
        assert_eq!(content.header("content-type"), Some("video/mp4"));
        assert_eq!(content.header("x-task-id"), Some(task.as_str()));
        assert!(content.bytes == film.bytes, "{query}");
    }
    let part = gateway.request(Method::GET, &format!("{VIDEOS}/{id}/content"));
    let part = gateway.send(part.header("range", "bytes=4-7")).await;
    assert_eq!((part.status, &part.bytes[..]), (206, &b"ftyp"[..]));
    let other = gateway.get(&format!("{VIDEOS}/{id}/content?index=1")).await;
    other.refused(404, "media_not_found").on_param("index");

    let account = gateway.get("/v1/account").await.ok();
    assert_eq!(account["spent_usd"], "0.10", "{account}");
    let tasks = gateway.get("/v1/tasks").await.ok();
    assert_eq!(tasks["data"].as_array().unwrap().len(), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_first_frame_shapes_the_film_and_other_references_are_refused() {
    let gateway = without_workers().await;
    let files = Files::start().await;
    let picture = sound::data_url("image/png", &sound::png(64, 48));
    for url in [files.url("/picture.png"), picture] {
        let frame =
            json!({"type": "image_url", "image_url": {"url": url}, "frame_type": "first_frame"});
        let body = json!({"model": "animatic-1", "prompt": "hold", "duration": 2, "frame_images": [frame]});
        let answer = gateway.post(VIDEOS, &body).await;
        let task = answer.header("x-task-id").unwrap().to_owned();
        answer.accepted();
        let view = gateway.get(&format!("/v1/tasks/{task}")).await.ok();
        let (width, height) = view["input"]["size"]
            .as_str()
            .unwrap()
            .split_once('x')
            .unwrap();
        assert_eq!(
            width.parse::<u32>().unwrap() * 3,
            height.parse::<u32>().unwrap() * 4
        );
    }
    let picture = sound::data_url("image/png", &sound::png(64, 48));
    let last =
        json!([{"type": "image_url", "image_url": {"url": picture}, "frame_type": "last_frame"}]);
    let film = json!([{"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}}]);
    let style = json!({"options": {"acme": {"style": "ink"}}});
    for (field, value, param) in [
        ("frame_images", last, "frame_images[0].image_url.url"),
        ("input_references", film, "input_references[0].type"),
        ("generate_audio", json!(true), "generate_audio"),
        ("duration", json!(900), "duration"),
        ("size", json!("123x456"), "size"),
        ("provider", style, "provider.options.style"),
        ("previous_job_id", json!("gen-vid-1"), "previous_job_id"),
        ("upscale_factor", json!(2), "upscale_factor"),
    ] {
        let mut body = json!({"model": "animatic-1", "prompt": "a lake"});
        body[field] = value;
        let refused = gateway.post(VIDEOS, &body).await;
        refused.refused(400, "unsupported_value").on_param(param);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_failed_and_a_cancelled_video_say_why() {
    let gateway = without_workers().await;
    let answer = gateway.post(VIDEOS, &order("forbidden")).await;
    let id = answer.accepted()["id"].as_str().unwrap().to_owned();
    let path = format!("{VIDEOS}/{id}");
    let content = gateway.get(&format!("{path}/content")).await;
    content.refused(409, "video_not_ready");
    let task = gateway.claim().await;
    assert_eq!(gateway.get(&path).await.ok()["status"], "in_progress");
    gateway.fail(task.id, ErrorCode::ContentPolicy).await;
    let video = gateway.get(&path).await.ok();
    assert_eq!(video["status"], "failed");
    assert_eq!(video["error"], "The script says so.");
    assert_eq!(video["usage"]["cost"], 0.0);
    assert!(video.get("unsigned_urls").is_none(), "{video}");
    let content = gateway.get(&format!("{path}/content")).await;
    content.refused(422, "content_policy");

    let answer = gateway.post(VIDEOS, &order("a river")).await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    let path = path_of(answer.accepted()["polling_url"].as_str().unwrap());
    let cancel = format!("/v1/tasks/{task}/cancel");
    gateway.post(&cancel, &json!({})).await.ok();
    let video = gateway.get(&path).await.ok();
    assert_eq!(video["status"], "cancelled");
    assert!(video["error"].is_string(), "{video}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_video_is_its_accounts_own() {
    let gateway = without_workers().await;
    let answer = gateway.post(VIDEOS, &order("a lake")).await;
    let id = answer.accepted()["id"].as_str().unwrap().to_owned();
    let other = gateway.caller("other", NewKey::default()).await;
    let unknown = TaskId::new().video();
    for id in [id.as_str(), &unknown, "job-abc123"] {
        for path in [format!("{VIDEOS}/{id}"), format!("{VIDEOS}/{id}/content")] {
            other.get(&path).await.refused(404, "task_not_found");
        }
    }
    gateway.stop().await;
}
