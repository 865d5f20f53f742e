//! A disk that runs full, under the database and the media alike.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use crate::support::program::Server;
use crate::support::{Client, eventually};

use super::{assert_all_succeed, film_order, order, provider, submission_count, verify_ledger};

/// The flags with which this user can mount something for one process only; `None` if
/// the system does not allow it.
fn mount_flags() -> Option<&'static str> {
    let works = |flags: &&str| {
        let result = Command::new("unshare").args([flags, "true"]).output();
        result.is_ok_and(|output| output.status.success())
    };
    ["-m", "-rm"].into_iter().find(works)
}

/// Writes to the file until the disk is full.
fn fill(path: &Path) {
    let mut filler = std::fs::File::create(path).unwrap();
    while filler.write_all(&[7; 4096]).is_ok() {}
    while filler.write_all(&[7]).is_ok() {}
}

#[tokio::test]
async fn a_full_disk_is_reported_and_harms_no_task() {
    let Some(flags) = mount_flags() else {
        eprintln!("NOT RUN: nothing can be mounted here");
        return;
    };
    let (simulator, toml) = provider().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    std::fs::write(&file, toml).unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let mount_point = data.to_str().unwrap();
    let mount = format!("mount -t tmpfs -o size=16m tmpfs {mount_point} && exec \"$@\"");
    let args = ["--config", file.to_str().unwrap()];
    let mounting = ["unshare", flags, "sh", "-c", &mount, "sh"];
    let server = Server::start_behind(&mounting, &data, &args).await;
    let client = Client::new(&server.base, Some(&server.first_key().await));
    let mut tasks = order(&client, 0..4).await;
    let filler = server.path_inside(&data).join("filler");
    fill(&filler);
    eventually("the gateway reports that it cannot write", async || {
        (client.get("/readyz").await.status == 503).then_some(())
    })
    .await;
    // A few orders may still fit into the database file.
    for number in 4.. {
        let answer = client.post("/v1/videos", &film_order(number)).await;
        if answer.status != 200 {
            answer.refused(503, "overloaded");
            break;
        }
        tasks.push(answer.header("x-task-id").unwrap().to_owned());
    }
    // Meanwhile jobs end at the provider, and their films cannot be stored.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    std::fs::remove_file(&filler).unwrap();
    eventually("the gateway can write again", async || {
        (client.get("/readyz").await.status == 200).then_some(())
    })
    .await;
    assert_all_succeed(&client, &tasks).await;
    assert_eq!(submission_count(&simulator), tasks.len());
    // The mount ends with the process, so a copy is checked.
    let copy_folder = folder.path().join("kept");
    std::fs::create_dir(&copy_folder).unwrap();
    let connection =
        rusqlite::Connection::open(server.path_inside(&data).join("mediagate.db")).unwrap();
    let copy = copy_folder.join("mediagate.db");
    connection
        .execute("VACUUM INTO ?1", [copy.to_str().unwrap()])
        .unwrap();
    verify_ledger(&["--config", args[1], "--data", copy_folder.to_str().unwrap()]).await;
    server.stop().await;
}
