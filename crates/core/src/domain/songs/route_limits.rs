//! Limits of routes on songs: which route can make one, how many clips, and how long they may be.

use providers::{ModelLimits, SongLimits};
use serde_json::{Map, Value};

use super::SongOrder;
use crate::app::App;
use crate::pricing::{RouteName, SongTerms};
use mediagate_media::engines::animatic_engine;
use mediagate_model::catalog::{Model, Route};
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::music::Clip;
use mediagate_model::task::{SongJob, Task};

/// The longest song that these providers make.
const MAX_SONG_MS: u64 = 8 * 60_000;
/// The shortest song that a caller can order, in seconds.
const MIN_SONG_SECONDS: u32 = 1;
/// The field with the clip to cover.
const COVER_CLIP: &str = "cover_clip_id";

/// What a route must be able to do for an order.
#[derive(Debug, Clone, Copy)]
struct SongDemand<'a> {
    task: &'a str,
    fields: &'a Map<String, Value>,
    has_unknown_fields: bool,
}

impl<'a> SongDemand<'a> {
    fn by_order(order: &'a SongOrder) -> Self {
        Self {
            task: &order.task,
            fields: &order.fields,
            has_unknown_fields: !order.unknown_fields.is_empty(),
        }
    }

    fn by_job(job: &'a SongJob) -> Self {
        Self {
            task: &job.task,
            fields: &job.fields,
            has_unknown_fields: job.has_unknown_fields,
        }
    }
}

/// Why a route cannot do an order.
#[derive(Debug)]
enum SongRefusal {
    /// It does not do the task.
    Task,
    /// It does not support this field, or its value, for the reason given.
    Field(&'static str, String),
    /// It gets only the fields that it lists, and others say what is made.
    UnknownFields,
}

/// Whether a route can make such a song.
pub fn fits(limits: &ModelLimits, job: &SongJob) -> bool {
    song_limits(limits, SongDemand::by_job(job)).is_ok()
}

/// A route's limits on songs, or why it cannot make this one.
fn song_limits<'a>(
    limits: &'a ModelLimits,
    demand: SongDemand<'_>,
) -> Result<&'a SongLimits, SongRefusal> {
    let SongDemand {
        task,
        fields,
        has_unknown_fields,
    } = demand;
    let ModelLimits::Music(music) = limits else {
        return Err(SongRefusal::Task);
    };
    if !music.tasks.iter().any(|supported| supported == task) {
        return Err(SongRefusal::Task);
    }
    let songs = &music.songs;
    // `None`: a provider of the music API itself, which gets all fields unchanged.
    let Some(supported_fields) = &songs.fields else {
        return Ok(songs);
    };
    if has_unknown_fields {
        return Err(SongRefusal::UnknownFields);
    }
    for name in ["lyrics", "negative_tags", "make_instrumental", "seconds"] {
        let is_set = match fields.get(name) {
            Some(Value::String(text)) => !text.trim().is_empty(),
            Some(Value::Bool(flag)) => *flag,
            Some(Value::Number(_)) => true,
            _ => false,
        };
        if is_set && !supported_fields.contains(&name) {
            let message = format!("does not support {name}");
            return Err(SongRefusal::Field(name, message));
        }
    }
    let seconds = fields.get("seconds").and_then(Value::as_f64);
    if let (Some(seconds), Some((min, max))) = (seconds, songs.seconds)
        && !(f64::from(min)..=f64::from(max)).contains(&seconds)
    {
        let message = format!("supports songs of {min} to {max} seconds");
        return Err(SongRefusal::Field("seconds", message));
    }
    Ok(songs)
}

/// Refuses fields that no route of the model supports, and orders without what their task needs.
pub(super) fn check_fields(model: &Model, order: &SongOrder) -> Result<(), Error> {
    let mut refusal = None;
    for route in model.routes() {
        match song_limits(&route.limits, SongDemand::by_order(order)) {
            // One route that can do it is enough. If none can, the first one's reason is returned.
            Ok(songs) => return check_content(songs, order),
            Err(SongRefusal::Task) => {}
            Err(reason) => refusal = refusal.or(Some(reason)),
        }
    }
    match refusal {
        None | Some(SongRefusal::Task) => Ok(()),
        Some(SongRefusal::UnknownFields) => Err(Error::Invalid(order.unknown_fields.clone())),
        Some(SongRefusal::Field(param, reason)) => {
            let message = format!("{} {reason}.", model.id);
            Err(Error::at_field(ErrorCode::UnsupportedValue, param, message))
        }
    }
}

/// Refuses an order without the clip or the description that its task needs.
fn check_content(songs: &SongLimits, order: &SongOrder) -> Result<(), Error> {
    let missing = |field: &str, message: &str| {
        let error = Error::at_field(ErrorCode::MissingField, field, message);
        Err(error)
    };
    if let Some(field) = source_field(&order.task)
        && !order.clips.iter().any(|(name, _)| name == field)
    {
        return missing(field, "This task needs the id of a clip here.");
    }
    let is_described = ["prompt", "gpt_description_prompt", "lyrics", "tags"]
        .iter()
        .any(|name| {
            let text = order.fields.get(*name).and_then(Value::as_str);
            text.is_some_and(|text| !text.trim().is_empty())
        });
    // In the music API itself a title can describe a song, or clips or a persona give its style, and
    // most tasks begin with a clip.
    let has_style =
        !order.title.trim().is_empty() || !order.clips.is_empty() || order.persona.is_some();
    let needs_description = songs.fields.is_some() || (order.task == "generate" && !has_style);
    if needs_description && !is_described {
        let message = "Describe the song in prompt, gpt_description_prompt, lyrics or tags.";
        return missing("prompt", message);
    }
    Ok(())
}

