//! The documents that are built into the program, and the search in them.

use std::sync::LazyLock;

use super::markdown::{self, DocumentSection, MarkdownDocument};

/// A document at `/docs/{slug}`.
pub(super) struct Guide {
    pub slug: &'static str,
    pub group: GuideGroup,
    /// The Markdown, as in `docs/`.
    pub text: &'static str,
}

/// The group of a document in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GuideGroup {
    Start,
    Using,
    Operating,
    Models,
    Providers,
}

impl GuideGroup {
    pub(super) const ALL: &[Self] = &[
        Self::Start,
        Self::Using,
        Self::Operating,
        Self::Models,
        Self::Providers,
    ];

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Start => "Start here",
            Self::Using => "Using the API",
            Self::Operating => "Running Mediagate",
            Self::Models => "Models",
            Self::Providers => "Providers",
        }
    }
}

macro_rules! guides {
    ($($group:ident: $($slug:literal)+;)+) => {
        /// In the order of the list.
        static GUIDES: &[Guide] = &[$($(Guide {
            slug: $slug,
            group: GuideGroup::$group,
            text: include_str!(concat!("../../../../docs/", $slug, ".md")),
        },)+)+];
    };
}

guides! {
    Start: "quickstart" "waiting" "first-provider" "stems" "chat-interfaces" "glossary";
    Using: "tasks" "approval" "errors" "webhooks" "openrouter" "skill" "provenance" "security" "comparison";
    Operating: "deployment" "configuration" "operations" "performance" "admin" "moderation" "runbook" "money" "month-end";
    Models: "models/animatic-1" "models/stems-dsp-1" "models/stems-net-1" "models/onnx" "models/hosted";
    Providers: "providers/README" "providers/audioshake" "providers/chat-video" "providers/comfyui"
        "providers/dashscope" "providers/elevenlabs" "providers/fal" "providers/gemini-veo"
        "providers/hunyuan" "providers/kie" "providers/kie-suno" "providers/kling" "providers/lalal"
        "providers/ltx" "providers/luma" "providers/minimax" "providers/modelark" "providers/mureka"
        "providers/musicai" "providers/openai-videos" "providers/openrouter" "providers/pixverse"
        "providers/recipe" "providers/replicate" "providers/runway" "providers/suno-family"
        "providers/vidu" "providers/wavespeed" "providers/xai";
}

/// All documents, parsed once.
pub(super) fn all() -> &'static [(&'static Guide, MarkdownDocument)] {
    static DOCUMENTS: LazyLock<Vec<(&Guide, MarkdownDocument)>> = LazyLock::new(|| {
        let parse = |guide: &'static Guide| {
            let link = |target: &str| address(guide.slug, target);
            (guide, markdown::read(guide.text, link))
        };
        GUIDES.iter().map(parse).collect()
    });
    &DOCUMENTS
}

pub(super) fn find(slug: &str) -> Option<&'static (&'static Guide, MarkdownDocument)> {
    all().iter().find(|(guide, _)| guide.slug == slug)
}

/// The URL of a link's target, as a document writes it: another document, or another site.
/// Other files of the project are not served.
fn address(source: &str, target: &str) -> Option<String> {
    if target.starts_with('#') || target.contains("://") || target.starts_with("mailto:") {
        return Some(target.to_owned());
    }
    let (path, part) = target.split_once('#').unwrap_or((target, ""));
    // Targets are relative to the file, so that they work on GitHub too.
    let mut names: Vec<&str> = source.split('/').collect();
    names.pop();
    for name in path.strip_suffix(".md")?.split('/') {
        match name {
            "." | "" => {}
            // A path that leaves docs/ leads to a file that is not served.
            ".." => drop(names.pop()?),
            name => names.push(name),
        }
    }
    let slug = names.join("/");
    GUIDES.iter().find(|guide| guide.slug == slug)?;
    let part = if part.is_empty() {
        String::new()
    } else {
        format!("#{part}")
    };
    Some(format!("/docs/{slug}{part}"))
}

/// A section that contains the words of a search.
pub(super) struct SearchHit {
    pub address: String,
    pub title: &'static str,
    /// The title of the document, if the hit is one of its sections.
    pub within: Option<&'static str>,
    /// The text around the first word.
    pub excerpt: String,
}

/// Maximum number of hits of one search.
const MAX_HITS: usize = 30;
/// Length of an excerpt in characters.
const EXCERPT_CHARS: usize = 180;

/// A section as it is searched.
struct IndexedSection {
    guide: &'static Guide,
    document: &'static MarkdownDocument,
    section: &'static DocumentSection,
    /// Title and text in lower case, character by character.
    title: String,
    text: String,
}

/// All sections in the order of the documents, indexed once: lower case for a megabyte of text takes
/// milliseconds, and anyone may search.
fn index() -> &'static [IndexedSection] {
    static INDEX: LazyLock<Vec<IndexedSection>> = LazyLock::new(|| {
        let sections = all().iter().flat_map(|(guide, document)| {
            let indexed = |section: &'static DocumentSection| IndexedSection {
                guide,
                document,
                section,
                title: lower_case(&section.title),
                text: lower_case(&section.text),
            };
            document.sections.iter().map(indexed)
        });
        sections.collect()
    });
    &INDEX
}

