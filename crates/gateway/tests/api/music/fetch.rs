//! `/{brand}/fetch`: the job record of the music API.

use mediagate_model::error::ErrorCode;
use serde_json::{Value, json};

use crate::support::TestGateway;
use crate::support::spec::{assert_clip, assert_no_null};

fn assert_job(job: &Value) {
    assert_no_null(job);
    let mut keys: Vec<&str> = job
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    keys.sort_unstable();
    assert_eq!(
        keys,
        [
            "action",
            "data",
            "fail_reason",
            "finish_time",
            "notify_hook",
            "progress",
            "start_time",
            "status",
            "submit_time",
            "task_id"
        ]
    );
    for clip in job["data"].as_array().unwrap() {
        assert_clip(clip);
    }
}

#[tokio::test]
async fn a_job_record_follows_a_task_to_its_end() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let clip = gateway.upload("Song").await;
    let record = gateway.separate(clip["id"].as_str().unwrap(), "two").await;
    let path = format!("/musicgen/fetch/{}", record["id"].as_str().unwrap());
    let fetch = async || {
        let envelope = gateway.get(&path).await.ok();
        assert_eq!(
            (&envelope["code"], &envelope["message"]),
            (&json!("success"), &json!(""))
        );
        assert_job(&envelope["data"]);
        assert_eq!(envelope["data"]["task_id"], record["id"]);
        envelope["data"].clone()
    };
    let job = fetch().await;
    assert_eq!(
        (&job["status"], &job["progress"], &job["action"]),
        (&json!("QUEUED"), &json!("0%"), &json!("MUSIC"))
    );
    assert!(job["submit_time"].as_i64().unwrap() > 1_700_000_000);
    assert_eq!(
        (&job["start_time"], &job["finish_time"], &job["fail_reason"]),
        (&json!(0), &json!(0), &json!(""))
    );
    let task = gateway.claim().await;
    gateway.progress(task.id, 42).await;
    let job = fetch().await;
    assert_eq!(
        (&job["status"], &job["progress"]),
        (&json!("IN_PROGRESS"), &json!("42%"))
    );
    assert!(job["start_time"].as_i64().unwrap() > 0);
    gateway.fail(task.id, ErrorCode::GenerationFailed).await;
    let job = fetch().await;
    assert_eq!(
        (&job["status"], &job["fail_reason"]),
        (&json!("FAILURE"), &json!("The script says so."))
    );
    assert!(job["finish_time"].as_i64().unwrap() > 0);
    gateway.stop().await;
}

#[tokio::test]
async fn a_batch_contains_the_known_jobs() {
    let gateway = TestGateway::start().await;
    let clip = gateway.upload("Song").await;
    let record = gateway.separate(clip["id"].as_str().unwrap(), "two").await;
    let id = record["id"].as_str().unwrap();
    gateway.finished(id).await;
    let ids = json!({"ids": ["x", id, "0193a000-0000-7000-8000-000000000099"]});
    let batch = gateway.post("/musicgen/fetch", &ids).await.ok();
    assert_eq!(batch["code"], "success");
    let jobs = batch["data"].as_array().unwrap();
    assert_eq!(jobs.len(), 1);
    assert_job(&jobs[0]);
    assert_eq!(
        (&jobs[0]["status"], &jobs[0]["progress"]),
        (&json!("SUCCESS"), &json!("100%"))
    );
    assert!(
        jobs[0]["data"][0]["audio_url"]
            .as_str()
            .unwrap()
            .ends_with(".flac")
    );
    for (body, param) in [
        (json!({}), "ids"),
        (json!({"ids": "x"}), "ids"),
        (json!({"ids": [1]}), "ids[0]"),
        (json!({"ids": vec![id; 101]}), "ids"),
    ] {
        let answer = gateway.post("/musicgen/fetch", &body).await;
        assert_eq!(answer.status, 400);
        answer.on_param(param);
    }
    assert_eq!(
        gateway
            .post("/musicgen/fetch", &json!({"ids": vec![id; 100]}))
            .await
            .status,
        200
    );
    // A video is not a music task.
    let video = gateway
        .post("/v1/videos", &crate::support::videos_order())
        .await;
    let video = video.header("x-task-id").unwrap();
    gateway
        .get(&format!("/musicgen/tasks/{video}"))
        .await
        .refused(404, "task_not_found");
    gateway
        .get(&format!("/musicgen/fetch/{video}"))
        .await
        .refused(404, "task_not_found");
    gateway.finished(video).await;
    gateway.stop().await;
}
