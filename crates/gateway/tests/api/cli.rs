//! The program: its commands, signals, settings and exit codes.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::program::{Home, Server, output, program, text};
use crate::support::{Client, eventually, schema, videos_order};

#[tokio::test]
async fn the_first_start_prints_a_key_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]).await;
    let key = server.first_key().await;
    let client = Client::new(&server.base, Some(&key));
    assert_eq!(client.get("/v1/tasks").await.status, 200);
    let stdout = server.stop().await;
    assert!(
        stdout.contains("curl http://") && stdout.contains("/v1/chat/completions"),
        "{stdout}"
    );
    assert_eq!(
        stdout.matches(&key).count(),
        2,
        "the key by itself, and in a line to paste: {stdout}"
    );

    let server = Server::start(folder.path(), &[]).await;
    let client = Client::new(&server.base, Some(&key));
    assert_eq!(client.get("/v1/tasks").await.status, 200, "the key stays");
    let stdout = server.stop().await;
    assert!(!stdout.contains("sk-mg-"), "{stdout}");
    for file in walk(folder.path()) {
        let bytes = std::fs::read(&file).unwrap();
        let is_stored = bytes
            .windows(key.len())
            .any(|window| window == key.as_bytes());
        assert!(!is_stored, "the key is stored in {}", file.display());
    }
}

/// Without a video model the line lists the models.
#[tokio::test]
async fn the_first_line_to_paste_names_a_model_that_exists() {
    let acme = "[providers.acme]\nprotocol = \"openai-videos\"\napi_key = \"x\"\n\
        base_url = \"http://127.0.0.1:1\"\n";
    let cheap = "[models.cheap]\nkind = \"video\"\nprice = \"free\"\n\
        routes = [{ provider = \"acme\", model = \"sora-2\" }]\n";
    for (toml, expected) in [
        (
            format!("default_model = \"cheap\"\n{acme}{cheap}"),
            "-d '{\"model\":\"cheap\",\"messages\"",
        ),
        (
            "[models.animatic-1]\nenabled = false\n".into(),
            "/v1/models -H",
        ),
    ] {
        let home = Home::with_settings(&toml);
        let (server, _) = home.start().await;
        let stdout = server.stop().await;
        assert!(stdout.contains(expected), "{toml}: {stdout}");
        assert!(!stdout.contains("animatic-1"), "{toml}: {stdout}");
    }
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(walk(&path));
        } else {
            files.push(path);
        }
    }
    files
}

