//! One function for each scenario. Each gets a stage on which the case's order would succeed, and
//! adds a fault.

use std::time::Duration;

use providers::driver::{DownloadError, OrderAcceptance, PollOutcome, SubmitError};
use providers::{ErrorClass, JobOutput, ModelLimits, OutputSource, ProviderError, WorkSpec};
use simulator::{Fault, JobPhase, JobPlan, PlannedEnd, RequestRole};
use tokio::net::TcpSocket;

use super::Makes;
use super::stage::{Stage, limits, plan, provider};

/// Protocols whose answers have no status word that could be unknown.
const WORDLESS: [&str; 2] = ["gemini-veo", "comfyui"];

/// Protocols whose jobs can be cancelled only while they are queued.
const WHILE_QUEUED: [&str; 3] = ["modelark", "dashscope", "minimax"];

/// Cases whose provider distinguishes a wrong order from a failure only in words.
const CODELESS: [&str; 4] = [
    "chat-video",
    "comfyui: ",
    "luma dream-machine",
    "recipe/pixverse",
];

pub(super) async fn the_order_is_within_the_limits(stage: Stage) {
    let (order, adapter) = (&stage.case.order, stage.provider.adapter());
    assert_eq!(order.model, stage.case.model);
    let limits = limits(&stage.case, &stage.provider, order.work.kind()).unwrap();
    match (&order.work, limits) {
        (WorkSpec::Video(video), ModelLimits::Video(limits)) => {
            assert!(limits.sizes.contains(&video.size), "{limits:?}");
            assert!(
                limits.durations.contains(f64::from(video.seconds)),
                "{limits:?}"
            );
            let default = f64::from(limits.default_seconds);
            assert!(limits.durations.contains(default), "{limits:?}");
            let max_pictures = limits.pictures.max.max(limits.pictures.most_references());
            assert!(video.pictures.len() <= max_pictures, "{limits:?}");
            assert!(!limits.pictures.needed || !video.pictures.is_empty());
            assert!(video.prompt.chars().count() <= limits.max_prompt);
            let sizes = limits.sizes.iter();
            let inexpressible =
                sizes.filter(|size| !adapter.can_express_size(stage.case.model, **size));
            assert_eq!(inexpressible.count(), 0, "{limits:?}");
            assert_eq!(adapter.fault_of_secret(&stage.secret), None);
            assert!(limits.seed || video.seed().is_none());
            assert!(limits.negative_prompt || video.options.negative_prompt.is_none());
        }
        (WorkSpec::Stems(stems), ModelLimits::Music(limits)) => {
            let limits = limits.stems.unwrap();
            assert!(if stems.full { limits.full } else { limits.two });
            let requested = stems.single_group();
            assert!(requested.is_none_or(|group| limits.groups.contains(&group)));
        }
        (WorkSpec::Song(song), ModelLimits::Music(limits)) => {
            assert!(limits.tasks.contains(&song.task));
        }
        (WorkSpec::Persona(_), ModelLimits::Music(limits)) => assert!(limits.personas),
        (work, limits) => panic!("{work:?} with {limits:?}"),
    }
}

pub(super) async fn it_is_made(stage: Stage) {
    assert!(stage.driver.reachable(&stage.provider).await);
    let outputs = stage.outcome().await.unwrap();
    stage.check(&outputs).await;
    stage.paid_once();
}

// The submission.

pub(super) async fn too_many_requests(stage: Stage) {
    check_refusal(stage, status(429, None), ErrorClass::RateLimited).await;
}

pub(super) async fn too_many_requests_for_a_second(stage: Stage) {
    let error = check_refusal(stage, status(429, Some(1)), ErrorClass::RateLimited).await;
    assert_eq!(error.retry_after, Some(Duration::from_secs(1)));
}

pub(super) async fn a_wrong_key(stage: Stage) {
    check_refusal(stage, status(401, None), ErrorClass::Credentials).await;
}

/// Checks for a definite rejection: nothing was accepted, and one request arrived.
async fn check_refusal(stage: Stage, fault: Fault, class: ErrorClass) -> ProviderError {
    stage.fault(fault, RequestRole::Submit, 1);
    let submitted = stage.submit().await;
    assert_eq!((stage.submissions(), stage.accepted()), (1, 0));
    match submitted {
        Err(SubmitError::Refused(error)) if error.class == class => error,
        other => panic!("{other:?} is not {class:?}"),
    }
}

pub(super) async fn a_forbidden_prompt(mut stage: Stage) {
    let WorkSpec::Video(video) = &mut stage.case.order.work else {
        return;
    };
    video.prompt = "a forbidden thing".into();
    let error = stage.outcome().await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Refused, "{error}");
    assert!(stage.submissions() <= 1);
}

