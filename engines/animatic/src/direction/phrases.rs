//! Phrases: words of direction that need no grammar, only their neighbours.
//!
//! A table gives the meaning of each phrase. For an everyday phrase it also gives the words that
//! must stand nearby.

use super::tokens::Clause;
use super::words::{is_direction_word, is_negation};

/// A phrase, in lower case with single spaces, and its meaning.
pub(super) struct TablePhrase<T: 'static> {
    pub(super) words: &'static str,
    pub(super) meaning: T,
    pub(super) context: PhraseContext,
}

/// When a phrase counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PhraseContext {
    /// Wherever the phrase is found.
    Always,
    /// Alone in its clause, or next to one of these words ("warm light", but not "warm bread").
    Near(&'static [&'static str]),
    /// Beside one of these words only ("sound of rain", but not "rain").
    OnlyNear(&'static [&'static str]),
}

/// A phrase that was found.
#[derive(Debug, Clone, Copy)]
pub(super) struct PhraseMatch<'a, T> {
    pub(super) meaning: T,
    pub(super) clause: &'a Clause,
    /// The number of its clause.
    pub(super) clause_index: usize,
    /// Where it begins in the clause.
    pub(super) start: usize,
    /// How many words it has.
    pub(super) length: usize,
    /// The words that must stand nearby.
    pub(super) context: PhraseContext,
}

/// Finds every phrase of a table, in the order of the prompt. If several start at the same word,
/// the first in the table wins.
pub(super) fn find<'a, T: Copy>(
    clauses: &'a [Clause],
    table: &[TablePhrase<T>],
) -> Vec<PhraseMatch<'a, T>> {
    let mut hits = Vec::new();
    for (clause_index, clause) in clauses.iter().enumerate() {
        let mut start = 0;
        while start < clause.len() {
            let hit = table.iter().find_map(|phrase| {
                let length = matches_at(clause, start, phrase.words)?;
                let counts = context_matches(clause, start, length, phrase.context);
                (counts && !is_denied(clause, start)).then_some((phrase, length))
            });
            let Some((phrase, length)) = hit else {
                start += 1;
                continue;
            };
            hits.push(PhraseMatch {
                meaning: phrase.meaning,
                clause,
                clause_index,
                start,
                length,
                context: phrase.context,
            });
            // The words are used up: "film grain" must not count a second time as "grain".
            start += length;
        }
    }
    hits
}

/// The number of words of the phrase, if it starts here.
fn matches_at(clause: &Clause, start: usize, phrase: &str) -> Option<usize> {
    // Compares the text directly: most phrases differ in their first letters.
    let mut rest = phrase;
    for (word, length) in clause[start..].iter().zip(1..) {
        rest = rest.strip_prefix(word.as_str())?;
        if rest.is_empty() {
            return Some(length);
        }
        rest = rest.strip_prefix(' ')?;
    }
    None
}

pub(super) fn context_matches(
    clause: &Clause,
    start: usize,
    length: usize,
    context: PhraseContext,
) -> bool {
    let (neighbours, may_stand_alone) = match context {
        PhraseContext::Always => return true,
        PhraseContext::Near(neighbours) => (neighbours, true),
        PhraseContext::OnlyNear(neighbours) => (neighbours, false),
    };
    let is_neighbour = |word: &String| neighbours.contains(&word.as_str());
    // Looks two words to each side, so that one other word may stand between: "sound of rain",
    // "warm evening light".
    let has_neighbour = clause[start.saturating_sub(2)..start]
        .iter()
        .any(is_neighbour)
        || clause[start + length..].iter().take(2).any(is_neighbour);
    let mut others = clause[..start].iter().chain(&clause[start + length..]);
    has_neighbour
        || (may_stand_alone && others.all(|word| is_direction_word(word) || is_measure(word)))
}

/// Whether the words before a phrase deny it: "no rain", "without a vignette", "after the rain".
pub(super) fn is_denied(clause: &Clause, start: usize) -> bool {
    is_denied_by(clause, start, |word| {
        is_negation(word) || matches!(word, "after" | "before")
    })
}

/// Whether one of these words before a phrase denies it.
pub(super) fn is_denied_by(clause: &Clause, start: usize, denies: fn(&str) -> bool) -> bool {
    clause[start.saturating_sub(3)..start]
        .iter()
        .rev()
        // A denial does not reach across these words: "no people and rain" asks for rain.
        .take_while(|word| !matches!(word.as_str(), "but" | "just" | "only" | "and" | "with"))
        .any(|word| denies(word))
}

/// Words for amounts.
pub(super) fn is_measure(word: &str) -> bool {
    is_light(word) || is_heavy(word) || matches!(word, "falling" | "drifting" | "floating" | "some")
}

pub(super) fn is_light(word: &str) -> bool {
    matches!(
        word,
        "light" | "gentle" | "soft" | "slight" | "subtle" | "fine" | "thin" | "faint" | "few"
    )
}

pub(super) fn is_heavy(word: &str) -> bool {
    matches!(
        word,
        "heavy" | "strong" | "thick" | "dense" | "pouring" | "torrential" | "hard" | "intense"
    )
}
