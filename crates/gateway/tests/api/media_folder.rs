//! A media folder that is missing for a while, or is replaced by another one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mediagate_core::domain::settings_drift::compare;
use mediagate_store::{self as store, StoreError};
use serde_json::Value;

use crate::support::{TestGateway, path_of, sound, video_order, videos_order};

/// The gateway's folder, moved away until it is put back.
struct MovedFolder {
    folder: PathBuf,
    moved_to: PathBuf,
}

impl MovedFolder {
    fn move_away(folder: &Path) -> Self {
        let moved_to = folder.with_extension("aside");
        std::fs::rename(folder, &moved_to).unwrap();
        Self {
            folder: folder.to_owned(),
            moved_to,
        }
    }

    fn put_back(self) {
        if self.folder.exists() {
            std::fs::remove_dir_all(&self.folder).unwrap();
        }
        std::fs::rename(&self.moved_to, &self.folder).unwrap();
    }
}

/// A gateway with a film; the paths of its file and its content.
async fn with_film() -> (TestGateway, [String; 2]) {
    order_film(TestGateway::start().await).await
}

async fn order_film(gateway: TestGateway) -> (TestGateway, [String; 2]) {
    let answer = gateway
        .post("/v1/chat/completions", &video_order())
        .await
        .ok();
    let video = &answer["choices"][0]["message"]["video"];
    let file = path_of(video["url"].as_str().unwrap());
    let content = format!("/v1/videos/{}/content", video["id"].as_str().unwrap());
    (gateway, [file, content])
}

async fn assert_unavailable(gateway: &TestGateway, paths: &[String]) {
    for path in paths {
        let answer = gateway.get(path).await;
        answer.refused(503, "overloaded");
        assert!(answer.header("retry-after").is_some(), "{path}");
        assert_eq!(answer.header("x-should-retry"), Some("true"), "{path}");
    }
    let ready = gateway.get("/readyz").await;
    ready.refused(503, "overloaded");
    assert!(ready.text().contains("media folder"), "{}", ready.text());
}

async fn assert_served(gateway: &TestGateway, paths: &[String]) {
    for path in paths {
        let answer = gateway.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    }
    assert_eq!(gateway.get("/readyz").await.status, 200);
}

async fn count_removed(gateway: &TestGateway) -> i64 {
    let count = gateway.app.store.read(|conn| -> Result<_, StoreError> {
        let sql = "SELECT COUNT(*) FROM assets WHERE removed_at IS NOT NULL";
        conn.one(sql, &[], |row| row.int(0))
    });
    count.await.unwrap().unwrap()
}

