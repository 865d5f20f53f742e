//! Providers' answers: each protocol must handle any answer to any of its requests.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, UNIX_EPOCH};

use providers::order::{
    MediaFile, SeparationSpec, SongSpec, SourceRecording, VideoOptions, VideoSpec,
};
use providers::{
    Adapter, AdapterStep, Call, JobHandle, Order, PROTOCOLS, ProviderResponse, ProviderSettings,
    StemGroup, StemTarget, WorkSpec,
};
use serde_json::{Map, Value, json};

use crate::FuzzTarget;
use crate::shipped::{SHIPPED, read};

pub(crate) const ANSWER: FuzzTarget = FuzzTarget {
    name: "answer",
    run: answer,
    seeds,
    cases: 800,
};

/// The first byte selects the protocol, the second the status.
fn answer(bytes: &[u8]) {
    // 200 is listed three times, because more of a body is read for a success than for an error.
    const STATUSES: [u16; 8] = [200, 200, 200, 202, 400, 404, 429, 500];
    let [protocol, status, body @ ..] = bytes else {
        return;
    };
    let adapter = &ADAPTERS[usize::from(*protocol) % ADAPTERS.len()];
    let status = STATUSES[usize::from(*status) % STATUSES.len()];
    exercise(&**adapter, status, body);
}

/// Makes an adapter read a response with this status and body as the answer to each of its calls.
pub(crate) fn exercise(adapter: &dyn Adapter, status: u16, body: &[u8]) {
    let mut answer = ProviderResponse::from_json(status, &Value::Null);
    answer.body = body.to_vec().into();
    // The same bytes serve as carried data and as a handle, in which an adapter keeps what earlier
    // answers contained. These must not break it either.
    let carried_data = serde_json::from_slice(body).unwrap_or(Value::Null);
    let since = UNIX_EPOCH + Duration::from_hours(500_000);
    let handles = [carried_data.clone(), json!({"id": "1"}), json!({})].map(JobHandle);
    for order in orders() {
        // Calls are distinguished by their stage. The empty one, and stages that an adapter does
        // not have, must be harmless.
        let mut contexts: Vec<_> = ["", "submit", "find", "status"]
            .map(|stage| {
                Call::get(stage, "")
                    .with_carried_data(carried_data.clone())
                    .context()
            })
            .into();
        contexts.extend(adapter.start(&order).map(|call| call.context()));
        for context in &contexts {
            if let Ok(AdapterStep::Submitted { handle, .. }) =
                adapter.read_submission(&order, context, &answer)
            {
                // A job that the answer names is followed, as the driver would do.
                follow(adapter, &handle, &answer);
            }
            drop(adapter.read_lookup(&order, since, context, &answer));
        }
        drop(adapter.find(&order, since));
    }
    for handle in &handles {
        follow(adapter, handle, &answer);
    }
    adapter.progress_of_part(body);
}

fn follow(adapter: &dyn Adapter, handle: &JobHandle, answer: &ProviderResponse) {
    let call = adapter.poll(handle);
    let context = call.map_or_else(|_| Call::get("poll", "").context(), |call| call.context());
    drop(adapter.read_poll(handle, &context, answer));
    drop(adapter.read_poll_many(&[handle, handle], &context, answer));
    drop((adapter.cancel(handle), adapter.poll_many(&[handle])));
    adapter.confirms_cancellation(handle, answer);
}

static ADAPTERS: LazyLock<Vec<Arc<dyn Adapter>>> = LazyLock::new(|| {
    let built_in = PROTOCOLS.iter().filter_map(|protocol| {
        let settings = ProviderSettings {
            base_url: protocol.base_url.map(|url| url.parse().unwrap()),
            ..ProviderSettings::new("any", Map::new())
        };
        (protocol.build)(&settings).ok()
    });
    let recipes = SHIPPED.map(|text| read(text).unwrap());
    built_in.chain(recipes).collect()
});