#[tokio::test]
async fn keys_are_made_listed_and_revoked_while_a_server_runs() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let server = Server::start(folder.path(), &[]).await;
    let keys = async |args: &[&str]| {
        let mut full_args = vec!["keys"];
        full_args.extend(args);
        full_args.extend(["--data", data]);
        output(program(&full_args)).await
    };
    let created = keys(&[
        "create",
        "--name",
        "laptop",
        "--scope",
        "tasks:read",
        "--rpm",
        "50",
        "--budget",
        "2.50",
        "--expires",
        "30d",
        "--account",
        "owls",
    ])
    .await;
    assert_eq!(created.status.code(), Some(0), "{}", text(&created.stderr));
    let key = text(&created.stdout).trim_end();
    assert_eq!(
        text(&created.stdout),
        format!("{key}\n"),
        "the key and nothing else"
    );
    assert!(key.starts_with("sk-mg-") && key.len() == 55);
    let client = Client::new(&server.base, Some(key));
    let answer = client.get("/v1/tasks").await;
    assert_eq!(
        (answer.status, answer.header("x-ratelimit-limit-requests")),
        (200, Some("50"))
    );
    client
        .post("/v1/videos", &videos_order())
        .await
        .refused(403, "insufficient_scope");

    let list = keys(&["list"]).await;
    let listing = text(&list.stdout);
    for cell in [&key[..12], "laptop", "owls", "tasks:read", "2.50", "first"] {
        assert!(listing.contains(cell), "{cell}: {listing}");
    }
    assert!(!listing.contains(&key[..13]), "{listing}");

    let revoked = keys(&["revoke", &key[..12]]).await;
    assert_eq!(revoked.status.code(), Some(0), "{}", text(&revoked.stderr));
    client
        .get("/v1/tasks")
        .await
        .refused(401, "revoked_api_key");
    let unknown = keys(&["revoke", "sk-mg-000000"]).await;
    assert_eq!(unknown.status.code(), Some(1));
    for bad_args in [
        &["create"][..],
        &["create", "--name", ""],
        &["create", "--name", "x", "--scope", "everything"],
        &["create", "--name", "x", "--budget", "lots"],
        &["create", "--name", "x", "--rpm", "0"],
        &["create", "--name", "x", "--model", "nobody-1"],
        &["create", "--name", "x", "--expires", "soon"],
        &["create", "--name", "x", "--expires", "0d"],
        &["create", "--name", "x", "--expires", "99999999y"],
        &["create", "--name", "x", "--network", "here"],
    ] {
        let refused = keys(bad_args).await;
        assert_eq!(
            refused.status.code(),
            Some(2),
            "{bad_args:?}: {}",
            text(&refused.stderr)
        );
        assert!(
            refused.stdout.is_empty() && !refused.stderr.is_empty(),
            "{bad_args:?}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn config_check_names_file_line_and_key_or_prints_all_settings() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    let path = file.to_str().unwrap();
    let check = async |content: &str| {
        std::fs::write(&file, content).unwrap();
        output(program(&["config", "check", "--config", path])).await
    };
    for (content, location, hint) in [
        (
            "brand = \"x\"\nlsten = \"127.0.0.1:1\"\n",
            ":2:",
            "did you mean `listen`",
        ),
        ("[fetch]\n\nallow_port = [80]\n", ":3:", "allow_ports"),
        ("wait_limit = \"soon\"\n", ":1:", "wait_limit"),
        ("listen = \n", ":1:", ""),
        (
            "[models.animatic-1]\nprice = { unit = \"hour\", usd = \"1\" }\n",
            ":2:",
            "models.animatic-1.price",
        ),
        ("[models.nobody-1]\nenabled = true\n", "", "models.nobody-1"),
        ("default_model = \"nobody-1\"\n", "", "default_model"),
        ("workers = 0\n", "", "workers"),
        ("log = \"verbose\"\n", ":1:", "must be error, warn, info"),
        ("log = \"mediagate=loud\"\n", ":1:", "`log`"),
        (
            "\npersona_brand_field = \"is_public\"\n",
            ":2:",
            "another field of personas",
        ),
        (
            "listen = \"127.0.0.1:9\"\nmetrics_listen = \"0.0.0.0:9\"\n",
            ":2:",
            "another port",
        ),
        (
            "signing_secret = \"env:MEDIAGATE_NO_SUCH_VARIABLE\"\n",
            "",
            "signing_secret",
        ),
    ] {
        let refused = check(content).await;
        let stderr = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{content}: {stderr}");
        let expected = if location.is_empty() {
            String::new()
        } else {
            format!("{path}{location}")
        };
        assert!(
            stderr.contains(&expected) && stderr.contains(hint),
            "{content}: {stderr}"
        );
        assert!(refused.stdout.is_empty());
    }
    let missing = output(program(&[
        "config",
        "check",
        "--config",
        "/nonexistent.toml",
    ]))
    .await;
    assert_eq!(missing.status.code(), Some(2));

    let valid = check("brand = \"acme\"\ndatabase = \"postgres://u:hunter2@h/db\"\n[models.animatic-1]\nprice = { unit = \"second\", usd = \"0.10\" }\n").await;
    assert_eq!(valid.status.code(), Some(0), "{}", text(&valid.stderr));
    let settings = text(&valid.stdout).to_owned();
    assert!(
        settings.contains("brand = \"acme\"") && settings.contains("wait_limit = \"15m\""),
        "{settings}"
    );
    assert!(!settings.contains("hunter2"), "{settings}");
    let second = check(&settings).await;
    assert_eq!(text(&second.stdout), settings, "what is shown reads back");
}

/// Nine faults. The route to the faulty provider `acme` is not reported as a further one.
const FAULTY: &str = r#"brand = "v1"
lsten = "127.0.0.1:1"
workers = 0
[providers.acme]
protocol = "openai-video"
api_key = "x"
[providers.other]
protocol = "fal"
api_key = "env:MEDIAGATE_NO_SUCH_VARIABLE"
[models."film-1.5"]
kind = "video"
price = "free"
routes = [{ provider = "acme", model = "sora-2" }]
[models.animatic-1]
price = { unit = "hour", usd = "1" }
aliasses = ["toy"]
[models.nobody-1]
enabled = true
[media]
stor = "s3://x"
"#;

#[tokio::test]
async fn config_check_lists_all_faults_in_the_order_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    let path = file.to_str().unwrap();
    let check = async |content: &str| {
        std::fs::write(&file, content).unwrap();
        output(program(&["config", "check", "--config", path])).await
    };
    let refused = check(FAULTY).await;
    assert_eq!(refused.status.code(), Some(2));
    let stderr = text(&refused.stderr);
    let lines: Vec<&str> = stderr.trim_start_matches("mediagate: ").lines().collect();
    let expected = [
        (1, "`brand`"),
        (2, "did you mean `listen`?"),
        (3, "`workers`"),
        (5, "did you mean `openai-videos`?"),
        (9, "`providers.other.api_key`"),
        (15, "`models.animatic-1.price"),
        (16, "did you mean `aliases`?"),
        (17, "unknown model"),
        (20, "did you mean `store`?"),
    ];
    assert_eq!(lines.len(), expected.len(), "{stderr}");
    for (line, (number, hint)) in lines.iter().zip(expected) {
        assert!(
            line.starts_with(&format!("{path}:{number}: ")) && line.contains(hint),
            "{line}, not {number} {hint}"
        );
    }
    // A model's name may have dots.
    let dotted = format!(
        "[models.\"a\"]\nkind = \"video\"\nroutes = []\n{}",
        "[models.\"a-1.5\"]\nkind = \"video\"\nroutes = [{ provider = \"no\", model = \"x\" }]\n"
    );
    let refused = check(&dotted).await;
    let stderr = text(&refused.stderr);
    assert!(
        stderr.contains(&format!("{path}:6: `models.a-1.5.routes`")),
        "{stderr}"
    );
    let refused = check("[provider.a]\nprotocol = \"fal\"\n").await;
    let stderr = text(&refused.stderr);
    assert!(stderr.contains("did you mean `providers`?"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let valid = check("brand = \"acme\"\n").await;
    assert_eq!(valid.status.code(), Some(0));
    let stderr = text(&valid.stderr);
    assert!(
        stderr.starts_with(&format!("{path} is valid: ")),
        "{stderr}"
    );
}

/// Eight faults, two of them in the same provider and three in the same model.
const FAULTY_TOGETHER: &str = r#"listen = "localhost"
public_url = "gateway.example"
[providers.acme]
protocol = "fall"
base_url = "acme"
[models.film]
kind = "movie"
price = { unit = "hour", usd = "0.10" }
routes = [{ provider = "acme", model = "sora-2", cost = { unit = "second", usd = 0.4 } }]
[models.animatic-1]
price = { unit = "second", usd = "a lot" }
"#;

#[tokio::test]
async fn config_check_lists_the_faults_of_one_entry_together_and_says_what_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    let path = file.to_str().unwrap();
    std::fs::write(&file, FAULTY_TOGETHER).unwrap();
    let refused = output(program(&["config", "check", "--config", path])).await;
    assert_eq!(refused.status.code(), Some(2));
    let stderr = text(&refused.stderr);
    let lines: Vec<&str> = stderr.trim_start_matches("mediagate: ").lines().collect();
    let expected = [
        (1, "\"127.0.0.1:8080\""),
        (2, "\"https://"),
        (4, "did you mean `fal`?"),
        (5, "`providers.acme.base_url`"),
        (7, "`video`"),
        (8, "`second`"),
        (9, "\"0.40\""),
        (11, "\"0.40\""),
    ];
    assert_eq!(lines.len(), expected.len(), "{stderr}");
    for (line, (number, hint)) in lines.iter().zip(expected) {
        assert!(
            line.starts_with(&format!("{path}:{number}: ")) && line.contains(hint),
            "{line}, not {number} {hint}"
        );
    }
}

#[tokio::test]
async fn flags_override_the_environment_the_file_and_defaults() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    std::fs::write(&file, "brand = \"filed\"\nmedia_ttl = \"1day\"\n").unwrap();
    let show = async |flag: Option<&str>, environment: Option<&str>| {
        let mut command = program(&["config", "check"]);
        command.env("MEDIAGATE_CONFIG", &file);
        if let Some(brand) = environment {
            command.env("MEDIAGATE_BRAND", brand);
        }
        if let Some(brand) = flag {
            command.args(["--brand", brand]);
        }
        text(&output(command).await.stdout).to_owned()
    };
    assert!(
        show(Some("flagged"), Some("surrounded"))
            .await
            .contains("brand = \"flagged\"")
    );
    assert!(
        show(None, Some("surrounded"))
            .await
            .contains("brand = \"surrounded\"")
    );
    let filed = show(None, None).await;
    assert!(
        filed.contains("brand = \"filed\"") && filed.contains("media_ttl = \"1day\""),
        "{filed}"
    );
    assert!(filed.contains("wait_limit = \"15m\""), "{filed}");
}

