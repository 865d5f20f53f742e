//! Clips that a provider failed to make while it made others of the same order, with its reasons.

use providers::driver::redact;
use providers::{JobOutput, OutputKind, StemTarget};

use super::hosted_task::AcceptedJob;
use super::job_end;
use mediagate_model::music::ClipUpstream;

/// What is recorded about the clips of this stem, or the songs, that the provider failed to make and
/// for which it tells a reason.
pub(super) fn upstreams(
    accepted_job: &AcceptedJob,
    job_outputs: &[JobOutput],
    target: Option<StemTarget>,
) -> impl Iterator<Item = ClipUpstream> {
    job_outputs.iter().filter_map(move |job_output| {
        let OutputKind::FailedClip { stem, reason } = &job_output.kind else {
            return None;
        };
        if *stem != target {
            return None;
        }
        // Providers quote requests in their reasons.
        let reason = redact::redact(reason, &accepted_job.credential.secret);
        Some(ClipUpstream {
            provider: accepted_job.site.provider.name().to_owned(),
            credential: accepted_job.credential.id.clone(),
            clip_id: String::new(),
            task_id: None,
            tags: String::new(),
            prompt: String::new(),
            video_url: String::new(),
            model_name: String::new(),
            failure: Some(job_end::clip_failure(&reason)?),
        })
    })
}
