//! The operator's commands, without a server.

use std::path::Path;

use serde_json::{Value, json};

use super::operator;
use crate::support::program::{output, program, text};
use crate::support::{TestGateway, videos_order};
use mediagate_core::domain::keys::NewKey;

/// The configuration of somebody whose shell lacks the provider's secret.
const HOSTED: &str = "[providers.acme]\nprotocol = \"openai-videos\"\n\
    base_url = \"https://api.acme.example/v1\"\napi_key = \"env:NOBODY_HAS_THIS_KEY\"\n\
    [models.film]\nkind = \"video\"\nprice = { unit = \"second\", usd = \"0.10\" }\n\
    routes = [{ provider = \"acme\", model = \"sora-2\" }]\n";

/// What a command prints and its exit code, with the configuration and data of this folder.
async fn run(folder: &Path, words: &[&str]) -> (String, Option<i32>) {
    let (data, config) = (folder.join("data"), folder.join("m.toml"));
    std::fs::write(&config, HOSTED).unwrap();
    let mut all = words.to_vec();
    all.extend(["--data", data.to_str().unwrap()]);
    all.extend(["--config", config.to_str().unwrap()]);
    let done = output(program(&all)).await;
    let said = format!("{}{}", text(&done.stdout), text(&done.stderr));
    (said, done.status.code())
}

async fn done(folder: &Path, words: &[&str]) -> String {
    let (said, code) = run(folder, words).await;
    assert_eq!(code, Some(0), "{words:?}: {said}");
    said
}

async fn as_json(folder: &Path, words: &[&str]) -> Value {
    let mut all = words.to_vec();
    all.push("--json");
    serde_json::from_str(&done(folder, &all).await).unwrap()
}

#[tokio::test]
async fn commands_need_no_providers_secret() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let key = done(
        folder,
        &["keys", "create", "--name", "k", "--model", "film"],
    )
    .await;
    let prefix = &key[..12];
    let other = done(folder, &["keys", "create", "--name", "other"]).await;
    let config = folder.join("m.toml");
    let config = config.to_str().unwrap();
    for words in [
        &["keys", "list"][..],
        &["keys", "update", prefix, "--rpm", "7"],
        &["keys", "rotate", &other[..12], "--grace", "1h"],
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
        done(folder, words).await;
    }
    let nothing = "0193b000-0000-7000-8000-000000000001";
    for words in [
        &["tasks", "show", nothing][..],
        &["tasks", "cancel", nothing],
        &["restored", "fail", nothing],
        &["restored", "resubmit", nothing],
        &["webhooks", "deliveries", nothing],
        &[
            "ledger", "adjust", "--task", nothing, "--amount", "1", "--note", "n",
        ],
    ] {
        let (said, code) = run(folder, words).await;
        assert_eq!(code, Some(1), "{words:?} finds nothing: {said}");
    }
    for words in [&["config", "check"][..], &["serve"], &["worker"]] {
        let (said, code) = run(folder, words).await;
        assert_eq!(code, Some(2), "{words:?}: {said}");
        assert!(said.contains("NOBODY_HAS_THIS_KEY"), "{said}");
    }
}

