//! The operator's commands, without a server.

use std::path::Path;

use serde_json::{Value, json};

use super::operator;
use crate::support::program::{create_database, output, program, text};
use crate::support::{TestGateway, videos_order};
use mediagate_core::domain::audit::ChangeAuthor;
use mediagate_core::domain::keys::NewKey;
use mediagate_core::domain::{accounting, accounts};

/// A configuration whose secret the operator's shell does not have.
const CONFIG_WITH_SECRET: &str = "[providers.acme]\nprotocol = \"openai-videos\"\n\
    base_url = \"https://api.acme.example/v1\"\napi_key = \"env:NOBODY_HAS_THIS_KEY\"\n\
    [models.film]\nkind = \"video\"\nprice = { unit = \"second\", usd = \"0.10\" }\n\
    routes = [{ provider = \"acme\", model = \"sora-2\" }]\n";

/// What a command prints and its exit code, with the configuration and data of this folder.
async fn run(folder: &Path, args: &[&str]) -> (String, Option<i32>) {
    let (data, config) = (folder.join("data"), folder.join("m.toml"));
    std::fs::write(&config, CONFIG_WITH_SECRET).unwrap();
    create_database(&data).await;
    let mut full_args = args.to_vec();
    full_args.extend(["--data", data.to_str().unwrap()]);
    full_args.extend(["--config", config.to_str().unwrap()]);
    let result = output(program(&full_args)).await;
    let printed = format!("{}{}", text(&result.stdout), text(&result.stderr));
    (printed, result.status.code())
}

async fn succeed(folder: &Path, args: &[&str]) -> String {
    let (printed, code) = run(folder, args).await;
    assert_eq!(code, Some(0), "{args:?}: {printed}");
    printed
}

async fn as_json(folder: &Path, args: &[&str]) -> Value {
    let mut json_args = args.to_vec();
    json_args.push("--json");
    serde_json::from_str(&succeed(folder, &json_args).await).unwrap()
}

#[tokio::test]
async fn commands_need_no_providers_secret() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let key = succeed(
        folder,
        &["keys", "create", "--name", "k", "--model", "film"],
    )
    .await;
    let prefix = &key[..12];
    let other_key = succeed(folder, &["keys", "create", "--name", "other"]).await;
    let config = folder.join("m.toml");
    let config = config.to_str().unwrap();
    for args in [
        &["keys", "list"][..],
        &["keys", "update", prefix, "--rpm", "7"],
        &["keys", "rotate", &other_key[..12], "--grace", "1h"],
        &["keys", "revoke", prefix],
        &["accounts", "create", "owls"],
        &["accounts", "update", "owls", "--budget", "3"],
        &["accounts", "list"],
        &["accounts", "credit", "default", "5"],
        &["ledger", "list"],
        &["ledger", "export"],
        &["ledger", "verify"],
        &["tasks", "list"],
        &["providers", "list"],
        &["providers", "pause", "acme", "sora-2"],
        &["providers", "resume", "acme", "sora-2"],
        &["providers", "try", "acme", "sora-2"],
        &["submissions", "list"],
        &["submissions", "list", "--all"],
        &["users", "list"],
        &["webhooks", "list"],
        &["models", "list"],
        &["models", "add", "fal/veo-3.1"],
        &["provenance", "check", config],
        &["completions", "bash"],
        &["restored", "list"],
        &["audit"],
        &["migrate"],
        &["openapi"],
    ] {
        succeed(folder, args).await;
    }
    let unknown_id = "0193b000-0000-7000-8000-000000000001";
    for args in [
        &["tasks", "show", unknown_id][..],
        &["tasks", "cancel", unknown_id],
        &["restored", "fail", unknown_id],
        &["submissions", "resolve", unknown_id, "--note", "n"],
        &["restored", "resubmit", unknown_id],
        &["webhooks", "deliveries", unknown_id],
        &[
            "ledger", "adjust", "--task", unknown_id, "--amount", "1", "--note", "n",
        ],
    ] {
        let (printed, code) = run(folder, args).await;
        assert_eq!(code, Some(1), "{args:?} finds nothing: {printed}");
    }
    for args in [&["config", "check"][..], &["serve"], &["worker"]] {
        let (printed, code) = run(folder, args).await;
        assert_eq!(code, Some(2), "{args:?}: {printed}");
        assert!(printed.contains("NOBODY_HAS_THIS_KEY"), "{printed}");
    }
}

