//! Looking at hosted films after their tasks: one that cannot be looked at.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use mediagate_core::domain::accounts;
use mediagate_core::domain::assets::{self, AssetLifetime};
use mediagate_core::domain::provenance::post_processing;
use mediagate_model::ids::AssetId;
use mediagate_model::media::MediaType;
use mediagate_model::provenance::{PerceptualFingerprint, ResultFingerprint, ResultKind};
use mediagate_store::{self as store, StoreError, fingerprints};

use crate::support::TestGateway;

/// Keeps a file as a film that a provider made, and that nobody has looked at.
async fn kept(gateway: &TestGateway) -> AssetId {
    let app = &gateway.app;
    let account = accounts::ensure(app, "default").await.unwrap();
    let bytes = Bytes::from_static(b"no film");
    let asset = assets::keep(app, account.id, MediaType::Mp4, bytes, AssetLifetime::Media).await;
    let asset = asset.unwrap();
    let print = ResultFingerprint {
        id: asset.id,
        account: account.id,
        kind: ResultKind::Video,
        is_embedded: false,
        task: None,
        clip: None,
        sha256: asset.sha256.clone(),
        watermark: None,
        fingerprint: PerceptualFingerprint::default(),
        created_at: asset.created_at,
    };
    let id = asset.id;
    let write = move |conn: &mut store::Conn<'_>| -> Result<(), StoreError> {
        store::assets::insert(conn, &asset)?;
        fingerprints::insert(conn, &print)
    };
    app.store.write(write).await.unwrap();
    id
}

async fn unseen(gateway: &TestGateway) -> Vec<AssetId> {
    let read = |conn: &mut store::Conn<'_>| fingerprints::without_fingerprint(conn, None, 99);
    let unseen = gateway.app.store.read(read).await.unwrap();
    unseen.iter().map(|print| print.id).collect()
}

/// The file of a film.
fn file(folder: &Path, id: AssetId) -> PathBuf {
    let id = id.to_string();
    folder.join(&id[id.len() - 2..]).join(format!("{id}.mp4"))
}

#[tokio::test]
async fn a_film_that_always_fails_keeps_no_other_waiting_and_is_given_up() {
    let gateway = TestGateway::builder()
        .without_workers()
        .manual_clock()
        .start()
        .await;
    let app = &gateway.app;
    let mut films = Vec::new();
    for _ in 0..24 {
        films.push(kept(&gateway).await);
    }
    films.reverse();
    // The newest: more than are read from the list at once. A link to itself cannot be read.
    let broken = &films[..22];
    for id in broken {
        let path = file(&app.config.media_path(), *id);
        std::fs::remove_file(&path).unwrap();
        symlink(&path, &path).unwrap();
    }
    post_processing::examine_films(app).await.unwrap();
    assert_eq!(unseen(&gateway).await, broken, "the others had their turn");
    assert!(!post_processing::is_any_due(app).await);
    // They are tried again, after longer and longer pauses, but not for ever.
    let mut tries = 1;
    for _ in 0..12 * 60 {
        app.clock.advance(Duration::from_mins(1));
        if post_processing::is_any_due(app).await {
            tries += 1;
            post_processing::examine_films(app).await.unwrap();
        }
        if unseen(&gateway).await.is_empty() {
            break;
        }
    }
    assert_eq!((unseen(&gateway).await, tries), (Vec::new(), 6));
    // One that can be read in time is looked at.
    let late = kept(&gateway).await;
    let path = file(&app.config.media_path(), late);
    let away = path.with_extension("away");
    std::fs::rename(&path, &away).unwrap();
    symlink(&path, &path).unwrap();
    post_processing::examine_films(app).await.unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::rename(&away, &path).unwrap();
    app.clock.advance(Duration::from_mins(1));
    post_processing::examine_films(app).await.unwrap();
    assert!(unseen(&gateway).await.is_empty());
    gateway.stop().await;
}