fn orders() -> [Order; 3] {
    let order = |work| Order {
        idempotency_key: "01970000-0000-4000-8000-00000000c0de".into(),
        model: "a/b".into(),
        work,
        extra: Map::new(),
    };
    let file = MediaFile {
        name: "song.mp3".into(),
        mime: "audio/mpeg",
        bytes: b"ID3\x04".as_slice().into(),
        url: Some("https://example.com/song.mp3".into()),
    };
    let video = VideoSpec {
        prompt: "a lighthouse in a storm".into(),
        pictures: Vec::new(),
        seconds: 5,
        size: (1280, 720),
        options: VideoOptions::default(),
    };
    let stems = SeparationSpec {
        source: SourceRecording {
            file,
            milliseconds: 10_000,
            upstream: None,
        },
        targets: vec![StemTarget::Only(StemGroup::Vocals), StemTarget::Other],
        full: true,
        title: "Song".into(),
    };
    let song = json!({"prompt": "[Verse] rain", "tags": "blues", "continue_clip_id": "c", "continue_at": 12.5});
    let song = SongSpec {
        task: "extend".into(),
        fields: song.as_object().cloned().unwrap_or_default(),
        uploads: Vec::new(),
    };
    [
        WorkSpec::Video(video),
        WorkSpec::Stems(stems),
        WorkSpec::Song(song),
    ]
    .map(order)
}

/// Real answers of providers, each given to every protocol.
fn seeds() -> Vec<Vec<u8>> {
    let bodies = [
        json!({"id": "video_1", "status": "completed", "progress": 100, "created_at": 1_767_322_245, "model": "sora-2", "seconds": "5"}),
        json!({"request_id": "r", "status_url": "https://x.test/s", "response_url": "https://x.test/r", "cancel_url": "https://x.test/c", "status": "COMPLETED", "queue_position": 1}),
        json!({"id": "p", "status": "succeeded", "output": ["https://x.test/1.mp4"], "urls": {"get": "https://x.test/g"}, "error": null}),
        json!({"id": "t", "status": "SUCCEEDED", "progress": 0.5, "output": {"task_status": "SUCCEEDED", "task_id": "t", "video_url": "https://x.test/1.mp4"}}),
        json!({"code": 0, "message": "ok", "data": {"task_id": "t", "task_status": "succeed", "task_result": {"videos": [{"id": "1", "url": "https://x.test/1.mp4", "duration": "5"}]}}}),
        json!({"code": "success", "data": {"task_id": "t", "status": "SUCCESS", "progress": "100%", "data": [{"id": "c", "audio_url": "https://x.test/1.mp3", "title": "a", "metadata": {"stem_type_group_name": "Vocals", "tags": "jazz"}}]}}),
        json!({"name": "operations/1", "done": true, "response": {"generateVideoResponse": {"generatedSamples": [{"video": {"uri": "https://x.test/1.mp4"}}]}, "videos": [{"bytesBase64Encoded": "AAAA", "gcsUri": "gs://x/1"}]}}),
        json!({"status": "success", "task": {"state": "success"}, "result": {"vocals": "https://x.test/1.wav"}, "data": [{"id": "1", "status": "done", "created_at": "2026-11-21T12:00:00Z"}], "has_more": true, "next": "n"}),
        json!({"id": "435134", "status": "succeeded", "choices": [{"id": "s", "url": "https://x.test/1.mp3", "flac_url": "https://x.test/1.flac"}]}),
        json!({"code": 200, "msg": "success", "data": {"taskId": "t", "status": "SUCCESS", "response": {"sunoData": [{"id": "s", "audioUrl": "https://x.test/1.mp3", "title": "a", "tags": "b", "prompt": "c"}]}}}),
        json!({"choices": [{"message": {"content": "![v](https://x.test/1.mp4)"}, "delta": {"content": "50%"}}], "error": {"message": "no", "code": "content_policy_violation", "type": "invalid_request_error"}}),
    ];
    let protocol_count = u8::try_from(ADAPTERS.len()).unwrap_or(u8::MAX);
    let seeds_for = |protocol| {
        bodies
            .iter()
            .map(move |body| [&[protocol, 0][..], body.to_string().as_bytes()].concat())
    };
    (0..protocol_count).flat_map(seeds_for).collect()
}
