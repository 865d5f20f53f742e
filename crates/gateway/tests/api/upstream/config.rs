//! `mediagate config check` on invalid files: the message names the line, the key and
//! the correction.

use crate::support::program::{output, program, text};

/// The message about a file that is refused.
async fn config_error(toml: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    std::fs::write(&file, toml).unwrap();
    let mut command = program(&["config", "check", "--config", file.to_str().unwrap()]);
    command.env("ACME_KEY", "secret-of-acme");
    command.env("EMPTY_KEY", " ");
    let result = output(command).await;
    let stderr = text(&result.stderr).to_owned();
    assert_eq!(
        result.status.code(),
        Some(2),
        "{toml}: {stderr}{}",
        text(&result.stdout)
    );
    let name = file.display().to_string();
    stderr
        .trim()
        .trim_start_matches("mediagate: ")
        .replace(&name, "m.toml")
}

const ACME: &str = "[providers.acme]\nprotocol = \"openai-videos\"\napi_key = \"env:ACME_KEY\"\n";

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a list of cases")]
async fn an_error_names_the_line_and_a_correction() {
    let film = "[models.film]\nkind = \"video\"\n";
    let routed = format!("{ACME}{film}routes = [{{ provider = \"acme\", model = \"sora-2\" }}]\n");
    for (toml, line, hint) in [
        (
            "[providers.a]\nprotocol = \"openai-video\"\n".into(),
            2,
            "did you mean `openai-videos`?",
        ),
        (
            "[providers.a]\nprotocol = \"kling\"\n".into(),
            2,
            "needs an api_key",
        ),
        (
            "[providers.a]\nprotocol = \"fal\"\napi_key = \"\"\n".into(),
            3,
            "the value is empty",
        ),
        (
            "[providers.a]\nprotocol = \"fal\"\napi_keys = [\"env:EMPTY_KEY\"]\n".into(),
            3,
            "the environment variable EMPTY_KEY is empty",
        ),
        (
            "[media]\naccess_key = \"x\"\nsecret_key = \"env:EMPTY_KEY\"\n".into(),
            3,
            "EMPTY_KEY is empty",
        ),
        ("first_key = \"\"\n".into(), 1, "the value is empty"),
        (
            format!("{ACME}encodin = \"json\"\n"),
            4,
            "did you mean `encoding`?",
        ),
        (format!("{ACME}encoding = \"xml\"\n"), 4, "multipart, json"),
        (format!("{ACME}idempotency = 7\n"), 4, "idempotency"),
        (
            format!("{ACME}max_running = 0\n"),
            4,
            "would block the provider",
        ),
        (format!("{ACME}per_minute = -1\n"), 4, "per_minute"),
        (
            format!("{ACME}base_url = \"ftp://x\"\n"),
            4,
            "http or https",
        ),
        (format!("{ACME}api_keys = [\"x\"]\n"), 4, "not both"),
        (
            format!("{ACME}job_limit = \"soon\"\n"),
            4,
            "must be a duration",
        ),
        (
            format!("{ACME}max_polls = 0\n"),
            4,
            "no job would ever finish",
        ),
        (
            "[providers.a]\nprotocol = \"openai-videos\"\napi_key = \"env:NOT_THERE\"\n".into(),
            3,
            "NOT_THERE",
        ),
        (
            "[providers.a]\nprotocol = \"chat-video\"\napi_key = \"x\"\n".into(),
            1,
            "has no default URL",
        ),
        (
            format!("{ACME}{film}routes = [{{ provider = \"acne\", model = \"x\" }}]\n"),
            6,
            "configured: acme",
        ),
        (
            format!("{ACME}[models.film]\nroutes = [{{ provider = \"acme\", model = \"x\" }}]\n"),
            4,
            "set kind",
        ),
        (
            format!("{ACME}{film}routes = []\n"),
            6,
            "at least one route",
        ),
        (format!("{ACME}{film}"), 4, "needs routes"),
        (
            format!(
                "{ACME}[models.film]\nkind = \"music\"\nroutes = [{{ provider = \"acme\", model = \"x\" }}]\n"
            ),
            6,
            "does not make music",
        ),
        (format!("{ACME}[models.film]\nkind = \"film\"\n"), 5, "kind"),
        (
            format!("{ACME}{film}routes = [{{ provider = \"acme\", modell = \"x\" }}]\n"),
            6,
            "did you mean `model`?",
        ),
        (
            routed.clone(),
            4,
            "needs a price: add price = { unit = \"second\", usd = \"0.10\" }, or price = \"free\"",
        ),
        (format!("{routed}price = \"gratis\"\n"), 7, "or \"free\""),
        (
            format!("{routed}price = {{ unit = \"stem\", usd = \"1\" }}\n"),
            7,
            "does not apply",
        ),
        (
            format!("{routed}limits = {{ sizes = [\"big\"] }}\n"),
            7,
            "must be sizes",
        ),
        (
            format!("{routed}limits = {{ seconds = [0] }}\n"),
            7,
            "seconds",
        ),
        (
            format!("{routed}limits = {{ default_seconds = 5 }}\n"),
            7,
            "default_seconds",
        ),
        (
            format!("{routed}limits = {{ stems = [\"Vocals\"] }}\n"),
            7,
            "has no stems",
        ),
        (format!("{routed}limits = {{ clips = 1 }}\n"), 7, "clips"),
        (
            format!("{routed}limits = {{ size = [] }}\n"),
            7,
            "did you mean `sizes`?",
        ),
        (
            format!(
                "{ACME}[models.animatic-1]\nroutes = [{{ provider = \"acme\", model = \"x\" }}]\n"
            ),
            4,
            "embedded",
        ),
        (ACME.replace("acme", "embedded"), 1, "reserved"),
        (
            format!(
                "{ACME}{film}routes = [{{ provider = \"acme\", model = \"x\", weight = 0 }}]\n"
            ),
            6,
            "weight = 0",
        ),
        (
            format!(
                "{ACME}{film}routes = [{{ provider = \"acme\", model = \"x\", per_minute = 0 }}]\n"
            ),
            6,
            "per_minute = 0",
        ),
        (
            format!("default_model = \"film\"\n{ACME}"),
            1,
            "no video model",
        ),
        (
            format!("{routed}price = \"free\"\n[models.animatic-1]\nenabled = false\n"),
            9,
            "but default_model names this model",
        ),
        (
            "[models.animatic-1]\nkind = \"music\"\n".into(),
            2,
            "the model makes video",
        ),
        (
            format!(
                "{routed}price = \"free\"\naliases = [\"veo\"]\n[models.animatic-1]\naliases = [\"veo\"]\n"
            ),
            8,
            "requests for \"veo\" get the model animatic-1",
        ),
        (
            format!("{routed}price = \"free\"\naliases = [\"animatic-1\"]\n"),
            8,
            "get the model animatic-1",
        ),
        (
            format!("{routed}aliases = [\"\"]\n"),
            7,
            "1 to 200 characters",
        ),
        (routed.replace(".film]", ".\"\"]"), 4, "1 to 200 characters"),
        (
            routed.replace(".film]", ".\"a b\"]"),
            4,
            "1 to 200 characters",
        ),
        (
            routed.replace(".film]", &format!(".{}]", "x".repeat(300))),
            4,
            "1 to 200 characters",
        ),
    ] {
        let message = config_error(&toml).await;
        let location = format!("m.toml:{line}: ");
        assert!(
            message
                .lines()
                .any(|fault| fault.starts_with(&location) && fault.contains(hint)),
            "{hint} in line {line} of\n{toml}\n{message}"
        );
        assert!(!message.contains("secret-of-acme"), "{message}");
    }
}

