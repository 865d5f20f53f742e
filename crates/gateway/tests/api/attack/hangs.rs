//! Children that hang. A deadlock in a codec looks like this: the process is there and does nothing.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use mediagate_media::engines::child::{self, ChildClocks, ChildLauncher, ChildLimits, ChildWork};
use mediagate_media::engines::{EngineControl, EngineError};
use serde_json::json;

use super::deaths::kill;
use crate::support::gateway::finished;
use crate::support::{TestGateway, eventually, sound};

/// The program, which notes the processes that it becomes.
struct WatchedProgram {
    folder: tempfile::TempDir,
    path: PathBuf,
}

impl WatchedProgram {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mediagate");
        let script = format!(
            "#!/bin/sh\necho $$ >> '{}'\nexec '{}' \"$@\"\n",
            folder.path().join("started").display(),
            env!("CARGO_BIN_EXE_mediagate"),
        );
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder, path }
    }

    /// The ids of its processes, the oldest first. The one that is prepared for the next job may
    /// note its id before the one that does this job, but the kernel counts them up.
    fn started(&self) -> Vec<u32> {
        let ids = std::fs::read_to_string(self.folder.path().join("started"));
        let ids = ids.unwrap_or_default();
        let ids = ids.lines().map(|id| id.parse().unwrap());
        let mut ids: Vec<u32> = ids.collect();
        ids.sort_unstable();
        ids
    }
}

impl Drop for WatchedProgram {
    /// A test that fails would wait for ever for the children that it stopped.
    fn drop(&mut self) {
        for id in self.started() {
            let mut kill = std::process::Command::new("kill");
            let kill = kill.args(["-KILL", &id.to_string()]);
            let _ = kill.stderr(std::process::Stdio::null()).status();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn films_are_made_although_two_children_hang() {
    let program = WatchedProgram::new();
    let gateway = TestGateway::builder()
        .children_run(program.path.clone())
        .start()
        .await;
    let order = async |size: &str, seconds: &str| {
        let order = json!({
            "model": "animatic-1", "prompt": "a lake", "size": size, "seconds": seconds,
        });
        let answer = gateway.post("/v1/videos", &order).await;
        answer.header("x-task-id").unwrap().to_owned()
    };
    let mut hanging = Vec::new();
    for _ in 0..2 {
        let task = order("1280x720", "6").await;
        eventually("the film is being made", async || {
            let view = gateway.get(&format!("/v1/tasks/{task}")).await.ok();
            (view["progress"].as_u64() > Some(0)).then_some(())
        })
        .await;
        // The next child was started in advance, so it is the last one.
        kill(program.started()[hanging.len()], "-STOP");
        hanging.push(task);
    }
    assert!(gateway.app.engines.oldest(ChildWork::Engine) > Duration::ZERO);
    assert_eq!(gateway.app.engines.oldest(ChildWork::Media), Duration::ZERO);
    // Both workers wait for the children that hang.
    gateway.app.engines.set_clocks(ChildClocks {
        engine: Duration::ZERO,
        ..ChildClocks::default()
    });
    let stopped = &program.started()[..2];
    eventually("both are killed", async || {
        let exists = |id: &u32| std::path::Path::new(&format!("/proc/{id}")).exists();
        (!stopped.iter().any(exists)).then_some(())
    })
    .await;
    // The next children have as much time as they need, on any machine.
    gateway.app.engines.set_clocks(ChildClocks::default());
    let next = order("480x480", "1").await;
    for task in hanging.iter().chain([&next]) {
        let task_view = finished(&gateway.client, task).await;
        assert_eq!(task_view["status"], "succeeded", "{task_view}");
    }
    assert_eq!(
        gateway.app.engines.oldest(ChildWork::Engine),
        Duration::ZERO
    );
    gateway.stop().await;
}

#[test]
fn a_decoder_that_hangs_is_killed_and_the_next_file_is_read() {
    let (program, spool) = (WatchedProgram::new(), tempfile::tempdir().unwrap());
    let limits = ChildLimits::ENGINES;
    let launcher = ChildLauncher::new(program.path.clone(), spool.path().to_owned(), limits);
    let hurry = || {
        launcher.set_clocks(ChildClocks {
            media: Duration::ZERO,
            ..ChildClocks::default()
        });
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), sound::png(30, 20)).unwrap();
    let control = EngineControl::default();
    // `reserve` is called while the child waits for memory.
    let probe = |reserve: &dyn Fn()| {
        let reserve = |_| reserve();
        child::probe_picture(&launcher, file.path(), true, reserve, &control)
    };
    let stop = || {
        kill(program.started()[0], "-STOP");
        hurry();
    };
    let refused = probe(&stop).unwrap().unwrap_err();
    assert_eq!(refused.message, "it cannot be decoded");
    assert!(!refused.is_too_large);
    // A child that hangs before it has its order says nothing about the file.
    while program.started().len() < 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    kill(program.started()[1], "-STOP");
    let unstarted = probe(&|| ());
    assert!(
        matches!(unstarted, Err(EngineError::Unstarted(_))),
        "{unstarted:?}"
    );
    launcher.set_clocks(ChildClocks::default());
    let facts = probe(&|| ()).unwrap().unwrap();
    assert_eq!((facts.width, facts.height), (30, 20));
    drop(launcher);
    assert!(std::fs::read_dir(spool.path()).unwrap().next().is_none());
}
