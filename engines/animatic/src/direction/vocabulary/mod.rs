//! The vocabulary: what phrases of six languages mean, one row for each kind of thing.
//!
//! English words for the camera, looks, weather and sounds are in `words` and `tables` instead,
//! because English prompts use them in many forms. A longer phrase wins over a shorter one that
//! begins at the same word.

mod camera;
mod effects;
mod rows;
mod scenery;

use std::collections::HashMap;
use std::sync::LazyLock;

use super::phrases::{context_matches, is_denied, is_denied_by};
use super::tokens::{Clause, TokenisedPrompt};
use super::words::is_negation;
pub(super) use rows::Meaning;
use rows::VocabularyRow;

/// A phrase of the vocabulary in a prompt.
#[derive(Debug, Clone, Copy)]
pub(super) struct VocabularyMatch {
    pub(super) meanings: &'static [Meaning],
    /// Whether the prompt denies it: "no trees", "after the rain".
    pub(super) is_denied: bool,
    /// The number of its clause.
    pub(super) clause_index: usize,
    /// Where it begins in the clause.
    pub(super) start: usize,
    /// How many words it has.
    pub(super) length: usize,
}

impl VocabularyMatch {
    /// Whether a drawn scene decides what becomes of it, and nothing else does.
    pub(super) fn asks_scene(&self) -> bool {
        let mut meanings = self.meanings.iter();
        !self.is_denied
            && !self.meanings.is_empty()
            && meanings.all(|meaning| meaning.scene_element().is_some())
    }
}

/// Finds every phrase of the vocabulary, in the order of the prompt.
pub(super) fn find(clauses: &[Clause]) -> Vec<VocabularyMatch> {
    let mut matches = Vec::new();
    for (clause_index, clause) in clauses.iter().enumerate() {
        let mut start = 0;
        while start < clause.len() {
            let Some((row, length)) = longest_at(clause, start) else {
                start += 1;
                continue;
            };
            matches.push(VocabularyMatch {
                meanings: row.meanings,
                is_denied: is_row_denied(row, clause, start),
                clause_index,
                start,
                length,
            });
            start += length;
        }
    }
    matches
}

fn longest_at(clause: &Clause, start: usize) -> Option<(&'static VocabularyRow, usize)> {
    let candidates = INDEX.get(clause.get(start)?)?;
    candidates.iter().find_map(|phrase| {
        let length = phrase.tokens.len();
        let is_here = clause[start..].starts_with(&phrase.tokens);
        let counts = is_here && context_matches(clause, start, length, phrase.row.context);
        counts.then_some((phrase.row, length))
    })
}

fn is_row_denied(row: &VocabularyRow, clause: &Clause, start: usize) -> bool {
    let is_weather =
        |meaning: &Meaning| matches!(meaning, Meaning::Sky(_) | Meaning::Particles(..));
    if row.meanings.iter().any(is_weather) {
        is_denied(clause, start)
    } else {
        // "Before the mountains" and "after sunset" name what is there.
        is_denied_by(clause, start, is_negation)
    }
}

/// A phrase as the tokeniser leaves it.
struct IndexedPhrase {
    tokens: Vec<String>,
    row: &'static VocabularyRow,
}

/// All phrases by their first words, the longest first.
static INDEX: LazyLock<HashMap<String, Vec<IndexedPhrase>>> = LazyLock::new(|| {
    let mut index: HashMap<String, Vec<IndexedPhrase>> = HashMap::new();
    for row in TABLES.iter().copied().flatten() {
        let phrases = row.phrases.iter().flat_map(|list| list.split('|'));
        for phrase in phrases {
            let tokens = TokenisedPrompt::new(phrase).clauses.concat();
            if let Some(first) = tokens.first() {
                let entry = index.entry(first.clone()).or_default();
                entry.push(IndexedPhrase { tokens, row });
            }
        }
    }
    for phrases in index.values_mut() {
        phrases.sort_by_key(|phrase| std::cmp::Reverse(phrase.tokens.len()));
    }
    index
});

/// The tables, in the order of the documentation.
const TABLES: &[&[VocabularyRow]] = &[
    scenery::PLACES,
    scenery::SKIES,
    effects::WEATHER,
    effects::LOOKS,
    effects::SOUNDS,
    camera::CAMERA,
    scenery::FIGURES,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direction::phrases::PhraseContext;

    const PAGE: &str = include_str!("../../../../../docs/models/animatic-1.md");

    /// The rows of the table on the model's page.
    fn documented_rows() -> Vec<String> {
        let mut lines = Vec::new();
        for row in TABLES.iter().copied().flatten() {
            let means: Vec<String> = row.meanings.iter().map(|m| meaning_words(*m)).collect();
            let means = if means.is_empty() {
                "not scenery".to_owned()
            } else {
                means.join(", ")
            };
            let near = match row.context {
                PhraseContext::Always => "",
                PhraseContext::Near(_) | PhraseContext::OnlyNear(_) => " *",
            };
            let lists = row.phrases.map(|list| list.replace('|', ", "));
            lines.push(format!("| {means}{near} | {} |", lists.join(" | ")));
        }
        lines
    }

    fn meaning_words(meaning: Meaning) -> String {
        let words = match meaning {
            Meaning::Place(place) => format!("{place:?}"),
            Meaning::Hour(hour) => format!("{hour:?}"),
            Meaning::Sky(sky) => format!("{sky:?} sky"),
            Meaning::Particles(kind, amount) => {
                format!("{amount:?} {kind:?}").replace("Usual ", "")
            }
            Meaning::Look(look) => format!("{look:?}"),
            Meaning::Sound(sound) => format!("sound of {}", sound.name()),
            Meaning::Move(kind) => kind.words().to_owned(),
            Meaning::Pace(pace) => format!("{pace:?} pace"),
            Meaning::FadeIn => "fade in".to_owned(),
            Meaning::FadeOut => "fade out".to_owned(),
            Meaning::Shape(shape) => shape.words().to_owned(),
        };
        // "BlackAndWhite" as words.
        let mut spaced = String::new();
        for c in words.chars() {
            if c.is_uppercase() && !spaced.is_empty() && !spaced.ends_with(' ') {
                spaced.push(' ');
            }
            spaced.extend(c.to_lowercase());
        }
        spaced
    }

    #[test]
    fn the_vocabulary_is_on_the_page() {
        let head = format!("| Means | {} |", rows::LANGUAGES.join(" | "));
        let table = PAGE.split(&head).nth(1).unwrap_or_default();
        let lines: Vec<&str> = table
            .lines()
            .skip(2)
            .take_while(|line| line.starts_with('|'))
            .collect();
        let expected = documented_rows();
        assert!(
            lines == expected,
            "the table must be:\n{head}\n|{}\n{}",
            "---|".repeat(7),
            expected.join("\n")
        );
    }

    #[test]
    fn no_phrase_has_two_rows_that_always_count() {
        for phrases in INDEX.values() {
            for (i, phrase) in phrases.iter().enumerate() {
                let is_always = |p: &IndexedPhrase| p.row.context == PhraseContext::Always;
                let twin = phrases[..i].iter().find(|other| {
                    other.tokens == phrase.tokens
                        && is_always(other)
                        && is_always(phrase)
                        && other.row.meanings != phrase.row.meanings
                });
                assert!(twin.is_none(), "{}", phrase.tokens.join(" "));
            }
        }
    }
}
