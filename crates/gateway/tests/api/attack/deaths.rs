//! Engines in children of the real program: a crash ends the child, and the third the task.

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mediagate_media::engines::child::{self, ChildLauncher, ChildLimits};
use mediagate_media::engines::retouch::RetouchOptions;
use mediagate_media::engines::{EngineControl, EngineError, animatic_engine, stems_engine};
use mediagate_model::ids::{AssetId, ClipId};
use mediagate_model::music::StemGroup;
use mediagate_model::task::{SeparationMode, StemTarget, StemsJob, VideoJob};
use serde_json::{Value, json};
use simulator::ConnectionCut;

use crate::support::gateway::finished;
use crate::support::postgres::{TestDatabase, proxy_to};
use crate::support::program::{Server, output, program, text};
use crate::support::{Client, eventually, sound};

fn launcher(spool: &Path) -> ChildLauncher {
    limited(spool, ChildLimits::ENGINES)
}

fn limited(spool: &Path, limits: ChildLimits) -> ChildLauncher {
    let program = env!("CARGO_BIN_EXE_mediagate").into();
    ChildLauncher::new(program, spool.to_owned(), limits)
}

fn video_job(milliseconds: u64) -> VideoJob {
    VideoJob {
        prompt: "a lake at dawn, slow dolly in".into(),
        width: 480,
        height: 480,
        milliseconds,
        fps: 24,
        seed: 7,
        ..VideoJob::default()
    }
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn a_child_makes_the_same_video() {
    let spool = tempfile::tempdir().unwrap();
    let picture = sound::png(300, 200);
    let file = spool.path().join("picture");
    std::fs::write(&file, &picture).unwrap();
    let decoded = animatic_engine::decode(&picture).unwrap();
    let (job, watch) = (video_job(1000), EngineControl::default());
    let here = animatic_engine::make(
        &job,
        Some(&decoded),
        RetouchOptions::default(),
        &EngineControl::default(),
    )
    .unwrap();
    let there = child::make_video(
        &launcher(spool.path()),
        &job,
        Some(&file),
        RetouchOptions::default(),
        &watch,
    )
    .unwrap();
    assert!(here.mp4 == there.mp4 && here.poster == there.poster && here.sheet == there.sheet);
    let facts = |made: &animatic_engine::MadeVideo| {
        (
            made.width,
            made.height,
            made.milliseconds,
            made.direction.clone(),
        )
    };
    assert_eq!(facts(&here), facts(&there));
    std::fs::remove_file(file).unwrap();
    assert!(is_empty(spool.path()));
}

#[test]
fn a_child_makes_the_same_stems() {
    let spool = tempfile::tempdir().unwrap();
    let source = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(source.path(), sound::wav(2, 1)).unwrap();
    let outputs = [
        StemTarget::Only(StemGroup::Vocals),
        StemTarget::Without(StemGroup::Vocals),
    ];
    let job = StemsJob {
        source: ClipId::new(),
        source_audio: AssetId::new(),
        milliseconds: 2000,
        stem_task: SeparationMode::Two,
        group_name: "Vocals".into(),
        outputs: outputs.map(|target| (ClipId::new(), target)).into(),
        generation_type: String::new(),
        make_instrumental: false,
        title: String::new(),
    };
    let folder = tempfile::tempdir().unwrap();
    let (from, watch) = (source.path(), EngineControl::default());
    let here = stems_engine::separate(&job, None, from, None, folder.path(), &watch).unwrap();
    let there = child::separate(&launcher(spool.path()), &job, None, from, None, &watch).unwrap();
    assert_eq!((here.len(), there.len()), (2, 2));
    for (here, there) in here.iter().zip(&there) {
        let bytes = |path: &Path| std::fs::read(path).unwrap();
        assert!(bytes(&here.flac) == bytes(&there.flac));
        assert!(here.cover == there.cover && here.cover_large == there.cover_large);
        assert_eq!(
            (here.size_bytes, &here.sha256, here.milliseconds),
            (there.size_bytes, &there.sha256, there.milliseconds)
        );
    }
    drop(there);
    assert!(is_empty(spool.path()));
}

#[test]
fn a_limit_ends_the_child_alone() {
    let spool = tempfile::tempdir().unwrap();
    for limits in [
        ChildLimits {
            memory: Some(160 << 20),
            ..ChildLimits::ENGINES
        },
        ChildLimits {
            cpu: Some(1),
            ..ChildLimits::ENGINES
        },
    ] {
        let job = VideoJob {
            width: 1920,
            height: 1080,
            ..video_job(10_000)
        };
        let made = child::make_video(
            &limited(spool.path(), limits),
            &job,
            None,
            RetouchOptions::default(),
            &EngineControl::default(),
        );
        assert!(
            matches!(made, Err(EngineError::Died(_))),
            "{:?}",
            made.err()
        );
    }
    assert!(is_empty(spool.path()));
}

#[test]
fn what_a_child_refuses_is_no_death() {
    let spool = tempfile::tempdir().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "no picture").unwrap();
    let job = video_job(1000);
    let watch = EngineControl::default();
    let made = child::make_video(
        &launcher(spool.path()),
        &job,
        Some(file.path()),
        RetouchOptions::default(),
        &watch,
    );
    assert!(
        matches!(made, Err(EngineError::Source(_))),
        "{:?}",
        made.err()
    );
}

