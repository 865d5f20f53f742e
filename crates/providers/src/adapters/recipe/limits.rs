//! Limits of a recipe's models, and a check that its calls use everything that they allow.

use serde_json::json;
use toml::Spanned;

use super::call_template::CallTemplate;
use super::fault::{CheckResult, RecipeFault};
use super::media_sections::{PicturesSection, VideoModel, VideoSection};
use super::placeholder::{TemplateValue, TemplateValues};
use super::schema::Recipe;
use super::template::Template;
use super::{order_values, songs};
use crate::frame_size;
use crate::limits::{
    Durations, FileHandover, MusicLimits, PicturePurpose, SourcePictureLimits, VideoLimits,
};

/// More than any model makes; bounds the checks of ranges.
const LONGEST: u32 = 3_600;

impl VideoSection {
    /// The section of this model, if it has one.
    fn model_section(&self, model: &str) -> Option<&VideoModel> {
        let mut sections = self.model.iter();
        sections.find(|section| frame_size::fits(&section.name, model))
    }

    /// What this model does with pictures.
    pub(super) fn pictures(&self, model: &str) -> PicturesSection {
        let section = self.model_section(model);
        section
            .and_then(|section| section.pictures)
            .unwrap_or(self.pictures)
    }

    /// The limits of this model.
    pub(super) fn limits(&self, model: &str) -> VideoLimits {
        let model_section = self.model_section(model);
        let sizes = model_section.and_then(|model_section| model_section.sizes.as_ref());
        let seconds = model_section.and_then(|model_section| model_section.seconds.as_ref());
        let pictures = self.pictures(model);
        let durations = seconds.unwrap_or(&self.seconds).get_ref().clone();
        let default = model_section
            .and_then(|model_section| model_section.default_seconds)
            .or(self.default_seconds)
            .filter(|seconds| durations.contains(f64::from(*seconds)));
        let pictures = SourcePictureLimits {
            max: pictures.max,
            needed: pictures.needed,
            purpose: if pictures.references {
                PicturePurpose::References
            } else {
                PicturePurpose::Frames
            },
            references: pictures.or_references,
            handover: if pictures.address_only {
                FileHandover::AddressOnly
            } else {
                FileHandover::Any
            },
        };
        VideoLimits {
            sizes: sizes
                .unwrap_or(&self.sizes)
                .iter()
                .map(|size| size.0)
                .collect(),
            default_seconds: default.unwrap_or_else(|| durations.min()),
            durations,
            pictures,
            negative_prompt: model_section
                .and_then(|model_section| model_section.negative_prompt)
                .unwrap_or(self.negative_prompt),
            seed: model_section
                .and_then(|model_section| model_section.seed)
                .unwrap_or(self.seed),
            audio: model_section
                .and_then(|model_section| model_section.audio)
                .or(self.audio),
            max_prompt: model_section
                .and_then(|model_section| model_section.max_prompt)
                .unwrap_or(self.max_prompt),
            ..VideoLimits::default()
        }
    }

    /// The limits of models without a separate section, and of those with one.
    fn all_limits(&self) -> Vec<VideoLimits> {
        // A pattern without its `*` is a name that it matches.
        let own = self.model.iter().map(|own| own.name.trim_end_matches('*'));
        let names = std::iter::once("").chain(own);
        names.map(|name| self.limits(name)).collect()
    }
}

/// Checks that the calls use every value that the limits allow. Otherwise a value could be ordered
/// and paid for, but not sent.
pub(super) fn check(recipe: &Recipe) -> CheckResult {
    if let Some(video) = &recipe.video {
        check_video(recipe, video)?;
    }
    match &recipe.music {
        Some(music) => songs::check(recipe, music),
        None => Ok(()),
    }
}

/// A recipe's limits of music.
pub(super) fn music(recipe: &Recipe) -> Option<MusicLimits> {
    let music = recipe.music.as_ref()?.get_ref();
    Some(MusicLimits {
        stems: None,
        tasks: music.tasks.clone(),
        personas: recipe.persona.is_some(),
        songs: music.songs(recipe),
    })
}

