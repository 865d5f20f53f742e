//! The catalog of hosted models: `mediagate models`, and a folder of newer
//! files.

use crate::support::program::{output, program, text};

/// A newer file about fal.
const NEWER: &str = "source = \"fal\"\ndate = 2027-02-01\nkey = \"FAL_KEY\"\n\
    [[model]]\nid = \"fal-ai/veo3.1\"\nname = \"veo-3.1\"\nkind = \"video\"\n\
    retired = 2020-01-01\ninstead = \"fal-ai/veo4\"\n\
    [[model]]\nid = \"fal-ai/veo4\"\nname = \"veo-4\"\nkind = \"video\"\n\
    seconds = { min = 2, max = 60 }\nsizes = [\"1920x1080\"]\n\
    price = [{ unit = \"second\", usd = \"0.333333\" }]\n";

async fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = program(args);
    command.env("FAL_KEY", "a:b");
    let result = output(command).await;
    let (stdout, stderr) = (
        text(&result.stdout).to_owned(),
        text(&result.stderr).to_owned(),
    );
    (result.status.code(), stdout, stderr)
}

#[tokio::test]
async fn models_are_listed_and_added_without_any_secret() {
    let (code, list, _) = run(&["models", "list", "--provider", "fal"]).await;
    assert_eq!(code, Some(0));
    let veo = list
        .lines()
        .find(|line| line.starts_with("fal/veo-3.1 "))
        .unwrap();
    assert!(veo.contains("0.20-0.40/second"), "{veo}");
    let (_, long, _) = run(&["models", "list", "--provider", "fal", "--long"]).await;
    let veo = long.lines().find(|line| line.starts_with("fal/veo-3.1 "));
    let veo = veo.unwrap();
    for part in ["fal-ai/veo3.1", "0.40/second (with sound)", "2026-"] {
        assert!(veo.contains(part), "{veo}");
    }
    assert!(
        list.lines().skip(1).all(|line| line.starts_with("fal/")),
        "{list}"
    );
    let (code, _, error) = run(&["models", "list", "--provider", "fla"]).await;
    assert!(code == Some(2) && error.contains("`fal`"), "{error}");
    let (code, _, error) = run(&["models", "add", "fal/veo-3.2"]).await;
    assert!(code == Some(2) && error.contains("did you mean"), "{error}");
    let (code, _, error) = run(&["models", "add", "openai-videos/sora-2"]).await;
    assert!(code == Some(2) && error.contains("2026-09-24"), "{error}");
}

