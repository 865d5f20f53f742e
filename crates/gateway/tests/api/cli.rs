//! The program: its commands, signals, settings and exit codes.

use serde_json::{Value, json};

use crate::support::program::{Server, output, program, text};
use crate::support::{Client, eventually, schema, videos_order};

#[tokio::test]
async fn the_first_start_prints_a_key_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]).await;
    let key = server.first_key().await;
    let client = Client::new(&server.base, Some(&key));
    assert_eq!(client.get("/v1/tasks").await.status, 200);
    let said = server.stop().await;
    assert!(
        said.contains("curl http://") && said.contains("/v1/chat/completions"),
        "{said}"
    );
    assert_eq!(
        said.matches(&key).count(),
        2,
        "by itself, and in a line to paste: {said}"
    );

    let server = Server::start(folder.path(), &[]).await;
    let client = Client::new(&server.base, Some(&key));
    assert_eq!(client.get("/v1/tasks").await.status, 200, "the key stays");
    let said = server.stop().await;
    assert!(!said.contains("sk-mg-"), "{said}");
    for file in walk(folder.path()) {
        let bytes = std::fs::read(&file).unwrap();
        let found = bytes
            .windows(key.len())
            .any(|window| window == key.as_bytes());
        assert!(!found, "the key stands in {}", file.display());
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
    let keys = async |words: &[&str]| {
        let mut all = vec!["keys"];
        all.extend(words);
        all.extend(["--data", data]);
        output(program(&all)).await
    };
    let made = keys(&[
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
    assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    let key = text(&made.stdout).trim_end();
    assert_eq!(
        text(&made.stdout),
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
    let shown = text(&list.stdout);
    for fact in [&key[..12], "laptop", "owls", "tasks:read", "2.50", "first"] {
        assert!(shown.contains(fact), "{fact}: {shown}");
    }
    assert!(!shown.contains(&key[..13]), "{shown}");

    let revoked = keys(&["revoke", &key[..12]]).await;
    assert_eq!(revoked.status.code(), Some(0), "{}", text(&revoked.stderr));
    client
        .get("/v1/tasks")
        .await
        .refused(401, "revoked_api_key");
    let unknown = keys(&["revoke", "sk-mg-000000"]).await;
    assert_eq!(unknown.status.code(), Some(1));
    for wrong in [
        &["create"][..],
        &["create", "--name", ""],
        &["create", "--name", "x", "--scope", "everything"],
        &["create", "--name", "x", "--budget", "lots"],
        &["create", "--name", "x", "--rpm", "0"],
        &["create", "--name", "x", "--model", "nobody-1"],
        &["create", "--name", "x", "--expires", "soon"],
        &["create", "--name", "x", "--network", "here"],
    ] {
        let refused = keys(wrong).await;
        assert_eq!(
            refused.status.code(),
            Some(2),
            "{wrong:?}: {}",
            text(&refused.stderr)
        );
        assert!(
            refused.stdout.is_empty() && !refused.stderr.is_empty(),
            "{wrong:?}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn config_check_names_file_line_and_key_or_shows_everything() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    let path = file.to_str().unwrap();
    let check = async |content: &str| {
        std::fs::write(&file, content).unwrap();
        output(program(&["config", "check", "--config", path])).await
    };
    for (content, place, hint) in [
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
        (
            "signing_secret = \"env:MEDIAGATE_NO_SUCH_VARIABLE\"\n",
            "",
            "signing_secret",
        ),
    ] {
        let refused = check(content).await;
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{content}: {said}");
        let wanted = if place.is_empty() {
            String::new()
        } else {
            format!("{path}{place}")
        };
        assert!(
            said.contains(&wanted) && said.contains(hint),
            "{content}: {said}"
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

    let fine = check("brand = \"acme\"\ndatabase = \"postgres://u:hunter2@h/db\"\n[models.animatic-1]\nprice = { unit = \"second\", usd = \"0.10\" }\n").await;
    assert_eq!(fine.status.code(), Some(0), "{}", text(&fine.stderr));
    let shown = text(&fine.stdout).to_owned();
    assert!(
        shown.contains("brand = \"acme\"") && shown.contains("wait_limit = \"15m\""),
        "{shown}"
    );
    assert!(!shown.contains("hunter2"), "{shown}");
    let again = check(&shown).await;
    assert_eq!(text(&again.stdout), shown, "what is shown reads back");
}

/// Nine faults, and what follows from them: a route to a provider that is not there.
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
async fn config_check_tells_all_faults_at_once_in_the_order_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    let path = file.to_str().unwrap();
    let check = async |content: &str| {
        std::fs::write(&file, content).unwrap();
        output(program(&["config", "check", "--config", path])).await
    };
    let refused = check(FAULTY).await;
    assert_eq!(refused.status.code(), Some(2));
    let said = text(&refused.stderr);
    let lines: Vec<&str> = said.trim_start_matches("mediagate: ").lines().collect();
    let wanted = [
        (1, "`brand`"),
        (2, "did you mean `listen`?"),
        (3, "`workers`"),
        (5, "did you mean `openai-videos`?"),
        (9, "`providers.other.api_key`"),
        (14, "`models.animatic-1.price"),
        (15, "did you mean `aliases`?"),
        (16, "unknown model"),
        (19, "did you mean `store`?"),
    ];
    assert_eq!(lines.len(), wanted.len(), "{said}");
    for (line, (number, words)) in lines.iter().zip(wanted) {
        assert!(
            line.starts_with(&format!("{path}:{number}: ")) && line.contains(words),
            "{line}, not {number} {words}"
        );
    }
    // A model's name may have dots.
    let dotted = format!(
        "[models.\"a\"]\nkind = \"video\"\nroutes = []\n{}",
        "[models.\"a-1.5\"]\nkind = \"video\"\nroutes = [{ provider = \"no\", model = \"x\" }]\n"
    );
    let refused = check(&dotted).await;
    let said = text(&refused.stderr);
    assert!(
        said.contains(&format!("{path}:6: `models.a-1.5.routes`")),
        "{said}"
    );
    let good = check("brand = \"acme\"\n").await;
    assert_eq!(good.status.code(), Some(0));
    let said = text(&good.stderr);
    assert!(said.starts_with(&format!("{path} is valid: ")), "{said}");
}

#[tokio::test]
async fn a_flag_beats_the_environment_beats_the_file_beats_the_default() {
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

#[tokio::test]
async fn openapi_prints_the_document() {
    let printed = output(program(&["openapi"])).await;
    assert_eq!(printed.status.code(), Some(0));
    let document: Value = serde_json::from_slice(&printed.stdout).unwrap();
    assert_eq!(&document, schema::document());
}

#[tokio::test]
async fn wrong_words_end_with_two() {
    for words in [
        &["--what"][..],
        &["serve", "--what"],
        &["dance"],
        &[],
        &["serve", "--listen", "here"],
        &["demo", "--once", "--out"],
    ] {
        let refused = output(program(words)).await;
        assert_eq!(refused.status.code(), Some(2), "{words:?}");
    }
    for words in [
        &["--help"][..],
        &["--version"],
        &["serve", "--help"],
        &["keys", "create", "--help"],
    ] {
        let helped = output(program(words)).await;
        assert_eq!(helped.status.code(), Some(0), "{words:?}");
        assert!(!helped.stdout.is_empty());
    }
}

#[tokio::test]
async fn an_address_that_is_taken_and_a_folder_that_cannot_be_are_failures() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
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
        "no key is made for a server that never was"
    );
    let file = folder.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let refused = output(program(&["serve", "--data", file.to_str().unwrap()])).await;
    assert_eq!(refused.status.code(), Some(1));
}

#[tokio::test]
async fn a_stopping_server_finishes_what_it_began_and_takes_nothing_new() {
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
    let fresh = Client::new(&server.base, Some(&key));
    eventually("the request is in flight", async || {
        let list = fresh.get("/v1/tasks").await.ok();
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
async fn a_grace_that_is_over_leaves_the_task_to_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--shutdown-grace", "200ms"]).await;
    let key = server.first_key().await;
    let client = Client::new(&server.base, Some(&key));
    let long = json!({"model": "animatic-1", "messages": [{"role": "user", "content": "a city"}], "video": {"size": "1280x720", "seconds": 20}});
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.post("/v1/chat/completions", &long).await }
    });
    let fresh = Client::new(&server.base, Some(&key));
    let task = eventually("the task runs", async || {
        let list = fresh.get("/v1/tasks?status=running").await.ok();
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
async fn prices_are_read_anew_and_a_bad_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    let write = |usd: &str| {
        let content =
            format!("[models.animatic-1]\nprice = {{ unit = \"second\", usd = \"{usd}\" }}\n");
        std::fs::write(&file, content).unwrap();
    };
    // In one step, so that a signal never meets half a file.
    let replace = |content: &str| {
        let new = folder.path().join("new.toml");
        std::fs::write(&new, content).unwrap();
        std::fs::rename(new, &file).unwrap();
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
    // A bad file changes nothing; the good one after it counts at once.
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
async fn the_demo_keeps_its_data_where_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (data, out) = (path("data"), path("made"));
    let words = [
        "demo",
        "--once",
        "--out",
        &out,
        "--data",
        &data,
        "--listen",
        "127.0.0.1:0",
    ];
    let shown = output(program(&words)).await;
    assert_eq!(shown.status.code(), Some(0), "{}", text(&shown.stderr));
    assert!(folder.path().join("data/mediagate.db").exists());
    let again = output(program(&words)).await;
    assert_eq!(again.status.code(), Some(2), "what is there is not touched");
    assert!(text(&again.stderr).contains("is not empty"));

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let refused = output(program(&[
        "demo", "--once", "--out", &out, "--listen", &address,
    ]))
    .await;
    assert_eq!(
        refused.status.code(),
        Some(1),
        "it listens where it is told to"
    );
}

#[tokio::test]
async fn the_demo_makes_all_three_and_ends() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("made");
    let mut command = program(&["demo", "--once", "--out", out.to_str().unwrap()]);
    command.current_dir(folder.path());
    let shown = output(command).await;
    assert_eq!(shown.status.code(), Some(0), "{}", text(&shown.stderr));
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
    let table = text(&shown.stdout);
    for name in ["video.mp4", "vocals.flac", "persona.png", "MB"] {
        assert!(table.contains(name), "{table}");
    }
    let left: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["made"], "nothing else is left behind");
}
