//! The protocols, one file each; this file is their table.
//!
//! To add one: a file here, a line in [`PROTOCOLS`], a model of it in
//! `tools/simulator`, a case in `tests/contract` and a page in
//! `docs/providers`.

mod ark_tasks;
mod audioshake;
mod chat_video;
mod comfyui;
mod dashscope;
mod elevenlabs;
mod fal;
mod gemini_veo;
mod input_slot;
mod kling;
mod lalal;
mod luma;
mod mediagate;
mod minimax;
mod modelark;
mod musicai;
mod openai_videos;
pub mod recipe;
mod replicate;
mod runway;
mod stable_audio;
mod stem_names;
mod suno_family;
mod xai;

use std::sync::Arc;

use url::Url;

use crate::catalogue::KnownModel;
use crate::limits::ModelLimits;
use crate::port::Adapter;
use crate::secret::Secret;
use crate::settings::{ProviderSettings, SettingsError};

/// The description of a protocol.
#[derive(Debug, Clone, Copy)]
pub struct Protocol {
    /// Its name in `protocol = "…"`.
    pub name: &'static str,
    /// Its provider's default URL; `None` if there is none.
    pub base_url: Option<&'static str>,
    /// The names of the adapter's own options.
    pub options: &'static [&'static str],
    /// Whether it works without a credential.
    pub anonymous: bool,
    /// Builds an adapter with these settings.
    pub build: fn(&ProviderSettings) -> Result<Arc<dyn Adapter>, SettingsError>,
}

/// Options whose value is one of a fixed set of words, so it may be shown.
pub const WORD_OPTIONS: &[&str] = &[
    "api",
    "audio",
    "batch",
    "cancel",
    "duration",
    "encoding",
    "extraction",
    "guitar",
    "output_format",
    "seconds",
    "upload",
];

/// Options that only shape new submissions: a job that was made before such an option changed is
/// asked for and read as before.
const SUBMISSION_OPTIONS: &[&str] = &[
    "audio",
    "duration",
    "encoding",
    "extraction",
    "fps",
    "guitar",
    "idempotency",
    "output_format",
    "person_generation",
    "seconds",
];

/// Whether an option may change where a job is, or the meaning of its handle or of its answers.
pub fn concerns_jobs(option: &str) -> bool {
    // The text of a recipe is in `Adapter::job_settings`; a path says nothing about it.
    option != "recipe" && !SUBMISSION_OPTIONS.contains(&option)
}

/// Every protocol, in the order of the documentation.
pub static PROTOCOLS: &[Protocol] = &[
    openai_videos::PROTOCOL,
    chat_video::PROTOCOL,
    gemini_veo::PROTOCOL,
    fal::PROTOCOL,
    replicate::PROTOCOL,
    runway::PROTOCOL,
    luma::PROTOCOL,
    kling::PROTOCOL,
    minimax::PROTOCOL,
    modelark::PROTOCOL,
    xai::PROTOCOL,
    dashscope::PROTOCOL,
    suno_family::PROTOCOL,
    elevenlabs::PROTOCOL,
    musicai::PROTOCOL,
    lalal::PROTOCOL,
    audioshake::PROTOCOL,
    comfyui::PROTOCOL,
    recipe::PROTOCOL,
];

/// Recipes that are part of the program, each a protocol named `recipe:` plus its own name.
pub static SHIPPED_RECIPES: &[Protocol] = recipe::SHIPPED_RECIPES;

/// The protocol of this name.
pub fn protocol(name: &str) -> Option<&'static Protocol> {
    let mut protocols = PROTOCOLS.iter().chain(SHIPPED_RECIPES);
    protocols.find(|protocol| protocol.name == name)
}

/// The protocol or the recipe of a model in the catalogue.
fn protocol_of(entry: &KnownModel) -> Option<&'static Protocol> {
    let name = &entry.provider;
    protocol(name).or_else(|| protocol(&format!("recipe:{name}")))
}

/// The limits that a protocol itself gives to a model of the catalogue.
pub fn limits_of(entry: &KnownModel) -> Option<ModelLimits> {
    let mut settings = ProviderSettings::new(&entry.name, entry.options.clone());
    // Empty, otherwise the entry itself would be returned instead of the protocol's limits.
    settings.catalogue = Arc::default();
    let adapter = (protocol_of(entry)?.build)(&settings).ok()?;
    adapter.limits(entry.kind, &entry.id)
}

