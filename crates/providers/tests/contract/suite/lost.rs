//! Submissions whose answer was lost, at providers that can look up the job.

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

/// How certainly the job of a case's order can be identified; `None` if the provider has no
/// look-up.
fn expected_certainty(case: &Case) -> Option<MatchCertainty> {
    let (name, _) = case.name.split_once(':').unwrap();
    match name {
        // A list does not show what a job was made from.
        "openai-videos" | "recipe/openai-videos" | "replicate" | "luma dream-machine"
            if case.order.has_files() =>
        {
            None
        }
        _ if ["comfyui: jobs API", "modelark: seed"].contains(&case.name) => None,
        "openai-videos" | "recipe/openai-videos" | "replicate" | "luma dream-machine" => {
            Some(MatchCertainty::Likely)
        }
        "kling" | "modelark" | "musicai" | "comfyui" => Some(MatchCertainty::Certain),
        _ => None,
    }
}

/// Like [`expected_certainty`], but `None` if a request can be repeated with its key, so that no
/// answer is lost for good.
fn certainty_if_lost(stage: &Stage) -> Option<MatchCertainty> {
    let deduplicates = stage.provider.adapter().deduplicates();
    expected_certainty(&stage.case).filter(|_| !deduplicates)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the simulator uses the real time"
)]
fn now() -> SystemTime {
    SystemTime::now()
}

/// Submits the order and loses the answer, so that the outcome is unknown.
async fn lose_answer(stage: &Stage, fault: Fault) {
    stage.fault(fault, RequestRole::Submit, 1);
    match stage.submit().await {
        Err(SubmitError::Unclear(_)) => {}
        other => panic!("{other:?}"),
    }
}

async fn find(stage: &Stage, since: SystemTime) -> LookupResult {
    let order = &stage.case.order;
    let submissions_before = stage.submissions();
    let lookup = stage
        .driver
        .find(&stage.provider, &stage.secret, order, since)
        .await;
    assert_eq!(
        stage.submissions(),
        submissions_before,
        "a look-up must not submit a job"
    );
    lookup.unwrap().unwrap()
}