#[tokio::test]
async fn tasks_wait_for_a_folder_that_is_missing() {
    let (gateway, paths) = with_film().await;
    let folder = gateway.app.config.media_path();
    // Missing, and empty like the mount point of a missing mount.
    for is_mount in [false, true] {
        let aside = MovedFolder::move_away(&folder);
        if is_mount {
            std::fs::create_dir(&folder).unwrap();
        }
        assert_unavailable(&gateway, &paths).await;
        let mut order = videos_order();
        let picture = sound::png(64, 64);
        order["input_reference"] = Value::from(data_url(&picture));
        gateway
            .post("/v1/videos", &order)
            .await
            .refused(503, "overloaded");
        // An order that needs no file is accepted, and its film is stored once the folder is back.
        let answer = gateway.post("/v1/videos", &videos_order()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let task = answer.header("x-task-id").unwrap().to_owned();
        let view = gateway.get(&format!("/v1/tasks/{task}?wait=2")).await.ok();
        assert_eq!(view["finished_at"], Value::Null, "{view}");
        let is_empty =
            || std::fs::read_dir(&folder).is_ok_and(|mut entries| entries.next().is_none());
        assert!(if is_mount {
            is_empty()
        } else {
            !folder.exists()
        });
        aside.put_back();
        assert_served(&gateway, &paths).await;
        assert_eq!(gateway.finished(&task).await["status"], "succeeded");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn upkeep_marks_nothing_as_removed_while_the_folder_is_away() {
    let gateway = TestGateway::builder().manual_clock().start().await;
    let (gateway, _) = order_film(gateway).await;
    let before = count_removed(&gateway).await;
    let aside = MovedFolder::move_away(&gateway.app.config.media_path());
    gateway.app.clock.advance(Duration::from_hours(24 * 40));
    assert!(
        mediagate_worker::remove_expired_media(&gateway.app)
            .await
            .is_err()
    );
    assert!(mediagate_worker::sweep_orphans(&gateway.app).await.is_err());
    assert_eq!(count_removed(&gateway).await, before);
    aside.put_back();
    mediagate_worker::remove_expired_media(&gateway.app)
        .await
        .unwrap();
    assert!(count_removed(&gateway).await > before);
    gateway.stop().await;
}

#[tokio::test]
async fn a_folder_that_is_missing_at_the_start_is_not_created() {
    let (gateway, paths) = with_film().await;
    let folder = gateway.app.config.media_path();
    let aside = MovedFolder::move_away(&folder);
    let gateway = gateway.restart_without_workers().await;
    assert!(!folder.exists(), "no other folder takes its place");
    assert_unavailable(&gateway, &paths[1..]).await;
    aside.put_back();
    assert_served(&gateway, &paths[1..]).await;
    gateway.stop().await;
}

#[tokio::test]
async fn another_folder_is_not_accepted_in_its_place() {
    let (gateway, paths) = with_film().await;
    let folder = gateway.app.config.media_path();
    let aside = MovedFolder::move_away(&folder);
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("folder-id"), "of-another-gateway").unwrap();
    assert_unavailable(&gateway, &paths).await;
    let gateway = gateway.restart_without_workers().await;
    assert_unavailable(&gateway, &paths[1..]).await;
    let entries = std::fs::read_dir(&folder).unwrap();
    assert_eq!(entries.count(), 1, "nothing is put into it");
    aside.put_back();
    assert_served(&gateway, &paths[1..]).await;
    gateway.stop().await;
}

/// After a move from a bucket the folder has no mark yet, and its files are there or still missing.
#[tokio::test]
async fn a_folder_of_files_without_a_mark_gets_one() {
    let (gateway, paths) = with_film().await;
    let folder = gateway.app.config.media_path();
    let mark = folder.join("folder-id");
    let forget_folder = async |gateway: &TestGateway| {
        let deleted = gateway.app.store.write(|conn| -> Result<_, StoreError> {
            conn.execute("DELETE FROM meta WHERE name LIKE 'media_folder %'", &[])
        });
        assert_eq!(deleted.await.unwrap(), 1);
    };
    forget_folder(&gateway).await;
    std::fs::remove_file(&mark).unwrap();
    let gateway = gateway.restart_without_workers().await;
    assert_served(&gateway, &paths[1..]).await;
    assert!(mark.exists());
    forget_folder(&gateway).await;
    std::fs::remove_file(&mark).unwrap();
    let aside = MovedFolder::move_away(&folder);
    let gateway = gateway.restart_without_workers().await;
    assert_unavailable(&gateway, &paths[1..]).await;
    assert!(!folder.exists());
    // The operator puts the folder back with the mark that the log names.
    aside.put_back();
    let folder_path = folder.display().to_string();
    let stored = gateway
        .app
        .store
        .read(move |conn| store::media_folders::lookup(conn, &folder_path));
    let stored: Result<_, StoreError> = stored.await;
    std::fs::write(&mark, stored.unwrap().here.unwrap()).unwrap();
    assert_served(&gateway, &paths[1..]).await;
    gateway.stop().await;
}

fn data_url(picture: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(picture);
    format!("data:image/png;base64,{text}")
}

/// The files are in the folder of the other process, so they are not gone.
#[tokio::test]
async fn a_replica_with_a_folder_of_its_own_calls_no_file_gone() {
    let gateway = TestGateway::builder().on_postgres().start().await;
    let (gateway, paths) = order_film(gateway).await;
    let folder = tempfile::tempdir().unwrap();
    let replica = gateway.replica_with(|settings| {
        settings.data = Some(folder.path().to_owned());
    });
    let replica = replica.await;
    compare(&gateway.app).await.unwrap();
    compare(&replica.app).await.unwrap();
    for path in &paths {
        let answer = replica.get(path).await;
        answer.refused(503, "overloaded");
        assert_eq!(gateway.get(path).await.status, 200, "{path}");
    }
    replica.stop().await;
    let sharing = gateway.replica_without_workers().await;
    for path in &paths {
        assert_eq!(sharing.get(path).await.status, 200, "{path}");
    }
    sharing.stop().await;
    gateway.stop().await;
}