pub(super) async fn nobody_there(stage: Stage) {
    // The port is bound, but nothing listens on it.
    let unused_socket = TcpSocket::new_v4().unwrap();
    unused_socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = unused_socket.local_addr().unwrap();
    let unreachable_provider = provider(&stage.case, &format!("http://{address}"));
    assert!(!stage.driver.reachable(&unreachable_provider).await);
    match stage.submit_to(&unreachable_provider).await {
        // Some adapters upload a file first.
        Err(SubmitError::Refused(error) | SubmitError::BeforeSubmission(error)) => {
            assert_eq!(error.class, ErrorClass::Unavailable);
        }
        other => panic!("{other:?}"),
    }
}

pub(super) async fn an_error_before_the_order_is_taken(stage: Stage) {
    let bare = Fault::Status {
        status: 500,
        retry_after: None,
        bare: true,
    };
    unclear(stage, bare).await;
}

pub(super) async fn an_error_after_the_order_is_taken(stage: Stage) {
    unclear(stage, Fault::StatusAfter(502)).await;
}

pub(super) async fn no_answer_and_no_order_taken(stage: Stage) {
    unclear(stage, Fault::DropBefore).await;
}

pub(super) async fn no_answer_and_the_order_is_taken(stage: Stage) {
    unclear(stage, Fault::DropAfter).await;
}

pub(super) async fn half_an_answer(stage: Stage) {
    unclear(stage, Fault::DropInBody).await;
}

/// Checks for an unclear outcome: the order is not sent again, except if the provider
/// deduplicates, and then there is one job.
pub(super) async fn unclear(stage: Stage, fault: Fault) {
    stage.fault(fault, RequestRole::Submit, 1);
    let submitted = stage.submit().await;
    if stage.provider.adapter().deduplicates() {
        stage.finish(submitted.unwrap()).await.unwrap();
        assert_eq!((stage.submissions(), stage.accepted()), (2, 1));
        return;
    }
    assert_eq!(stage.submissions(), 1);
    match submitted {
        Err(SubmitError::Unclear(error)) => assert_eq!(error.class, ErrorClass::Unclear),
        other => panic!("{other:?}"),
    }
}

// The job.

pub(super) async fn the_job_fails(stage: Stage) {
    check_failed_job(stage, PlannedEnd::Failure, ErrorClass::Failed).await;
}

pub(super) async fn the_job_is_refused(stage: Stage) {
    if matches!(stage.case.makes, Makes::Video) {
        check_failed_job(stage, PlannedEnd::Refusal, ErrorClass::Refused).await;
    }
}

pub(super) async fn the_order_is_at_fault(stage: Stage) {
    let is_codeless = CODELESS
        .iter()
        .any(|prefix| stage.case.name.starts_with(prefix));
    if matches!(stage.case.makes, Makes::Video) && !is_codeless {
        check_failed_job(stage, PlannedEnd::Unfit, ErrorClass::Unfit).await;
    }
}

pub(super) async fn the_job_makes_nothing(stage: Stage) {
    stage.world().set_plan(plan(PlannedEnd::Empty));
    match stage.submit().await {
        Ok(accepted) => match stage.finish(accepted).await {
            Err(error) => assert!(
                matches!(error.class, ErrorClass::Failed | ErrorClass::Refused),
                "{error}"
            ),
            // If the result has its own call, that call fails.
            Ok(outputs) => {
                let source = Stage::fetched(&outputs).unwrap();
                assert!(matches!(source, OutputSource::Call(_)), "{source:?}");
                stage.download(source).await.unwrap_err();
            }
        },
        Err(SubmitError::Failed(_) | SubmitError::Refused(_) | SubmitError::Unclear(_)) => {}
        Err(error) => panic!("{error:?}"),
    }
    assert_eq!(stage.submissions(), 1);
}

/// Checks the end of a job that fails. Without a job, the outcome of the one long answer may be
/// unclear.
async fn check_failed_job(stage: Stage, end: PlannedEnd, class: ErrorClass) {
    stage.world().set_plan(plan(end));
    let ended = match stage.submit().await {
        Ok(accepted) => stage.finish(accepted).await.unwrap_err().class,
        Err(SubmitError::Failed(error) | SubmitError::Refused(error)) => error.class,
        Err(SubmitError::Unclear(_)) => class,
        Err(error) => panic!("{error:?}"),
    };
    assert_eq!(ended, class);
    assert_eq!(stage.submissions(), 1);
}

pub(super) async fn an_unknown_word(stage: Stage) {
    let Some(accepted) = a_job(&stage).await else {
        return;
    };
    let OrderAcceptance::Job { handle, .. } = &accepted else {
        return;
    };
    // The job is already done, but the next poll returns an unknown word.
    stage.finish(clone(&accepted)).await.unwrap();
    stage.fault(Fault::UnknownWord, RequestRole::Poll, 1);
    match stage.poll(handle).await.unwrap() {
        PollOutcome::Running { unknown_status, .. } => {
            let is_wordless = WORDLESS.contains(&stage.case.protocol);
            assert!(
                is_wordless || unknown_status.is_some(),
                "the unknown word is reported"
            );
        }
        PollOutcome::Done(_) => assert!(WORDLESS.contains(&stage.case.protocol), "done"),
    }
    let outputs = stage.finish(accepted).await.unwrap();
    stage.check(&outputs).await;
}