/// The fault of a catalogue entry, in its protocol or in its model's inputs.
pub fn fault_of_entry(entry: &KnownModel) -> Option<String> {
    if protocol_of(entry).is_none() {
        return Some("has the name of no known protocol or recipe".into());
    }
    if entry.inputs.is_empty() {
        return None;
    }
    let message = match entry.provider.as_str() {
        "replicate" => replicate::fault_of_inputs(&entry.inputs)?,
        "runway" => runway::fault_of_inputs(&entry.inputs)?,
        "modelark" => modelark::fault_of_inputs(&entry.inputs)?,
        _ => "all models of this protocol use the same fields; remove this".into(),
    };
    Some(format!("{}: inputs: {message}", entry.id))
}

/// The base URL of a provider's paths.
pub fn base_url(protocol: &Protocol, settings: &ProviderSettings) -> Result<Url, SettingsError> {
    if let Some(url) = &settings.base_url {
        return Ok(url.clone());
    }
    let adapter = (protocol.build)(settings)?;
    let adapter_url = adapter.base_url().or(protocol.base_url);
    let adapter_url = adapter_url.and_then(|url| Url::parse(url).ok());
    adapter_url.ok_or_else(|| {
        let message = format!(
            "the protocol {} has no default URL; set it here",
            protocol.name
        );
        SettingsError::at("base_url", message)
    })
}

/// A recognisable fault of a configured base URL, with a correction; `own` is the protocol's own
/// base URL.
pub fn fault_of_address(url: &Url, own: Option<&str>) -> Option<String> {
    let host = url.host()?;
    if url.scheme() == "http" && is_public(&host) {
        return Some(format!(
            "would send the key unencrypted; use \"https://{host}{}\"",
            url.path().trim_end_matches('/')
        ));
    }
    let path = url.path().trim_end_matches('/');
    let parts: Vec<&str> = path.rsplit('/').take(2).collect();
    if let [last, before] = parts[..]
        && last == before
        && !last.is_empty()
    {
        return Some(format!("contains \"/{last}\" twice; remove one"));
    }
    for endpoint in ["/chat/completions", "/videos"] {
        if let Some(base_path) = path.strip_suffix(endpoint) {
            let host = url.origin().ascii_serialization();
            return Some(format!(
                "must not contain the endpoint, which is added automatically; use \"{host}{base_path}\""
            ));
        }
    }
    let own = own.and_then(|own| Url::parse(own).ok())?;
    if own.path() == "/v1" && path.is_empty() && is_public(&host) {
        let host = url.origin().ascii_serialization();
        return Some(format!("lacks the path of the API; use \"{host}/v1\""));
    }
    // A provider's regional hosts share its domain and path.
    let domain = |url: &Url| {
        let host = url.host_str()?.rsplit('.').take(2);
        Some(host.collect::<Vec<_>>().join("."))
    };
    let is_same = is_public(&host) && domain(&own) == domain(url);
    let differs = own.path().trim_end_matches('/') != path;
    (is_same && differs).then(|| {
        let host = url.origin().ascii_serialization();
        let path = own.path().trim_end_matches('/');
        format!("is not the URL of this provider's API; use \"{host}{path}\"")
    })
}

/// Prefixes that identify a provider's keys, with the protocol that uses them.
const KEY_PREFIXES: [(&str, &str); 6] = [
    ("r8_", "replicate"),
    ("xai-", "xai"),
    ("AIza", "gemini-veo"),
    ("sk-proj-", "openai-videos"),
    ("sk-or-", "recipe:openrouter"),
    ("sk_", "elevenlabs"),
];

/// The fault of a credential that evidently belongs to another provider.
pub fn fault_of_foreign_secret(secret: &Secret, protocol: &str) -> Option<String> {
    let text = secret.expose().trim();
    let (prefix, owner) = KEY_PREFIXES
        .iter()
        .find(|(prefix, _)| text.starts_with(prefix))?;
    (*owner != protocol).then(|| {
        format!(
            "begins with \"{prefix}\" like a key of another provider; use a key of this provider"
        )
    })
}