#[tokio::test]
async fn a_key_is_changed_rotated_and_listed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let args = [
        "keys",
        "create",
        "--name",
        "k",
        "--budget",
        "25",
        "--budget-period",
        "month",
        "--refuse-housekeeping",
    ];
    let created = as_json(folder, &args).await;
    assert_eq!(created["refuse_housekeeping"], true);
    let id = created["id"].as_str().unwrap();
    let first = created["key"].as_str().unwrap();
    assert_eq!(
        (&created["budget_period"], first.len()),
        (&"month".into(), 55)
    );
    let args = [
        "keys",
        "update",
        id,
        "--budget-period",
        "none",
        "--network",
        "10.0.0.0/8",
        "--refuse-housekeeping",
        "false",
    ];
    let changed = as_json(folder, &args).await;
    assert_eq!(changed["refuse_housekeeping"], false);
    assert_eq!(changed["budget_period"], Value::Null);
    assert_eq!(changed["networks"][0], "10.0.0.0/8");
    succeed(folder, &["keys", "update", id, "--network", "any"]).await;
    let second = succeed(folder, &["keys", "rotate", first, "--grace", "1h"]).await;
    let second = second.trim_end();
    assert!(second.len() == 55 && second != first);
    let list = as_json(folder, &["keys", "list"]).await;
    assert_eq!(
        (&list[0]["prefix"], &list[0]["networks"]),
        (&second[..12].into(), &Value::Null)
    );
    let table = succeed(folder, &["keys", "list"]).await;
    assert!(
        table.contains("LAST USED") && table.contains("never"),
        "{table}"
    );
    let log = as_json(folder, &["audit", "--target", id]).await;
    let actions: Vec<&str> = log
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["action"].as_str().unwrap())
        .collect();
    assert_eq!(
        actions,
        ["key.rotate", "key.update", "key.update", "key.create"]
    );
    assert_eq!(
        (&log[0]["actor"]["kind"], &log[0]["actor"]["name"]),
        (&"command".into(), &"keys rotate".into())
    );
    let log = succeed(folder, &["audit", "--csv"]).await;
    assert!(!log.contains(first) && !log.contains(second), "{log}");
    for (args, code) in [
        (&["keys", "update", id][..], 2),
        (&["keys", "update", id, "--budget-period", "year"], 2),
        (&["keys", "update", id, "--model", "nobody"], 2),
        (
            &[
                "keys",
                "update",
                id,
                "--budget",
                "none",
                "--budget-period",
                "day",
            ],
            2,
        ),
        (&["keys", "rotate", "sk-mg-000000"], 1),
        (
            &["keys", "create", "--name", "x", "--budget-period", "day"],
            2,
        ),
        (&["audit", "--since", "soon"], 2),
        (
            &["tasks", "show", "0193b000-0000-7000-8000-000000000001"],
            1,
        ),
        (&["tasks", "list", "--kind", "text"], 2),
        (&["providers", "pause", "nobody", "x"], 1),
    ] {
        let (printed, exit_code) = run(folder, args).await;
        assert_eq!(exit_code, Some(code), "{args:?}: {printed}");
    }
}

