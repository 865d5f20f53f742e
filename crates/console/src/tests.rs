//! Checks for every page: it renders, escapes its input, and obeys the content security policy.

use std::fmt::Write as _;

use orders::MediaKind;
use sha2::{Digest as _, Sha256};

use super::{
    ASSETS, ConsolePage, HomePage, ModelRow, PricingPage, ProvenancePage, SiteContext, StaticAsset,
};
use super::{asset, asset_version, console, home, missing_page, pricing, provenance};

const BASE: &str = "https://media.example.com";
const HOSTILE: &str = r#"<script>alert(1)</script>"' onclick=x"#;

fn site() -> SiteContext {
    SiteContext {
        base_url: BASE.to_owned(),
        brand: "musicgen".to_owned(),
        version: "0.1.0".to_owned(),
    }
}

fn model(id: &str, kind: MediaKind) -> ModelRow {
    let list = || vec![id.to_owned()];
    ModelRow {
        id: id.to_owned(),
        summary: id.to_owned(),
        kind,
        takes: list(),
        makes: list(),
        durations: Some(id.to_owned()),
        sizes: list(),
        stems: list(),
        price: id.to_owned(),
        next_price: Some(id.to_owned()),
        refusals: id.to_owned(),
        available: true,
        median: Some(id.to_owned()),
        notes: list(),
        aliases: list(),
        providers: list(),
    }
}

fn pages(text: &str) -> Vec<String> {
    let (site, owned_text) = (site(), text.to_owned());
    let hostile_site = SiteContext {
        brand: owned_text.clone(),
        version: owned_text.clone(),
        ..site.clone()
    };
    vec![
        home(&HomePage {
            site: hostile_site.clone(),
            video_model: owned_text.clone(),
            music_model: owned_text.clone(),
            available_models: 2,
        }),
        missing_page(&hostile_site),
        provenance(&ProvenancePage {
            site: hostile_site.clone(),
            is_public: false,
            max_megabytes: 200,
        }),
        pricing(&PricingPage {
            site: hostile_site.clone(),
            models: vec![model(text, MediaKind::Video), model(text, MediaKind::Music)],
            generated_at: owned_text.clone(),
        }),
        pricing(&PricingPage {
            site,
            models: vec![],
            generated_at: String::new(),
        }),
        console(&ConsolePage {
            site: hostile_site.clone(),
            view_path: owned_text.clone(),
            video_model: owned_text.clone(),
            music_model: owned_text,
            picture_bytes: 20_000_000,
            song_bytes: 200_000_000,
        }),
    ]
}

#[test]
fn are_whole_pages() {
    for page in pages("animatic-1") {
        assert!(page.starts_with("<!DOCTYPE html><html lang=\"en\">"));
        assert!(page.ends_with("</html>"));
        assert_eq!(page.matches("<h1").count(), 1);
    }
}

#[test]
fn escape_their_input() {
    for page in pages(HOSTILE) {
        assert!(!page.contains("<script>"));
        assert!(!page.contains("\"' onclick"));
    }
}

#[test]
fn contain_no_inline_script_or_style() {
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
fn load_nothing_from_other_hosts() {
    for page in pages("animatic-1") {
        let rest = page.replace(BASE, "");
        assert!(!rest.contains("http://") && !rest.contains("https://"));
    }
    for asset in ASSETS.iter().filter(|asset| is_ours(asset)) {
        // The namespace of SVG is a name; nothing is fetched from it.
        let rest = asset.body.replace("http://www.w3.org/2000/svg", "");
        assert!(
            !rest.contains("http://") && !rest.contains("https://"),
            "{}",
            asset.name
        );
        assert!(
            !rest.contains("innerHTML")
                && !rest.contains("dangerouslySet")
                && !rest.contains("eval("),
            "{}",
            asset.name
        );
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn is_ours(asset: &StaticAsset) -> bool {
    !asset.name.starts_with("vendor/") || asset.name == "vendor/preact-htm.js"
}

/// Third-party files are those of the list, of which `scripts/check-advisories` checks the versions.
#[test]
fn foreign_files_are_those_of_the_list() {
    let list = include_str!("assets/vendor/vendored.tsv");
    let listed: Vec<(String, String)> = list
        .lines()
        .skip(1)
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            let [file, _package, version, _from, digest] = fields[..] else {
                panic!("{line}");
            };
            assert_eq!(version.split('.').count(), 3, "{line}");
            (format!("vendor/{file}"), digest.to_owned())
        })
        .collect();
    let foreign = ASSETS.iter().filter(|asset| !is_ours(asset));
    let served: Vec<(String, String)> = foreign
        .map(|asset| (asset.name.to_owned(), hex(&Sha256::digest(asset.body))))
        .collect();
    assert_eq!(served, listed);
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
    for source in ASSETS {
        let served = asset(source.name).unwrap();
        let folder = source
            .name
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder);
        for import in served.body.split(" from \"").skip(1) {
            let address = import.split('"').next().unwrap();
            // This import is in example code that a script shows to readers.
            if !address.starts_with('.') {
                continue;
            }
            let (path, version) = address.split_once("?v=").unwrap();
            let name = match path.strip_prefix("../") {
                Some(above) => above.to_owned(),
                None => format!("{folder}/{}", path.strip_prefix("./").unwrap()),
            };
            let name = name.trim_start_matches('/');
            assert!(asset(name).is_some(), "{name}");
            assert_eq!(version, asset_version());
            imports += 1;
        }
    }
    assert!(imports > 40, "{imports}");
}

/// Every script is part of the binary, so a script that nothing imports would only waste space.
#[test]
fn every_script_is_used() {
    let bodies: Vec<&str> = ASSETS.iter().map(|asset| asset.body).collect();
    let pages = pages("animatic-1").concat();
    for asset in ASSETS
        .iter()
        .filter(|asset| asset.content_type.starts_with("text/javascript"))
    {
        let file = asset.name.rsplit('/').next().unwrap();
        let imported = format!("/{file}\";");
        assert!(
            pages.contains(asset.name) || bodies.iter().any(|body| body.contains(&imported)),
            "{}",
            asset.name
        );
    }
}
