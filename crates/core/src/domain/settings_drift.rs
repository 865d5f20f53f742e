//! Settings that must be the same in every process on one database: each publishes fingerprints of
//! its settings, which reveal nothing about the values, and compares those of the others. With them
//! it publishes its route states.

use crate::app::App;
use crate::domain::assets::sha256_hex;
use crate::domain::route_states;
use mediagate_config::DatabaseTarget;
use mediagate_model::error::Error;
use mediagate_store::{self as store, Conn, replicas::ReplicaMarks};
use mediagate_telemetry::counters;

/// The settings that are compared.
const SETTINGS: [&str; 4] = ["signing_secret", "models", "brand", "media"];
/// The version of the program that made the fingerprints: those of models differ between versions.
const VERSION: &str = "version";

/// Compares this process's settings with those of the others, and reports differences. A process on
/// `SQLite` has no others, and only publishes its route states, for commands.
pub async fn compare(app: &App) -> Result<(), Error> {
    let (own, name) = (marks(app), app.server.name().to_owned());
    let (clock, published) = (app.clock.now(), own.clone());
    if app.config.database == DatabaseTarget::Sqlite {
        let check_in = move |conn: &mut Conn<'_>| {
            store::replicas::check_in_alone(conn, &name, &published, clock)
        };
        return Ok(app.store.write(check_in).await?);
    }
    let peers = app.store.write(move |conn| {
        // Processes drop each other's entries by age, so they need one clock.
        let now = store::workers::now(conn, clock)?;
        store::replicas::check_in(conn, &name, &published, now)
    });
    let peers: Vec<ReplicaMarks> = peers.await?;
    for setting in SETTINGS {
        let is_different = peers.iter().any(|peer| differ(&own, peer, setting));
        counters::setting_differs(setting, is_different);
        if setting == SETTINGS[3] {
            app.blobs.set_one_of_several(is_different);
        }
        // Logged when it changes, and not at every comparison.
        if !app
            .models
            .settings
            .note_difference(setting, is_different, app.clock.now())
        {
            continue;
        }
        if is_different {
            tracing::error!(
                setting,
                "another process on this database has a different value for this setting"
            );
        } else {
            tracing::info!(
                setting,
                "all processes have the same value for this setting again"
            );
        }
    }
    Ok(())
}

/// Removes this process from the comparison, because it is shutting down.
pub async fn leave(app: &App) -> Result<(), Error> {
    let name = app.server.name().to_owned();
    let removal = app
        .store
        .write(move |conn| store::replicas::leave(conn, &name));
    Ok(removal.await?)
}

fn marks(app: &App) -> ReplicaMarks {
    let models = format!("{:?}", app.models.catalog.load().models());
    let marks = [
        (SETTINGS[0], app.secrets.signer.key_fingerprint()),
        (SETTINGS[1], sha256_hex(models.as_bytes())),
        (SETTINGS[2], app.config.brand.clone()),
        (SETTINGS[3], media_place(app)),
        (VERSION, env!("CARGO_PKG_VERSION").to_owned()),
    ];
    let marks = marks.map(|(name, mark)| (name.to_owned(), mark));
    let mut marks: ReplicaMarks = marks.into_iter().collect();
    route_states::add_mark(app, &mut marks);
    marks
}

/// Where the process stores media: a folder's mark, or a fingerprint of the bucket's settings.
fn media_place(app: &App) -> String {
    let media = &app.config.media;
    match (app.blobs.folder_mark(), &media.store) {
        (Some(mark), _) => mark.to_owned(),
        (None, store) => sha256_hex(format!("{store:?} {:?}", media.endpoint).as_bytes()),
    }
}

/// A setting that the peer does not publish is not compared.
fn differ(own: &ReplicaMarks, peer: &ReplicaMarks, setting: &str) -> bool {
    // A version's built-in knowledge of models is part of their fingerprint, so two versions differ
    // although their settings are the same.
    if setting == SETTINGS[1] && own.get(VERSION) != peer.get(VERSION) {
        return false;
    }
    let theirs = peer.get(setting);
    theirs.is_some_and(|theirs| own.get(setting) != Some(theirs))
}
