//! Names of types can be searched for: a name has at least two words, unless it is a noun of the
//! field, and a crate uses it for one type only.

use std::collections::BTreeMap;
use std::path::Path;

use super::{crates, files, sources};

/// Nouns of the field that need no second word. Add a new one here, or give it a second word.
const NOUNS: &str = "
    Account Actor Adapter Ambience Amount App Arguments Asset Audio Authorization Bell Bill Bound Caches Call Caller
    Canvas Catalog Catalogue Clause Cli Clip Clock Config Conn Connection Ctx Delivery Direction Dispatcher Driver
    Durability Durations Easing Encoder Envelope Error Fault Fingerprint Guide Health Ingredient Intent Intents Job
    Layer Lease Links List Lookup Migration Mismatch Model Order Palette Persona Picture Placeholder Price Protocol
    Provenance Provider Quality Query Quote Reaction Readiness Recipe Recording Route Row Scene Scope Secret Settings
    Shot Shutdown Simulator Stem Stft Store Submission Tariff Task Template Thumbnail Timestamp Upstream Video World";
/// Names that several types of one crate share: request formats of several APIs, and variants for
/// builds with and without a feature.
const SHARED_NAMES: &[&str] = &["RequestBody", "InstalledModels", "ModelGraphs"];
/// Associated types, whose names their traits gave them.
const ASSOCIATED_TYPES: &[&str] = &[
    "Data",
    "Err",
    "Error",
    "Future",
    "IntoIter",
    "Item",
    "Key",
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
    const KINDS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];
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
    let nouns: Vec<&str> = NOUNS.split_whitespace().collect();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for folder in crates() {
        let krate = folder.file_name().unwrap().to_string_lossy().into_owned();
        for (name, files) in types_of(&folder) {
            count += 1;
            if is_one_word(&name) && !nouns.contains(&name.as_str()) {
                wrong.push(format!("{krate}: {name} is one word"));
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
    assert!(is_one_word("Task") && is_one_word("H264") && !is_one_word("TaskState"));
}
