//! Reading the files of the catalogue: typed, complete, with faults reported by line.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};
use toml::Spanned;
use toml::value::Datetime;

use super::{KnownModel, ListPrice, SoundSupport};
use crate::cost::{RefusalCharge, RefusalTerms};
use crate::limits::Durations;
use crate::order::MediaKind;

/// The files that are part of the program, by protocol or recipe.
pub(super) const EMBEDDED: &[(&str, &str)] = &[
    ("dashscope", include_str!("../../models/dashscope.toml")),
    ("elevenlabs", include_str!("../../models/elevenlabs.toml")),
    ("fal", include_str!("../../models/fal.toml")),
    ("gemini-veo", include_str!("../../models/gemini-veo.toml")),
    ("hunyuan", include_str!("../../models/hunyuan.toml")),
    ("kie", include_str!("../../models/kie.toml")),
    ("kie-suno", include_str!("../../models/kie-suno.toml")),
    ("kling", include_str!("../../models/kling.toml")),
    ("ltx", include_str!("../../models/ltx.toml")),
    ("luma", include_str!("../../models/luma.toml")),
    ("minimax", include_str!("../../models/minimax.toml")),
    ("modelark", include_str!("../../models/modelark.toml")),
    ("mureka", include_str!("../../models/mureka.toml")),
    (
        "openai-videos",
        include_str!("../../models/openai-videos.toml"),
    ),
    ("openrouter", include_str!("../../models/openrouter.toml")),
    ("pixverse", include_str!("../../models/pixverse.toml")),
    ("replicate", include_str!("../../models/replicate.toml")),
    ("runway", include_str!("../../models/runway.toml")),
    ("vidu", include_str!("../../models/vidu.toml")),
    ("wavespeed", include_str!("../../models/wavespeed.toml")),
    ("xai", include_str!("../../models/xai.toml")),
];

/// Units of list prices, as in an operator's own prices.
const UNITS: &[&str] = &[
    "second",
    "video",
    "megapixel_second",
    "audio_minute",
    "stem",
    "task",
];

/// A fault in a file of the catalogue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {message}", line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct CatalogueError {
    /// The file or folder.
    pub file: String,
    /// The line, counting from 1.
    pub line: Option<usize>,
    /// The error message.
    pub message: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CatalogueFile {
    source: String,
    date: Datetime,
    /// The environment variable for the key, in printed configuration lines.
    key: String,
    charged_when_refused: Option<RefusalCharge>,
    charged_when_refused_source: Option<String>,
    #[serde(default)]
    model: Vec<Spanned<CatalogueEntry>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CatalogueEntry {
    id: String,
    #[serde(default)]
    aliases: Vec<String>,
    name: Option<String>,
    kind: MediaKind,
    #[serde(default)]
    options: Map<String, Value>,
    sizes: Option<Vec<String>>,
    seconds: Option<Durations>,
    default_seconds: Option<u32>,
    pictures: Option<usize>,
    needs_picture: Option<bool>,
    references: Option<usize>,
    negative_prompt: Option<bool>,
    seed: Option<bool>,
    audio: Option<SoundSupport>,
    max_prompt: Option<usize>,
    #[serde(default)]
    inputs: Map<String, Value>,
    #[serde(default)]
    price: Vec<CataloguePrice>,
    price_unknown: Option<String>,
    price_source: Option<String>,
    price_date: Option<Datetime>,
    charged_when_refused: Option<RefusalCharge>,
    charged_when_refused_source: Option<String>,
    unverified: Option<String>,
    retired: Option<Datetime>,
    instead: Option<String>,
    source: Option<String>,
    date: Option<Datetime>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CataloguePrice {
    unit: String,
    usd: String,
    #[serde(rename = "for")]
    holds_for: Option<String>,
}

/// A check of an entry's content, provided by another module.
pub type EntryCheck = fn(&KnownModel) -> Option<String>;

/// The models of every TOML file in a folder.
pub(super) fn folder(
    folder: &Path,
    fault: EntryCheck,
) -> Result<Vec<Vec<KnownModel>>, CatalogueError> {
    let unreadable = |path: &Path, error: std::io::Error| CatalogueError {
        file: path.display().to_string(),
        line: None,
        message: format!("cannot be read: {error}"),
    };
    let entries = std::fs::read_dir(folder).map_err(|error| unreadable(folder, error))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| unreadable(folder, error))?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            paths.push(path);
        }
    }
    // Sorted, because later files replace entries of earlier ones, and a file system lists them in
    // any order.
    paths.sort();
    let models = paths.iter().map(|path| {
        let text = std::fs::read_to_string(path).map_err(|error| unreadable(path, error))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        file(&name, &text, fault).map_err(|error| CatalogueError {
            file: path.display().to_string(),
            ..error
        })
    });
    models.collect()
}