#[tokio::test]
async fn what_the_database_cannot_make_right_is_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let key = succeed(folder, &["keys", "create", "--name", "k"]).await;
    for (args, hint) in [
        (
            &["keys", "rotate", &key[..12], "--grace", "31d"][..],
            "--grace",
        ),
        (
            &["keys", "update", &key[..12], "--model", "nobody"],
            "--model",
        ),
        (
            &["keys", "create", "--name", "x", "--account", "A B"],
            "--account",
        ),
        (&["webhooks", "create", "http://127.0.0.1/x"], "URL"),
        (
            &["webhooks", "create", "https://x.example", "--event", "x"],
            "task.succeeded",
        ),
        (
            &["webhooks", "create", "https://x.example", "--scheme", "rsa"],
            "ed25519",
        ),
    ] {
        let (printed, code) = run(folder, args).await;
        assert_eq!(code, Some(2), "{args:?}: {printed}");
        assert!(printed.contains(hint), "{args:?}: {printed}");
    }
}

#[tokio::test]
async fn a_revocation_says_which_tasks_continue_and_offers_to_cancel_them() {
    let gateway = TestGateway::builder()
        .without_workers()
        .toml(crate::money::PRICES)
        .start()
        .await;
    let mut keys = Vec::new();
    // Accounts take turns, so each has one task that has begun.
    for handle in ["one", "two"] {
        let caller = gateway.caller(handle, NewKey::default()).await;
        for _ in 0..2 {
            caller.post("/v1/videos", &videos_order()).await.ok();
        }
        gateway.claim().await;
        keys.push(caller.key.unwrap());
    }
    let run = async |command: &[&str], args: &[&str]| {
        let mut full_args: Vec<String> = command.iter().map(ToString::to_string).collect();
        full_args.extend(args.iter().map(ToString::to_string));
        full_args.extend(gateway.options());
        let full_args: Vec<&str> = full_args.iter().map(String::as_str).collect();
        let result = output(program(&full_args)).await;
        let printed = format!("{}{}", text(&result.stdout), text(&result.stderr));
        (printed, result.status.code())
    };
    let revoke = async |key: &str, args: &[&str]| run(&["keys", "revoke", key], args).await;
    let (first, code) = revoke(&keys[0], &[]).await;
    assert_eq!(code, Some(0), "{first}");
    for line in [
        "1 task was cancelled.",
        "1 task continues and holds 0.10 USD.",
        "--cancel-running",
    ] {
        assert!(first.contains(line), "{first}");
    }
    let (rest, _) = revoke(&keys[0], &["--cancel-running"]).await;
    assert!(rest.contains("already revoked"), "{rest}");
    assert!(rest.contains("1 task was cancelled."), "{rest}");
    assert!(!rest.contains("continue"), "{rest}");
    let (kept, _) = revoke(&keys[1], &["--keep-tasks"]).await;
    assert!(
        kept.contains("2 tasks continue and hold 0.20 USD."),
        "{kept}"
    );
    let (refused, code) = revoke(&keys[1], &["--keep-tasks", "--cancel-running"]).await;
    assert_eq!(code, Some(2), "{refused}");
    let (closed, code) = run(&["accounts", "close", "two"], &["--cancel-running"]).await;
    assert_eq!(code, Some(0), "{closed}");
    assert!(
        closed.contains("Closed two. 0 keys were revoked."),
        "{closed}"
    );
    assert!(closed.contains("2 tasks were cancelled."), "{closed}");
    let (refused, _) = run(&["keys", "create"], &["--name", "k", "--account", "two"]).await;
    assert!(refused.contains("was closed"), "{refused}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_key_is_found_and_ended_by_its_former_secret() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let first = succeed(folder, &["keys", "create", "--name", "k"]).await;
    let first = first.trim_end();
    let key = async || as_json(folder, &["keys", "list"]).await[0].clone();
    assert_eq!(key().await["former_until"], Value::Null);
    succeed(folder, &["keys", "rotate", first, "--grace", "1h"]).await;
    assert!(key().await["former_until"].is_string());
    let revoked = succeed(folder, &["keys", "revoke", first]).await;
    assert!(revoked.contains("former key"), "{revoked}");
    let ended = key().await;
    assert!(ended["revoked_at"].is_string(), "{ended}");
    assert_eq!(ended["former_until"], Value::Null);
    // One that has ended finds nothing: the command would end the key that replaced it.
    let ended = succeed(folder, &["keys", "create", "--name", "other"]).await;
    let ended = ended.trim_end();
    succeed(folder, &["keys", "rotate", ended]).await;
    let (printed, code) = run(folder, &["keys", "revoke", ended]).await;
    assert_eq!(code, Some(1), "{printed}");
}

#[tokio::test]
async fn routes_are_paused_and_listed_as_paused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let paused = as_json(folder, &["providers", "pause", "acme", "sora-2"]).await;
    assert!(paused["paused_at"].is_string());
    let list = as_json(folder, &["providers", "list"]).await;
    assert_eq!(
        (&list[0]["paused_at"], &list[0]["models"][0]),
        (&paused["paused_at"], &"film".into())
    );
    assert_eq!(list[0].get("breaker"), None);
    let table = succeed(folder, &["providers", "list"]).await;
    assert!(table.contains("paused"), "{table}");
    succeed(folder, &["providers", "resume", "acme", "sora-2"]).await;
    let table = succeed(folder, &["providers", "list"]).await;
    assert!(table.contains("in use"), "{table}");
}

