//! Checks that the model's page (`docs/models/animatic-1.md`) and the tables agree. The tests of the
//! plan check the page's examples.

use super::tables::{EASING, FADES, LOOKS, SOUNDS, UNSUPPORTED, WEATHER};
use super::tokens::TokenisedPrompt;

const PAGE: &str = include_str!("../../../../docs/models/animatic-1.md");

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