/// The models of a file that is named after its protocol or recipe.
pub(super) fn file(
    name: &str,
    text: &str,
    fault: EntryCheck,
) -> Result<Vec<KnownModel>, CatalogueError> {
    let fault_at = |offset: Option<usize>, message: String| CatalogueError {
        file: format!("{name}.toml"),
        line: offset.map(|offset| {
            text.bytes()
                .take(offset)
                .filter(|byte| *byte == b'\n')
                .count()
                + 1
        }),
        message,
    };
    let file: CatalogueFile = toml::from_str(text).map_err(|error| {
        let offset = error.span().map(|span| span.start);
        fault_at(offset, error.message().to_owned())
    })?;
    let refusals = refusal_terms(file.charged_when_refused, file.charged_when_refused_source);
    let head = FileHeader {
        provider: name,
        key: &file.key,
        source: &file.source,
        date: day(&file.date),
        refusals: refusals
            .map_err(|message| fault_at(None, message))?
            .unwrap_or_default(),
    };
    let mut models: Vec<KnownModel> = Vec::new();
    for entry in file.model {
        let offset = entry.span().start;
        let model = read_entry(&head, entry.into_inner());
        let model = model.map_err(|message| fault_at(Some(offset), message))?;
        if let Some(message) = fault(&model) {
            return Err(fault_at(Some(offset), message));
        }
        if models
            .iter()
            .any(|other| other.id == model.id || other.name == model.name)
        {
            let message = format!("{} or its name occurs twice", model.id);
            return Err(fault_at(Some(offset), message));
        }
        models.push(model);
    }
    Ok(models)
}

/// The values common to all models of a file.
struct FileHeader<'f> {
    provider: &'f str,
    key: &'f str,
    source: &'f str,
    date: Option<String>,
    refusals: RefusalTerms,
}

/// The terms that a file or an entry states; `None` if it states none.
fn refusal_terms(
    charge: Option<RefusalCharge>,
    source: Option<String>,
) -> Result<Option<RefusalTerms>, String> {
    match (charge, source) {
        (None, None) => Ok(None),
        (None, Some(_)) => {
            Err("charged_when_refused_source: requires charged_when_refused".to_owned())
        }
        (Some(RefusalCharge::Yes | RefusalCharge::No), None) => {
            Err("charged_when_refused: requires charged_when_refused_source".to_owned())
        }
        (Some(charge), source) => Ok(Some(RefusalTerms { charge, source })),
    }
}