#[tokio::test]
async fn shells_complete_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = output(program(&["completions", shell])).await;
        assert_eq!(script.status.code(), Some(0), "{shell}");
        assert!(text(&script.stdout).contains("rotate"), "{shell}");
    }
    let unknown = output(program(&["completions", "cmd"])).await;
    assert_eq!(unknown.status.code(), Some(2));
}

#[tokio::test]
async fn every_command_can_print_json() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let schema = &as_json(folder, &["migrate"]).await["schema"];
    assert!(schema.as_i64().unwrap() > 0, "{schema}");
    assert_eq!(
        as_json(folder, &["restored", "list"]).await,
        Value::Array(vec![])
    );
    for decision in ["fail", "resubmit"] {
        let printed = succeed(folder, &["restored", decision, "--all"]).await;
        assert!(printed.contains("are held"), "{decision}: {printed:?}");
    }
    let generated = as_json(folder, &["keys", "generate"]).await;
    assert_eq!(generated["key"].as_str().unwrap().len(), 55);
    let models = as_json(folder, &["models", "list", "--provider", "fal"]).await;
    let veo = models.as_array().unwrap().iter();
    let veo: Vec<&Value> = veo.filter(|model| model["name"] == "veo-3.1").collect();
    assert_eq!((veo.len(), &veo[0]["kind"]), (1, &Value::from("video")));
    assert!(veo[0]["prices"][0]["usd"].is_string(), "{}", veo[0]);
    let lines = as_json(folder, &["models", "add", "fal/veo-3.1"]).await;
    assert_eq!(lines["models"]["veo-3.1"]["routes"][0]["provider"], "fal");
    succeed(folder, &["keys", "create", "--name", "k"]).await;
    let webhook = as_json(folder, &["webhooks", "create", "https://example.com/hook"]).await;
    assert!(
        webhook["secret"].as_str().unwrap().starts_with("whsec_"),
        "{webhook}"
    );
    let id = webhook["id"].as_str().unwrap();
    let disabled = as_json(folder, &["webhooks", "disable", id]).await;
    assert_eq!(
        (&disabled["enabled"], &disabled["secret"]),
        (&Value::from(false), &Value::Null)
    );
    assert_eq!(
        as_json(folder, &["webhooks", "enable", id]).await["enabled"],
        true
    );
    let since = ["webhooks", "recover", id, "--since", "2026-01-02"];
    assert_eq!(as_json(folder, &since).await["recovered"], 0);
    let audit = as_json(folder, &["audit"]).await;
    let actions: Vec<&Value> = audit
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["action"])
        .collect();
    assert!(
        actions.contains(&&Value::from("webhook.create"))
            && actions.contains(&&Value::from("webhook.update")),
        "{audit}"
    );
}