/// Sections that contain every word; those with more of the words in their titles come first.
pub(super) fn search(query: &str) -> Vec<SearchHit> {
    let query = lower_case(query);
    let mut words: Vec<&str> = query.split_whitespace().collect();
    let Some(first) = words.first().copied() else {
        return Vec::new();
    };
    // The longest word is the rarest, so most sections are left after one comparison.
    words.sort_by_key(|word| (std::cmp::Reverse(word.len()), *word));
    words.dedup();
    let found = index().iter().filter(|entry| {
        let mut words = words.iter();
        words.all(|word| entry.text.contains(word) || entry.title.contains(word))
    });
    let in_title = |entry: &IndexedSection| {
        let words = words.iter();
        words.filter(|word| entry.title.contains(**word)).count()
    };
    let mut found: Vec<_> = found.map(|entry| (in_title(entry), entry)).collect();
    // The sort is stable: equal hits stay in the order of the documents.
    found.sort_by_key(|(in_title, _)| std::cmp::Reverse(*in_title));
    let hits = found.into_iter().take(MAX_HITS).map(|(_, entry)| {
        let IndexedSection {
            guide,
            document,
            section,
            ..
        } = entry;
        SearchHit {
            address: format!("/docs/{}#{}", guide.slug, section.id),
            title: &section.title,
            within: (section.level > 1).then_some(document.title.as_str()),
            excerpt: excerpt(&section.text, &entry.text, first),
        }
    });
    hits.collect()
}

/// The text in lower case, with as many characters as before.
fn lower_case(text: &str) -> String {
    let lower = |character: char| {
        let mut lower = character.to_lowercase();
        match (lower.next(), lower.next()) {
            (Some(lower), None) => lower,
            _ => character,
        }
    };
    text.chars().map(lower).collect()
}

/// The part of a text around a word. `lower` is the text in lower case.
fn excerpt(text: &str, lower: &str, word: &str) -> String {
    // By characters, because the text and its lower case may differ in bytes.
    let position = lower
        .find(word)
        .map_or(0, |byte| lower[..byte].chars().count());
    let start = position.saturating_sub(EXCERPT_CHARS / 3);
    let mut rest = text.chars().skip(start);
    let excerpt: String = rest.by_ref().take(EXCERPT_CHARS).collect();
    let excerpt = excerpt.split_whitespace().collect::<Vec<_>>().join(" ");
    let before = if start > 0 { "… " } else { "" };
    let after = if rest.next().is_some() { " …" } else { "" };
    format!("{before}{excerpt}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_document_of_the_folder_is_included() {
        let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        for folder in ["", "models", "providers"] {
            for entry in std::fs::read_dir(docs.join(folder)).unwrap() {
                let path = entry.unwrap().path();
                if path.extension().is_none_or(|extension| extension != "md") {
                    continue;
                }
                let slug = path.strip_prefix(&docs).unwrap().with_extension("");
                let slug = slug.to_str().unwrap();
                assert!(find(slug).is_some(), "{slug} is missing in the list");
            }
        }
    }

    #[test]
    fn only_links_between_documents_are_resolved() {
        assert_eq!(
            address("tasks", "money.md#refunds").unwrap(),
            "/docs/money#refunds"
        );
        assert_eq!(
            address("providers/fal", "../tasks.md").unwrap(),
            "/docs/tasks"
        );
        assert_eq!(
            address("providers/fal", "kling.md").unwrap(),
            "/docs/providers/kling"
        );
        assert_eq!(address("tasks", "../crates/gateway/src/lib.rs"), None);
        assert_eq!(address("tasks", "../../etc.md"), None);
        assert_eq!(address("tasks", "decisions/0002-cancel-at-once.md"), None);
    }

    #[test]
    fn links_within_the_documents_have_an_existing_heading() {
        for (guide, document) in all() {
            let html = document.body.clone().into_string();
            for link in html.split("href=\"").skip(1) {
                let link = link.split('"').next().unwrap();
                let (slug, part) = link.split_once('#').unwrap_or((link, ""));
                let slug = match slug.strip_prefix("/docs/") {
                    Some(slug) => slug,
                    None if slug.is_empty() => guide.slug,
                    None => continue,
                };
                let (_, target) = find(slug).unwrap_or_else(|| panic!("{}: {link}", guide.slug));
                let exists =
                    part.is_empty() || target.sections.iter().any(|section| section.id == part);
                assert!(exists, "{}: {link}", guide.slug);
            }
        }
    }

    #[test]
    fn a_search_ignores_case_and_shows_the_words_in_excerpts() {
        let hits = search("IDEMPOTENCY-key");
        assert!(!hits.is_empty());
        assert!(
            hits.iter()
                .any(|hit| hit.excerpt.to_lowercase().contains("idempotency-key"))
        );
        let text = format!("{}Über uns", "A sentence before. ".repeat(20));
        assert!(excerpt(&text, &lower_case(&text), "über").contains("Über"));
        assert!(search("  ").is_empty() && search("xyzzyplugh").is_empty());
    }

    /// Every section is found by each of its words, and only sections with all words are.
    #[test]
    fn the_index_holds_every_section() {
        let sections = all().iter().map(|(_, document)| document.sections.len());
        assert_eq!(index().len(), sections.sum::<usize>());
        for entry in index() {
            assert_eq!(entry.title, lower_case(&entry.section.title));
            assert_eq!(
                entry.text.chars().count(),
                entry.section.text.chars().count()
            );
        }
        let hits = search("storage_limit expire");
        assert!(!hits.is_empty());
        assert_eq!(hits.len(), search("expire storage_limit expire").len());
    }
}