#[tokio::test]
async fn models_add_prints_a_valid_configuration() {
    let (_, list, _) = run(&["models", "list"]).await;
    let widest = list.lines().map(str::len).max();
    assert!(widest <= Some(100), "{widest:?} columns:\n{list}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    let (mut tried, mut unpriced) = (0, 0);
    for line in list
        .lines()
        .skip(1)
        .filter(|line| !line.contains("retired 2"))
    {
        let name = line.split_whitespace().next().unwrap();
        let provider = name.split('/').next().unwrap();
        // One of each provider is enough: a program is started for each.
        if std::fs::read_to_string(&file)
            .is_ok_and(|written| written.contains(&format!("[providers.{provider}]")))
        {
            continue;
        }
        let (code, lines, error) = run(&["models", "add", name]).await;
        assert_eq!(code, Some(0), "{name}: {error}");
        let secret = match provider {
            "kling" | "hunyuan" => "a:b",
            "gemini-veo" if lines.contains("vertex") => "{}",
            _ => "a-key",
        };
        let start = lines.find("\"env:").unwrap();
        let end = start + 1 + lines[start + 1..].find('"').unwrap();
        let lines = format!("{}\"{secret}{}", &lines[..start], &lines[end..]);
        let check = ["config", "check", "--config", file.to_str().unwrap()];
        // Where the price is not known, somebody has to say it first.
        if lines.contains("usd = \"\"") {
            std::fs::write(&file, &lines).unwrap();
            let (code, _, error) = run(&check).await;
            let is_named = error.contains(".price`") && error.contains("0.10");
            assert!(code == Some(2) && is_named, "{lines}{error}");
            unpriced += 1;
        }
        let lines = lines.replace("usd = \"\"", "usd = \"0.40\"");
        std::fs::write(&file, &lines).unwrap();
        let (code, _, error) = run(&check).await;
        assert_eq!(code, Some(0), "{lines}{error}");
        tried += 1;
    }
    assert!(tried >= 9 && unpriced >= 1, "{tried} {unpriced}");
}

#[tokio::test]
async fn config_check_warns_of_prices_that_lose_money() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    let check = ["config", "check", "--config", file.to_str().unwrap()];
    let sold_at = |price: &str, cost: &str| {
        format!(
            "[providers.fal]\nprotocol = \"fal\"\napi_key = \"a-key\"\n[models.film]\nkind = \"video\"\n\
             price = {{ unit = \"second\", usd = \"{price}\" }}\n\
             routes = [{{ provider = \"fal\", model = \"fal-ai/veo3.1\"{cost} }}]\n"
        )
    };
    let cost = ", cost = { unit = \"second\", usd = \"0.04\" }";
    for (price, cost, warning) in [
        ("0.05", "", Some("below the list price of 0.40 with sound")),
        ("0.03", cost, Some("below the cost of 0.04")),
        ("0.05", cost, None),
        ("0.48", "", None),
    ] {
        std::fs::write(&file, sold_at(price, cost)).unwrap();
        let (code, _, error) = run(&check).await;
        assert_eq!(code, Some(0), "{error}");
        match warning {
            Some(text) => assert!(
                error.contains("warning: ") && error.contains("m.toml:4") && error.contains(text),
                "{error}"
            ),
            None => assert!(!error.contains("warning"), "{error}"),
        }
    }
}

#[tokio::test]
async fn costs_are_listed_with_their_source_and_age_or_a_reason() {
    let (code, list, error) = run(&["models", "list", "--costs"]).await;
    assert_eq!(code, Some(0), "{error}");
    let line = |name: &str| {
        let mut lines = list.lines();
        let found = lines.find(|line| line.starts_with(&format!("{name} ")));
        found.unwrap_or_else(|| panic!("{name}: {list}"))
    };
    let known = line("runway/gen-4.5");
    for part in [
        "2026-04-30",
        " d ",
        "charged",
        "0.12/second",
        "runwayml/skills",
    ] {
        assert!(known.contains(part), "{known}");
    }
    let unknown = line("fal/vidu-q3");
    assert!(unknown.contains("unknown: fal's page"), "{unknown}");
    assert!(line("kling/kling-v1-6").contains("retired 2026-09-15"));
    assert!(!list.contains("not stated"), "{list}");
    let (_, json, _) = run(&["models", "list", "--provider", "runway", "--json"]).await;
    let models: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    let model = |name: &str| models.iter().find(|model| model["name"] == name).unwrap();
    assert!(model("gen-4.5")["price_age_days"].as_u64().unwrap() > 200);
    assert!(model("kling-4")["price_unknown"].is_string());
    assert_eq!(model("kling-4")["charged_when_refused"], "yes");
    let (_, short, _) = run(&["models", "list", "--provider", "fal"]).await;
    let mut lines = short.lines();
    let vidu = lines.find(|line| line.starts_with("fal/vidu-q3 ")).unwrap();
    assert!(vidu.contains("unknown"), "{vidu}");
}

