//! `mediagate accounts` and `mediagate ledger`, while a server is running.

use std::path::Path;

use mediagate_model::database::MigrationMode;
use mediagate_model::error::Error;
use mediagate_store::Store;
use serde_json::{Value, json};

use super::PRICES;
use crate::support::program::{Server, create_database, output, program, text};
use crate::support::{Client, gateway::finished, videos_order};

/// Runs a command: its exit code, standard output and standard error.
async fn run(data: &Path, args: &[&str]) -> (i32, String, String) {
    let mut full_args = args.to_vec();
    full_args.extend(["--data", data.to_str().unwrap()]);
    let result = output(program(&full_args)).await;
    let decode = |bytes: &[u8]| text(bytes).to_owned();
    (
        result.status.code().unwrap(),
        decode(&result.stdout),
        decode(&result.stderr),
    )
}

#[track_caller]
fn assert_success((code, out, err): (i32, String, String)) -> String {
    assert_eq!(code, 0, "{out}{err}");
    out
}

/// A server with prices, and a caller of the account `owls`.
async fn server(folder: &Path) -> (Server, Client) {
    let file = folder.join("m.toml");
    std::fs::write(&file, PRICES).unwrap();
    let server = Server::start(folder, &["--config", file.to_str().unwrap()]).await;
    let created = run(
        folder,
        &[
            "keys",
            "create",
            "--name",
            "laptop",
            "--account",
            "owls",
            "--budget",
            "9",
        ],
    )
    .await;
    let key = assert_success(created).trim().to_owned();
    let client = Client::new(&server.base, Some(&key));
    (server, client)
}

async fn make_video(client: &Client) -> String {
    let answer = client.post("/v1/videos", &videos_order()).await;
    let id = answer.header("x-task-id").unwrap().to_owned();
    answer.ok();
    assert_eq!(finished(client, &id).await["status"], "succeeded");
    id
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one scenario, in its order")]
async fn an_operator_keeps_accounts_and_the_ledger_while_a_server_runs() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let (server, client) = server(data).await;
    let task = make_video(&client).await;

    let stdout = assert_success(
        run(
            data,
            &[
                "accounts",
                "create",
                "foxes",
                "--name",
                "The Foxes",
                "--prepaid",
                "--budget",
                "7.5",
            ],
        )
        .await,
    );
    assert!(stdout.contains("prepaid"), "{stdout}");
    let (code, _, err) = run(data, &["accounts", "create", "foxes"]).await;
    assert!(code == 1 && err.contains("already"), "{err}");

    let stdout = assert_success(
        run(
            data,
            &["accounts", "credit", "owls", "5.00", "--note", "invoice 7"],
        )
        .await,
    );
    assert!(
        stdout.contains("is now prepaid") && stdout.contains("4.90 USD available"),
        "{stdout}"
    );
    let stdout = assert_success(run(data, &["accounts", "credit", "owls", "-1.00"]).await);
    assert!(
        !stdout.contains("from now on") && stdout.contains("balance 3.90 USD"),
        "{stdout}"
    );
    let account = client.get("/v1/account").await.ok();
    assert_eq!(
        [
            &account["policy"],
            &account["balance_usd"],
            &account["available_usd"]
        ],
        [&json!("prepaid"), &json!("3.90"), &json!("3.90")]
    );

    let list = assert_success(run(data, &["accounts", "list"]).await);
    for facts in [
        &["owls", "Owls", "prepaid", "3.90", "0.10", "none"][..],
        &["foxes", "The Foxes", "7.50"],
    ] {
        let line = list.lines().find(|line| line.contains(facts[0])).unwrap();
        assert!(facts.iter().all(|fact| line.contains(fact)), "{list}");
    }
    assert_success(
        run(
            data,
            &[
                "accounts",
                "update",
                "foxes",
                "--unlimited",
                "--budget",
                "none",
                "--name",
                "Foxes",
            ],
        )
        .await,
    );
    let list = assert_success(run(data, &["accounts", "list"]).await);
    let line = list.lines().find(|line| line.contains("foxes")).unwrap();
    assert!(
        line.contains("unlimited") && line.contains("none") && !line.contains("7.50"),
        "{list}"
    );
    let keys = assert_success(run(data, &["keys", "list"]).await);
    let line = keys.lines().find(|line| line.contains("laptop")).unwrap();
    assert!(keys.contains("SPENT") && keys.contains("HELD"), "{keys}");
    assert!(
        line.contains("9.00") && line.contains("0.10") && line.contains("0.00"),
        "{keys}"
    );

    adjust(data, &task, &client).await;

    let shown = assert_success(run(data, &["tasks", "show", &task]).await);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(
        (&shown["id"], &shown["attempts"], &shown["deliveries"]),
        (&json!(task), &json!([]), &json!([]))
    );

    let listing = assert_success(run(data, &["ledger", "list", "--account", "owls"]).await);
    let kinds = ["adjust", "credit", "settle", "reserve"].map(|kind| listing.find(kind).unwrap());
    assert!(kinds.is_sorted(), "the newest first: {listing}");
    assert!(
        listing.contains("invoice 7") && listing.contains(&task),
        "{listing}"
    );
    let single =
        assert_success(run(data, &["ledger", "list", "--task", &task, "--limit", "1"]).await);
    assert_eq!(single.lines().count(), 2, "{single}");
    let empty_listing = assert_success(run(data, &["ledger", "list", "--account", "foxes"]).await);
    assert!(
        empty_listing.contains("No ledger entries"),
        "{empty_listing}"
    );
    for (option, day) in [("--from", "2099-01-01"), ("--to", "2001-01-01")] {
        let listing = assert_success(run(data, &["ledger", "list", option, day]).await);
        assert!(listing.contains("No ledger entries"), "{listing}");
    }

    export(data, &task).await;
    let stdout = assert_success(run(data, &["ledger", "verify"]).await);
    assert!(
        stdout.starts_with("The ledger adds up: 5 entries"),
        "{stdout}"
    );
    server.stop().await;
}

