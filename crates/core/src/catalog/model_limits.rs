//! Limits of a model: the adapters' tables, restricted by the operator and combined over routes.

use providers::{Durations, ModelLimits, MusicLimits, PicturePurpose, StemGroup, VideoLimits};

use mediagate_config::providers::LimitSettings;

/// Most clips of an order, as in recipes.
const MAX_CLIPS: usize = 10;

/// A setting that does not fit, with its key.
pub(super) type SettingFault = (&'static str, String);

/// Applies the operator's settings to the limits.
pub(super) fn apply_settings(
    limits: ModelLimits,
    settings: &LimitSettings,
) -> Result<ModelLimits, SettingFault> {
    match limits {
        ModelLimits::Video(video) => video_narrowed(video, settings).map(ModelLimits::Video),
        ModelLimits::Music(music) => music_narrowed(music, settings).map(ModelLimits::Music),
    }
}

fn video_narrowed(
    mut limits: VideoLimits,
    settings: &LimitSettings,
) -> Result<VideoLimits, SettingFault> {
    if settings.stems.is_some() || settings.tasks.is_some() || settings.clips.is_some() {
        return Err(("stems", "a video model has no stems, tasks or clips".into()));
    }
    if let Some(sizes) = &settings.sizes {
        if sizes.is_empty() {
            return Err(("sizes", "at least one size is required".into()));
        }
        limits.sizes.clone_from(sizes);
    }
    if let Some(durations) = &settings.seconds {
        if durations.min() == 0 || durations.min() > durations.max() {
            let message = "must be whole seconds, at least 1, in ascending order";
            return Err(("seconds", message.into()));
        }
        limits.durations = durations.clone();
        // Otherwise every order without a length would be refused.
        if !durations.contains(f64::from(limits.default_seconds)) {
            limits.default_seconds = durations.min();
        }
    }
    if let Some(seconds) = settings.default_seconds {
        if !limits.durations.contains(f64::from(seconds)) {
            return Err((
                "default_seconds",
                format!("{seconds} is not one of the lengths"),
            ));
        }
        limits.default_seconds = seconds;
    }
    if let Some(pictures) = settings.pictures {
        limits.pictures.max = pictures;
    }
    limits.negative_prompt = settings.negative_prompt.unwrap_or(limits.negative_prompt);
    limits.seed = settings.seed.unwrap_or(limits.seed);
    match settings.audio {
        Some(true) if limits.audio.is_none() => {
            let message = "this protocol cannot turn sound on or off for this model";
            return Err(("audio", message.into()));
        }
        Some(false) => limits.audio = None,
        Some(true) | None => {}
    }
    if let Some(references) = settings.references {
        if references > 0 && limits.pictures.most_references() == 0 {
            let message = "this protocol cannot send reference images to this model";
            return Err(("references", message.into()));
        }
        match limits.pictures.purpose {
            PicturePurpose::References => limits.pictures.max = references,
            PicturePurpose::Frames => limits.pictures.references = references,
        }
    }
    Ok(limits)
}

fn music_narrowed(
    mut limits: MusicLimits,
    settings: &LimitSettings,
) -> Result<MusicLimits, SettingFault> {
    if settings.sizes.is_some() || settings.seconds.is_some() || settings.pictures.is_some() {
        return Err((
            "sizes",
            "a music model has no sizes, lengths or pictures".into(),
        ));
    }
    if let Some(names) = &settings.stems {
        let group = |name: &String| {
            StemGroup::from_name(name)
                .ok_or_else(|| ("stems", format!("{name:?} is not a stem group")))
        };
        let groups = names.iter().map(group).collect::<Result<Vec<_>, _>>()?;
        match &mut limits.stems {
            Some(stems) => {
                stems.complements.retain(|group| groups.contains(group));
                stems.groups = groups;
            }
            None => {
                return Err((
                    "stems",
                    "this provider does not support stem separation".into(),
                ));
            }
        }
    }
    if let Some(tasks) = &settings.tasks {
        limits.tasks.clone_from(tasks);
    }
    if let Some(clips) = settings.clips {
        if !(1..=MAX_CLIPS).contains(&clips) {
            return Err(("clips", format!("must be from 1 to {MAX_CLIPS}")));
        }
        limits.songs.clips = clips;
    }
    Ok(limits)
}

/// What at least one of two routes offers; the defaults are those of the first.
pub(super) fn union_of_limits(first: ModelLimits, second: ModelLimits) -> ModelLimits {
    match (first, second) {
        (ModelLimits::Video(a), ModelLimits::Video(b)) => {
            ModelLimits::Video(union_of_video_limits(a, b))
        }
        (ModelLimits::Music(a), ModelLimits::Music(b)) => {
            ModelLimits::Music(union_of_music_limits(a, b))
        }
        (first, _) => first,
    }
}

fn union_of_video_limits(mut a: VideoLimits, b: VideoLimits) -> VideoLimits {
    add_missing(&mut a.sizes, b.sizes);
    a.durations = match (a.durations, b.durations) {
        (Durations::Only(mut a), Durations::Only(b)) => {
            add_missing(&mut a, b);
            a.sort_unstable();
            Durations::Only(a)
        }
        // May include lengths that no single route offers. The check of an order goes through the
        // routes one by one.
        (a, b) => Durations::Range {
            min: a.min().min(b.min()),
            max: a.max().max(b.max()),
        },
    };
    let references = a
        .pictures
        .most_references()
        .max(b.pictures.most_references());
    if a.pictures.purpose == PicturePurpose::Frames {
        a.pictures.references = references;
    }
    a.pictures.max = a.pictures.max.max(b.pictures.max);
    // One route that needs no picture is enough.
    a.pictures.needed &= b.pictures.needed;
    a.negative_prompt |= b.negative_prompt;
    a.seed |= b.seed;
    a.label |= b.label;
    a.fractions |= b.fractions;
    a.audio = a.audio.or(b.audio);
    a.max_prompt = a.max_prompt.max(b.max_prompt);
    a
}

fn union_of_music_limits(mut a: MusicLimits, b: MusicLimits) -> MusicLimits {
    a.stems = match (a.stems, b.stems) {
        (Some(mut a), Some(b)) => {
            add_missing(&mut a.groups, b.groups);
            add_missing(&mut a.complements, b.complements);
            a.two |= b.two;
            a.full |= b.full;
            a.other |= b.other;
            Some(a)
        }
        (a, b) => a.or(b),
    };
    add_missing(&mut a.tasks, b.tasks);
    a.personas |= b.personas;
    a
}

fn add_missing<T: PartialEq>(list: &mut Vec<T>, more: Vec<T>) {
    for item in more {
        if !list.contains(&item) {
            list.push(item);
        }
    }
}
