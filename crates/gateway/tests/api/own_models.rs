//! The operator's separation models: two files in the models folder.
//!
//! `MEDIAGATE_TEST_ONNX_PYTHON` names a Python that has the `onnxruntime` package,
//! whose library runs them. The graph was made by the stems crate's
//! `tests/onnx/make.py`, where it is called `ht-outside`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use mediagate_media::engines::EngineControl;
use mediagate_media::engines::child::{self, ChildLauncher, ChildLimits, OwnModel};
use mediagate_model::ids::{AssetId, ClipId};
use mediagate_model::music::StemGroup;
use mediagate_model::task::{SeparationMode, StemTarget, StemsJob};
use serde_json::{Value, json};

use crate::music::submit::assert_sum;
use crate::support::gateway::{finished, upload};
use crate::support::program::Server;
use crate::support::{Client, eventually, sound};

/// The runtime's library; `None`, after a notice, if nothing is tested.
fn library() -> Option<PathBuf> {
    const PYTHON: &str = "MEDIAGATE_TEST_ONNX_PYTHON";
    let Some(python) = std::env::var_os(PYTHON) else {
        let is_ci = std::env::var_os("CI").is_some_and(|ci| !ci.is_empty() && ci != "false");
        assert!(!is_ci, "{PYTHON} must name a Python with onnxruntime");
        // Not by `eprintln!`, whose output the test harness captures.
        let notice =
            format!("\n*** NOT TESTED: models of the operator, because {PYTHON} is not set ***\n");
        std::io::stderr().write_all(notice.as_bytes()).unwrap();
        return None;
    };
    let code = "import onnxruntime, pathlib; \
                print(next(pathlib.Path(onnxruntime.__file__).parent.glob('capi/libonnxruntime.so*')))";
    let output = Command::new(python).args(["-c", code]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap().trim().into())
}

fn copy_file(folder: &Path, name: &str) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api/own_models");
    std::fs::copy(source.join(name), folder.join(name)).unwrap();
}

async fn model(client: &Client) -> Option<Value> {
    let models = client.get("/v1/models").await.ok();
    let mut offered = models["data"].as_array().unwrap().iter();
    offered.find(|model| model["id"] == "six-stems").cloned()
}

#[tokio::test]
async fn a_model_is_on_offer_as_soon_as_its_files_are_there() {
    let Some(library) = library() else { return };
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("models");
    std::fs::create_dir(&folder).unwrap();
    let library = library.to_str().unwrap();
    let server = Server::start(data.path(), &["--onnx-library", library]).await;
    let client = Client::new(&server.base, Some(&server.first_key().await));
    assert_eq!(model(&client).await, None);

    // A broken model does not hide the others.
    std::fs::write(
        folder.join("broken.toml"),
        "name = \"broken\"\nkind = \"mdx\"",
    )
    .unwrap();
    copy_file(&folder, "six-stems.onnx");
    copy_file(&folder, "six-stems.toml");
    let offered = eventually("the model is on offer", async || model(&client).await).await;
    let groups = &offered["capabilities"]["stems"];
    assert_eq!(
        *groups,
        json!(["Vocals", "Drums", "Bass", "Guitar", "Keyboard"]),
        "{offered}"
    );
    let page = client.without_key().get("/pricing").await;
    let page = String::from_utf8(page.bytes.to_vec()).unwrap();
    assert!(page.contains("six-stems") && page.contains("made for a test"));

    let source = upload(&client, "Song", sound::wav(2, 1)).await;
    let mut order = json!({
        "task": "gen_stem", "continue_clip_id": source["id"], "stem_task": "twelve", "mv": "six-stems",
    });
    let record = client.post("/musicgen/submit/music", &order).await.ok();
    let id = record["id"].as_str().unwrap();
    let task = finished(&client, id).await;
    assert_eq!(task["status"], "succeeded", "{task}");
    let record = client.get(&format!("/musicgen/tasks/{id}")).await.ok();
    let clips = record["clips"].as_array().unwrap();
    let titles: Vec<&str> = clips
        .iter()
        .map(|clip| clip["title"].as_str().unwrap())
        .collect();
    let expected = ["Vocals", "Drums", "Bass", "Guitar", "Keyboard", "Other"];
    assert_eq!(titles, expected.map(|group| format!("Song ({group})")));
    assert_sum(&client, &source, clips).await;

    order["stem_type_group_name"] = "Brass".into();
    order["stem_task"] = "two".into();
    let refused = client.post("/musicgen/submit/music", &order).await;
    refused.refused(400, "unsupported_value");
    let message = refused.json["error"]["message"].as_str().unwrap();
    assert!(message.contains("Keyboard"), "{message}");

    std::fs::remove_file(folder.join("six-stems.toml")).unwrap();
    let is_gone = async || model(&client).await.is_none().then_some(());
    eventually("the model is gone", is_gone).await;
    order["stem_type_group_name"] = "Guitar".into();
    let refused = client.post("/musicgen/submit/music", &order).await;
    refused.refused(404, "model_not_found");
    server.stop().await;
}