/// A text that clears the screen, rings the bell, sets a colour by the one-character CSI, reverses
/// the rest of a line, and looks like a row of its own.
const HOSTILE: &str = "a\u{1b}[2J\u{7}\u{9b}31m\u{202e}\u{2066}b\u{7f}\u{200f}\r\nmine";

#[tokio::test]
async fn texts_of_tenants_and_files_cannot_control_the_terminal() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let new = NewKey {
        name: HOSTILE.into(),
        ..NewKey::default()
    };
    let tenant = gateway.caller("owls", new).await;
    let mut order = videos_order();
    order["prompt"] = HOSTILE.into();
    tenant.post("/v1/videos", &order).await.ok();
    let webhook = json!({"url": "https://example.com/", "description": HOSTILE});
    tenant.post("/v1/webhooks", &webhook).await.ok();
    let operator = operator(&gateway).await;
    let credit = json!({"amount_usd": "5", "note": HOSTILE});
    operator
        .post("/v1/admin/accounts/owls/credits", &credit)
        .await
        .refused(400, "invalid_value")
        .on_param("note");
    // What the API refuses may be in the database nevertheless.
    let owls = accounts::ensure(&gateway.app, "owls").await.unwrap();
    let (author, amount) = (ChangeAuthor::command("test"), "5".parse().unwrap());
    let note = Some(HOSTILE.to_owned());
    accounting::credit(&gateway.app, author.into(), owls.id, amount, note)
        .await
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("strange.jpg");
    let xmp = "http://ns.adobe.com/xap/1.0/\0<x:xmpmeta><rdf:Description \
               xmp:CreatorTool=\"Maker\u{202e}\u{2067} 7\"/></x:xmpmeta>";
    let size = u16::try_from(xmp.len() + 2).unwrap().to_be_bytes();
    let jpeg = [
        &b"\xff\xd8\xff\xe1"[..],
        &size,
        xmp.as_bytes(),
        b"\xff\xda\0\x02\xff\xd9",
    ];
    std::fs::write(&file, jpeg.concat()).unwrap();
    let file = file.to_str().unwrap();
    let is_invisible = |c: char| {
        let is_mark = matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        is_mark || (c.is_control() && c != '\n')
    };
    for (args, expected) in [
        (&["tasks", "list"][..], "mine"),
        (&["tasks", "list", "--json"], "mine"),
        (&["keys", "list"], "mine"),
        (&["keys", "list", "--json"], "mine"),
        (&["accounts", "list"], "owls"),
        (&["audit"], "mine"),
        (&["audit", "--csv"], "mine"),
        (&["ledger", "list"], "mine"),
        (&["ledger", "export"], "mine"),
        (&["ledger", "export", "--json"], "mine"),
        (&["webhooks", "list", "--json"], "mine"),
        (&["provenance", "check", file], "Maker 7"),
        (&["provenance", "check", file, "--json"], "Maker"),
        (&["keys", "revoke", HOSTILE], "no key has this id"),
    ] {
        let options = gateway.options();
        let options = options.iter().map(String::as_str);
        let full_args: Vec<&str> = args.iter().copied().chain(options).collect();
        let result = output(program(&full_args)).await;
        let printed = format!("{}{}", text(&result.stdout), text(&result.stderr));
        assert!(printed.contains(expected), "{args:?}: {printed:?}");
        // CSV lines end with CRLF.
        let printed = printed.replace("\r\n", "\n");
        assert!(!printed.contains(is_invisible), "{args:?}: {printed:?}");
        let is_row = |line: &str| line.starts_with("mine") && !args.contains(&"--csv");
        let is_table = !args.contains(&"export");
        assert!(
            !(is_table && printed.lines().any(is_row)),
            "{args:?}: {printed}"
        );
        if args.contains(&"--json") {
            let value: Value = serde_json::from_str(text(&result.stdout)).unwrap();
            let is_whole = value.to_string().contains("\\u001b[2J") || args[0] == "provenance";
            assert!(is_whole, "{args:?} lost something: {value}");
        }
    }
}

