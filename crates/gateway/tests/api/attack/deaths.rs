//! Engines in child processes of the real program: a crash ends only the child, and the third
//! crash fails the task.

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mediagate_media::engines::child::{self, ChildLauncher, ChildLimits};
use mediagate_media::engines::retouch::RetouchOptions;
use mediagate_media::engines::{EngineControl, EngineError, animatic_engine, clip, stems_engine};
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
    launcher_with_limits(spool, ChildLimits::ENGINES)
}

fn launcher_with_limits(spool: &Path, limits: ChildLimits) -> ChildLauncher {
    let program = env!("CARGO_BIN_EXE_mediagate").into();
    ChildLauncher::new(program, spool.to_owned(), limits)
}

fn video_job(milliseconds: u64) -> VideoJob {
    VideoJob {
        prompt: "a lake at dawn, slow dolly in".into(),
        width: 480,
        height: 480,
        milliseconds,
        fps: Some(24),
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
    let (job, control) = (video_job(1000), EngineControl::default());
    let in_process = animatic_engine::make(
        &job,
        Some(&decoded),
        RetouchOptions::default(),
        &EngineControl::default(),
    )
    .unwrap();
    let in_child = child::make_video(
        &launcher(spool.path()),
        &job,
        Some(&file),
        RetouchOptions::default(),
        &control,
    )
    .unwrap();
    assert!(
        in_process.mp4 == in_child.mp4
            && in_process.poster == in_child.poster
            && in_process.sheet == in_child.sheet
    );
    let facts = |video: &animatic_engine::MadeVideo| {
        (
            video.width,
            video.height,
            video.milliseconds,
            video.reading.clone(),
        )
    };
    assert_eq!(facts(&in_process), facts(&in_child));
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
    let flacs = [(); 2].map(|()| tempfile::NamedTempFile::new().unwrap());
    let files = flacs.iter().map(|file| file.reopen().unwrap()).collect();
    let (source_path, control) = (source.path(), EngineControl::default());
    let in_process =
        stems_engine::separate(&job, None, source_path, None, files, &control).unwrap();
    let in_child = child::separate(
        &launcher(spool.path()),
        &job,
        None,
        source_path,
        None,
        &control,
    )
    .unwrap();
    assert_eq!((in_process.len(), in_child.len()), (2, 2));
    for ((in_process, flac), in_child) in in_process.iter().zip(&flacs).zip(&in_child) {
        let bytes = |path: &Path| std::fs::read(path).unwrap();
        assert!(bytes(flac.path()) == bytes(&in_child.flac));
        let (size_bytes, sha256) = clip::digest(flac.path()).unwrap();
        assert!(
            in_process.cover == in_child.cover && in_process.cover_large == in_child.cover_large
        );
        assert_eq!(
            (size_bytes, &sha256, in_process.milliseconds),
            (in_child.size_bytes, &in_child.sha256, in_child.milliseconds)
        );
    }
    drop(in_child);
    assert!(is_empty(spool.path()));
}

#[test]
fn a_limit_ends_only_the_child() {
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
        let result = child::make_video(
            &launcher_with_limits(spool.path(), limits),
            &job,
            None,
            RetouchOptions::default(),
            &EngineControl::default(),
        );
        assert!(
            matches!(result, Err(EngineError::Died(_))),
            "{:?}",
            result.err()
        );
    }
    assert!(is_empty(spool.path()));
}

#[test]
fn a_source_that_a_child_rejects_is_no_crash() {
    let spool = tempfile::tempdir().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "no picture").unwrap();
    let job = video_job(1000);
    let control = EngineControl::default();
    let result = child::make_video(
        &launcher(spool.path()),
        &job,
        Some(file.path()),
        RetouchOptions::default(),
        &control,
    );
    assert!(
        matches!(result, Err(EngineError::Source(_))),
        "{:?}",
        result.err()
    );
}

#[test]
fn a_cancelled_job_ends_its_child() {
    let spool = tempfile::tempdir().unwrap();
    let (launcher, control) = (launcher(spool.path()), Arc::new(EngineControl::default()));
    let child_control = control.clone();
    let job_thread = std::thread::spawn(move || {
        child::make_video(
            &launcher,
            &video_job(10_000),
            None,
            RetouchOptions::default(),
            &child_control,
        )
        .err()
    });
    while control.progress() == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    control.stop();
    assert_eq!(job_thread.join().unwrap(), Some(EngineError::Stopped));
    assert!(is_empty(spool.path()));
}

const PRICES: &str = "[models.animatic-1]\nprice = { unit = \"second\", usd = \"0.10\" }\n";

/// A gateway that is killed repeatedly.
struct Victim {
    data: tempfile::TempDir,
    key: String,
    server: Server,
}

impl Victim {
    async fn start() -> Self {
        Self::start_with("").await
    }

