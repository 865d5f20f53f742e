//! Quantity that the job of a cancelled task made, by the outputs that its provider lists. They are
//! not fetched, because nobody wants them any more.

use providers::{JobOutput, OutputKind, StemTarget};

use mediagate_core::app::App;
use mediagate_core::domain::songs;
use mediagate_model::price::WorkQuantity;
use mediagate_model::submission::Submission;
use mediagate_model::task::{SeparationMode, SongJob, StemsJob, Task, TaskPayload};

/// The quantity that was made, at most the ordered one; `None` if it is not what was ordered, so
/// that the task would have failed.
pub(super) fn made_quantity(
    app: &App,
    task: &Task,
    submission: &Submission,
    outputs: &[JobOutput],
) -> Option<WorkQuantity> {
    match &task.payload {
        // A film is charged as ordered, because its size and its length are in its file only.
        TaskPayload::VideoV1(_) => outputs
            .iter()
            .any(|output| output.kind == OutputKind::Video)
            .then(|| ordered_quantity(task)),
        TaskPayload::StemsV1(job) => stems(job, outputs),
        TaskPayload::SongV1(job) => song(app, task, submission, job, outputs),
    }
}

/// The quantity that was ordered.
pub(super) fn ordered_quantity(task: &Task) -> WorkQuantity {
    let tariff = task.tariff.as_ref();
    tariff.map(|tariff| tariff.asked).unwrap_or_default()
}

fn stems(job: &StemsJob, outputs: &[JobOutput]) -> Option<WorkQuantity> {
    let listed: Vec<StemTarget> = outputs.iter().filter_map(stem_of).collect();
    // The mix without a group is computed from all other stems, if there is one for the rest.
    let is_made = |target: &StemTarget| {
        let is_sum =
            matches!(target, StemTarget::Without(_)) && listed.contains(&StemTarget::Other);
        is_sum || listed.contains(target)
    };
    // Without the requested track the remainder is not the requested result.
    let requested = job.outputs.first();
    let requested = requested.filter(|_| job.stem_task == SeparationMode::Two);
    if requested.is_some_and(|(_, target)| !is_made(target)) {
        return None;
    }
    let made = job.outputs.iter().filter(|(_, target)| is_made(target));
    let (parts, parts_asked) = (made.count() as u64, job.outputs.len() as u64);
    (parts > 0).then(|| WorkQuantity {
        milliseconds: job.milliseconds * parts / parts_asked.max(1),
        pixels: 0,
        parts,
        parts_asked,
    })
}

fn stem_of(output: &JobOutput) -> Option<StemTarget> {
    match &output.kind {
        OutputKind::Stem(target) => Some(*target),
        OutputKind::Clip(facts) => facts.stem,
        OutputKind::Video | OutputKind::Persona { .. } => None,
    }
}

fn song(
    app: &App,
    task: &Task,
    submission: &Submission,
    job: &SongJob,
    outputs: &[JobOutput],
) -> Option<WorkQuantity> {
    let clips = outputs
        .iter()
        .filter(|output| matches!(output.kind, OutputKind::Clip(_)));
    let route = (
        submission.provider.as_str(),
        submission.route_model.as_str(),
    );
    let complete = songs::clips_by_route(app, task, job, route);
    let parts = clips.count().min(complete) as u64;
    // The lengths are in the files only. What is reserved may be a hundred times as much, so only
    // what is certain is charged.
    let length = songs::least_clip_ms(app, task, job, route).saturating_mul(parts);
    (parts > 0).then(|| WorkQuantity {
        milliseconds: length.min(ordered_quantity(task).milliseconds),
        pixels: 0,
        parts,
        parts_asked: complete as u64,
    })
}