#[tokio::test]
async fn requests_are_listed_shown_counted_and_followed() {
    let gateway = TestGateway::builder().start().await;
    let made = gateway
        .request(reqwest::Method::POST, "/v1/videos")
        .header("x-request-id", "r-made");
    let made = gateway.send(made.json(&videos_order())).await;
    let task = made.header("x-task-id").unwrap().to_owned();
    made.ok();
    gateway.finished(&task).await;
    let refuse = async |id: &str| {
        let request = gateway.request(reqwest::Method::GET, "/v1/tasks?nothing=1");
        let request = request.header("x-request-id", id);
        gateway
            .send(request)
            .await
            .refused(400, "unsupported_value");
    };
    refuse("r-refused").await;
    mediagate_core::domain::request_log::write_waiting(&gateway.app)
        .await
        .unwrap();
    let options = gateway.options();
    let run = async |args: &[&str]| {
        let args: Vec<&str> = args
            .iter()
            .copied()
            .chain(options.iter().map(String::as_str))
            .collect();
        let result = output(program(&args)).await;
        let printed = format!("{}{}", text(&result.stdout), text(&result.stderr));
        (printed, result.status.code())
    };
    let (table, code) = run(&["requests", "list"]).await;
    assert_eq!(code, Some(0), "{table}");
    assert!(
        table.contains("REQUEST ID") && table.contains("r-made"),
        "{table}"
    );
    let (json, _) = run(&["requests", "list", "--status", "4xx", "--json"]).await;
    let listed: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(listed[0]["request_id"], "r-refused");
    assert_eq!(listed.as_array().unwrap().len(), 1);
    let (counts, _) = run(&["requests", "list", "--group-by", "code,account"]).await;
    assert!(counts.contains("unsupported_value"), "{counts}");
    let (history, _) = run(&["requests", "show", "r-made"]).await;
    let history: Value = serde_json::from_str(&history).unwrap();
    assert_eq!(history["requests"][0]["task"], json!(task));
    assert_eq!(history["tasks"][0]["id"], json!(task));
    assert_eq!(history["tasks"][0]["attempts"], json!([]));
    let (nothing, code) = run(&["requests", "show", "r-never"]).await;
    assert_eq!(code, Some(1), "{nothing}");
    let (wrong, code) = run(&["requests", "list", "--status", "40"]).await;
    assert_eq!(code, Some(2), "{wrong}");
    // The filters of the list of tasks are those of the API.
    for (args, is_found) in [
        (["--q", "r-made"], true),
        (["--q", "r-refused"], false),
        (["--error", "content_policy"], false),
        (["--since", "2020-01-01"], true),
        (["--until", "2020-01-01"], false),
        (["--user", "ada"], false),
        (["--metadata", "project=lake"], false),
    ] {
        let (table, code) = run(&["tasks", "list", args[0], args[1]]).await;
        assert_eq!(
            (code, table.contains(&task)),
            (Some(0), is_found),
            "{args:?}: {table}"
        );
    }
    let (table, _) = run(&["tasks", "list"]).await;
    assert!(table.lines().next().unwrap().ends_with("PROMPT"), "{table}");

    let mut tail = program(&["requests", "tail", "--json"]);
    tail.args(&options);
    let tail = crate::process::Process::start(&mut tail);
    let number = std::cell::Cell::new(0);
    let line = crate::support::eventually("a request is printed", async || {
        // The command prints what comes after its start, and that takes a while.
        number.set(number.get() + 1);
        refuse(&format!("r-tail-{}", number.get())).await;
        mediagate_core::domain::request_log::write_waiting(&gateway.app)
            .await
            .unwrap();
        tail.stdout().lines().next().map(str::to_owned)
    })
    .await;
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["code"], "unsupported_value");
    drop(tail);
    gateway.stop().await;
}

