//! Checks that the model's page (`docs/models/animatic-1.md`) and the tables agree.

use super::tables::{EASING, FADES, LOOKS, SOUNDS, UNSUPPORTED, WEATHER};
use super::tokens::TokenisedPrompt;
use crate::options::{RenderOptions, RequestedOptions};
use crate::plan::PromptReading;

use super::Direction;

const PAGE: &str = include_str!("../../../../docs/models/animatic-1.md");

fn interpretation(prompt: &str) -> Vec<String> {
    let direction = Direction::parse(prompt);
    let options = RenderOptions::resolve(&RequestedOptions::default(), &direction).unwrap();
    PromptReading::of(prompt, &options, true).direction
}

/// The words in backquotes.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The lines of a table, without its head.
fn table(heading: &str) -> Vec<&'static str> {
    let section = PAGE.split(heading).nth(1).unwrap_or_default();
    let lines = section.lines().skip_while(|line| !line.starts_with("|---"));
    lines.skip(1).take_while(|l| l.starts_with('|')).collect()
}

#[test]
fn every_phrase_of_the_tables_is_on_the_page() {
    let on_page: Vec<String> = table("### Every word")
        .iter()
        .flat_map(|line| quoted(line))
        .map(|phrase| TokenisedPrompt::new(phrase).clauses.concat().join(" "))
        .collect();
    let phrases = (LOOKS.iter().map(|p| p.words))
        .chain(WEATHER.iter().map(|p| p.words))
        .chain(FADES.iter().map(|p| p.words))
        .chain(EASING.iter().map(|p| p.words))
        .chain(SOUNDS.iter().map(|p| p.words))
        .chain(UNSUPPORTED.iter().map(|p| p.words));
    for phrase in phrases {
        assert!(on_page.iter().any(|p| p == phrase), "`{phrase}` is missing");
    }
}

#[test]
fn every_example_on_the_page_is_understood() {
    let default_lines = interpretation("");
    let lines = table("## Direction");
    assert!(lines.len() > 8);
    for line in lines {
        let examples = line.rsplit('|').nth(1).unwrap_or_default();
        assert!(!quoted(examples).is_empty(), "{line}");
        for example in quoted(examples) {
            let interpretation = interpretation(example);
            assert_ne!(interpretation, default_lines, "{example}");
            let refused = interpretation
                .iter()
                .any(|sentence| sentence.starts_with("not "));
            assert!(!refused, "{example}: {interpretation:?}");
        }
    }
}