pub(super) async fn slow_answers(stage: Stage) {
    for role in [
        RequestRole::Submit,
        RequestRole::Poll,
        RequestRole::Download,
    ] {
        stage.fault(Fault::Latency(Duration::from_millis(60)), role, 1);
    }
    let outputs = stage.outcome().await.unwrap();
    stage.check(&outputs).await;
    stage.paid_once();
}

pub(super) async fn polls_that_fail(stage: Stage) {
    for fault in [
        status(500, None),
        status(429, None),
        status(503, Some(0)),
        Fault::DropBefore,
        Fault::DropInBody,
    ] {
        stage.fault(fault, RequestRole::Poll, 1);
    }
    let outputs = stage.outcome().await.unwrap();
    stage.check(&outputs).await;
    stage.paid_once();
}

/// One of several servers may not know the job yet.
pub(super) async fn a_poll_that_knows_no_such_job(stage: Stage) {
    stage.fault(status(404, None), RequestRole::Poll, 3);
    let outputs = stage.outcome().await.unwrap();
    stage.check(&outputs).await;
    stage.paid_once();
}

pub(super) async fn the_job_is_cancelled(stage: Stage) {
    let cancels_while_queued = WHILE_QUEUED.contains(&stage.case.simulates());
    let long_plan = JobPlan {
        incomplete: false,
        queued: Duration::from_hours(u64::from(cancels_while_queued)),
        running: Duration::from_hours(1),
        polls: 0,
        end: PlannedEnd::Success,
    };
    if stage.case.cancels {
        stage.world().set_plan(long_plan);
    }
    let Some(OrderAcceptance::Job { handle, .. }) = a_job(&stage).await else {
        return;
    };
    let is_confirmed = stage
        .driver
        .cancel(&stage.provider, &stage.secret, &handle)
        .await
        .unwrap();
    let jobs = stage.world().jobs(stage.case.simulates());
    let is_cancelled = jobs.iter().all(|job| job.phase() == JobPhase::Cancelled);
    assert_eq!(is_cancelled, stage.case.cancels);
    assert!(
        is_cancelled || !is_confirmed,
        "a cancellation is confirmed only if the job is cancelled"
    );
}

/// The job of the case's order; `None` if the answer is the result.
pub(super) async fn a_job(stage: &Stage) -> Option<OrderAcceptance> {
    let accepted = stage.submit().await.unwrap();
    matches!(accepted, OrderAcceptance::Job { .. }).then_some(accepted)
}

pub(super) fn clone(accepted: &OrderAcceptance) -> OrderAcceptance {
    match accepted {
        OrderAcceptance::Job { handle, poll_after } => OrderAcceptance::Job {
            handle: handle.clone(),
            poll_after: *poll_after,
        },
        OrderAcceptance::Done(outputs) => OrderAcceptance::Done(outputs.clone()),
    }
}

// The result.

pub(super) async fn a_result_that_ends_early(stage: Stage) {
    arrives_whole(stage, Fault::Truncated).await;
}

pub(super) async fn a_result_that_breaks_off(stage: Stage) {
    arrives_whole(stage, Fault::DropInBody).await;
}

pub(super) async fn a_slow_result(stage: Stage) {
    arrives_whole(stage, Fault::Slow(Duration::from_millis(5))).await;
}

/// Checks that the result arrives complete in spite of the fault.
async fn arrives_whole(stage: Stage, fault: Fault) {
    let outputs = stage.outcome().await.unwrap();
    stage.fault(fault, RequestRole::Download, 2);
    stage.check(&outputs).await;
}

pub(super) async fn an_expired_result(stage: Stage) {
    let Some(accepted) = a_job(&stage).await else {
        return;
    };
    let outputs = stage.finish(clone(&accepted)).await.unwrap();
    let Some(source) = address(&outputs) else {
        return;
    };
    stage.fault(Fault::Expired, RequestRole::Download, 1);
    let error = stage.download(source).await.unwrap_err();
    assert!(matches!(error, DownloadError::Expired), "{error:?}");
    let outputs = stage.finish(accepted).await.unwrap();
    stage.check(&outputs).await;
}

fn address(outputs: &[JobOutput]) -> Option<&OutputSource> {
    let mut sources = outputs.iter().map(|output| &output.source);
    sources.find(|source| matches!(source, OutputSource::Address(_)))
}

/// The driver delivers whatever arrived. Its caller checks whether it is a video.
pub(super) async fn a_result_that_lies(stage: Stage) {
    let outputs = stage.outcome().await.unwrap();
    let Some(source) = Stage::fetched(&outputs) else {
        return;
    };
    stage.fault(Fault::Lying, RequestRole::Download, 1);
    let (downloaded, bytes) = stage.download(source).await.unwrap();
    assert_eq!(downloaded.mime.as_deref(), Some("video/mp4"));
    assert!(bytes.starts_with(b"<html>"));
}

pub(super) fn status(status: u16, retry_after: Option<u32>) -> Fault {
    Fault::Status {
        status,
        retry_after,
        bare: false,
    }
}