/// As compose files write them for settings that are left out.
#[tokio::test]
async fn an_empty_variable_is_not_set() {
    let mut command = program(&["config", "check", "--json"]);
    for name in ["CONFIG", "LISTEN", "DATABASE", "RECORD_TTL", "CORS_ORIGINS"] {
        command.env(format!("MEDIAGATE_{name}"), "");
    }
    let checked = output(command).await;
    let stderr = text(&checked.stderr);
    assert_eq!(checked.status.code(), Some(0), "{stderr}");
    let settings: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(settings["listen"], "127.0.0.1:8080");
}

#[tokio::test]
async fn openapi_prints_the_document() {
    let printed = output(program(&["openapi"])).await;
    assert_eq!(printed.status.code(), Some(0));
    let document: Value = serde_json::from_slice(&printed.stdout).unwrap();
    assert_eq!(&document, schema::document());
}

#[tokio::test]
async fn wrong_arguments_exit_with_2() {
    for args in [
        &["--what"][..],
        &["serve", "--what"],
        &["dance"],
        &[],
        &["serve", "--listen", "here"],
        &["demo", "--once", "--out"],
    ] {
        let refused = output(program(args)).await;
        assert_eq!(refused.status.code(), Some(2), "{args:?}");
    }
    for args in [
        &["--help"][..],
        &["--version"],
        &["serve", "--help"],
        &["keys", "create", "--help"],
    ] {
        let help = output(program(args)).await;
        assert_eq!(help.status.code(), Some(0), "{args:?}");
        assert!(!help.stdout.is_empty());
    }
}

