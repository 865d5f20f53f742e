//! What becomes of a submission whose answer was lost, where the provider can
//! be asked for its job.

use std::time::{Duration, SystemTime};

use providers::driver::{LookupResult, OrderAcceptance, SubmitError};
use providers::{JobHandle, MatchCertainty, WorkSpec};
use simulator::{Fault, RequestRole};

use super::Case;
use super::stage::Stage;

/// The keys of other orders.
const KEYS: [&str; 2] = [
    "01970000-0000-4000-8000-0000000a11ce",
    "01970000-0000-4000-8000-000000000b0b",
];

/// How the job of a case's order is told from others; none where nobody can be
/// asked.
fn told_by(case: &Case) -> Option<MatchCertainty> {
    let (name, _) = case.name.split_once(':').unwrap();
    match name {
        _ if case.name.starts_with("replicate:") && case.name.ends_with("stems") => None,
        _ if ["comfyui: jobs API", "modelark: seed"].contains(&case.name) => None,
        "openai-videos" | "recipe/openai-videos" | "replicate" | "luma dream-machine" => {
            Some(MatchCertainty::Likely)
        }
        "kling" | "modelark" | "musicai" | "comfyui" => Some(MatchCertainty::Certain),
        _ => None,
    }
}

/// How the job is told, for cases in which an answer can be lost for good.
fn can_be_lost(stage: &Stage) -> Option<MatchCertainty> {
    let repeats = stage.provider.adapter().deduplicates();
    told_by(&stage.case).filter(|_| !repeats)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the simulator lives in the real time"
)]
fn now() -> SystemTime {
    SystemTime::now()
}

/// Submits the order; nobody can tell what came of it.
async fn lose(stage: &Stage, fault: Fault) {
    stage.fault(fault, RequestRole::Submit, 1);
    match stage.submit().await {
        Err(SubmitError::Unclear(_)) => {}
        other => panic!("{other:?}"),
    }
}

async fn find(stage: &Stage, since: SystemTime) -> LookupResult {
    let order = &stage.case.order;
    let before = stage.submissions();
    let found = stage
        .driver
        .find(&stage.provider, &stage.secret, order, since)
        .await;
    assert_eq!(
        stage.submissions(),
        before,
        "a look-up must not submit a job"
    );
    found.unwrap().unwrap()
}

/// The only job that was found.
fn only(lookup: &LookupResult, identity: MatchCertainty) -> JobHandle {
    match lookup.jobs.as_slice() {
        [job] => {
            assert_eq!(job.identity, identity);
            assert_eq!(
                lookup.certain().is_some(),
                identity == MatchCertainty::Certain
            );
            job.handle.clone()
        }
        other => panic!("{other:?} is not one job"),
    }
}

async fn finish(stage: &Stage, handle: JobHandle) {
    let poll_after = None;
    let outputs = stage
        .finish(OrderAcceptance::Job { handle, poll_after })
        .await;
    stage.check(&outputs.unwrap()).await;
}

/// Submits an order of somebody else, which another prompt tells apart where
/// nothing else does.
async fn submit_another(stage: &mut Stage, key: &str) -> JobHandle {
    let own = stage.case.order.clone();
    stage.case.order.key = key.into();
    if told_by(&stage.case) == Some(MatchCertainty::Likely) {
        match &mut stage.case.order.work {
            WorkSpec::Video(video) => video.prompt.push_str(", at night"),
            WorkSpec::Song(song) => song.fields["prompt"] = "[Verse] night".into(),
            _ => {}
        }
    }
    let submitted = stage.submit().await;
    stage.case.order = own;
    match submitted {
        Ok(OrderAcceptance::Job { handle, .. }) => handle,
        other => panic!("{other:?}"),
    }
}

pub(super) async fn some_can_be_asked_for_a_lost_job(stage: Stage) {
    let (order, since) = (&stage.case.order, now());
    let expected = told_by(&stage.case).is_some();
    let call = stage.provider.adapter().find(order, since);
    assert_eq!(call.is_some(), expected);
    let asked = stage
        .driver
        .find(&stage.provider, &stage.secret, order, since)
        .await;
    assert_eq!(asked.unwrap().is_some(), expected);
}

