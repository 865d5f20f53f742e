//! Every adapter against its simulated provider, over real HTTP.
//!
//! Each protocol has a file here with its [`suite::Case`]s; [`suite`] runs every scenario for each
//! of them. `CASE=fal cargo test -p providers --test contract`
//! runs those whose name contains `fal`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod any_list;
mod audioshake;
mod chat_video;
mod comfyui;
mod dashscope;
mod elevenlabs;
mod fal;
mod gemini_veo;
mod kling;
mod lalal;
mod luma;
mod minimax;
mod modelark;
mod musicai;
mod openai_videos;
mod recipe;
mod replicate;
mod runway;
mod suite;
mod suno_family;
mod xai;

use std::fmt::Write as _;
use std::path::Path;

use providers::{PROTOCOLS, SHIPPED_RECIPES};
use simulator::models::PROVIDERS;
use suite::Case;

/// The cases of all protocols.
fn cases() -> Vec<Case> {
    [
        openai_videos::cases(),
        chat_video::cases(),
        gemini_veo::cases(),
        fal::cases(),
        replicate::cases(),
        runway::cases(),
        luma::cases(),
        kling::cases(),
        minimax::cases(),
        modelark::cases(),
        xai::cases(),
        dashscope::cases(),
        suno_family::cases(),
        elevenlabs::cases(),
        musicai::cases(),
        lalal::cases(),
        audioshake::cases(),
        comfyui::cases(),
        recipe::cases(),
    ]
    .concat()
}

/// The pages for operators list which answers prove that an order was not accepted.
#[test]
fn each_page_has_the_table_of_refusals() {
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/providers");
    let mut missing = String::new();
    for case in cases().iter().filter(|case| case.protocol != "recipe") {
        let page = case.protocol.trim_start_matches("recipe:");
        let text = std::fs::read_to_string(pages.join(format!("{page}.md"))).unwrap();
        let provider = suite::provider(case, "http://127.0.0.1:9");
        for rule in provider.adapter().refusals() {
            let statuses: Vec<String> = rule.statuses.iter().map(u16::to_string).collect();
            let codes: Vec<String> = rule.codes.iter().map(|code| format!("`{code}`")).collect();
            let codes = match codes.len() {
                0 => "any".to_owned(),
                _ => codes.join(", "),
            };
            let line = format!("| {} | {codes} | {} |", statuses.join(", "), rule.source);
            if !text.contains(&line) && !missing.contains(&line) {
                let _ = writeln!(missing, "{page}.md: {line}");
            }
        }
    }
    assert!(missing.is_empty(), "{missing}");
}

/// A protocol without a simulated provider, a case or a page is not finished. The gateway's own
/// tests require that it works behind the gateway's endpoints.
#[test]
fn each_protocol_has_a_case_a_model_and_a_page() {
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/providers");
    let index = std::fs::read_to_string(pages.join("README.md")).unwrap();
    let cases = cases();
    let mut missing = String::new();
    for protocol in PROTOCOLS.iter().chain(SHIPPED_RECIPES) {
        let name = protocol.name;
        let page = name.strip_prefix("recipe:").unwrap_or(name);
        let mut require = |is_present: bool, item: &str| {
            if !is_present {
                let _ = writeln!(missing, "{name} has no {item}");
            }
        };
        let mut own_cases = cases.iter().filter(|case| case.protocol == name);
        let is_simulated = |case: &Case| {
            let mut providers = PROVIDERS.iter();
            providers.any(|provider| provider.name == case.simulates())
        };
        require(own_cases.clone().next().is_some(), "case in tests/contract");
        require(
            own_cases.all(is_simulated),
            "simulated provider in tools/simulator",
        );
        require(
            pages.join(format!("{page}.md")).is_file(),
            "page in docs/providers",
        );
        let line = format!("[`{name}`]({page}.md)");
        require(index.contains(&line), "line in docs/providers/README.md");
    }
    assert!(missing.is_empty(), "{missing}");
}
