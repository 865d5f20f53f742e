//! Child processes as they are installed: under the filter of system calls that systemd makes of our
//! unit, under filters that prevent their confinement, and on kernels that cannot confine them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use mediagate_core::domain::keys::NewKey;
use mediagate_model::account::Scope;
use mediagate_model::ids::TaskId;
use mediagate_store as store;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};

use crate::support::client::Answer;
use crate::support::gateway::{finished, upload};
use crate::support::program::{Server, output, program, text};
use crate::support::{Client, TestGateway, eventually, sound};

/// The calls with which children confine themselves.
const CALLS: [&str; 4] = [
    "seccomp",
    "landlock_create_ruleset",
    "landlock_add_rule",
    "landlock_restrict_self",
];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A unit like ours, with other system calls, in a file.
fn unit(folder: &Path, change: impl Fn(&str) -> String) -> PathBuf {
    let path = folder.join("trial.service");
    let shipped = repository().join("deploy/systemd/mediagate.service");
    let text = std::fs::read_to_string(shipped).unwrap();
    let lines = text.lines().map(|line| {
        if line.starts_with("SystemCall") {
            change(line)
        } else {
            line.to_owned()
        }
    });
    std::fs::write(&path, lines.collect::<Vec<_>>().join("\n")).unwrap();
    path
}

/// The beginning of a command that runs under a unit's filter; ours if there is none.
fn prefix(unit: Option<&Path>) -> Vec<String> {
    let launcher = repository().join("scripts/under-unit");
    // A filter that is kept in a file would take precedence over the unit.
    let mut words = vec!["env".to_owned(), "--unset=MEDIAGATE_TEST_FILTER".to_owned()];
    words.extend(unit.map(|path| format!("MEDIAGATE_TEST_UNIT={}", path.display())));
    words.push(launcher.display().to_string());
    words
}

async fn run(unit: &Path, args: &[&str]) -> Output {
    let own = program(args);
    let prefix = prefix(Some(unit));
    let mut command = std::process::Command::new(&prefix[0]);
    command
        .args(&prefix[1..])
        .arg(own.get_program())
        .args(own.get_args());
    for (name, value) in own.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    output(command).await
}

async fn start(unit: Option<&Path>, data: &Path) -> (Server, Client) {
    let prefix = prefix(unit);
    let prefix: Vec<&str> = prefix.iter().map(String::as_str).collect();
    let server = Server::start_behind(&prefix, data, &[]).await;
    let client = Client::new(&server.base, Some(&server.first_key().await));
    (server, client)
}

fn order_with_picture() -> Value {
    json!({"model": "animatic-1", "prompt": "a lake", "size": "480x480", "seconds": "1",
        "input_reference": {"image_url": sound::data_url("image/png", &sound::png(40, 30))}})
}

/// Uses a child for a picture, a film, a recording and stems.
async fn use_every_child(client: &Client) {
    let ordered = client.post("/v1/videos", &order_with_picture()).await;
    let film = ordered.header("x-task-id").unwrap().to_owned();
    ordered.ok();
    let clip = upload(client, "a song", sound::wav(2, 1)).await;
    assert_eq!(clip["status"], "complete", "{clip}");
    let order = json!({"task": "gen_stem", "continue_clip_id": clip["id"], "stem_task": "two",
        "stem_type_group_name": "Vocals"});
    let stems = client.post("/musicgen/submit/music", &order).await.ok();
    for task in [&*film, stems["id"].as_str().unwrap()] {
        let view = finished(client, task).await;
        assert_eq!(view["status"], "succeeded", "{view}");
    }
}

#[tokio::test]
async fn under_the_filter_of_our_unit_children_work_and_are_confined() {
    let data = tempfile::tempdir().unwrap();
    let (server, client) = start(None, data.path()).await;
    use_every_child(&client).await;
    let readiness = client.get("/readyz?verbose").await.ok();
    assert_eq!(readiness["verbose"]["unconfined"], json!([]));
    let metrics = client.get("/metrics").await.whole_text();
    for wall in ["files", "network", "processes"] {
        let line = format!("mediagate_confinement{{wall=\"{wall}\"}} 1");
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
    assert!(!metrics.contains("mediagate_child_failures_total{"));
    server.stop().await;
}

#[tokio::test]
async fn a_filter_that_prevents_the_confinement_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    for missing in CALLS {
        let unit = unit(folder.path(), |line| {
            line.replace(&format!(" {missing}"), "")
        });
        let serve = ["serve", "--listen", "127.0.0.1:0", "--data", data];
        let result = run(&unit, &serve).await;
        assert_refused(&result, missing);
        assert_eq!(text(&result.stdout), "", "no key was made");
    }
    let unit = unit(folder.path(), |line| line.replace(" seccomp", ""));
    let out = folder.path().join("out");
    for args in [
        &["worker", "--data", data][..],
        &["demo", "--once", "--out", out.to_str().unwrap()],
        &["config", "check", "--data", data],
    ] {
        let result = run(&unit, args).await;
        assert_refused(&result, "seccomp");
    }
    // Commands that decode nothing need no children.
    let result = run(&unit, &["keys", "create", "--name", "a", "--data", data]).await;
    assert!(result.status.success(), "{}", text(&result.stderr));
}