/// The only job that was found.
fn only_job(lookup: &LookupResult, identity: MatchCertainty) -> JobHandle {
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

/// Submits another caller's order. Its prompt differs if nothing else distinguishes it.
async fn submit_another(stage: &mut Stage, key: &str) -> JobHandle {
    let original_order = stage.case.order.clone();
    stage.case.order.idempotency_key = key.into();
    if expected_certainty(&stage.case) == Some(MatchCertainty::Likely) {
        match &mut stage.case.order.work {
            WorkSpec::Video(video) => video.prompt.push_str(", at night"),
            WorkSpec::Song(song) => song.fields["prompt"] = "[Verse] night".into(),
            _ => {}
        }
    }
    let result = stage.submit().await;
    stage.case.order = original_order;
    match result {
        Ok(OrderAcceptance::Job { handle, .. }) => handle,
        other => panic!("{other:?}"),
    }
}

pub(super) async fn only_some_providers_can_look_up_a_lost_job(stage: Stage) {
    let (order, since) = (&stage.case.order, now());
    let expected = expected_certainty(&stage.case).is_some();
    let call = stage.provider.adapter().find(order, since);
    assert_eq!(call.is_some(), expected);
    let lookup = stage
        .driver
        .find(&stage.provider, &stage.secret, order, since)
        .await;
    assert_eq!(lookup.unwrap().is_some(), expected);
}

pub(super) async fn a_lost_job_is_found_and_finished(stage: Stage) {
    let Some(identity) = certainty_if_lost(&stage) else {
        return;
    };
    for fault in [Fault::DropAfter, Fault::DropInBody] {
        stage.world().reset();
        stage
            .world()
            .set_plan(super::stage::plan(simulator::PlannedEnd::Success));
        let since = now();
        lose_answer(&stage, fault).await;
        let lookup = find(&stage, since).await;
        let handle = only_job(&lookup, identity);
        finish(&stage, handle).await;
        stage.paid_once();
    }
}

pub(super) async fn a_look_up_that_fails_is_repeated(stage: Stage) {
    let Some(identity) = certainty_if_lost(&stage) else {
        return;
    };
    let since = now();
    lose_answer(&stage, Fault::DropAfter).await;
    let busy = Fault::Status {
        status: 429,
        retry_after: Some(0),
        bare: false,
    };
    for fault in [busy, Fault::DropBefore, Fault::DropInBody] {
        let provider = Some(stage.case.simulates());
        stage.world().order_fault(fault, provider, None, 1);
        only_job(&find(&stage, since).await, identity);
        assert_eq!(stage.world().fault_orders(), []);
    }
}

pub(super) async fn an_order_that_never_arrived_is_not_found(stage: Stage) {
    if certainty_if_lost(&stage).is_none() {
        return;
    }
    let since = now();
    lose_answer(&stage, Fault::DropBefore).await;
    assert_eq!(find(&stage, since).await.jobs, []);
}

pub(super) async fn jobs_of_equal_orders_are_distinguished_or_all_returned(mut stage: Stage) {
    let Some(identity) = certainty_if_lost(&stage) else {
        return;
    };
    let since = now();
    let Ok(OrderAcceptance::Job {
        handle: first_handle,
        ..
    }) = stage.submit().await
    else {
        panic!("no job");
    };
    stage.case.order.idempotency_key = KEYS[0].into();
    lose_answer(&stage, Fault::DropAfter).await;
    let mut lookup = find(&stage, since).await;
    if identity == MatchCertainty::Likely {
        assert_eq!(lookup.jobs.len(), 2);
        assert_eq!(
            lookup.jobs[0].handle, first_handle,
            "the oldest is the first"
        );
        // A caller that knows the first job excludes it.
        lookup.jobs.retain(|job| job.handle != first_handle);
    }
    let handle = only_job(&lookup, identity);
    assert_ne!(handle, first_handle);
    finish(&stage, handle).await;
}

pub(super) async fn the_job_of_another_order_is_not_mistaken(mut stage: Stage) {
    let Some(identity) = certainty_if_lost(&stage) else {
        return;
    };
    let since = now();
    let other = submit_another(&mut stage, KEYS[0]).await;
    lose_answer(&stage, Fault::DropBefore).await;
    assert_eq!(find(&stage, since).await.jobs, []);
    lose_answer(&stage, Fault::DropAfter).await;
    assert_ne!(only_job(&find(&stage, since).await, identity), other);
}

pub(super) async fn what_is_older_than_the_order_is_not_its_job(stage: Stage) {
    let Some(identity) = certainty_if_lost(&stage) else {
        return;
    };
    lose_answer(&stage, Fault::DropAfter).await;
    // Within the tolerated clock difference, and beyond it.
    only_job(
        &find(&stage, now() + Duration::from_secs(30)).await,
        identity,
    );
    let later_lookup = find(&stage, now() + Duration::from_mins(2)).await;
    match identity {
        MatchCertainty::Certain => _ = only_job(&later_lookup, identity),
        MatchCertainty::Likely => assert_eq!(later_lookup.jobs, []),
    }
}

pub(super) async fn a_lost_job_is_found_behind_many_others(mut stage: Stage) {
    let Some(identity) = certainty_if_lost(&stage) else {
        return;
    };
    let since = now();
    lose_answer(&stage, Fault::DropAfter).await;
    submit_another(&mut stage, KEYS[1]).await;
    let simulates = stage.case.simulates();
    let jobs = stage.world().jobs(simulates);
    let other = jobs.last().unwrap();
    for number in 0..150 {
        let id = format!("{}-{number}", other.id);
        let input = other.input.clone();
        stage
            .world()
            .accept(simulates, id, input, other.provider_data.clone());
    }
    let handle = only_job(&find(&stage, since).await, identity);
    let journal = stage.world().journal();
    let pages = journal
        .iter()
        .filter(|request| request.role == RequestRole::Find)
        .count();
    // These two are queried for a single job and have no list.
    let has_list = !["kling", "comfyui"].contains(&simulates);
    assert_eq!(pages >= 2, has_list, "{pages} pages");
    finish(&stage, handle).await;
}
