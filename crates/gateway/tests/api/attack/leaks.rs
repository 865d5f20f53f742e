//! Data that other users and callers must not read.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use mediagate_core::domain::keys::NewKey;
use mediagate_model::account::Scope;
use serde_json::{Value, json};

use crate::support::gateway::finished;
use crate::support::program::{Server, output, program, text};
use crate::support::{Client, TestGateway, path_of, videos_order};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Files and folders below `folder` to which anyone but the owner has access.
fn open_to_others(folder: &Path) -> Vec<String> {
    let mut open_paths = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if mode(&path) & 0o077 != 0 {
            open_paths.push(format!("{} {:o}", path.display(), mode(&path)));
        }
        if path.is_dir() {
            open_paths.extend(open_to_others(&path));
        }
    }
    open_paths
}

#[tokio::test]
async fn permissions_of_an_open_data_folder_are_tightened() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    std::fs::create_dir(&data).unwrap();
    set_mode(&data, 0o755);
    let server = Server::start(&data, &[]).await;
    let key = server.first_key().await;
    let client = Client::new(&server.base, Some(&key));
    let video = client.post("/v1/videos", &videos_order()).await.ok();
    let task = video["id"].as_str().unwrap().replace("video_", "");
    finished(&client, &task).await;
    assert_eq!(mode(&data), 0o700);
    assert_eq!(open_to_others(&data), [""; 0]);
    server.stop().await;
    for name in ["mediagate.db", "signing.key"] {
        set_mode(&data.join(name), 0o644);
    }
    for name in ["", "media", "spool"] {
        set_mode(&data.join(name), 0o755);
    }
    let server = Server::start(&data, &[]).await;
    assert_eq!(mode(&data), 0o700);
    assert_eq!(open_to_others(&data), [""; 0]);
    server.stop().await;
}

#[tokio::test]
async fn a_secret_in_the_wrong_place_is_not_printed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mediagate.toml");
    for toml in [
        "[providers.a]\nprotocol = \"fal\"\napi_keys = \"hunter2\"",
        "[providers.a]\nprotocol = \"hunter2\"\napi_key = \"x\"",
        "cors_origins = [\"hunter2\"]",
        "default_model = \"hunter2\"",
        "[models.a]\nkind = \"video\"\nroutes = [{ provider = \"hunter2\", model = \"x\" }]",
    ] {
        std::fs::write(&file, toml).unwrap();
        let result = output(program(&[
            "config",
            "check",
            "--config",
            file.to_str().unwrap(),
        ]))
        .await;
        let printed = format!("{}{}", text(&result.stdout), text(&result.stderr));
        assert_eq!(result.status.code(), Some(2), "{printed}");
        assert!(!printed.contains("hunter2"), "{printed}");
    }
}

#[tokio::test]
async fn the_documentation_cannot_be_framed() {
    let gateway = TestGateway::builder().without_workers().start().await;
    for path in ["/docs", "/docs/api", "/docs/money", "/docs?q=key"] {
        let page = gateway.without_key().get(path).await;
        assert_eq!(page.status, 200, "{path}");
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'self'") && policy.contains("frame-ancestors 'none'"));
        assert_eq!(page.header("x-frame-options"), Some("DENY"));
    }
    gateway.stop().await;
}

/// Every media URL in an answer.
fn media_urls(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) if text.contains("/media/") => vec![text],
        Value::Array(items) => items.iter().flat_map(media_urls).collect(),
        Value::Object(members) => members.values().flat_map(media_urls).collect(),
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn a_key_that_may_only_cancel_gets_no_urls() {
    let gateway = TestGateway::start().await;
    let clip = gateway.upload("song").await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let body = json!({"root_clip_id": clip, "name": "Voice"});
    let persona = gateway.post("/musicgen/persona/create", &body).await.ok();
    let persona = persona["id"].as_str().unwrap();
    let new_key = NewKey {
        scopes: vec![Scope::TasksCancel],
        ..NewKey::default()
    };
    let canceller = gateway.with_key(&gateway.new_key("default", new_key).await);
    let clip = format!("/musicgen/clips/{clip}");
    for (client, sees_urls) in [(&canceller, false), (&gateway.client, true)] {
        let trashed = client.delete(&clip).await.ok();
        let restored = client
            .post(&format!("{clip}/restore"), &json!({}))
            .await
            .ok();
        for answer in [trashed, restored] {
            assert_eq!(!media_urls(&answer).is_empty(), sees_urls, "{answer}");
        }
    }
    let deleted = canceller
        .delete(&format!("/musicgen/personas/{persona}"))
        .await
        .ok();
    assert_eq!(media_urls(&deleted), [""; 0], "{deleted}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_key_that_may_only_cancel_learns_nothing_of_the_task() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let mut order = videos_order();
    order["prompt"] = json!("a secret lake");
    order["user"] = json!("secret-user");
    let ordered = gateway.post("/v1/videos", &order).await;
    let task = ordered.header("x-task-id").unwrap().to_owned();
    let new_key = NewKey {
        scopes: vec![Scope::TasksCancel],
        ..NewKey::default()
    };
    let canceller = gateway.caller("default", new_key).await;
    let path = format!("/v1/tasks/{task}/cancel");
    let cancelled = canceller.post(&path, &json!({})).await.ok();
    assert_eq!(cancelled["status"], "cancelled");
    assert_eq!(cancelled["input"]["prompt"], Value::Null);
    assert!(!cancelled.to_string().contains("secret"), "{cancelled}");
    let view = gateway.get(&format!("/v1/tasks/{task}")).await.ok();
    assert_eq!(view["input"]["prompt"], "a secret lake");
    assert_eq!(view["user"], "secret-user");
    gateway.stop().await;
}

#[tokio::test]
async fn deleted_tasks_and_personas_have_no_urls_and_no_files() {
    let gateway = TestGateway::start().await;
    let video = gateway.post("/v1/videos", &videos_order()).await.ok();
    let id = video["id"].as_str().unwrap();
    let task = id.replace("video_", "");
    let before = finished(&gateway, &task).await;
    let files = media_urls(&before);
    assert!(!files.is_empty(), "{before}");
    gateway.delete(&format!("/v1/videos/{id}")).await.ok();
    for view in [
        gateway.get(&format!("/v1/tasks/{task}")).await.ok(),
        gateway.get("/v1/tasks").await.ok(),
    ] {
        assert_eq!(media_urls(&view), [""; 0], "{view}");
    }
    let clip = gateway.upload("song").await["id"].clone();
    let body = json!({"root_clip_id": clip, "name": "Voice"});
    let persona = gateway.post("/musicgen/persona/create", &body).await.ok();
    let (id, image) = (
        persona["id"].as_str().unwrap(),
        persona["image_url"].as_str(),
    );
    let image = path_of(image.or(persona["image_s3_id"].as_str()).unwrap());
    assert_eq!(gateway.get(&image).await.status, 200);
    gateway
        .delete(&format!("/musicgen/personas/{id}"))
        .await
        .ok();
    gateway.get(&image).await.refused(410, "link_expired");
    for file in files {
        gateway
            .get(&path_of(file))
            .await
            .refused(410, "link_expired");
    }
    gateway.stop().await;
}