#[tokio::test]
async fn a_wrong_recipe_is_named_by_its_line() {
    let recipe = "[video]\nsizes = [\"1280x720\"]\nseconds = [5]\n[submit]\npath = \"/x\"\nkeep = { id = \"/id\" }\n[poll]\npath = \"/x/{di}\"\n[state]\nword = \"/status\"\n[result]\naddress = \"/url\"\n";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.toml");
    std::fs::write(&file, recipe).unwrap();
    let toml = format!(
        "[providers.own]\nprotocol = \"recipe\"\nbase_url = \"https://own.example\"\nrecipe = \"file:{}\"\n",
        file.display()
    );
    let message = config_error(&toml).await;
    assert!(
        message.starts_with("m.toml:4: `providers.own.recipe`: line 8: "),
        "{message}"
    );
    std::fs::write(&file, "[submit]\npath = 7\n").unwrap();
    let message = config_error(&toml).await;
    assert!(
        message.starts_with("m.toml:4: `providers.own.recipe`: line "),
        "{message}"
    );
    std::fs::remove_file(&file).unwrap();
    let message = config_error(&toml).await;
    assert!(
        message.starts_with("m.toml:4: `providers.own.recipe`: cannot read "),
        "{message}"
    );
}

#[tokio::test]
async fn a_valid_configuration_is_printed_with_masked_keys() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    let toml = format!(
        "{ACME}[providers.other]\nprotocol = \"xai\"\napi_keys = [\"xai-plain-secret\"]\n[models.film]\nkind = \"video\"\nprice = \"free\"\nroutes = [{{ provider = \"acme\", model = \"acme-2\", weight = 3 }}]\n"
    );
    std::fs::write(&file, toml).unwrap();
    let mut command = program(&["config", "check", "--config", file.to_str().unwrap()]);
    command.env("ACME_KEY", "secret-of-acme");
    let result = output(command).await;
    let shown = text(&result.stdout);
    assert_eq!(result.status.code(), Some(0), "{}", text(&result.stderr));
    assert!(
        shown.contains("env:ACME_KEY") && shown.contains("weight = 3"),
        "{shown}"
    );
    assert!(!shown.contains("secret"), "{shown}");
}

