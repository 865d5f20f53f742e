//! Outputs and progress of a prediction.

use serde_json::Value;

use super::STEMS;
use crate::order::StemTarget;
use crate::port::{JobHandle, JobOutput, OutputKind};

/// A URL, a list of URLs, or an object of URLs. A model's preview pictures may be among them.
pub(super) fn outputs(handle: &JobHandle, output: &Value) -> Vec<JobOutput> {
    if let stems @ ("all" | "vocals" | "drums" | "bass" | "guitar" | "piano") = handle.text("stems")
    {
        return stem_outputs(stems, output);
    }
    let mut urls: Vec<&str> = match output {
        Value::String(url) => vec![url],
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        Value::Object(members) => members.values().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    urls.retain(|url| url.starts_with("http"));
    let what = handle.output_kind();
    let is_film = |url: &&&str| {
        let mut endings = [".mp4", ".webm", ".mov"].iter();
        what == OutputKind::Video && endings.any(|end| url.contains(end))
    };
    let url = urls.iter().find(is_film).or(urls.first()).copied();
    url.map(|url| JobOutput::at(what, url))
        .into_iter()
        .collect()
}

/// With one stem requested, `other` is everything else.
fn stem_outputs(wanted: &str, output: &Value) -> Vec<JobOutput> {
    let at = |name: &str| output.get(name).and_then(Value::as_str);
    let mut outputs = Vec::new();
    for (group, name) in STEMS {
        if wanted == "all" || wanted == name {
            outputs.extend(at(name).map(|url| JobOutput::stem_at(StemTarget::Only(group), url)));
        }
    }
    let rest = STEMS
        .iter()
        .find(|(_, name)| *name == wanted)
        .map_or(StemTarget::Other, |(group, _)| StemTarget::Without(*group));
    // Without any stem, the rest alone is not a separation.
    if !outputs.is_empty() {
        outputs.extend(at("other").map(|url| JobOutput::stem_at(rest, url)));
    }
    outputs
}

/// The last `NN%|` of the logs, as progress bars write it.
pub(super) fn progress(body: &Value) -> Option<u8> {
    let (before, _) = body["logs"].as_str()?.rsplit_once("%|")?;
    let start = before
        .trim_end_matches(|digit: char| digit.is_ascii_digit())
        .len();
    before[start..]
        .parse()
        .ok()
        .filter(|percent| *percent <= 100)
}
