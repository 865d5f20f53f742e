//! Phrases: words of direction that need no grammar, only their neighbours.
//!
//! A table gives the meaning of each phrase, and when one that is also everyday language counts.

use super::words::{Clause, is_direction_word, is_negation};

/// A phrase, in lower case with single spaces, and its meaning.
pub(super) struct TablePhrase<T: 'static> {
    pub(super) words: &'static str,
    pub(super) means: T,
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
    pub(super) means: T,
    pub(super) clause: &'a Clause,
    /// Where it begins in the clause.
    pub(super) at: usize,
}

/// Finds every phrase of a table, in the order of the prompt. If several start at the same word,
/// the first in the table wins.
pub(super) fn find<'a, T: Copy>(
    clauses: &'a [Clause],
    table: &[TablePhrase<T>],
) -> Vec<PhraseMatch<'a, T>> {
    let mut hits = Vec::new();
    for clause in clauses {
        let mut at = 0;
        while at < clause.len() {
            let hit = table.iter().find_map(|phrase| {
                let length = matches_at(clause, at, phrase.words)?;
                let counts = context_matches(clause, at, length, phrase.context);
                (counts && !is_denied(clause, at)).then_some((phrase.means, length))
            });
            let Some((means, length)) = hit else {
                at += 1;
                continue;
            };
            hits.push(PhraseMatch { means, clause, at });
            // The words are used up: "film grain" must not count a second time as "grain".
            at += length;
        }
    }
    hits
}

/// The number of words of the phrase, if it is at this place.
fn matches_at(clause: &Clause, at: usize, phrase: &str) -> Option<usize> {
    // Compares the text directly: most phrases differ in their first letters.
    let mut rest = phrase;
    for (word, length) in clause[at..].iter().zip(1..) {
        rest = rest.strip_prefix(word.as_str())?;
        if rest.is_empty() {
            return Some(length);
        }
        rest = rest.strip_prefix(' ')?;
    }
    None
}

fn context_matches(clause: &Clause, at: usize, length: usize, counts: PhraseContext) -> bool {
    let (neighbours, may_stand_alone) = match counts {
        PhraseContext::Always => return true,
        PhraseContext::Near(neighbours) => (neighbours, true),
        PhraseContext::OnlyNear(neighbours) => (neighbours, false),
    };
    let is_one = |word: &String| neighbours.contains(&word.as_str());
    // Two words reach across one small word: "sound of rain", "warm evening light".
    let beside = clause[at.saturating_sub(2)..at].iter().any(is_one)
        || clause[at + length..].iter().take(2).any(is_one);
    let mut others = clause[..at].iter().chain(&clause[at + length..]);
    beside || (may_stand_alone && others.all(|word| is_direction_word(word) || is_measure(word)))
}

/// "No rain", "without a vignette", "after the rain".
fn is_denied(clause: &Clause, at: usize) -> bool {
    clause[at.saturating_sub(3)..at]
        .iter()
        .rev()
        // A denial does not reach across these words: "no people and rain" asks for rain.
        .take_while(|word| !matches!(word.as_str(), "but" | "just" | "only" | "and" | "with"))
        .any(|word| is_negation(word) || matches!(word.as_str(), "after" | "before"))
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
