//! Checks for every page: it renders, escapes its input, and obeys the content security policy.

use providers::Kind;

use super::{ASSETS, ConsolePage, HomePage, ModelRow, PricingPage, Site};
use super::{asset, asset_version, console, home, pricing};

const BASE: &str = "https://media.example.com";
const HOSTILE: &str = r#"<script>alert(1)</script>"' onclick=x"#;

fn site() -> Site {
    Site {
        base_url: BASE.to_owned(),
        brand: "musicgen".to_owned(),
        version: "0.1.0".to_owned(),
    }
}

fn model(id: &str, kind: Kind) -> ModelRow {
    let one = || vec![id.to_owned()];
    ModelRow {
        id: id.to_owned(),
        summary: id.to_owned(),
        kind,
        takes: one(),
        makes: one(),
        durations: Some(id.to_owned()),
        sizes: one(),
        stems: one(),
        price: id.to_owned(),
        next_price: Some(id.to_owned()),
        available: true,
        median: Some(id.to_owned()),
        notes: one(),
        aliases: one(),
        providers: one(),
    }
}

fn pages(word: &str) -> Vec<String> {
    let (site, word_owned) = (site(), word.to_owned());
    let hostile_site = Site {
        brand: word_owned.clone(),
        version: word_owned.clone(),
        ..site.clone()
    };
    vec![
        home(&HomePage {
            site: hostile_site.clone(),
            video_model: word_owned.clone(),
            music_model: word_owned.clone(),
            available_models: 2,
        }),
        pricing(&PricingPage {
            site: hostile_site.clone(),
            models: vec![model(word, Kind::Video), model(word, Kind::Music)],
            generated_at: word_owned.clone(),
        }),
        pricing(&PricingPage {
            site,
            models: vec![],
            generated_at: String::new(),
        }),
        console(&ConsolePage {
            site: hostile_site.clone(),
            video_model: word_owned.clone(),
            music_model: word_owned,
            picture_bytes: 20_000_000,
        }),
    ]
}

#[test]
fn are_whole_pages() {
    for page in pages("animatic-1") {
        assert!(page.starts_with("<!DOCTYPE html><html lang=\"en\">"));
        assert!(page.ends_with("</html>"));
        assert_eq!(
            page.matches("<h1").count(),
            1 + usize::from(page.contains("id=\"desk\""))
        );
    }
}

#[test]
fn escape_what_they_are_given() {
    for page in pages(HOSTILE) {
        assert!(!page.contains("<script>"));
        assert!(!page.contains("\"' onclick"));
    }
}

#[test]
fn hold_no_inline_script_or_style() {
    for page in pages("animatic-1") {
        assert!(!page.contains("<style") && !page.contains(" style="));
        for tag in page.split("<script").skip(1) {
            assert!(
                tag.contains(" src=\"/assets/") && tag.contains("></script>"),
                "{tag}"
            );
        }
        for name in ["onclick", "onload", "onerror", "onsubmit", "javascript:"] {
            assert!(!page.contains(name), "{name}");
        }
    }
}

#[test]
fn ask_for_nothing_from_another_address() {
    for page in pages("animatic-1") {
        let rest = page.replace(BASE, "");
        assert!(!rest.contains("http://") && !rest.contains("https://"));
    }
    for asset in &ASSETS {
        // The namespace of SVG is a name; nothing is fetched from it.
        let rest = asset.body.replace("http://www.w3.org/2000/svg", "");
        assert!(
            !rest.contains("http://") && !rest.contains("https://"),
            "{}",
            asset.name
        );
        assert!(
            !rest.contains("innerHTML") && !rest.contains("eval("),
            "{}",
            asset.name
        );
    }
}

#[test]
fn link_only_assets_that_exist() {
    for page in pages("animatic-1") {
        for link in page.split("\"/assets/").skip(1) {
            let address = link.split('"').next().unwrap();
            let name = address.split('?').next().unwrap();
            assert!(asset(name).is_some(), "{name}");
            assert!(address.ends_with(asset_version()), "{address}");
        }
    }
    assert!(asset("../mod.rs").is_none());
}

#[test]
fn scripts_import_only_versioned_assets_that_exist() {
    let mut imports = 0;
    for written in &ASSETS {
        let served = asset(written.name).unwrap();
        for import in served.body.split(" from \"./").skip(1) {
            let address = import.split('"').next().unwrap();
            let (name, version) = address.split_once("?v=").unwrap();
            assert!(asset(name).is_some(), "{name}");
            assert_eq!(version, asset_version());
            imports += 1;
        }
    }
    assert_eq!(imports, 12);
}
