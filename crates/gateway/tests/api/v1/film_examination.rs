//! Fingerprinting of hosted films after their tasks: a film that cannot be read.

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

/// Stores a file as a hosted film without a fingerprint.
async fn keep_film(gateway: &TestGateway) -> AssetId {
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

async fn without_fingerprint(gateway: &TestGateway) -> Vec<AssetId> {
    let read = |conn: &mut store::Conn<'_>| fingerprints::without_fingerprint(conn, None, 99);
    let prints = gateway.app.store.read(read).await.unwrap();
    prints.iter().map(|print| print.id).collect()
}

/// The path of a film's file.
fn file(folder: &Path, id: AssetId) -> PathBuf {
    let id = id.to_string();
    folder.join(&id[id.len() - 2..]).join(format!("{id}.mp4"))
}

#[tokio::test]
async fn an_unreadable_film_delays_no_other_and_is_given_up() {
    let gateway = TestGateway::builder()
        .without_workers()
        .manual_clock()
        .start()
        .await;
    let app = &gateway.app;
    let mut films = Vec::new();
    for _ in 0..24 {
        films.push(keep_film(&gateway).await);
    }
    films.reverse();
    // The newest films become links to themselves, which cannot be read. They are more than are
    // listed at once.
    let broken = &films[..22];
    for id in broken {
        let path = file(&app.config.media_path(), *id);
        std::fs::remove_file(&path).unwrap();
        symlink(&path, &path).unwrap();
    }
    post_processing::examine_films(app).await.unwrap();
    assert_eq!(
        without_fingerprint(&gateway).await,
        broken,
        "the other films were read"
    );
    assert!(!post_processing::is_any_due(app).await);
    // The broken films are tried again after longer and longer pauses, and then given up.
    let mut attempts = 1;
    for _ in 0..12 * 60 {
        app.clock.advance(Duration::from_mins(1));
        if post_processing::is_any_due(app).await {
            attempts += 1;
            post_processing::examine_films(app).await.unwrap();
        }
        if without_fingerprint(&gateway).await.is_empty() {
            break;
        }
    }
    assert_eq!(
        (without_fingerprint(&gateway).await, attempts),
        (Vec::new(), 6)
    );
    // A film that becomes readable in time gets its fingerprint.
    let readable_later = keep_film(&gateway).await;
    let path = file(&app.config.media_path(), readable_later);
    let away_path = path.with_extension("away");
    std::fs::rename(&path, &away_path).unwrap();
    symlink(&path, &path).unwrap();
    post_processing::examine_films(app).await.unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::rename(&away_path, &path).unwrap();
    app.clock.advance(Duration::from_mins(1));
    post_processing::examine_films(app).await.unwrap();
    assert!(without_fingerprint(&gateway).await.is_empty());
    gateway.stop().await;
}