#[tokio::test]
async fn end_users_are_limited_listed_and_released() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    succeed(folder, &["accounts", "create", "owls"]).await;
    let args = [
        "users",
        "set",
        "ada",
        "--account",
        "owls",
        "--budget",
        "5",
        "--budget-period",
        "month",
        "--rpm",
        "10",
        "--max-running",
        "2",
    ];
    let set = as_json(folder, &args).await;
    assert_eq!(
        [&set["user"], &set["account"], &set["budget_usd"]],
        ["ada", "owls", "5.00"]
    );
    assert_eq!(
        [&set["rpm"], &set["max_running"], &set["budget_period"]],
        [&json!(10), &json!(2), &json!("month")]
    );
    let table = succeed(folder, &["users", "list", "--account", "owls"]).await;
    assert!(
        table.contains("ada") && table.contains("5.00/month"),
        "{table}"
    );
    succeed(folder, &["accounts", "create", "hawks"]).await;
    let others = as_json(folder, &["users", "list", "--account", "hawks"]).await;
    assert_eq!(others, json!([]));
    let remove = ["users", "remove", "ada", "--account", "owls"];
    succeed(folder, &remove).await;
    assert_eq!(as_json(folder, &["users", "list"]).await, json!([]));
    for (args, code) in [
        (&remove[..], 1),
        (&["users", "set", "ada", "--account", "nobody"], 1),
        (&["users", "set", "ada", "--budget-period", "day"], 2),
        (&["tasks", "list", "--metadata", "project"], 2),
    ] {
        let (printed, exit_code) = run(folder, args).await;
        assert_eq!(exit_code, Some(code), "{args:?}: {printed}");
    }
    let audit = succeed(folder, &["audit"]).await;
    assert!(
        audit.contains("users set") && audit.contains("users remove"),
        "{audit}"
    );
}

#[tokio::test]
async fn commands_that_administer_create_no_database() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("mistyped");
    let data_text = data.to_str().unwrap();
    let task = "0193a000-0000-7000-8000-000000000020";
    let target = folder.path().join("target");
    let media = ["media", "copy", "--to", target.to_str().unwrap()];
    for args in [
        &["keys", "create", "--name", "k"][..],
        &["keys", "list"],
        &["accounts", "create", "owls"],
        &["accounts", "list"],
        &["ledger", "verify"],
        &["webhooks", "list"],
        &["tasks", "list"],
        &["users", "list"],
        &["submissions", "list"],
        &["tasks", "cancel", task],
        &["requests", "list"],
        &["providers", "list"],
        &["audit"],
        &["restored", "list"],
        &media,
        &["provenance", "check", "/dev/null"],
    ] {
        let result = output(program(&[args, &["--data", data_text]].concat())).await;
        let error = text(&result.stderr);
        assert_eq!(result.status.code(), Some(1), "{args:?}: {error}");
        assert!(
            error.contains("there is no database in"),
            "{args:?}: {error}"
        );
        assert!(error.contains(data_text), "{args:?}: {error}");
        assert!(result.stdout.is_empty(), "{args:?}");
        assert!(!data.exists(), "{args:?}");
    }
    create_database(&data).await;
    let result = output(program(&["keys", "list", "--data", data_text])).await;
    assert!(result.status.success(), "{result:?}");

    let database = crate::support::postgres::TestDatabase::create().await;
    let on_postgres = ["--database", &database.url, "--data", data_text];
    let list = [&["keys", "list"], &on_postgres[..]].concat();
    let refused = output(program(&list)).await;
    let error = text(&refused.stderr);
    assert!(
        error.contains("there is no database of a gateway at"),
        "{error}"
    );
    assert_eq!(refused.status.code(), Some(1), "{error}");
    let migrated = output(program(&[&["migrate"], &on_postgres[..]].concat())).await;
    assert!(migrated.status.success(), "{migrated:?}");
    let listed = output(program(&list)).await;
    assert!(listed.status.success(), "{listed:?}");
}