pub(super) async fn a_lost_job_is_found_and_finished(stage: Stage) {
    let Some(identity) = can_be_lost(&stage) else {
        return;
    };
    for fault in [Fault::DropAfter, Fault::DropInBody] {
        stage.world().reset();
        stage
            .world()
            .set_plan(super::stage::plan(simulator::PlannedEnd::Success));
        let since = now();
        lose(&stage, fault).await;
        let lookup = find(&stage, since).await;
        let handle = only(&lookup, identity);
        finish(&stage, handle).await;
        stage.paid_once();
    }
}

pub(super) async fn a_look_up_that_fails_is_repeated(stage: Stage) {
    let Some(identity) = can_be_lost(&stage) else {
        return;
    };
    let since = now();
    lose(&stage, Fault::DropAfter).await;
    let busy = Fault::Status {
        status: 429,
        retry_after: Some(0),
        bare: false,
    };
    for fault in [busy, Fault::DropBefore, Fault::DropInBody] {
        let provider = Some(stage.case.simulates());
        stage.world().order_fault(fault, provider, None, 1);
        only(&find(&stage, since).await, identity);
        assert_eq!(stage.world().fault_orders(), []);
    }
}

pub(super) async fn an_order_that_never_arrived_is_not_found(stage: Stage) {
    if can_be_lost(&stage).is_none() {
        return;
    }
    let since = now();
    lose(&stage, Fault::DropBefore).await;
    assert_eq!(find(&stage, since).await.jobs, []);
}

pub(super) async fn the_jobs_of_orders_alike_are_told_apart_or_all_told(mut stage: Stage) {
    let Some(identity) = can_be_lost(&stage) else {
        return;
    };
    let since = now();
    let Ok(OrderAcceptance::Job { handle: known, .. }) = stage.submit().await else {
        panic!("no job");
    };
    stage.case.order.key = KEYS[0].into();
    lose(&stage, Fault::DropAfter).await;
    let mut lookup = find(&stage, since).await;
    if identity == MatchCertainty::Likely {
        assert_eq!(lookup.jobs.len(), 2);
        assert_eq!(lookup.jobs[0].handle, known, "the oldest is the first");
        // As a caller would that knows the first.
        lookup.jobs.retain(|job| job.handle != known);
    }
    let handle = only(&lookup, identity);
    assert_ne!(handle, known);
    finish(&stage, handle).await;
}

pub(super) async fn the_job_of_another_order_is_not_mistaken(mut stage: Stage) {
    let Some(identity) = can_be_lost(&stage) else {
        return;
    };
    let since = now();
    let other = submit_another(&mut stage, KEYS[0]).await;
    lose(&stage, Fault::DropBefore).await;
    assert_eq!(find(&stage, since).await.jobs, []);
    lose(&stage, Fault::DropAfter).await;
    assert_ne!(only(&find(&stage, since).await, identity), other);
}

pub(super) async fn what_is_older_than_the_order_is_not_its_job(stage: Stage) {
    let Some(identity) = can_be_lost(&stage) else {
        return;
    };
    lose(&stage, Fault::DropAfter).await;
    // As far as the clocks may differ, and further.
    only(
        &find(&stage, now() + Duration::from_secs(30)).await,
        identity,
    );
    let later = find(&stage, now() + Duration::from_mins(2)).await;
    match identity {
        MatchCertainty::Certain => _ = only(&later, identity),
        MatchCertainty::Likely => assert_eq!(later.jobs, []),
    }
}

pub(super) async fn a_lost_job_is_found_behind_many_others(mut stage: Stage) {
    let Some(identity) = can_be_lost(&stage) else {
        return;
    };
    let since = now();
    lose(&stage, Fault::DropAfter).await;
    submit_another(&mut stage, KEYS[1]).await;
    let simulates = stage.case.simulates();
    let jobs = stage.world().jobs(simulates);
    let other = jobs.last().unwrap();
    for number in 0..150 {
        let id = format!("{}-{number}", other.id);
        let input = other.input.clone();
        stage
            .world()
            .accept(simulates, id, input, other.memo.clone());
    }
    let handle = only(&find(&stage, since).await, identity);
    let journal = stage.world().journal();
    let pages = journal
        .iter()
        .filter(|one| one.role == RequestRole::Find)
        .count();
    // These two are asked for one job.
    let has_list = !["kling", "comfyui"].contains(&simulates);
    assert_eq!(pages >= 2, has_list, "{pages} pages");
    finish(&stage, handle).await;
}
