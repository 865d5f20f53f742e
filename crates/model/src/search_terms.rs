//! Search terms of a task, from its prompt or title.
//!
//! A word is stored as a term, a hash of the account and the word, so that an index of terms is
//! compact and reveals nothing about one account to another. Terms are stored, so the terms of a
//! text must not change.

use std::collections::BTreeSet;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::attribution::{Attribute, Attribution};
use crate::ids::AccountId;
use crate::task::TaskPayload;

/// Maximum number of a task's words that are indexed, from the beginning.
const MAX_TASK_TERMS: usize = 48;
/// Maximum number of words of a search.
pub const MAX_QUERY_TERMS: usize = 8;
/// Maximum number of characters of a word that are used.
const MAX_WORD_CHARS: usize = 40;

/// The terms of a task.
pub fn task_terms(
    account: AccountId,
    payload: &TaskPayload,
    attribution: &Attribution,
) -> BTreeSet<i64> {
    let mut texts = Vec::new();
    match payload {
        TaskPayload::VideoV1(job) => texts.push(job.prompt.as_str()),
        TaskPayload::StemsV1(job) => texts.push(job.title.as_str()),
        TaskPayload::SongV1(job) => {
            // The title first: of a long text only the first words are kept.
            texts.push(job.title.as_str());
            for name in ["prompt", "gpt_description_prompt", "tags", "lyrics"] {
                texts.extend(job.fields.get(name).and_then(Value::as_str));
            }
        }
    }
    let mut terms = BTreeSet::new();
    for word in texts.into_iter().flat_map(words) {
        terms.insert(term(account, &word));
        if terms.len() == MAX_TASK_TERMS {
            break;
        }
    }
    let attributes = attribution.attributes();
    terms.extend(attributes.map(|(name, value)| attribute_term(account, &name, value)));
    terms
}

/// The term of an attribute's value. No word has the same, because words contain no NUL.
pub fn attribute_term(account: AccountId, attribute: &Attribute, value: &str) -> i64 {
    term(account, &format!("\0{attribute}\0{value}"))
}

/// The beginning of the prompt, or of a music task's title.
pub fn excerpt(payload: &TaskPayload, max_chars: usize) -> String {
    let text = match payload {
        TaskPayload::VideoV1(job) => job.prompt.as_str(),
        TaskPayload::StemsV1(job) => &job.title,
        TaskPayload::SongV1(job) => {
            let titles = std::iter::once(job.title.as_str());
            let fields = ["gpt_description_prompt", "prompt"];
            let fields = fields
                .into_iter()
                .filter_map(|name| job.fields.get(name)?.as_str());
            titles
                .chain(fields)
                .find(|text| !text.is_empty())
                .unwrap_or_default()
        }
    };
    let text: Vec<&str> = text.split_whitespace().collect();
    let text = text.join(" ");
    if text.chars().count() <= max_chars {
        return text;
    }
    let beginning: String = text.chars().take(max_chars.saturating_sub(1)).collect();
    format!("{}…", beginning.trim_end())
}

/// The terms of a search; empty if there is no word in it.
pub fn query_terms(account: AccountId, text: &str) -> Vec<i64> {
    let terms: BTreeSet<i64> = words(text)
        .take(MAX_QUERY_TERMS)
        .map(|word| term(account, &word))
        .collect();
    terms.into_iter().collect()
}

/// Whether a search has a word.
pub fn has_words(text: &str) -> bool {
    words(text).next().is_some()
}

/// Runs of letters and digits, in lower case; a character of a script without spaces is a word.
fn words(text: &str) -> impl Iterator<Item = String> {
    let mut rest = text.chars().peekable();
    std::iter::from_fn(move || {
        while rest.peek().is_some_and(|c| !c.is_alphanumeric()) {
            rest.next();
        }
        let first = rest.next()?;
        if is_unspaced_script(first) {
            return Some(first.to_string());
        }
        let mut word: String = first.to_lowercase().collect();
        while let Some(next) = rest.next_if(|c| c.is_alphanumeric() && !is_unspaced_script(*c)) {
            // The rest is skipped and does not begin a new word.
            if word.chars().count() < MAX_WORD_CHARS {
                word.extend(next.to_lowercase());
            }
        }
        Some(word)
    })
}

/// Han, Hiragana, Katakana, Thai, Lao, Khmer and Burmese are written without spaces.
const fn is_unspaced_script(c: char) -> bool {
    matches!(c,
        '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{20000}'..='\u{3ffff}')
}

fn term(account: AccountId, word: &str) -> i64 {
    // 64 bits of the hash are enough: if two words collide, a search finds a task too many.
    let digest = Sha256::new()
        .chain_update(account.to_string())
        .chain_update(word)
        .finalize();
    let mut first = [0; 8];
    for (to, from) in first.iter_mut().zip(digest) {
        *to = from;
    }
    i64::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<String> {
        words(text).collect()
    }

    #[test]
    fn a_text_is_split_into_its_words() {
        assert_eq!(
            split("A Boat, at dawn—2x!"),
            ["a", "boat", "at", "dawn", "2x"]
        );
        assert_eq!(split("Übermut ÉTÉ"), ["übermut", "été"]);
        assert_eq!(split("湖の船 boat"), ["湖", "の", "船", "boat"]);
        assert_eq!(split(" \n…"), Vec::<String>::new());
    }

    #[test]
    fn terms_differ_by_account_and_not_by_case() {
        let (one, other) = (AccountId::new(), AccountId::new());
        assert_eq!(query_terms(one, "Boat"), query_terms(one, "boat"));
        assert_ne!(query_terms(one, "boat"), query_terms(other, "boat"));
        assert_eq!(
            query_terms(one, "a b c d e f g h i j k").len(),
            MAX_QUERY_TERMS
        );
    }
}