/// One adjustment for each task, and never more back than was paid.
async fn adjust(data: &Path, task: &str, client: &Client) {
    let adjust = async |task: &str, amount: &str| {
        run(
            data,
            &[
                "ledger", "adjust", "--task", task, "--amount", amount, "--note", "late",
            ],
        )
        .await
    };
    let (code, _, err) = adjust(task, "-0.11").await;
    assert!(code == 1 && err.contains("cost 0.10 USD"), "{err}");
    let stdout = assert_success(adjust(task, "-0.04").await);
    assert!(stdout.contains("0.06 USD in total"), "{stdout}");
    let (code, _, err) = adjust(task, "0.01").await;
    assert!(code == 1 && err.contains("already"), "{err}");
    let (code, _, err) = adjust("0193a000-0000-7000-8000-000000000020", "1").await;
    assert!(code == 1 && err.contains("no task"), "{err}");
    let account = client.get("/v1/account").await.ok();
    assert_eq!(
        (&account["balance_usd"], &account["key"]["spent_usd"]),
        (&json!("3.94"), &json!("0.06"))
    );
    let view = client.get(&format!("/v1/tasks/{task}")).await.ok();
    assert_eq!(
        view["cost_usd"], "0.10",
        "the task's own record stays as it ended"
    );
}

async fn export(data: &Path, task: &str) {
    let csv = assert_success(run(data, &["ledger", "export"]).await);
    let lines: Vec<&str> = csv.trim_end().split("\r\n").collect();
    assert_eq!(
        lines[0],
        "id,created_at,account,key,task,kind,held_usd,spent_usd,credit_usd,note,provider,provider_cost,provider_cost_unit,user,metadata"
    );
    assert_eq!(lines.len(), 6, "{csv}");
    assert!(lines[1].contains(",reserve,0.10,0.00,0.00,"), "{csv}");
    assert!(lines[2].contains(",settle,-0.10,0.10,0.00,"), "{csv}");
    assert!(
        lines[3].contains(",owls,,,credit,0.00,0.00,5.00,invoice 7"),
        "{csv}"
    );
    let json = assert_success(
        run(
            data,
            &["ledger", "export", "--account", "owls", "--format", "json"],
        )
        .await,
    );
    let entries: Vec<Value> = serde_json::from_str(&json).unwrap();
    assert_eq!(entries.len(), 5);
    assert_eq!(entries[4]["task"], task);
    assert_eq!(
        (&entries[4]["kind"], &entries[4]["spent_usd"]),
        (&json!("adjust"), &json!("-0.04"))
    );
    let empty = assert_success(
        run(
            data,
            &["ledger", "export", "--account", "foxes", "--format", "json"],
        )
        .await,
    );
    assert_eq!(serde_json::from_str::<Value>(&empty).unwrap(), json!([]));
    let export_days = async |from: &str, to: &str| {
        let args = ["ledger", "export", "--from", from, "--to", to];
        assert_success(run(data, &args).await)
    };
    assert_eq!(export_days("2001-01-01", "2099-01-01").await, csv);
    let header = format!("{}\r\n", lines[0]);
    assert_eq!(export_days("2001-01-01", "2001-01-31").await, header);
    assert_eq!(export_days("2099-01-01", "2099-01-31").await, header);
}