fn read_entry(head: &FileHeader<'_>, entry: CatalogueEntry) -> Result<KnownModel, String> {
    let id = entry.id;
    let sizes = entry.sizes.map(|sizes| sizes.iter().map(size).collect());
    let sizes: Option<Vec<(u32, u32)>> = sizes.transpose()?;
    if sizes.as_ref().is_some_and(Vec::is_empty) {
        return Err(format!("{id}: sizes: at least one is required"));
    }
    if let Some(seconds) = &entry.seconds
        && (seconds.min() == 0 || seconds.min() > seconds.max())
    {
        return Err(format!(
            "{id}: seconds: must be whole seconds, at least 1, in ascending order"
        ));
    }
    let default_fits = match (&entry.seconds, entry.default_seconds) {
        (Some(seconds), Some(default)) => seconds.contains(f64::from(default)),
        _ => true,
    };
    if !default_fits {
        return Err(format!("{id}: default_seconds is not one of the lengths"));
    }
    if !entry.price.is_empty() && entry.price_unknown.is_some() {
        return Err(format!("{id}: has both price and price_unknown"));
    }
    let prices = entry.price.into_iter().map(|price| read_price(&id, price));
    let date = entry.date.as_ref().map_or(head.date.clone(), day);
    let date = date.ok_or("date: must be a date such as 2026-11-22")?;
    let source = entry.source.unwrap_or_else(|| head.source.to_owned());
    let price_date = match &entry.price_date {
        Some(read) => day(read).ok_or("price_date: must be a date such as 2026-11-22")?,
        None => date.clone(),
    };
    let refusals = refusal_terms(
        entry.charged_when_refused,
        entry.charged_when_refused_source,
    );
    let refusals = refusals.map_err(|message| format!("{id}: {message}"))?;
    Ok(KnownModel {
        provider: head.provider.to_owned(),
        key: head.key.to_owned(),
        aliases: entry.aliases,
        name: entry.name.unwrap_or_else(|| short(&id)),
        kind: entry.kind,
        options: entry.options,
        sizes,
        seconds: entry.seconds,
        default_seconds: entry.default_seconds,
        pictures: entry.pictures,
        needs_picture: entry.needs_picture,
        references: entry.references,
        negative_prompt: entry.negative_prompt,
        seed: entry.seed,
        audio: entry.audio,
        max_prompt: entry.max_prompt,
        inputs: entry.inputs,
        prices: prices.collect::<Result<_, _>>()?,
        price_unknown: entry.price_unknown,
        price_source: entry.price_source.unwrap_or_else(|| source.clone()),
        price_date,
        refusals: refusals.unwrap_or_else(|| head.refusals.clone()),
        unverified: entry.unverified,
        retired: match &entry.retired {
            Some(end) => Some(day(end).ok_or("retired: must be a date")?),
            None => None,
        },
        instead: entry.instead,
        source,
        date,
        id,
    })
}

/// The default name: the part of an id after its last slash, in lower case.
fn short(id: &str) -> String {
    let name = id.trim_matches('*').trim_matches('-');
    name.rsplit('/').next().unwrap_or(name).to_lowercase()
}

fn size(text: &String) -> Result<(u32, u32), String> {
    let sides = text.split_once('x');
    let size = sides.and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
    let fits = |side: u32| (16..=8192).contains(&side);
    size.filter(|(width, height)| fits(*width) && fits(*height))
        .ok_or_else(|| format!("{text:?} is not a size such as \"1280x720\""))
}

fn read_price(id: &str, price: CataloguePrice) -> Result<ListPrice, String> {
    if !UNITS.contains(&price.unit.as_str()) {
        return Err(format!("{id}: price: the units are {}", UNITS.join(", ")));
    }
    let (dollars, fraction) = price.usd.split_once('.').unwrap_or((&price.usd, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // Money is counted in micro-dollars, so a seventh digit cannot be represented.
    if !digits(dollars) || !digits(fraction) || fraction.len() > 6 || dollars.len() > 6 {
        return Err(format!(
            "{id}: price: usd must be a decimal such as \"0.40\""
        ));
    }
    Ok(ListPrice {
        unit: price.unit,
        usd: price.usd,
        holds_for: price.holds_for,
    })
}

/// The date as text; `None` if it has a time.
fn day(date: &Datetime) -> Option<String> {
    date.time
        .is_none()
        .then_some(date.date)
        .flatten()
        .map(|date| date.to_string())
}
