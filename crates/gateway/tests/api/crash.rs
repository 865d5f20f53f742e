//! `kill -9` at any instant: no accepted task is lost, none ends twice.

use std::time::Duration;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::gateway::{finished, upload};
use crate::support::program::{Home, Server};
use crate::support::{Client, sound, videos_order};

const ROUNDS: u32 = 15;

/// Numbers by xorshift: the same for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// Submits one order after the other until the server dies; returns the ids of the
/// accepted tasks.
async fn submit(client: Client, clip: Value, mut count: u64) -> Vec<String> {
    let stems = json!({"task": "gen_stem", "continue_clip_id": clip});
    let mut accepted = Vec::new();
    while count > 0 {
        count -= 1;
        let request = if count % 3 == 1 {
            client
                .request(reqwest::Method::POST, "/musicgen/submit/music")
                .json(&stems)
        } else {
            client
                .request(reqwest::Method::POST, "/v1/videos")
                .json(&videos_order())
        };
        let Ok(response) = request.send().await else {
            break;
        };
        assert_eq!(response.status(), 200);
        let task = response.headers()["x-task-id"].to_str().unwrap().to_owned();
        // The answer's headers arrived: the task is promised.
        accepted.push(task);
    }
    accepted
}

#[tokio::test]
async fn no_accepted_task_is_lost_and_none_ends_twice() {
    let seed = std::env::var("MEDIAGATE_TEST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(|| u64::from(uuid::Uuid::new_v4().as_fields().0) + 1);
    println!("MEDIAGATE_TEST_SEED={seed}");
    let mut dice = Dice(seed);
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]).await;
    let key = server.first_key().await;
    let client = Client::new(&server.base, Some(&key));
    let clip = upload(&client, "Song", sound::wav(1, 1)).await["id"].clone();
    let first_task = client.post("/v1/videos", &videos_order()).await;
    let first_task = first_task.header("x-task-id").unwrap().to_owned();
    let mut promised = vec![first_task.clone()];
    assert_eq!(finished(&client, &first_task).await["status"], "succeeded");
    server.crash();

    for round in 0..ROUNDS {
        let server = Server::start(folder.path(), &[]).await;
        let client = Client::new(&server.base, Some(&key));
        // Known tasks are still known, and finished videos can be played.
        for task in &promised {
            assert_eq!(
                client.get(&format!("/v1/tasks/{task}")).await.status,
                200,
                "round {round}"
            );
        }
        let succeeded = client
            .get("/v1/tasks?status=succeeded&kind=video&limit=1")
            .await
            .ok();
        let url = succeeded["data"][0]["output"]["videos"][0]["url"]
            .as_str()
            .unwrap()
            .to_owned();
        let file = client.without_key().get(&url).await;
        assert_eq!(
            (file.status, &file.bytes[4..8]),
            (200, &b"ftyp"[..]),
            "round {round}"
        );

        let submission = tokio::spawn(submit(client.clone(), clip.clone(), 1 + dice.roll(3)));
        tokio::time::sleep(Duration::from_millis(dice.roll(1800))).await;
        server.crash();
        promised.extend(submission.await.unwrap());
    }

    let server = Server::start(folder.path(), &[]).await;
    let client = Client::new(&server.base, Some(&key));
    for task in &promised {
        let view = finished(&client, task).await;
        assert_eq!(view["status"], "succeeded", "seed {seed}: {view}");
        let output = &view["output"];
        let files = output["videos"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|video| &video["url"]);
        let stems = output["clips"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|clip| &clip["audio_url"]);
        let mut count = 0;
        for address in files.chain(stems) {
            assert_eq!(
                client
                    .without_key()
                    .get(address.as_str().unwrap())
                    .await
                    .status,
                200
            );
            count += 1;
        }
        assert!(count > 0, "{view}");
    }
    // Accepted tasks whose answer never arrived end, too.
    crate::support::eventually("no task is open", async || {
        let mut open = 0;
        for state in ["queued", "running"] {
            let list = client.get(&format!("/v1/tasks?status={state}")).await.ok();
            open += list["data"].as_array().unwrap().len();
        }
        (open == 0).then_some(())
    })
    .await;
    server.stop().await;
    check_history(&folder.path().join("mediagate.db"), &promised);
}

fn check_history(path: &std::path::Path, promised: &[String]) {
    let store = Connection::open(path).unwrap();
    let query = |sql: &str| -> Vec<String> {
        let mut statement = store.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    };
    let tasks = query("SELECT id FROM tasks");
    assert!(promised.iter().all(|task| tasks.contains(task)));
    let nothing: Vec<String> = Vec::new();
    let ends = "state IN ('succeeded', 'failed', 'cancelled')";
    assert_eq!(
        query(&format!(
            "SELECT id FROM tasks t WHERE (SELECT COUNT(*) FROM task_events e WHERE e.task_id = t.id AND e.{ends}) <> 1"
        )),
        nothing,
        "each task ends once"
    );
    assert_eq!(
        query("SELECT id FROM tasks WHERE state <> 'succeeded' OR lease_owner IS NOT NULL"),
        nothing
    );
    assert_eq!(
        query(
            "SELECT a.task_id FROM task_events a JOIN task_events b ON a.task_id = b.task_id AND a.seq < b.seq WHERE a.progress > b.progress"
        ),
        nothing,
        "progress never falls"
    );
    assert_eq!(
        query("SELECT task_id FROM task_events GROUP BY task_id HAVING COUNT(*) <> MAX(seq)"),
        nothing,
        "no gaps"
    );
    assert_eq!(query("SELECT id FROM clips WHERE audio IS NULL"), nothing);
    assert_eq!(query("PRAGMA integrity_check"), ["ok"]);
    assert_eq!(
        query("SELECT \"table\" FROM pragma_foreign_key_check"),
        nothing
    );
}

/// The killed process's leases would otherwise last for years.
#[tokio::test]
async fn leases_of_a_killed_process_are_free_at_once() {
    let (simulator, toml) = crate::database::provider().await;
    let home = Home::with_settings(&toml);
    let (server, client) = home.start().await;
    let order = json!({"model": "film", "prompt": "a lake"});
    let answer = client.post("/v1/videos", &order).await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    let jobs = || simulator.world().all_jobs().len();
    crate::support::eventually("the provider has it", async || (jobs() == 1).then_some(())).await;
    server.crash();
    let database = Connection::open(home.data().join("mediagate.db")).unwrap();
    let extend_leases = "UPDATE workers SET held_until = held_until * 2";
    assert_eq!(database.execute(extend_leases, []).unwrap(), 2);
    let (server, client) = home.start_again(client).await;
    assert_eq!(finished(&client, &task).await["status"], "succeeded");
    assert_eq!(jobs(), 1);
    let live_workers = "SELECT COUNT(*) FROM workers WHERE held_until > 0";
    let live_workers: i64 = database
        .query_row(live_workers, [], |row| row.get(0))
        .unwrap();
    assert_eq!(live_workers, 2, "only the workers of the running process");
    server.stop().await;
    let locks = home.data().join("mediagate.db-lives");
    assert_eq!(std::fs::read_dir(locks).unwrap().count(), 0);
}