#[tokio::test]
async fn invalid_arguments_are_rejected_and_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    create_database(data).await;
    assert_success(run(data, &["accounts", "create", "owls"]).await);
    let before = assert_success(run(data, &["accounts", "list"]).await);
    let task = "0193a000-0000-7000-8000-000000000020";
    for args in [
        &["accounts", "create", "Big Owls"][..],
        &["accounts", "create", "foxes", "--budget", "nonsense"],
        &["accounts", "create", "foxes", "--budget", "-1"],
        &["accounts", "create", "foxes", "--name", " "],
        &["accounts", "credit", "owls", "lots"],
        &["accounts", "credit", "owls", "1.0000001"],
        &["accounts", "credit", "owls", "0"],
        &["accounts", "credit", "owls", "1e9"],
        &["accounts", "credit", "owls", "9999999999"],
        &["accounts", "credit", "owls"],
        &["accounts", "update", "owls"],
        &["accounts", "update", "owls", "--budget", "nonsense"],
        &["accounts", "update", "owls", "--prepaid", "--unlimited"],
        &[
            "ledger", "adjust", "--task", task, "--amount", "some", "--note", "x",
        ],
        &["ledger", "adjust", "--task", task, "--amount", "1"],
        &[
            "ledger", "adjust", "--task", "that one", "--amount", "1", "--note", "x",
        ],
        &["ledger", "list", "--limit", "0"],
        &["ledger", "list", "--from", "soon"],
        &["ledger", "list", "--to", "2026-01-02T03:04:05Z"],
        &[
            "ledger",
            "export",
            "--from",
            "2026-02-02",
            "--to",
            "2026-02-01",
        ],
        &["ledger", "export", "--format", "xml"],
        &[
            "keys",
            "create",
            "--name",
            "x",
            "--account",
            "owls",
            "--budget",
            "nonsense",
        ],
    ] {
        let (code, out, err) = run(data, args).await;
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(out.is_empty() && !err.is_empty(), "{args:?}: {out}");
        if args.contains(&"nonsense") || args.contains(&"lots") {
            assert!(err.contains("write a decimal number"), "{args:?}: {err}");
        }
    }
    // The last day that can be written.
    let all = &[
        "ledger",
        "list",
        "--from",
        "2026-01-01",
        "--to",
        "9999-12-31",
    ];
    assert_success(run(data, all).await);
    for unknown in [
        &["accounts", "credit", "nobody", "1"][..],
        &["accounts", "update", "nobody", "--prepaid"],
        &["ledger", "list", "--account", "nobody"],
    ] {
        let (code, _, err) = run(data, unknown).await;
        assert!(
            code == 1 && err.contains("no account \"nobody\""),
            "{unknown:?}: {err}"
        );
    }
    assert_eq!(
        assert_success(run(data, &["accounts", "list"]).await),
        before
    );
}

#[tokio::test]
async fn a_ledger_that_does_not_add_up_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    create_database(data).await;
    assert_success(run(data, &["accounts", "create", "owls"]).await);
    assert_success(run(data, &["accounts", "credit", "owls", "5"]).await);
    let store = Store::sqlite(&data.join("mediagate.db"), MigrationMode::Auto).unwrap();
    let tampered = store.write(|conn| -> Result<_, Error> {
        Ok(conn.execute("UPDATE accounts SET credit_micros = credit_micros + 1", &[])?)
    });
    tampered.await.unwrap();
    drop(store);
    for _ in 0..2 {
        let (code, out, err) = run(data, &["ledger", "verify"]).await;
        assert_eq!(code, 1, "{err}");
        assert!(
            out.contains("credited 5.000001; its entries sum to 5.00"),
            "{out}"
        );
        assert!(err.contains("nothing was changed"), "{err}");
    }
}

#[tokio::test]
async fn crash_points_are_listed_in_debug_builds() {
    let folder = tempfile::tempdir().unwrap();
    let stdout = assert_success(run(folder.path(), &["crash-points"]).await);
    let names: Vec<&str> = stdout.lines().collect();
    let points = mediagate_core::crash::POINTS.iter().map(|point| point.0);
    assert_eq!(names, points.collect::<Vec<_>>());
    let help = assert_success(run(folder.path(), &["--help"]).await);
    assert!(!help.contains("crash-points"), "{help}");
}
