//! The registry of fingerprints: results are found by them, until their records are removed.

use mediagate_model::ids::{AccountId, AssetId, ClipId, TaskId};
use mediagate_model::money::ChargeState;
use mediagate_model::provenance::{
    PerceptualFingerprint, Provenance, ProvenanceStatus, ResultFingerprint, ResultKind,
};
use mediagate_model::task::TaskState;
use mediagate_store::{clips, fingerprints, record_expiry};

use super::money::{DIME, accept, end, ending, insert_key_with_budget};
use super::{Fixture, at, postgres, sqlite};

on_both! {
    a_result_is_found_by_each_of_its_keys
    a_clip_keeps_its_files_provenance
}

fn print(account: AccountId, task: Option<TaskId>, clip: Option<ClipId>) -> ResultFingerprint {
    ResultFingerprint {
        id: AssetId::new(),
        account,
        kind: ResultKind::Video,
        is_embedded: true,
        task,
        clip,
        sha256: "ab".into(),
        watermark: Some((1 << 40) - 1),
        fingerprint: PerceptualFingerprint {
            video: Some("AAAA".into()),
            sound: None,
            keys: vec![7, 1 << 40],
        },
        created_at: at(1),
    }
}

async fn a_result_is_found_by_each_of_its_keys(db: Fixture) {
    let key = insert_key_with_budget(&db, None).await;
    let accepted_tasks = accept(&db, &key, 1).await.unwrap();
    let of_task = print(key.account, Some(accepted_tasks[0].id), None);
    let of_clip = print(key.account, None, Some(ClipId::new()));
    let prints = [of_task.clone(), of_clip.clone()];
    db.write(move |conn| {
        prints
            .iter()
            .try_for_each(|print| fingerprints::insert(conn, print))
    })
    .await;
    let lookups = async || {
        db.read(|conn| {
            let latest = fingerprints::ids_with_key(conn, 7, 9)?;
            Ok((
                fingerprints::by_digest(conn, "ab", 9)?,
                fingerprints::by_watermark(conn, (1 << 40) - 1, 9)?,
                latest
                    .iter()
                    .map(|id| fingerprints::by_id(conn, id).map(Option::unwrap))
                    .collect::<Result<Vec<_>, _>>()?,
            ))
        })
        .await
    };
    // The index keys are not returned.
    let without_keys = |mut print: ResultFingerprint| {
        print.fingerprint.keys.clear();
        print
    };
    let latest = vec![without_keys(of_clip.clone()), without_keys(of_task)];
    assert_eq!(lookups().await, (latest.clone(), latest.clone(), latest));
    let unknown = db
        .read(|conn| {
            Ok((
                fingerprints::by_digest(conn, "cd", 9)?.len(),
                fingerprints::by_watermark(conn, 5, 9)?.len(),
                fingerprints::ids_with_key(conn, 8, 9)?.len(),
            ))
        })
        .await;
    assert_eq!(unknown, (0, 0, 0));
    end(
        &db,
        &accepted_tasks[0],
        ending(TaskState::Succeeded, ChargeState::Settled, DIME),
    )
    .await;
    db.write(|conn| {
        let past = record_expiry::expired_tasks(conn, at(9), 9)?;
        record_expiry::remove(conn, &past, at(9))
    })
    .await;
    let remaining = vec![without_keys(of_clip)];
    assert_eq!(
        lookups().await,
        (remaining.clone(), remaining.clone(), remaining),
        "a clip outlives its task"
    );
}

async fn a_clip_keeps_its_files_provenance(db: Fixture) {
    let key = insert_key_with_budget(&db, None).await;
    let (account, clip) = (key.account, super::contract::upload(key.account, None));
    let (id, row) = (clip.id, clip.clone());
    let provenance = Provenance::with_status(ProvenanceStatus::Unverified);
    let stored = provenance.clone();
    let clip_row = db
        .write(move |conn| {
            clips::insert(conn, &row, 0)?;
            clips::set_provenance(conn, id, &stored)?;
            clips::by_id(conn, id, account)
        })
        .await;
    assert_eq!(clip_row.unwrap().provenance, Some(provenance));
}
