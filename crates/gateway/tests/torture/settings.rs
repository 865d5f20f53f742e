//! The gateway under torture: providers that deduplicate and providers that do not,
//! models with one route and with two, a price of every kind.

use simulator::Simulator;

/// How long a request waits before its answer asks the caller to retry.
const WAIT: &str = "2s";

/// A provider: its name, its protocol at the simulator, and more of its lines.
const PROVIDERS: [(&str, &str, &str); 6] = [
    // Makes one job of two submissions with the same key.
    ("safe", "openai-videos", "idempotency = true"),
    ("plain", "openai-videos", ""),
    ("fal", "fal", "api_key = \"simulated-id:simulated-secret\""),
    ("runway", "runway", ""),
    ("lalal", "lalal", ""),
    ("suno", "suno-family", "upload = \"direct\""),
];

const MODELS: &str = r#"
[models.film-safe]
kind = "video"
price = { unit = "second", usd = "0.10" }
routes = [{ provider = "safe", model = "sora-2" }]

[models.film-plain]
kind = "video"
price = { unit = "video", usd = "0.35" }
routes = [{ provider = "plain", model = "sora-2" }]

[models.film-either]
kind = "video"
price = { unit = "megapixel_second", usd = "0.07" }
routes = [{ provider = "fal", model = "fal-ai/veo3.1" }, { provider = "runway", model = "gen4.5" }]

[models.film-mixed]
kind = "video"
price = { unit = "second", usd = "0.033333" }
routes = [{ provider = "plain", model = "sora-2" }, { provider = "safe", model = "sora-2" }]

[models.band-split]
kind = "music"
price = { unit = "stem", usd = "0.05" }
routes = [{ provider = "lalal", model = "phoenix" }]

[models.band-either]
kind = "music"
price = { unit = "audio_minute", usd = "0.30" }
routes = [{ provider = "lalal", model = "phoenix" }, { provider = "suno", model = "chirp-auk" }]

[models.band-songs]
kind = "music"
price = { unit = "task", usd = "0.12" }
routes = [{ provider = "suno", model = "chirp-record" }]

[models.animatic-1]
price = { unit = "second", usd = "0.01" }
"#;

/// Models that make videos, and the size that is ordered, if one must be named.
pub(crate) const FILMS: [(&str, Option<&str>); 5] = [
    ("film-safe", None),
    ("film-plain", None),
    ("film-either", Some("1280x720")),
    ("film-mixed", None),
    ("animatic-1", Some("480x480")),
];
/// Models that separate a recording.
pub(crate) const SPLITTERS: [&str; 2] = ["band-split", "band-either"];
/// The model that makes songs.
pub(crate) const SONGS: &str = "band-songs";

/// Protocols that the simulator serves to this gateway.
pub(crate) const PROTOCOLS: [&str; 5] = ["openai-videos", "fal", "runway", "lalal", "suno-family"];

/// Settings that differ between processes: the database, more lines, the providers' addresses.
#[derive(Debug, Clone, Default)]
pub(crate) struct GatewaySettings {
    /// Address of the database.
    pub(crate) database: String,
    /// More lines before the first table.
    pub(crate) lines: String,
    /// More tables.
    pub(crate) tables: String,
    /// The operator has changed the providers' settings: their other address, other keys.
    pub(crate) is_moved: bool,
    /// The operator has turned idempotency keys off at one provider and on at the other.
    pub(crate) is_flipped: bool,
}

/// A part of the other address of each provider.
pub(crate) const OTHER_HOST: &str = "//localhost:";
const HOST: &str = "//127.0.0.1:";

/// The settings file.
pub(crate) fn toml(simulator: &Simulator, settings: &GatewaySettings) -> String {
    let GatewaySettings {
        database,
        lines,
        tables,
        is_moved,
        is_flipped,
    } = settings;
    let mut text = format!(
        "listen = \"127.0.0.1:0\"\ndatabase = \"{database}\"\nwait_limit = \"{WAIT}\"\nlog = \"warn\"\nworkers = 2\n{lines}\
         [fetch]\nallow_networks = [\"127.0.0.0/8\"]\n{tables}"
    );
    for (name, protocol, extra_lines) in PROVIDERS {
        let mut url = simulator.url(protocol);
        if *is_moved {
            url = url.replace(HOST, OTHER_HOST);
        }
        let extra_lines = match name {
            "safe" if *is_flipped => "",
            "plain" if *is_flipped => "idempotency = true",
            _ => extra_lines,
        };
        let key = match (extra_lines.contains("api_key"), is_moved) {
            (true, _) => "",
            (false, false) => "api_key = \"sk-simulated-0123456789\"\n",
            (false, true) => "api_key = \"sk-simulated-9876543210\"\n",
        };
        let table = format!(
            "\n[providers.{name}]\nprotocol = \"{protocol}\"\nbase_url = \"{url}\"\n{key}{extra_lines}\n"
        );
        text.push_str(&table);
    }
    text + MODELS
}
