//! Results of jobs, as several providers deliver them.

use serde_json::json;

use crate::media;
use crate::site::{SimulatedReply, SimulatedRequest};
use crate::world::{Job, JobPhase, PlannedEnd};

/// A file of the job `{id}` that succeeded: a different tone for each `.wav`, otherwise a film of
/// this many seconds.
pub(super) fn named_file(
    request: &SimulatedRequest,
    refusal: &str,
    seconds: fn(&Job) -> Option<u32>,
) -> SimulatedReply {
    if request.expired {
        return SimulatedReply::json(403, &json!(refusal));
    }
    let job = request.world.job(request.param("id"));
    let Some(job) = job.filter(|job| job.phase() == JobPhase::Ended(PlannedEnd::Success)) else {
        return SimulatedReply::empty(404);
    };
    let name = request.param("name");
    if name.strip_suffix(".wav").is_some() {
        let letters: u32 = name.bytes().map(u32::from).sum();
        return SimulatedReply::file("audio/wav", media::audio(1_000, f64::from(letters)));
    }
    SimulatedReply::file("video/mp4", media::video(seconds(&job).unwrap_or(5)))
}

/// The film of the job `{id}`, at a URL that is signed by this query parameter.
pub(super) fn signed_video(request: &SimulatedRequest, signature: &str) -> SimulatedReply {
    let job = request.world.job(request.param("id"));
    let is_signed = request.query.contains_key(signature);
    match job.filter(|_| is_signed && !request.expired) {
        Some(job) => SimulatedReply::file("video/mp4", media::video(duration(&job).unwrap_or(5))),
        None => SimulatedReply::json(403, &json!("Request has expired")),
    }
}

/// The seconds of an order that has them as a number.
pub(super) fn duration(job: &Job) -> Option<u32> {
    u32::try_from(job.input["duration"].as_u64()?).ok()
}