fn check_video(recipe: &Recipe, section: &Spanned<VideoSection>) -> CheckResult {
    let video = section.get_ref();
    let model_sections = video
        .model
        .iter()
        .filter_map(|model_sections| model_sections.seconds.as_ref());
    for seconds in model_sections.chain([&video.seconds]) {
        let durations = seconds.get_ref();
        let (min, max) = (durations.min(), durations.max());
        if min == 0 || max > LONGEST || min > max {
            let message = "seconds must be from 1 to 3600, in ascending order";
            return Err(RecipeFault::new(&seconds.span(), message));
        }
    }
    for limits in video.all_limits() {
        if limits.sizes.is_empty() {
            return Err(RecipeFault::new(
                &section.span(),
                "at least one size is required",
            ));
        }
        for pictures in picture_sets(&limits.pictures) {
            let request = request_with(recipe, pictures);
            let mut required: Vec<&[&str]> = vec![&["prompt"]];
            required.extend(pictures.iter().map(std::slice::from_ref));
            if limits.durations.min() != limits.durations.max() {
                required.push(&["seconds"]);
            }
            // A picture often decides the size.
            if limits.sizes.len() > 1 && pictures.is_empty() {
                required.push(&["size", "width", "height", "ratio", "tier"]);
            }
            all_mentioned(&request, &required)?;
            // Each value with each set of pictures, because any of them may select another variant.
            for (name, is_offered) in [
                ("seed", limits.seed),
                ("negative_prompt", limits.negative_prompt),
                ("audio", limits.audio.is_some()),
            ] {
                if is_offered {
                    let names: Vec<&str> = pictures.iter().copied().chain([name]).collect();
                    all_mentioned(&request_with(recipe, &names), &[&[name]])?;
                }
            }
        }
    }
    Ok(())
}

/// The sets of pictures that an order may have.
fn picture_sets(pictures: &SourcePictureLimits) -> Vec<&'static [&'static str]> {
    let mut sets: Vec<&[&str]> = Vec::new();
    if !pictures.needed || pictures.max == 0 {
        sets.push(&[]);
    }
    match (pictures.purpose, pictures.max) {
        (_, 0) => {}
        (PicturePurpose::References, _) => sets.push(&["references"]),
        (PicturePurpose::Frames, 1) => sets.push(&["image"]),
        (PicturePurpose::Frames, _) => {
            sets.extend([&["image"] as &[&str], &["image", "last_frame"]]);
        }
    }
    if pictures.references > 0 {
        sets.push(&["references"]);
    }
    sets
}

/// The call for a video that has these values besides those that are always present.
fn request_with<'r>(recipe: &'r Recipe, names: &[&str]) -> CallTemplate<'r> {
    let is_present = |name: &str| {
        names.contains(&name) || order_values::is_always_there(name, order_values::VIDEO)
    };
    recipe.submit.request_for(is_present)
}

/// Checks that at least one name of each of these sets is used.
pub(super) fn all_mentioned(request: &CallTemplate<'_>, name_sets: &[&[&str]]) -> CheckResult {
    for names in name_sets {
        if !names.iter().any(|name| request.mentions(name)) {
            let span = request.body.map_or(request.path.span(), Spanned::span);
            let names = names.join("}, {");
            let message = format!("the limits allow {{{names}}}, but this call does not send it");
            return Err(RecipeFault::new(&span, message));
        }
    }
    Ok(())
}

/// Checks that maps have a line for each value that the limits allow, and that a URL is required
/// only of files that always have one.
pub(super) fn check_values(recipe: &Recipe, template: &Template) -> Result<(), String> {
    let all_limits = recipe
        .video
        .as_ref()
        .map(|video| video.get_ref().all_limits());
    let all_limits = all_limits.unwrap_or_default();
    for placeholder in template.placeholders() {
        let mut with_pictures = all_limits.iter().filter(|limits| limits.pictures.max > 0);
        let has_urls =
            with_pictures.all(|limits| limits.pictures.handover == FileHandover::AddressOnly);
        if placeholder.needs_address() && placeholder.name == "recording" {
            return Err(
                "{recording:url} cannot be used, because a recording may have no URL; use {recording} or \
                 {recording:uploaded}"
                    .to_owned(),
            );
        }
        if placeholder.needs_address() && !has_urls {
            return Err(format!(
                "{{{}:url}} requires address_only = true; otherwise there may be no URL",
                placeholder.name
            ));
        }
        if placeholder.map.is_none() {
            continue;
        }
        for limits in &all_limits {
            for size in &limits.sizes {
                let values = order_values::size_values(*size);
                error_message(placeholder.value(&values, &recipe.maps))?;
            }
            let seconds: Vec<u32> = match &limits.durations {
                Durations::Only(list) => list.clone(),
                Durations::Range { min, max } => (*min..=(*max).min(LONGEST)).collect(),
            };
            for seconds in seconds {
                let values =
                    TemplateValues::from([("seconds", TemplateValue::Plain(json!(seconds)))]);
                error_message(placeholder.value(&values, &recipe.maps))?;
            }
        }
    }
    Ok(())
}

fn error_message<T>(result: Result<T, crate::error::ProviderError>) -> Result<(), String> {
    result.map(drop).map_err(|error| error.message)
}