    /// Like [`Self::start`], with these settings.
    async fn start_with(settings: &str) -> Self {
        let data = tempfile::tempdir().unwrap();
        let file = data.path().join("mediagate.toml");
        std::fs::write(&file, format!("{settings}\n{PRICES}")).unwrap();
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

    /// Orders a video and waits until it runs.
    async fn start_video(&self, seconds: u32) -> String {
        let order = json!({"model": "animatic-1", "prompt": "a lake", "size": "1280x720", "seconds": seconds.to_string()});
        let answer = self.client().post("/v1/videos", &order).await;
        let task = answer.header("x-task-id").unwrap().to_owned();
        let path = format!("/v1/tasks/{task}");
        eventually("the task runs", async || {
            let view = self.client().get(&path).await.ok();
            (view["status"] == "running").then_some(())
        })
        .await;
        task
    }

    async fn crash(&mut self) {
        let restart = Self::launch(self.data.path());
        self.server.signal("-KILL");
        self.server = restart.await;
    }

    /// Waits until a child other than `before` works; returns its id.
    async fn child(&self, before: Option<u32>) -> u32 {
        eventually("a child works", async || {
            let mut engines = self.server.engines();
            engines.retain(|id| Some(*id) != before);
            assert!(engines.len() <= 1, "only one child works: {engines:?}");
            engines.pop()
        })
        .await
    }

    async fn account(&self) -> Value {
        self.client().get("/v1/account").await.ok()
    }

    /// Stops the gateway and verifies the ledger.
    async fn end(self) {
        let data = self.data.path();
        let (data, file) = (data.to_str().unwrap(), data.join("mediagate.toml"));
        self.server.stop().await;
        let args = ["--config", file.to_str().unwrap(), "--data", data];
        let result = output(program(&[&["ledger", "verify"], &args[..]].concat())).await;
        assert!(result.status.success(), "{}", text(&result.stderr));
    }
}

/// Sends a signal to a process.
pub(super) fn kill(process: u32, signal: &str) {
    let mut command = Command::new("kill");
    let sent = command.args([signal, &process.to_string()]).status();
    assert!(sent.unwrap().success());
}

#[tokio::test]
async fn a_task_whose_child_died_is_repeated_and_paid_once() {
    let victim = Victim::start().await;
    let task = victim.start_video(2).await;
    let first = victim.child(None).await;
    kill(first, "-KILL");
    victim.child(Some(first)).await;
    let task_view = finished(&victim.client(), &task).await;
    assert_eq!(
        (&task_view["status"], &task_view["cost_usd"]),
        (&json!("succeeded"), &json!("0.20"))
    );
    assert_eq!(victim.account().await["spent_usd"], "0.20");
    victim.end().await;
}

#[tokio::test]
async fn an_idle_child_that_dies_harms_no_task() {
    let victim = Victim::start().await;
    let client = victim.client();
    let order =
        json!({"model": "animatic-1", "prompt": "a lake", "size": "480x480", "seconds": "1"});
    for _ in 0..2 {
        let answer = client.post("/v1/videos", &order).await;
        let task = answer.header("x-task-id").unwrap().to_owned();
        assert_eq!(finished(&client, &task).await["status"], "succeeded");
        let idle_child = eventually("a child waits", async || victim.server.children().pop()).await;
        kill(idle_child, "-KILL");
    }
    victim.end().await;
}

#[tokio::test]
async fn a_task_that_crashes_three_children_fails() {
    let mut victim = Victim::start().await;
    let task = victim.start_video(20).await;
    let first = victim.child(None).await;
    kill(first, "-KILL");
    // SIGTERM, as sent to a whole service, does not count.
    let second = victim.child(Some(first)).await;
    kill(second, "-TERM");
    let third = victim.child(Some(second)).await;
    kill(third, "-ABRT");
    // Nor does the end of a child whose gateway was killed.
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
    let task_view = finished(&victim.client(), &task).await;
    assert_eq!(
        (&task_view["status"], &task_view["cost_usd"]),
        (&json!("failed"), &json!("0.00"))
    );
    assert_eq!(
        task_view["error"]["code"], "provider_rejected",
        "{task_view}"
    );
    let message = task_view["error"]["message"].as_str().unwrap();
    assert!(message.contains("crashed its process 3 times"), "{message}");
    let account = victim.account().await;
    assert_eq!(
        (&account["held_usd"], &account["spent_usd"]),
        (&json!("0.00"), &json!("0.00"))
    );
    victim.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_counts_although_the_database_fails() {
    let database = TestDatabase::create().await;
    let (proxy, url) = proxy_to(&database.url).await;
    let victim = Victim::start_with(&format!("database = \"{url}\"")).await;
    let task = victim.start_video(20).await;
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
    let task_view = finished(&victim.client(), &task).await;
    assert_eq!(
        task_view["error"]["code"], "provider_rejected",
        "{task_view}"
    );
    victim.end().await;
}

#[tokio::test]
async fn tasks_whose_children_died_run_one_after_the_other() {
    let victim = Victim::start_with("workers = 3").await;
    let tasks = [victim.start_video(3).await, victim.start_video(3).await];
    let children = eventually("both videos are being made", async || {
        let engines = victim.server.engines();
        (engines.len() == tasks.len()).then_some(engines)
    })
    .await;
    for child in &children {
        kill(*child, "-KILL");
    }
    let engines_seen = Mutex::new(HashSet::new());
    eventually("both tasks end", async || {
        let mut engines = victim.server.engines();
        engines.retain(|engine| !children.contains(engine));
        assert!(engines.len() <= 1, "only one of them works: {engines:?}");
        engines_seen.lock().unwrap().extend(engines);
        let mut succeeded = 0;
        for task in &tasks {
            let view = victim.client().get(&format!("/v1/tasks/{task}")).await.ok();
            succeeded += usize::from(view["status"] == "succeeded");
        }
        (succeeded == tasks.len()).then_some(())
    })
    .await;
    assert_eq!(engines_seen.lock().unwrap().len(), tasks.len());
    assert_eq!(victim.account().await["spent_usd"], "0.60");
    victim.end().await;
}