/// The field with the clip that a task begins with, if it has one.
fn source_field(task: &str) -> Option<&'static str> {
    match task {
        "extend" | "upload_extend" | "infill" => Some("continue_clip_id"),
        "cover" => Some(COVER_CLIP),
        _ => None,
    }
}

/// Refuses a clip that no route can use. After the acceptance the task would only fail later.
pub(super) fn check_source(
    model: &Model,
    order: &SongOrder,
    field: &str,
    clip: &Clip,
) -> Result<(), Error> {
    // Without an id the provider does not know the clip.
    let upstream = clip.upstream.as_ref();
    let known_by = upstream
        .filter(|upstream| !upstream.clip_id.is_empty())
        .map(|upstream| upstream.provider.as_str());
    let can_use = |route: &Route| {
        let is_known = known_by == Some(route.provider.as_str());
        song_limits(&route.limits, SongDemand::by_order(order))
            .is_ok_and(|songs| is_known || !needs_own_clip(songs, field))
    };
    if model.routes().iter().any(can_use) {
        return Ok(());
    }
    let message = format!(
        "{} can use only clips that its provider made, and it did not make this one.",
        model.id
    );
    Err(Error::at_field(ErrorCode::UnsupportedValue, field, message))
}

/// Whether a route can do the work only if its provider made the clips of the order.
pub fn needs_own_clips(limits: &ModelLimits, job: &SongJob) -> bool {
    song_limits(limits, SongDemand::by_job(job)).is_ok_and(|songs| {
        let mut clips = job.clips.iter();
        clips.any(|(field, _)| needs_own_clip(songs, field))
    })
}

/// Whether the clip in this field must be one of the provider itself. Providers of the music API
/// itself take any recording, others only for a cover.
fn needs_own_clip(songs: &SongLimits, field: &str) -> bool {
    songs.fields.is_some() && field != COVER_CLIP
}

/// Number of clips that the first suitable route makes.
pub(super) fn clips_of(model: &Model, order: &SongOrder) -> usize {
    let first = routes_for(model, order).next();
    first.map_or_else(
        || SongLimits::API_DEFAULT.clips_of(&order.task),
        |songs| songs.clips_of(&order.task),
    )
}

/// What an order means at the route that makes it. It is complete with as many clips as that route
/// makes, but not more than were ordered. A clip that nobody measures has at least the length that
/// was ordered, if the route keeps it, else the shortest that the route makes.
pub fn terms_by_route(app: &App, task: &Task, job: &SongJob, route: RouteName<'_>) -> SongTerms {
    let songs = limits_of_route(app, task, job, route);
    let ordered = job.outputs.len();
    // If the route was removed from the settings, it is not known how many it makes.
    let made = songs.as_ref().map(|songs| songs.clips_of(&job.task));
    let ordered_seconds = job.fields.get("seconds").and_then(Value::as_f64);
    let kept_seconds = ordered_seconds.filter(|_| songs.as_ref().is_some_and(takes_length));
    let shortest = songs.as_ref().and_then(|songs| songs.seconds);
    let shortest = shortest.map_or(MIN_SONG_SECONDS, |(min, _)| min);
    SongTerms {
        clips: made.map_or(ordered, |made| made.min(ordered)),
        least_clip_ms: kept_seconds
            .map_or(u64::from(shortest) * 1000, animatic_engine::milliseconds),
    }
}

/// The limits of a configured route, if it still does the work.
fn limits_of_route(
    app: &App,
    task: &Task,
    job: &SongJob,
    (provider, route_model): RouteName<'_>,
) -> Option<SongLimits> {
    let catalog = app.models.catalog.load();
    let model = catalog.with_id(&task.model)?;
    let route = model.route(provider, route_model)?;
    let songs = song_limits(&route.limits, SongDemand::by_job(job));
    songs.ok().cloned()
}

/// Length of a clip for which a price per minute is reserved. A task is never charged more than was
/// held, so it is the longest that any route may make.
pub(super) fn longest_clip_ms(model: &Model, order: &SongOrder) -> u64 {
    let mut songs = routes_for(model, order);
    // Providers of the music API itself get the field unchanged and may ignore it.
    let is_kept = songs.all(takes_length);
    let ordered = order.seconds.filter(|_| is_kept);
    ordered.map_or(MAX_SONG_MS, animatic_engine::milliseconds)
}

/// Whether the length can be chosen.
fn takes_length(songs: &SongLimits) -> bool {
    let fields = songs.fields.as_ref();
    fields.is_some_and(|fields| fields.contains(&"seconds"))
}

/// The limits of the routes that can do this order.
fn routes_for<'a>(model: &'a Model, order: &'a SongOrder) -> impl Iterator<Item = &'a SongLimits> {
    let routes = model.routes().iter();
    routes.filter_map(|route| song_limits(&route.limits, SongDemand::by_order(order)).ok())
}