#[test]
fn a_job_that_is_called_off_ends_its_child() {
    let spool = tempfile::tempdir().unwrap();
    let (launcher, watch) = (launcher(spool.path()), Arc::new(EngineControl::default()));
    let watching = watch.clone();
    let made = std::thread::spawn(move || {
        child::make_video(
            &launcher,
            &video_job(10_000),
            None,
            RetouchOptions::default(),
            &watching,
        )
        .err()
    });
    while watch.progress() == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    watch.stop();
    assert_eq!(made.join().unwrap(), Some(EngineError::Stopped));
    assert!(is_empty(spool.path()));
}

const PRICED: &str = "[models.animatic-1]\nprice = { unit = \"second\", usd = \"0.10\" }\n";

/// A gateway that is killed again and again.
struct Victim {
    data: tempfile::TempDir,
    key: String,
    server: Server,
}

impl Victim {
    async fn start() -> Self {
        Self::start_with("").await
    }

    /// One with these settings too.
    async fn start_with(settings: &str) -> Self {
        let data = tempfile::tempdir().unwrap();
        let file = data.path().join("mediagate.toml");
        std::fs::write(&file, format!("{settings}\n{PRICED}")).unwrap();
        let server = Self::launch(data.path()).await;
        let key = server.first_key().await;
        Self { data, key, server }
    }

    async fn launch(data: &Path) -> Server {
        let file = data.join("mediagate.toml");
        Server::start(data, &["--config", file.to_str().unwrap()]).await
    }

    fn client(&self) -> Client {
        Client::new(&self.server.base, Some(&self.key))
    }

    /// Orders a video; it is under way.
    async fn begin(&self, seconds: u32) -> String {
        let order = json!({"model": "animatic-1", "prompt": "a lake", "size": "1280x720", "seconds": seconds.to_string()});
        let made = self.client().post("/v1/videos", &order).await;
        let task = made.header("x-task-id").unwrap().to_owned();
        let path = format!("/v1/tasks/{task}");
        eventually("it runs", async || {
            let view = self.client().get(&path).await.ok();
            (view["status"] == "running").then_some(())
        })
        .await;
        task
    }

    async fn crash(&mut self) {
        let next = Self::launch(self.data.path());
        self.server.signal("-KILL");
        self.server = next.await;
    }

    /// The child that works now; another than `before`.
    async fn child(&self, before: Option<u32>) -> u32 {
        eventually("a child works", async || {
            let mut engines = self.server.engines();
            engines.retain(|id| Some(*id) != before);
            assert!(engines.len() <= 1, "it is alone: {engines:?}");
            engines.pop()
        })
        .await
    }

    async fn account(&self) -> Value {
        self.client().get("/v1/account").await.ok()
    }

    /// Stops it; the money adds up.
    async fn end(self) {
        let data = self.data.path();
        let (data, file) = (data.to_str().unwrap(), data.join("mediagate.toml"));
        self.server.stop().await;
        let words = ["--config", file.to_str().unwrap(), "--data", data];
        let verified = output(program(&[&["ledger", "verify"], &words[..]].concat())).await;
        assert!(verified.status.success(), "{}", text(&verified.stderr));
    }
}

fn kill(process: u32, signal: &str) {
    let mut command = Command::new("kill");
    let sent = command.args([signal, &process.to_string()]).status();
    assert!(sent.unwrap().success());
}

#[tokio::test]
async fn a_task_whose_child_died_is_made_by_another_and_paid_once() {
    let victim = Victim::start().await;
    let task = victim.begin(2).await;
    let first = victim.child(None).await;
    kill(first, "-KILL");
    victim.child(Some(first)).await;
    let ended = finished(&victim.client(), &task).await;
    assert_eq!(
        (&ended["status"], &ended["cost_usd"]),
        (&json!("succeeded"), &json!("0.20"))
    );
    assert_eq!(victim.account().await["spent_usd"], "0.20");
    victim.end().await;
}

