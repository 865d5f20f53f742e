//! Tasks that are finished without an engine, to measure everything else.

use mediagate_core::domain::task_acceptance::{self, NewTask};
use mediagate_core::pricing::{OrderedWork, QuotedQuantity};
use mediagate_model::attribution::Attribution;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::Error;
use mediagate_model::ids::{RequestId, TaskId};
use mediagate_model::money::{ChargeState, MicroDollars};
use mediagate_model::task::{TaskPayload, TaskResult, TaskState, VideoJob, VideoOutput};
use mediagate_store as store;
use mediagate_store::tasks::TaskEnding;

use super::BenchGateway;

/// Models whose tasks are finished here.
const MODELS: &str = r#"["animatic-1"]"#;

/// A finished video task.
pub async fn video(gateway: &BenchGateway) -> TaskId {
    let ending = ending(gateway).await;
    let job = VideoJob {
        prompt: "a lake at dawn, slow dolly in".into(),
        width: 1280,
        height: 720,
        milliseconds: 5000,
        fps: Some(30),
        ..VideoJob::default()
    };
    let new = NewTask {
        model: gateway
            .app
            .models
            .catalog
            .load()
            .by_name("animatic-1")
            .unwrap()
            .clone(),
        asked_model: "animatic-1".into(),
        quantity: QuotedQuantity::of(OrderedWork::film(&job)),
        payload: TaskPayload::VideoV1(job),
        attribution: Attribution::default(),
        callback: None,
    };
    let request = RequestId::generate().into();
    let task = task_acceptance::task(&gateway.app, &gateway.caller, &request, new);
    let (id, key) = (task.id, gateway.caller.key.clone());
    let now = gateway.app.clock.now();
    let ended = gateway
        .app
        .store
        .write(move |conn| -> Result<bool, Error> {
            task_acceptance::write(conn, &key, std::slice::from_ref(&task), None)?;
            Ok(store::tasks::finish(conn, id, None, &ending, now)?.is_some())
        })
        .await;
    assert!(ended.unwrap());
    id
}

/// Starts workers that end every task at once with the same video.
pub async fn answer_at_once(gateway: &BenchGateway) {
    let ending = ending(gateway).await;
    for number in 0..4 {
        let (app, ending) = (gateway.app.clone(), ending.clone());
        #[expect(clippy::disallowed_methods, reason = "ends with the process")]
        tokio::spawn(async move {
            let owner = format!("bench-{number}");
            loop {
                let now = app.clock.now();
                // This read is cheap, and a claim is a write. Without the read, idle workers would
                // fill the queue of writes that is to be measured.
                let due = app
                    .store
                    .read(move |conn| store::tasks::any_due(conn, MODELS, now))
                    .await
                    .unwrap();
                if !due {
                    app.bell.wait_for_work().await;
                    continue;
                }
                // This worker is busy from now on, and there may be more than one task.
                app.bell.ring_for_work();
                let name = owner.clone();
                let claimed = app
                    .store
                    .write(move |conn| store::tasks::claim(conn, &name, MODELS, now))
                    .await
                    .unwrap();
                let Some(task) = claimed else { continue };
                let (name, ending) = (owner.clone(), ending.clone());
                // A second commit, as with a real engine: the benchmark pays for both.
                let end = move |conn: &mut store::Conn<'_>| -> Result<bool, Error> {
                    Ok(store::tasks::finish(conn, task.id, Some(&name), &ending, now)?.is_some())
                };
                app.store.write(end).await.unwrap();
                app.bell.ring(task.id);
            }
        });
    }
}

async fn ending(gateway: &BenchGateway) -> TaskEnding {
    let bytes = bytes::Bytes::from_static(b"not really a video");
    let asset = gateway.store_film(bytes).await;
    let output = VideoOutput {
        media: mediagate_model::media::MediaType::Mp4,
        codec: None,
        video: asset.id,
        poster: Some(asset.id),
        sheet: Some(asset.id),
        width: 1280,
        height: 720,
        milliseconds: 5000,
        size_bytes: asset.size_bytes,
        sha256: asset.sha256,
        expires_at_micros: asset.expires_at.map_or(0, Timestamp::micros),
        direction: vec!["dolly in".into()],
        not_understood: Box::default(),
        provenance: None,
    };
    let output = Some(TaskResult::VideoV1(output));
    TaskEnding {
        state: TaskState::Succeeded,
        cost: MicroDollars::ZERO,
        money: ChargeState::Free,
        bill: None,
        output,
        failure: None,
    }
}
