//! Lists of terms: words and patterns by category, found in a text whatever its case, accents,
//! widths and invisible characters.
//!
//! A pattern is searched in linear time, so no text can make a search slow.

use std::fmt;

use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use unicode_normalization::UnicodeNormalization as _;

/// The list that the program ships.
const SHIPPED: &str = include_str!("../terms.toml");
/// Largest file.
pub const MAX_BYTES: u64 = 1 << 20;
/// Maximum numbers in a file.
const MAX_WORDS: usize = 10_000;
const MAX_PATTERNS: usize = 1000;
/// Longest word, category and pattern in characters.
const MAX_WORD: usize = 200;
const MAX_CATEGORY: usize = 100;
const MAX_PATTERN: usize = 1000;
/// Largest compiled program of a pattern, and of the words of a category.
const MAX_PATTERN_BYTES: usize = 2 << 20;
const MAX_WORDS_BYTES: usize = 64 << 20;

/// Why a list cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TermsFault {
    #[error("is not TOML of this form: {0}")]
    Malformed(String),
    #[error("has no terms")]
    Empty,
    #[error("has more than {MAX_WORDS} words")]
    TooManyWords,
    #[error("has more than {MAX_PATTERNS} patterns")]
    TooManyPatterns,
    #[error("a category must have 1 to {MAX_CATEGORY} characters")]
    Category,
    #[error("a word of {0:?} must have 1 to {MAX_WORD} characters, and one that is visible")]
    Word(String),
    #[error("a pattern of {0:?} must have 1 to {MAX_PATTERN} characters")]
    PatternLength(String),
    #[error("a pattern of {0:?} matches the empty text, and so every text")]
    PatternOfEverything(String),
    #[error("{category:?} has an invalid or too large pattern: {reason}")]
    Pattern { category: String, reason: String },
}

/// A file of terms.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TermsFile {
    #[serde(default)]
    terms: Vec<TermsTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TermsTable {
    category: String,
    #[serde(default)]
    words: Vec<String>,
    #[serde(default)]
    patterns: Vec<String>,
}

/// A list that can be searched for.
#[derive(Clone)]
pub struct TermList(Vec<CategoryTerms>);

#[derive(Clone)]
struct CategoryTerms {
    category: String,
    patterns: Vec<Regex>,
}

impl fmt::Debug for TermList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let categories = self.0.iter().map(|terms| &terms.category);
        f.debug_list().entries(categories).finish()
    }
}

impl TermList {
    /// The list that the program ships.
    pub fn shipped() -> Result<Self, TermsFault> {
        Self::parse(SHIPPED)
    }

    /// Reads the text of a file.
    pub fn parse(text: &str) -> Result<Self, TermsFault> {
        let file: TermsFile = toml::from_str(text)
            .map_err(|error| TermsFault::Malformed(error.message().to_owned()))?;
        let words: usize = file.terms.iter().map(|table| table.words.len()).sum();
        let patterns: usize = file.terms.iter().map(|table| table.patterns.len()).sum();
        if words == 0 && patterns == 0 {
            return Err(TermsFault::Empty);
        }
        if words > MAX_WORDS {
            return Err(TermsFault::TooManyWords);
        }
        if patterns > MAX_PATTERNS {
            return Err(TermsFault::TooManyPatterns);
        }
        let terms: Result<Vec<_>, _> = file.terms.iter().map(TermsTable::compile).collect();
        Ok(Self(terms?))
    }

    /// The category of the first terms that the text contains.
    pub fn find(&self, text: &str) -> Option<&str> {
        let folded = fold(text);
        let found = self.0.iter().find(|terms| {
            let mut patterns = terms.patterns.iter();
            patterns.any(|pattern| pattern.is_match(&folded))
        });
        found.map(|terms| terms.category.as_str())
    }
}

impl TermsTable {
    fn compile(&self) -> Result<CategoryTerms, TermsFault> {
        let category = self.category.trim();
        if !has_length(category, MAX_CATEGORY) {
            return Err(TermsFault::Category);
        }
        let mut patterns = Vec::new();
        if !self.words.is_empty() {
            patterns.push(self.compile_words(category)?);
        }
        for pattern in &self.patterns {
            if !has_length(pattern, MAX_PATTERN) {
                return Err(TermsFault::PatternLength(category.to_owned()));
            }
            let compiled = compile(category, pattern, MAX_PATTERN_BYTES)?;
            if compiled.is_match("") {
                return Err(TermsFault::PatternOfEverything(category.to_owned()));
            }
            patterns.push(compiled);
        }
        Ok(CategoryTerms {
            category: category.to_owned(),
            patterns,
        })
    }

    /// One pattern that matches any of the words.
    fn compile_words(&self, category: &str) -> Result<Regex, TermsFault> {
        let mut alternatives = Vec::with_capacity(self.words.len());
        for word in &self.words {
            let folded = fold(word);
            if !has_length(word, MAX_WORD) || folded.is_empty() {
                return Err(TermsFault::Word(category.to_owned()));
            }
            alternatives.push(whole_word(&folded));
        }
        compile(category, &alternatives.join("|"), MAX_WORDS_BYTES)
    }
}

