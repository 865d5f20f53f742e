//! `[music]`: the values of a song, its limits, and the clips in an answer.

use serde::Deserialize;
use serde_json::{Value, json};
use toml::Spanned;

use super::call_template::CallTemplate;
use super::fault::{CheckResult, RecipeFault};
use super::media_sections::MusicSection;
use super::order_values;
use super::placeholder::{OrderFile, TemplateValue, TemplateValues};
use super::pointer::PointerList;
use super::schema::{Recipe, ResultSection};
use crate::error::{ErrorClass, ProviderError};
use crate::limits::SongLimits;
use crate::order::{MediaFile, SongSpec};
use crate::port::{ClipFacts, JobOutput, OutputKind};

/// Maximum number of clips of an order.
const MAX_CLIPS: usize = 10;

/// `[result.clip]`: the places of a clip's properties within its item.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ClipPointers {
    id: PointerList,
    title: PointerList,
    tags: PointerList,
    lyrics: PointerList,
}

/// The values of an order for a song.
pub(super) fn values<'a>(
    recipe: &Recipe,
    song: &'a SongSpec,
) -> Result<TemplateValues<'a>, ProviderError> {
    let mentions = |name: &str| {
        let requests = recipe.submit.requests();
        requests.iter().any(|request| request.mentions(name))
    };
    let recording = cover_recording(song).filter(|_| mentions("recording"));
    // A clip that the provider did not make has no id there. Only a cover can be made from the
    // recording instead.
    let mut uploads = song.uploads.iter();
    if uploads
        .any(|(field, source)| source.upstream.is_none() && (field != COVER || recording.is_none()))
    {
        let message = "the provider continues only its own clips, and it did not make this one";
        return Err(ProviderError::new(ErrorClass::Rejected, message));
    }
    if recording.is_some_and(|file| file.bytes.is_empty()) {
        let message = "the provider needs the audio file itself, but no copy is stored here";
        return Err(ProviderError::new(ErrorClass::Rejected, message));
    }
    // Texts without their own field become part of the prompt.
    let lyrics = song.lyrics();
    let prompt_text = song.text("prompt").filter(|text| lyrics != Some(text));
    let texts = [
        song.text("gpt_description_prompt"),
        prompt_text,
        song.text("tags").filter(|_| !mentions("tags")),
        lyrics.filter(|_| !mentions("lyrics")),
    ];
    let mut prompt = texts.into_iter().flatten().collect::<Vec<_>>().join("\n");
    // Every text has its own field in this recipe. Every song needs a prompt, so the prompt repeats
    // the tags or the lyrics.
    if prompt.is_empty() {
        song.text("tags")
            .or(lyrics)
            .unwrap_or_default()
            .clone_into(&mut prompt);
    }
    let description = song.description();
    let title = song
        .text("title")
        .map_or_else(|| title_from_prompt(&prompt), str::to_owned);
    let mut values = TemplateValues::from([
        ("prompt", TemplateValue::Plain(json!(prompt))),
        ("title", TemplateValue::Plain(json!(title))),
        (
            "instrumental",
            TemplateValue::Plain(json!(song.is_instrumental())),
        ),
    ]);
    let recording = recording.map(|file| ("recording", TemplateValue::File(OrderFile::new(file))));
    values.extend(recording);
    let text = |text: Option<&str>| text.map(|text| json!(text));
    let number = |name: &str| {
        song.fields
            .get(name)
            .filter(|value| value.is_number())
            .cloned()
    };
    let continue_at = number("continue_at");
    let milliseconds = continue_at.as_ref().and_then(Value::as_f64);
    let optional = [
        ("lyrics", text(lyrics)),
        ("tags", text(song.text("tags"))),
        (
            "style",
            text(Some(description.as_str()).filter(|style| !style.is_empty())),
        ),
        ("negative_tags", text(song.text("negative_tags"))),
        ("seconds", number("seconds")),
        ("persona", text(song.text("persona_id"))),
        ("clip", text(song.text("continue_clip_id"))),
        (
            "continue_at_ms",
            milliseconds.map(|seconds| json!((seconds * 1000.0).round())),
        ),
        ("continue_at", continue_at),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            values.insert(name, TemplateValue::Plain(without_fraction(value)));
        }
    }
    Ok(values)
}

/// The field that names the clip of which a cover is made.
const COVER: &str = "cover_clip_id";

/// The recording of the clip to cover.
fn cover_recording(song: &SongSpec) -> Option<&MediaFile> {
    let mut uploads = song.uploads.iter();
    let cover = uploads.find(|(field, _)| field == COVER);
    cover.map(|(_, recording)| &recording.file)
}

/// Turns a whole number into an integer, so that it is written without a decimal point.
fn without_fraction(value: Value) -> Value {
    let float = value
        .as_f64()
        .filter(|float| float.fract() == 0.0 && float.abs() < 1e9);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "less than a thousand million"
    )]
    float.map_or(value, |float| json!(float as i64))
}

/// A title for a song without one, because some providers require it.
fn title_from_prompt(prompt: &str) -> String {
    let line = prompt
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with('['));
    line.unwrap_or("Song").chars().take(60).collect()
}

