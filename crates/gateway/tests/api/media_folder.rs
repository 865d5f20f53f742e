//! A media folder that is missing for a while, or has another one in its place.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mediagate_store::{self as store, StoreError};
use serde_json::Value;

use crate::support::{TestGateway, path_of, sound, video_order, videos_order};

/// The gateway's folder, out of the way until it is put back.
struct Aside {
    folder: PathBuf,
    kept: PathBuf,
}

impl Aside {
    fn of(folder: &Path) -> Self {
        let kept = folder.with_extension("aside");
        std::fs::rename(folder, &kept).unwrap();
        Self {
            folder: folder.to_owned(),
            kept,
        }
    }

    fn put_back(self) {
        if self.folder.exists() {
            std::fs::remove_dir_all(&self.folder).unwrap();
        }
        std::fs::rename(&self.kept, &self.folder).unwrap();
    }
}

/// A gateway with a film; the paths of its file and its content.
async fn with_film() -> (TestGateway, [String; 2]) {
    film_of(TestGateway::start().await).await
}

async fn film_of(gateway: TestGateway) -> (TestGateway, [String; 2]) {
    let answer = gateway
        .post("/v1/chat/completions", &video_order())
        .await
        .ok();
    let video = &answer["choices"][0]["message"]["video"];
    let file = path_of(video["url"].as_str().unwrap());
    let content = format!("/v1/videos/{}/content", video["id"].as_str().unwrap());
    (gateway, [file, content])
}

async fn is_refused_for_now(gateway: &TestGateway, paths: &[String]) {
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

async fn is_served(gateway: &TestGateway, paths: &[String]) {
    for path in paths {
        let answer = gateway.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    }
    assert_eq!(gateway.get("/readyz").await.status, 200);
}

async fn removed(gateway: &TestGateway) -> i64 {
    let count = gateway.app.store.read(|conn| -> Result<_, StoreError> {
        let sql = "SELECT COUNT(*) FROM assets WHERE removed_at IS NOT NULL";
        conn.one(sql, &[], |row| row.int(0))
    });
    count.await.unwrap().unwrap()
}

#[tokio::test]
async fn a_folder_that_goes_away_is_waited_for() {
    let (gateway, paths) = with_film().await;
    let folder = gateway.app.config.media_path();
    // Gone, and as a mount leaves it.
    for is_mount in [false, true] {
        let aside = Aside::of(&folder);
        if is_mount {
            std::fs::create_dir(&folder).unwrap();
        }
        is_refused_for_now(&gateway, &paths).await;
        let mut order = videos_order();
        let picture = sound::png(64, 64);
        order["input_reference"] = Value::from(data_url(&picture));
        gateway
            .post("/v1/videos", &order)
            .await
            .refused(503, "overloaded");
        // What needs no file is taken, and its film is kept when there is a place for it.
        let answer = gateway.post("/v1/videos", &videos_order()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let task = answer.header("x-task-id").unwrap().to_owned();
        let view = gateway.get(&format!("/v1/tasks/{task}?wait=2")).await.ok();
        assert_eq!(view["finished_at"], Value::Null, "{view}");
        let is_empty = || std::fs::read_dir(&folder).is_ok_and(|mut it| it.next().is_none());
        assert!(if is_mount {
            is_empty()
        } else {
            !folder.exists()
        });
        aside.put_back();
        is_served(&gateway, &paths).await;
        assert_eq!(gateway.finished(&task).await["status"], "succeeded");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn upkeep_marks_nothing_as_removed_while_the_folder_is_away() {
    let gateway = TestGateway::builder().manual_clock().start().await;
    let (gateway, _) = film_of(gateway).await;
    let before = removed(&gateway).await;
    let aside = Aside::of(&gateway.app.config.media_path());
    gateway.app.clock.advance(Duration::from_hours(24 * 40));
    assert!(
        mediagate_worker::remove_expired_media(&gateway.app)
            .await
            .is_err()
    );
    assert!(mediagate_worker::sweep_orphans(&gateway.app).await.is_err());
    assert_eq!(removed(&gateway).await, before);
    aside.put_back();
    mediagate_worker::remove_expired_media(&gateway.app)
        .await
        .unwrap();
    assert!(removed(&gateway).await > before);
    gateway.stop().await;
}

#[tokio::test]
async fn a_folder_that_is_missing_at_the_start_is_not_made_anew() {
    let (gateway, paths) = with_film().await;
    let folder = gateway.app.config.media_path();
    let aside = Aside::of(&folder);
    let gateway = gateway.restart_idle().await;
    assert!(!folder.exists(), "nothing takes its place");
    is_refused_for_now(&gateway, &paths[1..]).await;
    aside.put_back();
    is_served(&gateway, &paths[1..]).await;
    gateway.stop().await;
}

#[tokio::test]
async fn another_folder_is_not_taken_for_it() {
    let (gateway, paths) = with_film().await;
    let folder = gateway.app.config.media_path();
    let aside = Aside::of(&folder);
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("folder-id"), "of-another-gateway").unwrap();
    is_refused_for_now(&gateway, &paths).await;
    let gateway = gateway.restart_idle().await;
    is_refused_for_now(&gateway, &paths[1..]).await;
    let entries = std::fs::read_dir(&folder).unwrap();
    assert_eq!(entries.count(), 1, "nothing is put into it");
    aside.put_back();
    is_served(&gateway, &paths[1..]).await;
    gateway.stop().await;
}

/// As after a move from a bucket: the files are here, or not yet.
#[tokio::test]
async fn a_folder_of_files_without_a_mark_gets_one() {
    let (gateway, paths) = with_film().await;
    let folder = gateway.app.config.media_path();
    let mark = folder.join("folder-id");
    let forget = async |gateway: &TestGateway| {
        let forgotten = gateway.app.store.write(|conn| -> Result<_, StoreError> {
            conn.execute("DELETE FROM meta WHERE name LIKE 'media_folder %'", &[])
        });
        assert_eq!(forgotten.await.unwrap(), 1);
    };
    forget(&gateway).await;
    std::fs::remove_file(&mark).unwrap();
    let gateway = gateway.restart_idle().await;
    is_served(&gateway, &paths[1..]).await;
    assert!(mark.exists());
    forget(&gateway).await;
    std::fs::remove_file(&mark).unwrap();
    let aside = Aside::of(&folder);
    let gateway = gateway.restart_idle().await;
    is_refused_for_now(&gateway, &paths[1..]).await;
    assert!(!folder.exists());
    // The operator puts it back with the mark that the log names.
    aside.put_back();
    let place = folder.display().to_string();
    let known = gateway
        .app
        .store
        .read(move |conn| store::media_folders::lookup(conn, &place));
    let known: Result<_, StoreError> = known.await;
    std::fs::write(&mark, known.unwrap().here.unwrap()).unwrap();
    is_served(&gateway, &paths[1..]).await;
    gateway.stop().await;
}

fn data_url(picture: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(picture);
    format!("data:image/png;base64,{text}")
}