/// A provider with a route to one of its models.
fn route(protocol: &str, lines: &str, kind: &str, model: &str) -> String {
    format!(
        "[providers.acme]\nprotocol = \"{protocol}\"\n{lines}\n[models.film]\nkind = \"{kind}\"\nroutes = [{{ provider = \"acme\", model = \"{model}\", price = \"free\" }}]\n"
    )
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a list of cases")]
async fn settings_that_cannot_work_are_refused_before_a_server_starts() {
    let key = "api_key = \"x\"";
    let key_and_url = |url: &str| format!("api_key = \"x\"\nbase_url = \"{url}\"");
    let vertex = "api_key = \"x\"\napi = \"vertex\"\nproject = \"p\"";
    let google = |api: &str| format!("api_key = \"x\"\napi = \"{api}\"");
    for (toml, line, hint) in [
        (
            route("kling", key, "video", "kling-v2-6"),
            3,
            "ACCESSKEY:SECRETKEY",
        ),
        (
            route("gemini-veo", vertex, "video", "veo-3.1-generate-001"),
            3,
            "JSON of a service account",
        ),
        (
            route("gemini-veo", key, "video", "veo-3.1-generate-preview"),
            6,
            "shut down on 2026-10-22; use \"gemini-omni-1.1-flash\"",
        ),
        (
            route(
                "gemini-veo",
                &google("gemini"),
                "video",
                "gemini-omni-1.1-flash",
            ),
            7,
            "api = \"interactions\"",
        ),
        (
            route(
                "gemini-veo",
                &google("interactions"),
                "video",
                "veo-3.1-generate-001",
            ),
            7,
            "api = \"vertex\"",
        ),
        (
            route(
                "openai-videos",
                &key_and_url("https://api.openai.com/v1/v1"),
                "video",
                "acme-video",
            ),
            4,
            "twice",
        ),
        (
            route(
                "openai-videos",
                &key_and_url("https://api.openai.com"),
                "video",
                "acme-video",
            ),
            4,
            "use \"https://api.openai.com/v1\"",
        ),
        (
            route(
                "openai-videos",
                &key_and_url("https://gateway.acme.com/"),
                "video",
                "acme-video",
            ),
            4,
            "use \"https://gateway.acme.com/v1\"",
        ),
        (
            route(
                "runway",
                &key_and_url("https://api.dev.runwayml.com/v1"),
                "video",
                "gen4.5",
            ),
            4,
            "use \"https://api.dev.runwayml.com\"",
        ),
        (
            route(
                "openai-videos",
                &key_and_url("http://api.acme.com/v1"),
                "video",
                "acme-video",
            ),
            4,
            "use \"https://api.acme.com/v1\"",
        ),
        (
            route(
                "openai-videos",
                &key_and_url("https://gateway.acme.com/v1/videos"),
                "video",
                "acme-video",
            ),
            4,
            "use \"https://gateway.acme.com/v1\"",
        ),
        (
            route("openai-videos", key, "video", "sora-2-pro"),
            6,
            "sora-2-pro was shut down on 2026-09-24",
        ),
        (
            route("fal", key, "video", "fal-ai/veo3.1/fsat"),
            6,
            "use \"fal-ai/veo3.1/fast\", or set its limits",
        ),
        (
            route("fal", key, "video", "https://fal.run/fal-ai/veo3.1"),
            6,
            "is a URL",
        ),
        (
            route("fal", "api_key = \"Key a:b\"", "video", "fal-ai/veo3.1"),
            3,
            "the key alone",
        ),
        (
            route("fal", "api_key = \"$FAL_KEY\"", "video", "fal-ai/veo3.1"),
            3,
            "env:NAME",
        ),
        (
            route("fal", key, "video", "minimax/h3-max/text-to-video")
                + "limits = { sizes = [\"2560x1440\"] }\n",
            7,
            "does not support 2560x1440",
        ),
        (
            route("replicate", key, "video", "minimax/hailuo-2.3")
                + "limits = { sizes = [\"2560x1440\"] }\n",
            7,
            "does not support 2560x1440",
        ),
        (
            route("minimax", key, "video", "MiniMax-H3"),
            6,
            "api = \"v2\"",
        ),
        (route("luma", key, "video", "ray-2"), 6, "dream-machine"),
        (route("replicate", key, "video", "veo-3.1"), 6, "owner/name"),
        (
            route("fal", key, "video", "veo3.1"),
            6,
            "use \"fal-ai/veo3.1\"",
        ),
        (
            route("recipe:openrouter", key, "video", "veo-3.1"),
            6,
            "use a name such as \"google/veo-3.1\"",
        ),
        (
            route(
                "replicate",
                "api_key = \"xai-0123456789\"",
                "video",
                "google/veo-3.1",
            ),
            3,
            "begins with \"xai-\"",
        ),
        (
            route(
                "xai",
                "api_key = \"AIza0123456789\"",
                "video",
                "grok-imagine-video",
            ),
            3,
            "use a key of this provider",
        ),
        (
            route(
                "dashscope",
                &key_and_url("https://dashscope-us.aliyuncs.com/compatible-mode/v1"),
                "video",
                "wan2.6-t2v",
            ),
            4,
            "use \"https://dashscope-us.aliyuncs.com/api/v1\"",
        ),
        (
            route(
                "kling",
                "api_key = \"a:b\"\nbase_url = \"https://api-singapore.klingai.com/v1\"",
                "video",
                "kling-v2-6",
            ),
            4,
            "use \"https://api-singapore.klingai.com\"",
        ),
        (
            route("gemini-veo", &google("gemini"), "music", "lyria-3.5"),
            7,
            "api = \"interactions\"",
        ),
        (
            route("elevenlabs", key, "music", "music_v1") + "limits = { stems = [\"Vocals\"] }\n",
            7,
            "stems",
        ),
        (
            route("replicate", key, "music", "cjwbw/demucs"),
            6,
            "must have a version",
        ),
        (
            route("modelark", key, "video", "seedance-2-0")
                + "limits = { sizes = [\"1280x720\", \"3840x2160\"] }\n",
            7,
            "does not support 3840x2160",
        ),
        (
            route("kling", "api_key = \"a:b\"", "video", "kling-v3")
                + "limits = { sizes = [\"3840x2160\"] }\n",
            7,
            "does not support 3840x2160",
        ),
        (
            route("modelark", key, "video", "seedance-2-0")
                + "limits = { sizes = [\"1000x720\"] }\n",
            7,
            "does not support 1000x720",
        ),
        (
            route("recipe:vidu", key, "video", "viduq3-pro")
                + "limits = { sizes = [\"1280x720\", \"1920x800\"] }\n",
            7,
            "does not support 1920x800",
        ),
        (
            route("fal", key, "video", "fal-ai/veo3.1") + "limits = { sizes = [\"720x720\"] }\n",
            7,
            "does not support 720x720",
        ),
        (
            route(
                "minimax",
                "api_key = \"x\"\napi = \"v2\"",
                "video",
                "MiniMax-H3-Max",
            ) + "limits = { sizes = [\"854x480\"] }\n",
            8,
            "does not support 854x480",
        ),
    ] {
        let message = config_error(&toml).await;
        assert!(
            message.starts_with(&format!("m.toml:{line}: ")),
            "{toml}{message}"
        );
        assert!(message.contains(hint), "{toml}{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

#[tokio::test]
async fn settings_that_may_be_intended_are_accepted() {
    let key = "api_key = \"x\"";
    let other_gateway = "api_key = \"x\"\nbase_url = \"https://gateway.acme.com/v1\"";
    let unknown_with_limits = route("fal", key, "video", "fal-ai/veo3.1/fsat")
        + "limits = { seconds = [4], sizes = [\"1280x720\"] }\n";
    for toml in [
        // Another gateway may serve a model that OpenAI has shut down.
        route("openai-videos", other_gateway, "video", "sora-2"),
        // A model version newer than this program.
        route("fal", key, "video", "fal-ai/veo3.9/fast"),
        unknown_with_limits,
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("m.toml");
        std::fs::write(&file, &toml).unwrap();
        let result = output(program(&[
            "config",
            "check",
            "--config",
            file.to_str().unwrap(),
        ]));
        let result = result.await;
        assert_eq!(
            result.status.code(),
            Some(0),
            "{toml}{}",
            text(&result.stderr)
        );
    }
}

#[tokio::test]
async fn a_choice_for_callers_needs_a_provider_that_supports_it() {
    let film = |extra_lines: &str| {
        format!(
            "{ACME}[models.film]\nkind = \"video\"\n{extra_lines}\nroutes = [{{ provider = \"acme\", model = \"sora-2\" }}]\n"
        )
    };
    for (extra_lines, hint) in [
        (
            r#"price = { unit = "second", usd = "0.40", usd_without_audio = "0.20" }"#,
            "usd_without_audio",
        ),
        ("limits = { audio = true }", "cannot turn sound on or off"),
        ("limits = { references = 3 }", "cannot send reference"),
        (r#"pass = ["style", ""]"#, "must list fields"),
    ] {
        let message = config_error(&film(extra_lines)).await;
        assert!(message.contains(hint), "{extra_lines}: {message}");
    }
}
