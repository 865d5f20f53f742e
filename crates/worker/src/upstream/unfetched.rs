//! Work of a cancelled task's job, by the outputs that its provider lists. They are not fetched,
//! because nobody wants them any more.

use providers::{JobOutput, OutputKind, StemTarget};

use mediagate_core::app::App;
use mediagate_core::domain::songs;
use mediagate_core::pricing::{ClipLengths, DeliveredWork};
use mediagate_model::submission::Submission;
use mediagate_model::task::{SeparationMode, SongJob, StemsJob, Task, TaskPayload};

/// What was made; `None` if it is not what was ordered, so that the task would have failed.
pub(super) fn listed_work(
    app: &App,
    task: &Task,
    submission: &Submission,
    outputs: &[JobOutput],
) -> Option<DeliveredWork> {
    match &task.payload {
        // The size and the length of a film are in its file only.
        TaskPayload::VideoV1(_) => outputs
            .iter()
            .any(|output| output.kind == OutputKind::Video)
            .then_some(DeliveredWork::Film {
                milliseconds: None,
                pixels: None,
            }),
        TaskPayload::StemsV1(job) => stems(job, outputs),
        TaskPayload::SongV1(job) => song(app, task, submission, job, outputs),
    }
}

fn stems(job: &StemsJob, outputs: &[JobOutput]) -> Option<DeliveredWork> {
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
    let ordered = job.outputs.iter().map(|(_, target)| *target);
    let made: Vec<StemTarget> = ordered.filter(is_made).collect();
    (!made.is_empty()).then_some(DeliveredWork::Stems(made))
}

fn stem_of(output: &JobOutput) -> Option<StemTarget> {
    match &output.kind {
        OutputKind::Stem(target) => Some(*target),
        OutputKind::Clip(facts) => facts.stem,
        OutputKind::Video | OutputKind::FailedClip { .. } | OutputKind::Persona { .. } => None,
    }
}

fn song(
    app: &App,
    task: &Task,
    submission: &Submission,
    job: &SongJob,
    outputs: &[JobOutput],
) -> Option<DeliveredWork> {
    let clips = outputs
        .iter()
        .filter(|output| matches!(output.kind, OutputKind::Clip(_)));
    let route = (
        submission.provider.as_str(),
        submission.route_model.as_str(),
    );
    let count = clips.count();
    (count > 0).then(|| DeliveredWork::Song {
        clips: ClipLengths::Counted(count),
        terms: songs::terms_by_route(app, task, job, route),
    })
}
