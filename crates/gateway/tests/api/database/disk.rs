//! A disk that runs full, under the database and the media alike.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use crate::support::program::Server;
use crate::support::{Client, eventually};

use super::{add_up, hosted, jobs, order, provider, succeed};

/// How this user may mount something that only one process sees; `None` where
/// the system allows nobody to.
fn mounting() -> Option<&'static str> {
    let works = |flags: &&str| {
        let tried = Command::new("unshare").args([flags, "true"]).output();
        tried.is_ok_and(|output| output.status.success())
    };
    ["-m", "-rm"].into_iter().find(works)
}

/// Writes into the folder until nothing more goes in.
fn fill(path: &Path) {
    let mut filler = std::fs::File::create(path).unwrap();
    while filler.write_all(&[7; 4096]).is_ok() {}
    while filler.write_all(&[7]).is_ok() {}
}

#[tokio::test]
async fn a_full_disk_is_said_and_costs_nobody_anything() {
    let Some(flags) = mounting() else {
        eprintln!("NOT RUN: nothing can be mounted here");
        return;
    };
    let (simulator, toml) = provider().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    std::fs::write(&file, toml).unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let there = data.to_str().unwrap();
    let mount = format!("mount -t tmpfs -o size=16m tmpfs {there} && exec \"$@\"");
    let words = ["--config", file.to_str().unwrap()];
    let mounting = ["unshare", flags, "sh", "-c", &mount, "sh"];
    let server = Server::start_behind(&mounting, &data, &words).await;
    let client = Client::new(&server.base, Some(&server.first_key().await));
    let mut tasks = order(&client, 0..4).await;
    let filler = server.path_inside(&data).join("filler");
    fill(&filler);
    eventually("it says that it cannot write", async || {
        (client.get("/readyz").await.status == 503).then_some(())
    })
    .await;
    // A little may still fit into what the database has of the disk.
    for number in 4.. {
        let answer = client.post("/v1/videos", &hosted(number)).await;
        if answer.status != 200 {
            answer.refused(503, "overloaded");
            break;
        }
        tasks.push(answer.header("x-task-id").unwrap().to_owned());
    }
    // Until jobs have ended at the provider and find no room for their films.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    std::fs::remove_file(&filler).unwrap();
    eventually("it can write again", async || {
        (client.get("/readyz").await.status == 200).then_some(())
    })
    .await;
    succeed(&client, &tasks).await;
    assert_eq!(jobs(&simulator), tasks.len());
    // What is mounted is gone with the process, so a copy is looked at.
    let kept = folder.path().join("kept");
    std::fs::create_dir(&kept).unwrap();
    let live = rusqlite::Connection::open(server.path_inside(&data).join("mediagate.db")).unwrap();
    let copy = kept.join("mediagate.db");
    live.execute("VACUUM INTO ?1", [copy.to_str().unwrap()])
        .unwrap();
    add_up(&["--config", words[1], "--data", kept.to_str().unwrap()]).await;
    server.stop().await;
}