#[tokio::test]
async fn a_taken_address_and_an_impossible_folder_exit_with_1() {
    let folder = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let data = folder.path().join("data");
    let refused = output(program(&[
        "serve",
        "--listen",
        &address,
        "--data",
        data.to_str().unwrap(),
    ]))
    .await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused.stderr).contains(&address),
        "{}",
        text(&refused.stderr)
    );
    assert!(
        !text(&refused.stdout).contains("sk-mg-"),
        "no key is created for a server that does not start"
    );
    let file = folder.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let refused = output(program(&["serve", "--data", file.to_str().unwrap()])).await;
    assert_eq!(refused.status.code(), Some(1));
}

#[tokio::test]
async fn a_start_waits_for_a_program_that_holds_the_database() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().to_str().unwrap();
    let migrated = output(program(&["migrate", "--data", folder])).await;
    assert!(migrated.status.success());
    let backup = rusqlite::Connection::open(data.path().join("mediagate.db")).unwrap();
    backup.execute_batch("BEGIN IMMEDIATE").unwrap();
    let arguments = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data",
        folder,
        "--log",
        "warn",
    ];
    let mut start = program(&arguments);
    let mut start = start
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(start.stderr.take().unwrap()).lines();
    let line = log.next().unwrap().unwrap();
    assert!(line.contains("holds the lock of the database"), "{line}");
    backup.execute_batch("COMMIT").unwrap();
    let mut printed = BufReader::new(start.stdout.take().unwrap()).lines();
    let is_ready = printed.any(|line| line.unwrap().contains("ready at"));
    start.kill().unwrap();
    start.wait().unwrap();
    assert!(is_ready);
}

#[tokio::test]
async fn a_stopping_server_finishes_its_requests_and_accepts_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]).await;
    let key = server.first_key().await;
    let client = Client::new(&server.base, Some(&key));
    let waiting = tokio::spawn({
        let client = client.clone();
        async move {
            client
                .post("/v1/chat/completions", &crate::support::video_order())
                .await
        }
    });
    let second_client = Client::new(&server.base, Some(&key));
    eventually("the request is in flight", async || {
        let list = second_client.get("/v1/tasks").await.ok();
        (!list["data"].as_array().unwrap().is_empty()).then_some(())
    })
    .await;
    server.signal("-TERM");
    let host = server.base.strip_prefix("http://").unwrap().to_owned();
    eventually("no more connections are taken", async || {
        tokio::net::TcpStream::connect(&host)
            .await
            .is_err()
            .then_some(())
    })
    .await;
    let answer = waiting.await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let (status, _) = server.wait_for_exit().await;
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn a_task_beyond_the_grace_period_continues_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--shutdown-grace", "200ms"]).await;
    let key = server.first_key().await;
    let client = Client::new(&server.base, Some(&key));
    let order = json!({"model": "animatic-1", "messages": [{"role": "user", "content": "a city"}], "video": {"size": "1280x720", "seconds": 20}});
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.post("/v1/chat/completions", &order).await }
    });
    let second_client = Client::new(&server.base, Some(&key));
    let task = eventually("the task runs", async || {
        let list = second_client.get("/v1/tasks?status=running").await.ok();
        list["data"][0]["id"].as_str().map(ToOwned::to_owned)
    })
    .await;
    server.signal("-TERM");
    let answer = waiting.await.unwrap();
    answer.refused(503, "shutting_down");
    assert_eq!(answer.header("x-task-id"), Some(task.as_str()));
    let (status, _) = server.wait_for_exit().await;
    assert_eq!(status.code(), Some(0));
    let server = Server::start(folder.path(), &[]).await;
    let client = Client::new(&server.base, Some(&key));
    eventually("the task is taken up again", async || {
        let view = client.get(&format!("/v1/tasks/{task}")).await.ok();
        (view["status"] == "running").then_some(())
    })
    .await;
    client
        .post(&format!("/v1/tasks/{task}/cancel"), &json!({}))
        .await
        .ok();
    server.stop().await;
}

