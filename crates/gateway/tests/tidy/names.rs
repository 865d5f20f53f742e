//! Names of types can be searched for: none is only a participle or a function word, and a crate uses a name for one
//! type only.

use std::collections::BTreeMap;
use std::path::Path;

use super::{crates, files, sources};

/// Words that say nothing without a noun, in the singular and the plural.
const FUNCTION_WORDS: &str = "
    About All Alone Also And Any Apart As At Away Bad Beside Both But By Due Each Every Few For Four Fresh From Halt He
    Here How If In Inner Into It Its Less Many More Most Much Next No None Nor Not Now Nowhere Of Off On Once One Only
    Open Or Other Others Out Outer Outside Over Own Per Ready Same She Since So Some Such Than That Their Them Then There
    These They This Those Three Through Thus To Together Too Towards Two Under Until Up Upon Use Uses Very Way Ways What
    When Where Whether Which While Who Whole Whose Why With Within Without Yes You";
/// Participles that do not end in -ed or -ing.
const IRREGULAR_PARTICIPLES: &str = "
    Begun Bound Bought Brought Built Chosen Cut Done Drawn Fed Found Given Gone Grown Heard Held Hidden Kept Known Laid
    Led Left Let Lost Made Meant Met Paid Put Read Risen Run Said Seen Sent Shown Spent Split Spoken Stuck Swept Taken
    Thrown Told Torn Understood Unknown Untold Woken Won Worn Written";
/// Nouns that look like participles.
const NOUNS: &str = "
    Bed Being Bound Easing Encoding Feed Heading Housekeeping Lighting Listing Mapping Meaning Pricing Recording Ring Routing
    Seed Setting Spacing Speed Split String Timing Warning Weighting";
/// Names that several types of one crate share: request formats of several APIs, and variants for
/// builds with and without a feature.
const SHARED_NAMES: &[&str] = &["RequestBody", "OnnxModels", "OnnxGraphs"];
/// Associated types, whose names their traits gave them.
const ASSOCIATED_TYPES: &[&str] = &[
    "Data",
    "Err",
    "Error",
    "Future",
    "Id",
    "IntoIter",
    "Item",
    "Key",
    "Order",
    "Output",
    "Rejection",
    "Response",
    "Target",
    "Value",
];
const QUESTION_WORDS: &[&str] = &[
    "How", "What", "When", "Where", "Whether", "Which", "Who", "Why",
];

/// The beginning of the tests in a source file.
const TESTS: &str = "#[cfg(test)]\nmod tests {";

/// The types of a source file, up to its tests.
fn types(text: &str) -> Vec<&str> {
    const KINDS: &[&str] = &["struct", "enum", "trait", "type", "union"];
    let code = text.split(TESTS).next().unwrap();
    let names = code.lines().filter_map(|line| {
        let is_associated = line.starts_with(' ');
        let mut words = line.split_whitespace();
        let mut keyword = words.next()?;
        if keyword == "pub" || keyword.starts_with("pub(") {
            keyword = words.find(|word| !word.ends_with(')'))?;
        }
        let name = KINDS.contains(&keyword).then(|| words.next())??;
        let end = name.find(|letter: char| !letter.is_alphanumeric());
        let name = &name[..end.unwrap_or(name.len())];
        let is_type = name.starts_with(|letter: char| letter.is_uppercase());
        (is_type && !(is_associated && ASSOCIATED_TYPES.contains(&name))).then_some(name)
    });
    names.collect()
}

fn is_one_word(name: &str) -> bool {
    name.chars().skip(1).all(|letter| !letter.is_uppercase())
}

/// Whether a name is a word of a sentence, not a thing.
fn is_empty(name: &str) -> bool {
    let is_in = |words: &str| words.split_whitespace().any(|word| word == name);
    let is_participle =
        name.ends_with("ed") || name.ends_with("ing") || is_in(IRREGULAR_PARTICIPLES);
    is_one_word(name) && (is_in(FUNCTION_WORDS) || is_participle && !is_in(NOUNS))
}

/// The types of a crate, and in how many files each is defined.
fn types_of(folder: &Path) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for path in files(&folder.join("src"), "rs") {
        if path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs") {
            continue;
        }
        for name in types(&std::fs::read_to_string(&path).unwrap()) {
            *counts.entry(name.to_owned()).or_insert(0) += 1;
        }
    }
    counts
}

#[test]
fn types_have_names_that_can_be_searched_for() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for folder in crates() {
        let krate = folder.file_name().unwrap().to_string_lossy().into_owned();
        for (name, files) in types_of(&folder) {
            count += 1;
            if is_empty(&name) {
                wrong.push(format!("{krate}: {name} does not say what it is"));
            }
            if files > 1 && !SHARED_NAMES.contains(&name.as_str()) {
                wrong.push(format!("{krate}: {files} types are called {name}"));
            }
        }
    }
    assert!(count > 1000, "{count} types were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_module_opens_with_a_question_word() {
    for path in sources() {
        let text = std::fs::read_to_string(&path).unwrap();
        let opening = text.strip_prefix("//! ").unwrap_or_default();
        let first_word = opening
            .split(|letter: char| !letter.is_alphanumeric())
            .next();
        let is_question = first_word.is_some_and(|first_word| QUESTION_WORDS.contains(&first_word));
        assert!(
            !is_question,
            "{} opens with a question word",
            path.display()
        );
    }
}

#[test]
fn types_are_found_however_they_are_written() {
    let text = "pub struct One;\npub(crate) enum TwoWords<T> {\n    type Item = u8;\n    type Own = u8;\n}\n\
                pub(in super::a) struct Three(u8);\nstruct_like!(x);\nlet structure = 1;\n#[cfg(test)]\nmod tests;\nstruct Four;\n#[cfg(test)]\nmod tests {\nstruct Five;";
    assert_eq!(types(text), ["One", "TwoWords", "Own", "Three", "Four"]);
}

#[test]
fn participles_and_function_words_are_told_from_nouns() {
    for name in ["Told", "Wanted", "Working", "Of", "Made", "Yes"] {
        assert!(is_empty(name), "{name}");
    }
    for name in [
        "Task",
        "H264",
        "State",
        "Recording",
        "TaskState",
        "SharedBytes",
        "Speed",
    ] {
        assert!(!is_empty(name), "{name}");
    }
}