/// The call for a song that has these values besides those that are always present.
fn request<'r>(recipe: &'r Recipe, names: &[&str]) -> CallTemplate<'r> {
    let is_present = |name: &str| {
        names.contains(&name) || order_values::is_always_there(name, order_values::MUSIC)
    };
    recipe.submit.request_for(is_present)
}

/// The values by which variants of the submission can be selected.
const SHAPES: [&str; 5] = ["lyrics", "style", "instrumental", "clip", "recording"];

impl MusicSection {
    /// Whether the calls for all orders contain this value, whatever other values they have.
    fn always_sends(&self, recipe: &Recipe, name: &str) -> bool {
        let has_task = |name: &str| self.tasks.iter().any(|task| task == name);
        let (extends, covers) = (has_task("extend"), has_task("cover"));
        // Every combination that can select a variant: a field is offered only if it is never lost.
        let sets = (0..1_usize << SHAPES.len()).map(|bits| {
            let names = SHAPES.iter().enumerate();
            let names = names
                .filter(|(bit, _)| bits >> bit & 1 == 1)
                .map(|(_, name)| *name);
            names.chain([name]).collect::<Vec<_>>()
        });
        sets.filter(|names| extends || !names.contains(&"clip"))
            .filter(|names| covers || !names.contains(&"recording"))
            // An order has at most one of the two.
            .filter(|names| {
                !["clip", "recording"]
                    .iter()
                    .all(|field| names.contains(field))
            })
            .all(|names| request(recipe, &names).mentions(name))
    }

    /// The limits of songs.
    pub(super) fn songs(&self, recipe: &Recipe) -> SongLimits {
        let requests = recipe.submit.requests();
        let sends = |name: &str| requests.iter().any(|request| request.mentions(name));
        let mut variants = recipe.submit.variant.iter();
        let fields = [
            ("negative_tags", self.always_sends(recipe, "negative_tags")),
            ("seconds", self.always_sends(recipe, "seconds")),
            (
                "make_instrumental",
                sends("instrumental") || variants.any(|variant| variant.is_for("instrumental")),
            ),
            // Without their own field, the lyrics are part of the prompt.
            ("lyrics", sends("lyrics") || sends("prompt")),
        ];
        let supported = fields.into_iter().filter(|(_, is_supported)| *is_supported);
        let seconds = self.seconds.as_ref().map(Spanned::get_ref);
        SongLimits {
            clips: self.clips,
            fields: Some(supported.map(|(field, _)| field).collect()),
            seconds: seconds.map(|durations| (durations.min(), durations.max())),
        }
    }
}

pub(super) fn check(recipe: &Recipe, section: &Spanned<MusicSection>) -> CheckResult {
    let music = section.get_ref();
    if music.tasks.is_empty() || !(1..=MAX_CLIPS).contains(&music.clips) {
        let message = "[music] must have at least one task, and clips must be from 1 to 10";
        return Err(RecipeFault::new(&section.span(), message));
    }
    if let Some(seconds) = &music.seconds {
        let durations = seconds.get_ref();
        if durations.min() == 0 || durations.min() > durations.max() {
            let message = "seconds must be at least 1, in ascending order";
            return Err(RecipeFault::new(&seconds.span(), message));
        }
        super::limits::all_mentioned(&request(recipe, &["seconds"]), &[&["seconds"]])?;
    }
    for (task, name) in [("extend", "clip"), ("cover", "recording")] {
        if music.tasks.iter().any(|music_task| music_task == task) {
            super::limits::all_mentioned(&request(recipe, &[name]), &[&[name]])?;
        }
    }
    let description_fields: &[&str] = &["prompt", "lyrics", "tags", "style"];
    super::limits::all_mentioned(&request(recipe, &[]), &[description_fields])
}

impl ResultSection {
    /// The clips in an answer: one for each item, or for each URL. `job_id` is the provider's id of
    /// the job that made them.
    pub(super) fn clips_in(
        &self,
        body: &Value,
        song: &ClipFacts,
        job_id: Option<&str>,
    ) -> Vec<JobOutput> {
        let Some(items) = &self.items else {
            let sources = self.addresses_in(body).into_iter();
            let outputs = sources.map(|source| JobOutput {
                kind: OutputKind::Clip(Box::new(song.clone())),
                source,
            });
            return outputs.collect();
        };
        let items = items.list(body).unwrap_or_default().iter();
        let output = |item: &Value| {
            let text_or = |pointers: &PointerList, default: &str| {
                pointers.text(item).unwrap_or_else(|| default.to_owned())
            };
            let facts = ClipFacts {
                id: text_or(&self.clip.id, ""),
                title: text_or(&self.clip.title, &song.title),
                tags: text_or(&self.clip.tags, &song.tags),
                prompt: text_or(&self.clip.lyrics, &song.prompt),
                task_id: job_id.map(str::to_owned),
                ..song.clone()
            };
            let source = self.addresses_in(item).into_iter().next()?;
            Some(JobOutput {
                kind: OutputKind::Clip(Box::new(facts)),
                source,
            })
        };
        items.filter_map(output).collect()
    }
}