/// A fault that makes a credential wrong for every provider, with a correction.
pub fn fault_of_any_secret(secret: &Secret) -> Option<&'static str> {
    let text = secret.expose().trim();
    let first_word = text.split_whitespace().next().unwrap_or_default();
    if ["bearer", "key", "token"].contains(&first_word.to_ascii_lowercase().as_str())
        && first_word != text
    {
        return Some("must be the key alone, without a word such as \"Bearer\" before it");
    }
    if text.starts_with('$') {
        return Some("is the name of a variable; use \"env:NAME\"");
    }
    // A service account is JSON.
    let is_json = text.starts_with('{');
    (!is_json && text.contains(char::is_whitespace)).then_some("contains a space or a line break")
}

/// Whether a host is public, judged only by its name or address.
fn is_public(host: &url::Host<&str>) -> bool {
    const PRIVATE_SUFFIXES: [&str; 8] = [
        "localhost",
        "local",
        "internal",
        "lan",
        "test",
        "invalid",
        "example",
        "arpa",
    ];
    match host {
        // A name without a dot belongs to the local network.
        url::Host::Domain(name) => name
            .trim_end_matches('.')
            .rsplit_once('.')
            .is_some_and(|(_, last)| !PRIVATE_SUFFIXES.contains(&last)),
        url::Host::Ipv4(ip) => !(ip.is_loopback() || ip.is_private() || ip.is_link_local()),
        url::Host::Ipv6(ip) => !(ip.is_loopback() || ip.is_unique_local()),
    }
}

#[cfg(test)]
mod optional_settings_tests;

#[cfg(test)]
pub(crate) mod tests {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use serde_json::Value;

    use super::*;
    use crate::error::ProviderError;
    use crate::order::{
        MediaFile, Order, SeparationSpec, SourceRecording, StemGroup, StemTarget, VideoOptions,
        VideoSpec, WorkSpec,
    };
    use crate::port::LookupPage;
    use crate::response::ProviderResponse;

    /// The adapter of a protocol with these options.
    pub(crate) fn adapter(name: &str, options: &Value) -> Arc<dyn Adapter> {
        let settings =
            ProviderSettings::new("test", options.as_object().cloned().unwrap_or_default());
        (protocol(name).unwrap().build)(&settings).unwrap()
    }

    /// A five-second video from a prompt.
    pub(crate) fn video(model: &str) -> Order {
        Order {
            idempotency_key: "0197-key".into(),
            model: model.into(),
            extra: serde_json::Map::new(),
            work: WorkSpec::Video(VideoSpec {
                prompt: "a lighthouse in a storm".into(),
                pictures: Vec::new(),
                seconds: 5,
                size: (1280, 720),
                options: VideoOptions::default(),
            }),
        }
    }

    /// When the order with the lost answer was submitted.
    pub(crate) fn since() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_700_000_000)
    }

    /// Reads the answer to an order's look-up.
    pub(crate) fn look_up(
        adapter: &dyn Adapter,
        order: &Order,
        status: u16,
        body: &Value,
    ) -> Result<LookupPage, ProviderError> {
        let context = adapter.find(order, since()).unwrap().context();
        adapter.read_lookup(
            order,
            since(),
            &context,
            &ProviderResponse::from_json(status, body),
        )
    }

    /// The ids of the jobs on a page.
    pub(crate) fn ids(page: &LookupPage) -> Vec<&str> {
        let jobs = page.jobs.iter();
        jobs.map(|job| job.handle.text("id")).collect()
    }

    /// The first bytes of a PNG file, in place of a picture.
    pub(crate) fn picture() -> MediaFile {
        MediaFile {
            name: "picture.png".into(),
            mime: "image/png",
            bytes: bytes::Bytes::from_static(b"\x89PNG\r\n\x1a\n"),
            url: None,
        }
    }

    /// Vocals and the rest of a recording of ten seconds.
    pub(crate) fn stems(model: &str) -> Order {
        Order {
            idempotency_key: "0197-key".into(),
            model: model.into(),
            extra: serde_json::Map::new(),
            work: WorkSpec::Stems(SeparationSpec {
                source: SourceRecording {
                    file: MediaFile {
                        name: "song.flac".into(),
                        mime: "audio/flac",
                        bytes: bytes::Bytes::from_static(b"fLaC"),
                        url: None,
                    },
                    milliseconds: 10_000,
                    upstream: None,
                },
                targets: vec![
                    StemTarget::Only(StemGroup::Vocals),
                    StemTarget::Without(StemGroup::Vocals),
                ],
                full: false,
                title: "Song".into(),
            }),
        }
    }
}
