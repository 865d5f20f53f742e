//! `elevenlabs`: stem separation by `ElevenLabs`, and songs ([`music`]). There are no jobs: the
//! connection stays open until the stems arrive in a ZIP archive.
//!
//! Sources: the `elevenlabs` SDK 2.78 (Python) (its requests), 2.73 (JS, its source), the API
//! reference.
//!
//! ```text
//! POST /v1/music/stem-separation?output_format=…   multipart file, stem_variation_id → ZIP
//! ```
//!
//! Unknown: the names of the files in the archive. They are identified by the words in them. If
//! there are exactly two files and only one has a known word, the other is the rest. Otherwise the
//! order fails and names the files, so that no stem gets a wrong name. After a lost connection it
//! is unknown whether the work was done and charged, so nothing is sent again.

mod music;

use std::io::{Cursor, Read as _};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::Method;
use serde_json::Value;
use zip::ZipArchive;

use crate::adapters::{Protocol, stem_names};
use crate::error::{ErrorClass, ErrorDescription, ProviderError};
use crate::limits::{ModelLimits, MusicLimits, StemLimits};
use crate::order::{MediaKind, Order, StemGroup, StemTarget, WorkSpec};
use crate::port::{
    Adapter, AdapterStep, Authorization, Call, CallContext, FormPart, JobOutput, OutputKind,
    OutputSource, PollPace, RefusalRule, RequestBody,
};
use crate::response::ProviderResponse;
use crate::secret::Secret;
use crate::settings::{ProviderSettings, SettingsError};

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "elevenlabs",
    base_url: Some("https://api.elevenlabs.io"),
    options: &["output_format"],
    anonymous: false,
    build,
};

const TWO: &str = "two_stems_v1";
const SIX: &str = "six_stems_v1";
/// The stems of a six-stem split, without the rest.
const GROUPS: &[StemGroup] = &[
    StemGroup::Vocals,
    StemGroup::Drums,
    StemGroup::Bass,
    StemGroup::Guitar,
    StemGroup::Keyboard,
];
/// Maximum number of files in an archive.
const MAX_FILES: usize = 16;
/// Maximum total size of the files in an archive, in bytes, whatever the archive declares.
const MAX_BYTES: u64 = 400_000_000;

fn build(settings: &ProviderSettings) -> Result<Arc<dyn Adapter>, SettingsError> {
    // 192 kbit/s needs a more expensive plan; formats other than MP3 come without a header that
    // identifies them.
    let formats = ["mp3_44100_128", "mp3_44100_192"];
    let output_format = settings.word("output_format", &formats)?;
    Ok(Arc::new(ElevenLabsAdapter { output_format }))
}

#[derive(Debug)]
struct ElevenLabsAdapter {
    output_format: &'static str,
}

impl Adapter for ElevenLabsAdapter {
    fn limits(&self, kind: MediaKind, model: &str) -> Option<ModelLimits> {
        if kind == MediaKind::Music && music::is_song_model(model) {
            return Some(ModelLimits::Music(music::limits()));
        }
        let is_two_stems = model == TWO;
        (kind == MediaKind::Music).then(|| {
            ModelLimits::Music(MusicLimits::stems(StemLimits {
                groups: if is_two_stems {
                    vec![StemGroup::Vocals]
                } else {
                    GROUPS.to_vec()
                },
                two: true,
                complements: if model == SIX {
                    Vec::new()
                } else {
                    vec![StemGroup::Vocals]
                },
                full: !is_two_stems,
                other: !is_two_stems,
            }))
        })
    }

    fn pace(&self) -> PollPace {
        // There are no jobs, so nothing is ever polled.
        PollPace::new(Duration::from_secs(1), Duration::from_secs(1))
    }

    fn authorize(&self, secret: &Secret, _: SystemTime) -> Result<Authorization, ProviderError> {
        Ok(Authorization::header("xi-api-key", secret))
    }

    fn refusals(&self) -> Vec<RefusalRule<'_>> {
        vec![RefusalRule::http_statuses()]
    }

    fn start(&self, order: &Order) -> Result<Call, ProviderError> {
        let stems = match &order.work {
            WorkSpec::Stems(stems) => stems,
            WorkSpec::Song(song) => return music::start(order, song, self.output_format),
            WorkSpec::Video(_) | WorkSpec::Persona(_) => {
                let message = "this provider supports only music";
                return Err(ProviderError::new(ErrorClass::Rejected, message));
            }
        };
        let variation = match order.model.as_str() {
            TWO => TWO,
            SIX => SIX,
            _ if stems.single_group() == Some(StemGroup::Vocals) => TWO,
            _ => SIX,
        };
        let parts = vec![
            FormPart::text("stem_variation_id", variation),
            FormPart::file("file", &stems.source.file),
        ];
        Ok(
            Call::new("submit", Method::POST, "/v1/music/stem-separation")
                .with_query("output_format", self.output_format)
                .with_body(RequestBody::Multipart(parts))
                .mark_submission()
                .with_long_timeout(MAX_BYTES),
        )
    }

    fn read_submission(
        &self,
        order: &Order,
        _: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        if !answer.status.is_success() {
            return Err(class_by_code(answer.failure(describe)));
        }
        if let WorkSpec::Song(song) = &order.work {
            return music::read_song(order, song, answer);
        }
        // Unclear and not failed: with a success status, the work may have been done and charged.
        if !answer.body.starts_with(b"PK") {
            return Err(ProviderError::unreadable(
                "the provider's response is not an archive",
            ));
        }
        let outputs = identify_stems(unpack(&answer.body)?)?
            .into_iter()
            .map(|(target, bytes)| JobOutput {
                kind: OutputKind::Stem(target),
                source: OutputSource::Bytes(bytes),
            });
        AdapterStep::done(outputs.collect())
    }
}