/// The runtime reads its own files and not the gateway's. It tries more than a child may do, such
/// as to write a database of its own, and works without.
#[test]
fn a_model_of_the_operator_stays_within_its_walls() {
    let Some(library) = library() else { return };
    let (models, spool) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    copy_file(models.path(), "six-stems.onnx");
    copy_file(models.path(), "six-stems.toml");
    let source = models.path().join("song");
    std::fs::write(&source, sound::wav(2, 1)).unwrap();
    let program = env!("CARGO_BIN_EXE_mediagate").into();
    let launcher = ChildLauncher::new(program, spool.path().to_owned(), ChildLimits::ENGINES);
    let model = OwnModel {
        folder: models.path().to_owned(),
        library: Some(library),
        name: "six-stems".into(),
    };
    let job = StemsJob {
        source: ClipId::new(),
        source_audio: AssetId::new(),
        milliseconds: 2000,
        stem_task: SeparationMode::Two,
        group_name: "Vocals".into(),
        outputs: vec![(ClipId::new(), StemTarget::Only(StemGroup::Vocals))],
        generation_type: String::new(),
        make_instrumental: false,
        title: String::new(),
    };
    let control = EngineControl::default();
    let clips = child::separate(&launcher, &job, Some(model), &source, None, &control);
    assert_eq!(clips.map(|clips| clips.len()), Ok(1));
}

/// A task that was running when the process died continues in a child, which opens the
/// model's files again.
#[tokio::test]
async fn a_model_of_the_operator_works_in_a_child() {
    let Some(library) = library() else { return };
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("models");
    std::fs::create_dir(&folder).unwrap();
    copy_file(&folder, "six-stems.onnx");
    copy_file(&folder, "six-stems.toml");
    let args = ["--onnx-library", library.to_str().unwrap()];
    let server = Server::start(data.path(), &args).await;
    let key = server.first_key().await;
    let client = Client::new(&server.base, Some(&key));
    eventually("the model is on offer", async || model(&client).await).await;
    let source = upload(&client, "Song", sound::wav(40, 1)).await;
    let order = json!({
        "task": "gen_stem", "continue_clip_id": source["id"], "stem_task": "twelve", "mv": "six-stems",
    });
    let record = client.post("/musicgen/submit/music", &order).await.ok();
    let id = record["id"].as_str().unwrap();
    let path = format!("/v1/tasks/{id}");
    eventually("the task makes progress", async || {
        let task = client.get(&path).await.ok();
        assert_ne!(task["status"], "succeeded", "the song is too short");
        (task["progress"].as_u64() > Some(0)).then_some(())
    })
    .await;
    server.crash();
    let server = Server::start(data.path(), &args).await;
    let client = Client::new(&server.base, Some(&key));
    eventually("a child works", async || server.engines().pop()).await;
    let task = finished(&client, id).await;
    assert_eq!(task["status"], "succeeded", "{task}");
    let record = client.get(&format!("/musicgen/tasks/{id}")).await.ok();
    assert_eq!(record["clips"].as_array().unwrap().len(), 6);
    server.stop().await;
}