/// The operator hears of what nobody has checked before callers pay for it.
#[tokio::test]
async fn what_nobody_verified_is_said_where_it_is_configured() {
    let (_, lines, _) = run(&["models", "add", "fal/kling-v4"]).await;
    for part in [
        "# unverified: the names of its picture fields",
        "# charged when refused: unknown (fal.ai/docs/model-apis/faq",
        "usd = \"0.282\"",
    ] {
        assert!(lines.contains(part), "{lines}");
    }
    let (_, lines, _) = run(&["models", "add", "fal/vidu-q3"]).await;
    let required = "usd = \"\" } # required: the list price is not known (fal's page";
    assert!(lines.contains(required), "{lines}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    let check = ["config", "check", "--config", file.to_str().unwrap()];
    let with = |model: &str| {
        format!(
            "[providers.fal]\nprotocol = \"fal\"\napi_key = \"a-key\"\n[models.film]\nkind = \"video\"\n\
             price = {{ unit = \"second\", usd = \"0.50\" }}\n\
             routes = [{{ provider = \"fal\", model = \"{model}\" }}]\n"
        )
    };
    for (model, expected) in [
        (
            "kling/v4/text-to-video",
            Some("kling/v4/text-to-video is unverified: the names"),
        ),
        ("fal-ai/veo3.1", None),
    ] {
        std::fs::write(&file, with(model)).unwrap();
        let (code, _, error) = run(&check).await;
        assert_eq!(code, Some(0), "{error}");
        match expected {
            Some(text) => assert!(
                error.contains("warning: ") && error.contains("m.toml:4") && error.contains(text),
                "{error}"
            ),
            None => assert!(!error.contains("unverified"), "{error}"),
        }
    }
    for (model, expected) in [
        (
            "fal-ai/kling-video/v4/pro/text-to-video",
            "use \"kling/v4/text-to-video\"",
        ),
        ("fal-ai/sora-2/text-to-video", "was shut down on 2026-09-24"),
    ] {
        std::fs::write(&file, with(model)).unwrap();
        let (code, _, error) = run(&check).await;
        assert!(code == Some(2) && error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn a_folder_of_newer_files_overrides_the_catalog() {
    let folder = tempfile::tempdir().unwrap();
    let newer = folder.path().join("newer");
    std::fs::create_dir(&newer).unwrap();
    std::fs::write(newer.join("fal.toml"), NEWER).unwrap();
    let catalog = newer.to_str().unwrap();
    let (_, lines, error) = run(&["models", "add", "fal/veo-4", "--catalog", catalog]).await;
    assert!(lines.contains("usd = \"0.40\""), "{lines}{error}");
    let (code, _, error) = run(&["models", "add", "fal/veo-3.1", "--catalog", catalog]).await;
    assert!(
        code == Some(2) && error.contains("use fal-ai/veo4"),
        "{error}"
    );
    let file = folder.path().join("m.toml");
    let check = ["config", "check", "--config", file.to_str().unwrap()];
    let config = format!("catalog = {catalog:?}\n{lines}limits = {{ seconds = [50] }}\n");
    std::fs::write(&file, config).unwrap();
    let (code, shown, error) = run(&check).await;
    assert!(code == Some(0) && shown.contains("catalog ="), "{error}");
    std::fs::write(newer.join("fal.toml"), format!("{NEWER}colour = \"red\"\n")).unwrap();
    let (code, _, error) = run(&check).await;
    assert!(code == Some(2), "{error}");
    assert!(
        error.contains("m.toml:1: `catalog`") && error.contains("fal.toml:17"),
        "{error}"
    );
}

/// Callers see the limits of a model from a newer file.
#[tokio::test]
async fn the_api_shows_the_limits_of_the_catalog() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("fal.toml"), NEWER).unwrap();
    let catalog = folder.path().display();
    let toml = format!(
        "catalog = \"{catalog}\"\n[providers.fal]\nprotocol = \"fal\"\napi_key = \"a:b\"\n\
         [models.veo]\nkind = \"video\"\nprice = \"free\"\nroutes = [{{ provider = \"fal\", model = \"fal-ai/veo4\" }}]\n"
    );
    let gateway = super::gateway(&toml).await;
    let models = gateway.get("/v1/models").await.ok();
    let models = models["data"].as_array().unwrap();
    let veo = models.iter().find(|model| model["id"] == "veo").unwrap();
    assert_eq!(veo["capabilities"]["max_seconds"], 60, "{veo}");
    let sizes = serde_json::json!(["1920x1080"]);
    assert_eq!(veo["capabilities"]["sizes"], sizes);
    gateway.stop().await;
}