/// Asserts that the command failed because of a system call, and names the setting.
fn assert_refused(result: &Output, call: &str) {
    let stderr = text(&result.stderr);
    assert_eq!(result.status.code(), Some(2), "{call}: {stderr}");
    let named = [&*format!("forbids `{call}`"), "SystemCallFilter="];
    assert!(named.iter().all(|part| stderr.contains(part)), "{stderr}");
}

/// Without `SystemCallErrorNumber=`, systemd's filters kill.
#[tokio::test]
async fn a_filter_that_kills_children_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let unit = unit(folder.path(), |line| {
        let is_error = line.starts_with("SystemCallErrorNumber=");
        if is_error {
            String::new()
        } else {
            line.replace(" seccomp", "")
        }
    });
    let data = folder.path().join("data");
    let result = run(&unit, &["worker", "--data", data.to_str().unwrap()]).await;
    let stderr = text(&result.stderr);
    assert_eq!(result.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("SystemCallFilter="), "{stderr}");
}

/// A kernel without Landlock says ENOSYS.
#[tokio::test]
async fn a_kernel_without_landlock_is_reported_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let unit = unit(folder.path(), |line| {
        let line = line.replace("Number=EPERM", "Number=ENOSYS");
        CALLS[1..]
            .iter()
            .fold(line, |line, call| line.replace(&format!(" {call}"), ""))
    });
    let data = folder.path().join("data");
    let (server, client) = start(Some(&unit), &data).await;
    use_every_child(&client).await;
    let readiness = client.get("/readyz?verbose").await.ok();
    assert_eq!(readiness["verbose"]["unconfined"], json!(["files"]));
    let metrics = client.get("/metrics").await.whole_text();
    for (wall, value) in [("files", 0), ("network", 1), ("processes", 1)] {
        let line = format!("mediagate_confinement{{wall=\"{wall}\"}} {value}");
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
    let stderr = server.stderr();
    assert_eq!(stderr.matches("docs/security.md").count(), 1, "{stderr}");
    server.stop().await;
    let args = ["config", "check", "--data", data.to_str().unwrap()];
    let result = run(&unit, &args).await;
    let stderr = text(&result.stderr);
    assert!(result.status.success(), "{stderr}");
    assert!(stderr.contains("docs/security.md"), "{stderr}");
}

async fn send_file(client: &Client, path: &str, file: Vec<u8>) -> Answer {
    let form = Form::new().part("file", Part::bytes(file).file_name("song.wav"));
    let request = client.request(reqwest::Method::POST, path);
    client.send(request.multipart(form)).await
}

/// Writes a program that runs another command in its place.
fn write_program(path: &Path, command: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, format!("#!/bin/sh\n{command}\n")).unwrap();
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::rename(new, path).unwrap();
}

/// Children that die before they read their input say nothing about it.
#[tokio::test]
async fn a_child_that_cannot_start_is_not_the_callers_fault() {
    let folder = tempfile::tempdir().unwrap();
    let children = folder.path().join("child");
    write_program(&children, "exec false");
    let gateway = TestGateway::builder().children_run(children.clone());
    let gateway = gateway.start().await;
    let admin = NewKey {
        name: "admin".into(),
        scopes: vec![Scope::Admin],
        ..NewKey::default()
    };
    let admin = gateway.caller("default", admin).await;
    // A child that read its order can still be unconfined.
    let unconfined = r#"read order; echo '{"Unconfined":{"ForbiddenCall":"seccomp"}}'"#;
    for (command, reason) in [("exec false", "start"), (unconfined, "confinement")] {
        write_program(&children, command);
        let (picture, song) = (order_with_picture(), sound::wav(2, 1));
        let answers = [
            gateway.post("/v1/videos", &picture).await,
            send_file(&gateway, "/v1/provenance/check", song.clone()).await,
            send_file(&gateway, "/musicgen/uploads/audio", song).await,
        ];
        for answer in answers {
            answer.refused(503, "overloaded");
            let wait: u32 = answer.header("retry-after").unwrap().parse().unwrap();
            assert!(wait >= 1);
        }
        let metrics = admin.get("/metrics").await.whole_text();
        let line = format!("mediagate_child_failures_total{{reason=\"{reason}\"}}");
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
    let order =
        json!({"model": "animatic-1", "prompt": "a lake", "size": "480x480", "seconds": "1"});
    let task = gateway.post("/v1/videos", &order).await;
    let task = task.header("x-task-id").unwrap().to_owned();
    let id: TaskId = task.parse().unwrap();
    let tried = eventually("a worker has tried it twice", async || {
        let read = move |conn: &mut store::Conn<'_>| store::tasks::by_id_any_account(conn, id);
        let task = gateway.app.store.read(read).await.unwrap().unwrap();
        (task.attempts > 1).then_some(task)
    })
    .await;
    assert_eq!(tried.deaths, None);
    let program = env!("CARGO_BIN_EXE_mediagate");
    write_program(&children, &format!("exec {program} engine"));
    let view = gateway.finished(&task).await;
    assert_eq!(view["status"], "succeeded", "{view}");
    gateway.stop().await;
}
