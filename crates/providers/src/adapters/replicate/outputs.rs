//! Outputs and progress of a prediction.

use serde_json::Value;

use super::STEMS;
use crate::order::StemTarget;
use crate::port::{JobHandle, JobOutput, OutputKind};

/// Reads an output: a URL, a list of URLs, or an object of URLs. A model's preview pictures may be
/// among them.
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
    let kind = handle.output_kind();
    let is_video_file = |url: &&&str| {
        let mut extensions = [".mp4", ".webm", ".mov"].iter();
        kind == OutputKind::Video && extensions.any(|extension| url.contains(extension))
    };
    let url = urls.iter().find(is_video_file).or(urls.first()).copied();
    url.map(|url| JobOutput::at(kind, url))
        .into_iter()
        .collect()
}

/// With one stem requested, `other` is everything else.
fn stem_outputs(requested: &str, output: &Value) -> Vec<JobOutput> {
    let url_of = |name: &str| output.get(name).and_then(Value::as_str);
    let mut outputs = Vec::new();
    for (group, name) in STEMS {
        if requested == "all" || requested == name {
            outputs
                .extend(url_of(name).map(|url| JobOutput::stem_at(StemTarget::Only(group), url)));
        }
    }
    let rest = STEMS
        .iter()
        .find(|(_, name)| *name == requested)
        .map_or(StemTarget::Other, |(group, _)| StemTarget::Without(*group));
    // Without any stem, the rest alone is not a separation.
    if !outputs.is_empty() {
        outputs.extend(url_of("other").map(|url| JobOutput::stem_at(rest, url)));
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
