//! Origin statements in a file's text: XMP, tags of containers, strings in a manifest.
//!
//! XMP is searched as text, not parsed as XML: the few properties that matter are found in every
//! serialisation that XMP allows, and nothing can be nested, referred to or expanded.

use std::io::{Read, Seek};
use std::ops::Range;

use super::source::LimitedSource;
use super::{FileMarks, MAX_VALUE_CHARS, MarksError};

/// Maximum number of bytes of a manifest that are searched, from its end.
const MAX_SEARCHED: u64 = 8 << 20;
const PIECE: u64 = 1 << 16;
/// The URIs of both vocabularies of source types have this before the term.
const VOCABULARY: &[u8] = b"/digitalsourcetype/";

/// Adds the statements of an XMP packet.
pub(super) fn xmp(bytes: &[u8], marks: &mut FileMarks) {
    marks.xmp = true;
    let text = String::from_utf8_lossy(bytes);
    marks.iptc |= text.contains("http://iptc.org/std/");
    fill(
        &mut marks.digital_source_type,
        property(&text, "DigitalSourceType"),
    );
    // The C2PA specification gives the property this name, in Dublin Core's terms. Any prefix may
    // be bound to these.
    fill(
        &mut marks.remote_manifest,
        property(&text, "provenance").filter(|value| value.contains("://")),
    );
    // This property takes precedence: it names the program that made the file, while other tags
    // name the one that packed it.
    let creator = property(&text, "CreatorTool");
    marks.software = creator.or(marks.software.take());
    fill(&mut marks.aigc, property(&text, "AIGC"));
}

/// Adds a tag of a container.
pub(super) fn tag(key: &str, value: &[u8], marks: &mut FileMarks) {
    let key = key.trim().to_ascii_lowercase();
    let name = key.rsplit(['.', ':', '/']).next().unwrap_or_default();
    match name {
        "aigc" => fill(&mut marks.aigc, displayable(value)),
        "digitalsourcetype" | "digital_source_type" | "digitalsourcefiletype" => {
            fill(&mut marks.digital_source_type, displayable(value));
        }
        "encoder" | "software" | "isft" | "tsse" | "\u{a9}too" => {
            fill(&mut marks.software, displayable(value));
        }
        "xmp" | "xml:com.adobe.xmp" => xmp(value, marks),
        "raw profile type iptc" => marks.iptc = true,
        _ => {}
    }
}

fn fill(slot: &mut Option<String>, value: Option<String>) {
    if slot.is_none() {
        *slot = value;
    }
}

/// Text that may be shown: no control characters, not empty, not long.
fn displayable(value: &[u8]) -> Option<String> {
    let text: String = String::from_utf8_lossy(value)
        .chars()
        .filter(|letter| !letter.is_control())
        .take(MAX_VALUE_CHARS)
        .collect();
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// The value of `prefix:name`, as an attribute, an element or an element's `rdf:resource`.
fn property(text: &str, name: &str) -> Option<String> {
    // Every attempt copies the text after the name, so the number of attempts is limited.
    text.match_indices(name).take(64).find_map(|(position, _)| {
        let previous = text.get(..position)?.chars().next_back()?;
        if previous != ':' {
            return None;
        }
        let after: String = text
            .get(position + name.len()..)?
            .chars()
            .take(2048)
            .collect();
        value_after(&after)
    })
}

fn value_after(after: &str) -> Option<String> {
    let trimmed = after.trim_start();
    if let Some(value) = trimmed.strip_prefix('=') {
        return parse_quoted(value);
    }
    let (inside, content) = after.split_once('>')?;
    if let Some((_, value)) = inside.split_once("rdf:resource") {
        return parse_quoted(value.trim_start().strip_prefix('=')?);
    }
    if !inside.trim().is_empty() && !inside.starts_with(char::is_whitespace) {
        return None; // a longer name that begins with this one
    }
    let (mut value, _) = content.split_once("</")?;
    // In a list, the first entry counts.
    if let Some((_, entry)) = value.rsplit_once('>') {
        value = entry;
    }
    displayable(unescape_xml(value).as_bytes())
}

fn parse_quoted(value: &str) -> Option<String> {
    let value = value.trim_start();
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let (value, _) = value.get(1..)?.split_once(quote)?;
    displayable(unescape_xml(value).as_bytes())
}

/// The five entities of XML; others are not changed.
fn unescape_xml(value: &str) -> String {
    value
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}

/// The last source type in a manifest store, because its last manifest is the active one. The
/// search is for a CBOR string with its length; a compressed or redacted one is not found.
pub(super) fn in_manifest(
    source: &mut LimitedSource<impl Read + Seek>,
    range: Range<u64>,
) -> Result<Option<String>, MarksError> {
    let mut offset = range.end.saturating_sub(MAX_SEARCHED).max(range.start);
    let mut last_found = None;
    // A text may extend over two pieces, so each piece begins with the end of the previous one. The
    // texts that are found have at most 255 bytes.
    let overlap = 512;
    while offset < range.end {
        let piece = source.read_up_to(offset, PIECE.min(range.end - offset))?;
        if piece.is_empty() {
            break;
        }
        for position in vocabulary_positions(&piece) {
            last_found = string_around(&piece, position).or(last_found);
        }
        let step = piece.len() as u64;
        offset += if step > overlap && offset + step < range.end {
            step - overlap
        } else {
            step
        };
    }
    Ok(last_found)
}

fn vocabulary_positions(piece: &[u8]) -> impl Iterator<Item = usize> {
    piece
        .windows(VOCABULARY.len())
        .enumerate()
        .filter(|(_, window)| *window == VOCABULARY)
        .map(|(position, _)| position)
}

fn string_around(piece: &[u8], position: usize) -> Option<String> {
    // Searched no further back than such a text is long, because a piece may contain the vocabulary
    // many times.
    let before = piece.get(position.saturating_sub(255)..position)?;
    let http = before.windows(4).rposition(|window| window == b"http")?;
    let http = position - before.len() + http;
    // CBOR: a text of 24 to 255 bytes begins with 0x78 and its length.
    let [0x78, length] = *piece.get(http.checked_sub(2)?..http)? else {
        return None;
    };
    let text = piece.get(http..http + usize::from(length))?;
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| displayable(text.as_bytes()))
}