#[tokio::test]
async fn a_child_that_died_while_it_waited_costs_nobody_anything() {
    let victim = Victim::start().await;
    let client = victim.client();
    let order =
        json!({"model": "animatic-1", "prompt": "a lake", "size": "480x480", "seconds": "1"});
    for _ in 0..2 {
        let made = client.post("/v1/videos", &order).await;
        let task = made.header("x-task-id").unwrap().to_owned();
        assert_eq!(finished(&client, &task).await["status"], "succeeded");
        let ready = eventually("a child waits", async || victim.server.children().pop()).await;
        kill(ready, "-KILL");
    }
    victim.end().await;
}

#[tokio::test]
async fn a_task_that_ends_its_process_three_times_is_failed() {
    let mut victim = Victim::start().await;
    let task = victim.begin(20).await;
    let first = victim.child(None).await;
    kill(first, "-KILL");
    // Who stops a whole service politely means no harm.
    let second = victim.child(Some(first)).await;
    kill(second, "-TERM");
    let third = victim.child(Some(second)).await;
    kill(third, "-ABRT");
    // Nor is it the job's when the gateway is killed, whose children end with it.
    let fourth = victim.child(Some(third)).await;
    victim.crash().await;
    eventually("the child ends with its parent", async || {
        (!Path::new(&format!("/proc/{fourth}")).exists()).then_some(())
    })
    .await;
    let fifth = victim.child(Some(fourth)).await;
    let view = victim.client().get(&format!("/v1/tasks/{task}")).await.ok();
    assert_eq!(view["status"], "running");
    assert_eq!(victim.account().await["held_usd"], "2.00");
    kill(fifth, "-KILL");
    let ended = finished(&victim.client(), &task).await;
    assert_eq!(
        (&ended["status"], &ended["cost_usd"]),
        (&json!("failed"), &json!("0.00"))
    );
    assert_eq!(ended["error"]["code"], "provider_rejected", "{ended}");
    let message = ended["error"]["message"].as_str().unwrap();
    assert!(message.contains("crashed its process 3 times"), "{message}");
    let account = victim.account().await;
    assert_eq!(
        (&account["held_usd"], &account["spent_usd"]),
        (&json!("0.00"), &json!("0.00"))
    );
    victim.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_death_counts_although_the_database_breaks() {
    let database = TestDatabase::create().await;
    let (proxy, url) = proxy_to(&database.url).await;
    let victim = Victim::start_with(&format!("database = \"{url}\"")).await;
    let task = victim.begin(20).await;
    let first = victim.child(None).await;
    let mut cut = ConnectionCut::new("UPDATE tasks SET deaths");
    cut.times = 3;
    proxy.cut(cut);
    kill(first, "-KILL");
    proxy.wait_for_strikes(1).await;
    let second = victim.child(Some(first)).await;
    kill(second, "-KILL");
    let third = victim.child(Some(second)).await;
    kill(third, "-KILL");
    let ended = finished(&victim.client(), &task).await;
    assert_eq!(ended["error"]["code"], "provider_rejected", "{ended}");
    victim.end().await;
}

#[tokio::test]
async fn tasks_whose_children_died_run_one_after_the_other() {
    let victim = Victim::start_with("workers = 3").await;
    let tasks = [victim.begin(3).await, victim.begin(3).await];
    let children = eventually("both are made", async || {
        let engines = victim.server.engines();
        (engines.len() == tasks.len()).then_some(engines)
    })
    .await;
    for child in &children {
        kill(*child, "-KILL");
    }
    let seen = Mutex::new(HashSet::new());
    eventually("both end", async || {
        let mut engines = victim.server.engines();
        engines.retain(|engine| !children.contains(engine));
        assert!(engines.len() <= 1, "they are alone: {engines:?}");
        seen.lock().unwrap().extend(engines);
        let mut done = 0;
        for task in &tasks {
            let view = victim.client().get(&format!("/v1/tasks/{task}")).await.ok();
            done += usize::from(view["status"] == "succeeded");
        }
        (done == tasks.len()).then_some(())
    })
    .await;
    assert_eq!(seen.lock().unwrap().len(), tasks.len());
    assert_eq!(victim.account().await["spent_usd"], "0.60");
    victim.end().await;
}