#[tokio::test]
async fn a_key_is_changed_rotated_and_listed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let words = [
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
    let made = as_json(folder, &words).await;
    assert_eq!(made["refuse_housekeeping"], true);
    let id = made["id"].as_str().unwrap();
    let first = made["key"].as_str().unwrap();
    assert_eq!((&made["budget_period"], first.len()), (&"month".into(), 55));
    let words = [
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
    let changed = as_json(folder, &words).await;
    assert_eq!(changed["refuse_housekeeping"], false);
    assert_eq!(changed["budget_period"], Value::Null);
    assert_eq!(changed["networks"][0], "10.0.0.0/8");
    done(folder, &["keys", "update", id, "--network", "any"]).await;
    let second = done(folder, &["keys", "rotate", first, "--grace", "1h"]).await;
    let second = second.trim_end();
    assert!(second.len() == 55 && second != first);
    let list = as_json(folder, &["keys", "list"]).await;
    assert_eq!(
        (&list[0]["prefix"], &list[0]["networks"]),
        (&second[..12].into(), &Value::Null)
    );
    let table = done(folder, &["keys", "list"]).await;
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
    let log = done(folder, &["audit", "--csv"]).await;
    assert!(!log.contains(first) && !log.contains(second), "{log}");
    for (words, code) in [
        (&["keys", "update", id][..], 2),
        (&["keys", "update", id, "--budget-period", "year"], 2),
        (&["keys", "update", id, "--model", "nobody"], 1),
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
        let (said, found) = run(folder, words).await;
        assert_eq!(found, Some(code), "{words:?}: {said}");
    }
}

#[tokio::test]
async fn routes_are_paused_and_said_to_be() {
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
    let table = done(folder, &["providers", "list"]).await;
    assert!(table.contains("paused"), "{table}");
    done(folder, &["providers", "resume", "acme", "sora-2"]).await;
    let table = done(folder, &["providers", "list"]).await;
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
async fn every_command_answers_as_json_if_it_is_asked_to() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let schema = &as_json(folder, &["migrate"]).await["schema"];
    assert!(schema.as_i64().unwrap() > 0, "{schema}");
    assert_eq!(
        as_json(folder, &["restored", "list"]).await,
        Value::Array(vec![])
    );
    let models = as_json(folder, &["models", "list", "--provider", "fal"]).await;
    let veo = models.as_array().unwrap().iter();
    let veo: Vec<&Value> = veo.filter(|model| model["name"] == "veo-3.1").collect();
    assert_eq!((veo.len(), &veo[0]["kind"]), (1, &Value::from("video")));
    assert!(veo[0]["prices"][0]["usd"].is_string(), "{}", veo[0]);
    let lines = as_json(folder, &["models", "add", "fal/veo-3.1"]).await;
    assert_eq!(lines["models"]["veo-3.1"]["routes"][0]["provider"], "fal");
    done(folder, &["keys", "create", "--name", "k"]).await;
    let hook = as_json(folder, &["webhooks", "create", "https://example.com/hook"]).await;
    assert!(
        hook["secret"].as_str().unwrap().starts_with("whsec_"),
        "{hook}"
    );
    let id = hook["id"].as_str().unwrap();
    let off = as_json(folder, &["webhooks", "disable", id]).await;
    assert_eq!(
        (&off["enabled"], &off["secret"]),
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
        .map(|one| &one["action"])
        .collect();
    assert!(
        actions.contains(&&Value::from("webhook.create"))
            && actions.contains(&&Value::from("webhook.update")),
        "{audit}"
    );
}

/// What clears a screen, rings, colours by one byte, turns the rest of a line around, and looks like
/// a row of its own.
const HOSTILE: &str = "a\u{1b}[2J\u{7}\u{9b}31m\u{202e}\u{2066}b\u{7f}\u{200f}\r\nmine";

#[tokio::test]
async fn no_word_of_a_tenant_or_a_file_speaks_to_the_terminal() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let new = NewKey {
        name: HOSTILE.into(),
        ..NewKey::default()
    };
    let tenant = gateway.caller("owls", new).await;
    let mut order = videos_order();
    order["prompt"] = HOSTILE.into();
    tenant.post("/v1/videos", &order).await.ok();
    let hook = json!({"url": "https://example.com/", "description": HOSTILE});
    tenant.post("/v1/webhooks", &hook).await.ok();
    let operator = operator(&gateway).await;
    let credit = json!({"amount_usd": "5", "note": HOSTILE});
    operator
        .post("/v1/admin/accounts/owls/credits", &credit)
        .await
        .ok();
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
    let is_unseen = |c: char| {
        let is_mark = matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        is_mark || (c.is_control() && c != '\n')
    };
    for (words, told) in [
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
        let all: Vec<&str> = words.iter().copied().chain(options).collect();
        let done = output(program(&all)).await;
        let said = format!("{}{}", text(&done.stdout), text(&done.stderr));
        assert!(said.contains(told), "{words:?}: {said:?}");
        // As lines of CSV end.
        let said = said.replace("\r\n", "\n");
        assert!(!said.contains(is_unseen), "{words:?}: {said:?}");
        let is_row = |line: &str| line.starts_with("mine") && !words.contains(&"--csv");
        let is_table = !words.contains(&"export");
        assert!(!(is_table && said.lines().any(is_row)), "{words:?}: {said}");
        if words.contains(&"--json") {
            let value: Value = serde_json::from_str(text(&done.stdout)).unwrap();
            let is_whole = value.to_string().contains("\\u001b[2J") || words[0] == "provenance";
            assert!(is_whole, "{words:?} lost something: {value}");
        }
    }
}