/// The files of the archive. Neither the sizes nor the paths in it are trusted.
fn unpack(archive: &Bytes) -> Result<Vec<(String, Bytes)>, ProviderError> {
    let damaged = |reason: String| {
        ProviderError::new(
            ErrorClass::Failed,
            format!("the provider's archive is damaged: {reason}"),
        )
    };
    let mut archive =
        ZipArchive::new(Cursor::new(archive)).map_err(|error| damaged(error.to_string()))?;
    if archive.len() > MAX_FILES {
        return Err(damaged(format!("{} files", archive.len())));
    }
    let mut bytes_left = MAX_BYTES;
    let mut files = Vec::new();
    for index in 0..archive.len() {
        let file = archive
            .by_index(index)
            .map_err(|error| damaged(error.to_string()))?;
        let name = file
            .name()
            .map_err(|error| damaged(error.to_string()))?
            .into_owned();
        if file.is_dir() || is_sidecar(&name) {
            continue;
        }
        let mut bytes = Vec::new();
        // One byte more than allowed is read, so that an archive that is too large is noticed.
        let result = file.take(bytes_left + 1).read_to_end(&mut bytes);
        result.map_err(|error| damaged(error.to_string()))?;
        bytes_left = bytes_left
            .checked_sub(bytes.len() as u64)
            .ok_or_else(|| damaged(format!("more than {MAX_BYTES} bytes")))?;
        if !bytes.is_empty() {
            files.push((name, bytes.into()));
        }
    }
    Ok(files)
}

/// Whether it is a note, or a file that archivers add.
fn is_sidecar(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    name.starts_with('.')
        || path.starts_with("__MACOSX/")
        || ["json", "txt"]
            .iter()
            .any(|extension| ending.eq_ignore_ascii_case(extension))
}

/// Identifies the stem in each file.
fn identify_stems(files: Vec<(String, Bytes)>) -> Result<Vec<(StemTarget, Bytes)>, ProviderError> {
    let mut targets: Vec<_> = files.iter().map(|(name, _)| target(name)).collect();
    // Of two files one is the rest of the other. With more, an unidentified file could be any stem.
    if let [Some(StemTarget::Only(group)), None] | [None, Some(StemTarget::Only(group))] =
        targets[..]
    {
        let rest = Some(StemTarget::Without(group));
        targets = targets.into_iter().map(|target| target.or(rest)).collect();
    }
    let is_duplicate =
        |(index, target): (usize, &Option<StemTarget>)| targets[..index].contains(target);
    if targets.contains(&None) || targets.iter().enumerate().any(is_duplicate) {
        let names: Vec<_> = files.iter().map(|(name, _)| name.as_str()).collect();
        let message = format!(
            "the provider's file names do not identify the stems: {}",
            names.join(", ")
        );
        return Err(ProviderError::new(ErrorClass::Failed, message));
    }
    let named_files = targets.into_iter().zip(files);
    Ok(named_files
        .filter_map(|(target, (_, bytes))| Some((target?, bytes)))
        .collect())
}

/// The stem in a file of this name, by the last known word or pair of words in it. A song's title
/// comes before the stem.
fn target(path: &str) -> Option<StemTarget> {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    let name = name.rsplit_once('.').map_or(name, |(name, _)| name);
    let words: Vec<&str> = name
        .split(|sign: char| !sign.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    (0..words.len()).rev().find_map(|last| {
        let pair = last
            .checked_sub(1)
            .map(|first| words[first..=last].join(" "));
        pair.and_then(|pair| stem_names::target(&pair))
            .or_else(|| stem_names::target(words[last]))
    })
}

/// `{"detail": {"status", "message"}}`, or a list of faults in the form, or a text.
fn describe(body: &Value) -> ErrorDescription {
    let description = ErrorDescription::at(body, "/detail/status", "/detail/message");
    if description == ErrorDescription::default() {
        let list = ErrorDescription::at(body, "/detail/0/type", "/detail/0/msg");
        return ErrorDescription {
            message: list
                .message
                .or(ErrorDescription::at(body, "", "/detail").message),
            ..list
        };
    }
    description
}

fn class_by_code(error: ProviderError) -> ProviderError {
    let class = match error.code.as_deref() {
        // Comes with status 401.
        Some("quota_exceeded") => ErrorClass::Account,
        // The prompt names a musician or quotes existing lyrics.
        Some("bad_prompt") => ErrorClass::Refused,
        _ => error.class,
    };
    error.with_class(class)
}

#[cfg(test)]
mod tests;