#[tokio::test]
async fn prices_are_reloaded_and_a_bad_file_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    let write = |usd: &str| {
        let content =
            format!("[models.animatic-1]\nprice = {{ unit = \"second\", usd = \"{usd}\" }}\n");
        std::fs::write(&file, content).unwrap();
    };
    // Replaces the file in one step, so that a signal never meets half of it.
    let replace = |content: &str| {
        let new_file = folder.path().join("new.toml");
        std::fs::write(&new_file, content).unwrap();
        std::fs::rename(new_file, &file).unwrap();
    };
    write("0.10");
    let data = folder.path().join("data");
    let server = Server::start(&data, &["--config", file.to_str().unwrap()]).await;
    let client = Client::new(&server.base, None);
    let price = async || {
        let list = client.get("/pricing.json").await.ok();
        let models = list["data"].as_array().unwrap().clone();
        let model = models
            .into_iter()
            .find(|model| model["id"] == "animatic-1")
            .unwrap();
        model["price"]["usd"].as_str().unwrap().to_owned()
    };
    assert_eq!(price().await, "0.10");
    write("0.2");
    eventually("the change of the file is seen", async || {
        (price().await == "0.20").then_some(())
    })
    .await;
    // A bad file changes nothing; the good one after it applies at once.
    replace("[models.animatic-1]\nprice = { unit = \"week\", usd = \"9\" }\n");
    server.signal("-HUP");
    replace("nonsense");
    server.signal("-HUP");
    for _ in 0..20 {
        assert_eq!(price().await, "0.20");
    }
    replace("[models.animatic-1]\nprice = { unit = \"second\", usd = \"0.345\" }\n");
    server.signal("-HUP");
    eventually("the good file counts", async || {
        (price().await == "0.345").then_some(())
    })
    .await;
    server.stop().await;
}

#[tokio::test]
async fn the_demo_uses_the_given_folder_and_address() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (data, out) = (path("data"), path("made"));
    let args = [
        "demo",
        "--once",
        "--out",
        &out,
        "--data",
        &data,
        "--listen",
        "127.0.0.1:0",
    ];
    let first = output(program(&args)).await;
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    assert!(folder.path().join("data/mediagate.db").exists());
    let second = output(program(&args)).await;
    assert_eq!(
        second.status.code(),
        Some(2),
        "existing data is not touched"
    );
    assert!(text(&second.stderr).contains("is not empty"));

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let refused = output(program(&[
        "demo", "--once", "--out", &out, "--listen", &address,
    ]))
    .await;
    assert_eq!(
        refused.status.code(),
        Some(1),
        "it listens at the given address"
    );
}

#[tokio::test]
async fn the_demo_makes_all_three_and_ends() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("made");
    let mut command = program(&["demo", "--once", "--out", out.to_str().unwrap()]);
    command.current_dir(folder.path());
    let demo = output(command).await;
    assert_eq!(demo.status.code(), Some(0), "{}", text(&demo.stderr));
    let file = |name: &str| {
        std::fs::read(out.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    assert_eq!(&file("video.mp4")[4..8], b"ftyp");
    for stem in ["vocals", "drums", "bass", "other"] {
        assert!(
            crate::support::sound::is_flac(&file(&format!("{stem}.flac"))),
            "{stem}"
        );
    }
    assert_eq!(&file("persona.png")[1..4], b"PNG");
    let record = |name: &str| serde_json::from_slice::<Value>(&file(name)).unwrap();
    assert_eq!(record("chat-completion.json")["object"], "chat.completion");
    crate::support::spec::assert_task_record(&record("music-task.json"));
    crate::support::spec::assert_persona(&record("persona.json"), "is_service_persona");
    let table = text(&demo.stdout);
    for name in ["video.mp4", "vocals.flac", "persona.png", "MB"] {
        assert!(table.contains(name), "{table}");
    }
    let remaining: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(remaining, ["made"], "nothing else is left behind");
}