fn compile(category: &str, pattern: &str, max_bytes: usize) -> Result<Regex, TermsFault> {
    let mut builder = RegexBuilder::new(pattern);
    builder.case_insensitive(true).size_limit(max_bytes);
    builder.build().map_err(|error| TermsFault::Pattern {
        category: category.to_owned(),
        reason: error.to_string(),
    })
}

fn has_length(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.chars().count())
}

/// A pattern of a word that is not a part of another one.
fn whole_word(word: &str) -> String {
    let ends_word =
        |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() && !is_written_without_spaces(c));
    let boundary = |c: Option<char>| if ends_word(c) { r"\b" } else { "" };
    let before = boundary(word.chars().next());
    let after = boundary(word.chars().next_back());
    format!("{before}{}{after}", regex::escape(word))
}

/// Whether a character is of a script that has no spaces between words: Chinese, Japanese, Thai,
/// Lao, Burmese, Khmer.
const fn is_written_without_spaces(c: char) -> bool {
    matches!(c,
        '\u{0E00}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}'
        | '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}' | '\u{20000}'..='\u{3FFFF}')
}

/// Whether a character only decorates another one, or is invisible.
const fn is_ignored(c: char) -> bool {
    matches!(c,
        '\u{00AD}' | '\u{0300}'..='\u{036F}' | '\u{061C}' | '\u{180E}' | '\u{1AB0}'..='\u{1AFF}'
        | '\u{1DC0}'..='\u{1DFF}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}'
        | '\u{2060}'..='\u{2069}' | '\u{20D0}'..='\u{20FF}' | '\u{FE00}'..='\u{FE0F}'
        | '\u{FE20}'..='\u{FE2F}' | '\u{FEFF}')
}

/// The form in which texts and words are compared: lower case, without accents and invisible
/// characters, in compatible forms of the characters, with single spaces.
fn fold(text: &str) -> String {
    let letters = text.nfkd().flat_map(char::to_lowercase);
    let folded: String = letters.filter(|c| !is_ignored(*c)).nfc().collect();
    let words: Vec<&str> = folded.split_whitespace().collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> TermList {
        TermList::parse(
            r#"
[[terms]]
category = "birds"
words = ["Blue Tit", "été", "鳥"]
[[terms]]
category = "numbers"
patterns = ['\b\d{4}-\d{4}\b']
"#,
        )
        .unwrap()
    }

    #[test]
    fn a_word_is_found_in_any_writing() {
        for text in [
            "a blue tit",
            "A BLUE  TIT!",
            "blue\ttit",
            "ｂｌｕｅ ｔｉｔ",
            "bl\u{200b}ue ti\u{ad}t",
            "b\u{301}lue tit",
            "en ete",
            "L'ÉTÉ",
            "美しい鳥が飛ぶ",
        ] {
            assert_eq!(list().find(text), Some("birds"), "{text}");
        }
    }

    #[test]
    fn a_part_of_another_word_is_not_found() {
        for text in ["", "blue title", "a bluetit", "completely", "12345-6789"] {
            assert_eq!(list().find(text), None, "{text}");
        }
        assert_eq!(list().find("call 1234-5678 now"), Some("numbers"));
    }

    #[test]
    fn every_fault_is_named() {
        let table = |rest: &str| format!("[[terms]]\ncategory = \"c\"\n{rest}");
        for (text, expected) in [
            (String::new(), "has no terms"),
            ("terms = 1".to_owned(), "is not TOML of this form"),
            (table("word = [\"a\"]"), "unknown field"),
            (table("words = [\"\"]"), "a word of \"c\""),
            (table("words = [\"\u{200b}\"]"), "a word of \"c\""),
            (table("patterns = ['(']"), "\"c\" has an invalid"),
            (table("patterns = ['a*']"), "matches the empty text"),
            (table("patterns = ['(\\w{100}){100}']"), "too large"),
            (
                "[[terms]]\ncategory = \" \"\nwords = [\"a\"]".to_owned(),
                "a category must have",
            ),
        ] {
            let error = TermList::parse(&text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let words: Vec<String> = (0..=MAX_WORDS)
            .map(|number| format!("\"{number}\""))
            .collect();
        let error = TermList::parse(&table(&format!("words = [{}]", words.join(","))));
        assert_eq!(error.unwrap_err(), TermsFault::TooManyWords);
    }

    #[test]
    fn the_shipped_list_refuses_what_is_forbidden_and_nothing_usual() {
        let list = TermList::shipped().unwrap();
        for text in [
            "undress her",
            "a DEEPNUDE of my colleague",
            "remove all her clothes",
        ] {
            assert_eq!(list.find(text), Some("non-consensual-intimacy"), "{text}");
        }
        assert_eq!(list.find("a naked child"), Some("minors"));
        for text in [
            "a lake at dawn",
            "children play football in the rain",
            "a dress on a hanger, clothes in a wardrobe",
            "a classical nude statue in a museum",
            "remove the chair from the room",
        ] {
            assert_eq!(list.find(text), None, "{text}");
        }
    }
}
