//! Answers that no document describes, or that a proxy may have sent: they prove nothing about an
//! order, and end no job.

use futures_util::future::join_all;
use providers::driver::OrderAcceptance;
use simulator::{Fault, FaultOrder, RequestRole};
use tokio::sync::Semaphore;

use super::scenarios::{a_job, clone, status, unclear};
use super::stage::Stage;

/// Error bodies of proxies, load balancers and gateways.
pub(crate) const BODIES: [&str; 4] = [
    r#"{"message": "Service Unavailable"}"#,
    r#"{"error": {"code": "unavailable", "message": "busy"}}"#,
    "<html><body>503 Service Temporarily Unavailable</body></html>",
    "",
];

fn raw_answer(status: u16, retry_after: Option<u32>, body: &str) -> Fault {
    Fault::Says {
        status,
        retry_after,
        body: body.to_owned(),
    }
}

/// The same order on a new stage.
async fn fresh_stage(stage: &Stage) -> Stage {
    Stage::new(stage.case.clone()).await
}

/// No built-in protocol lists a 503 as a refusal, so the order is sent once, except if the provider
/// deduplicates.
pub(super) async fn a_503_proves_nothing(stage: Stage) {
    let provider_faults = [status(503, None), status(503, Some(1))];
    let proxy_faults = BODIES.map(|body| raw_answer(503, Some(1), body));
    join_all(
        provider_faults
            .into_iter()
            .chain(proxy_faults)
            .map(async |fault| {
                let _permit = ORDERS_AT_ONCE.acquire().await.unwrap();
                unclear(fresh_stage(&stage).await, fault).await;
            }),
    )
    .await;
}

/// The provider accepted the order, whatever the status.
pub(super) async fn a_job_that_a_refusal_names_is_followed(stage: Stage) {
    if a_job(&stage).await.is_none() {
        return;
    }
    for status in [400, 409, 410, 425, 429, 499, 503] {
        let stage = fresh_stage(&stage).await;
        stage.fault(Fault::UnderStatus(status), RequestRole::Submit, 1);
        let accepted = stage.submit().await;
        let accepted = accepted.unwrap_or_else(|error| panic!("under {status}: {error:?}"));
        assert!(
            matches!(accepted, OrderAcceptance::Job { .. }),
            "under {status}"
        );
        let outputs = stage.finish(accepted).await.unwrap();
        stage.check(&outputs).await;
        stage.paid_once();
    }
}

/// One odd answer in place of a good one, at each call that polls a job that has ended.
pub(super) async fn one_odd_answer_about_a_job_ends_nothing(stage: Stage) {
    if a_job(&stage).await.is_none() {
        return;
    }
    let statuses = [400, 404, 409, 410, 425, 429, 500, 502, 503];
    let with_body = statuses.map(|code| status(code, None));
    let bare = [400, 410, 500, 503].map(|code| raw_answer(code, None, BODIES[2]));
    let broken =
        ["<html>Welcome</html>", "", r#"{"status": "#].map(|body| raw_answer(200, None, body));
    let faults = with_body.into_iter().chain(bare).chain(broken);
    join_all(faults.map(|fault| ends_nothing(&stage, fault))).await;
}

/// Limits the orders that run at once. Their jobs are polled every few milliseconds, and more would
/// leave no CPU time for the answers.
static ORDERS_AT_ONCE: Semaphore = Semaphore::const_new(24);

async fn ends_nothing(stage: &Stage, fault: Fault) {
    let _permit = ORDERS_AT_ONCE.acquire().await.unwrap();
    let stage = fresh_stage(stage).await;
    let accepted = stage.submit().await.unwrap();
    stage.finish(clone(&accepted)).await.unwrap();
    for after in 0..3 {
        stage.world().place(FaultOrder {
            provider: Some(stage.case.simulates().to_owned()),
            role: Some(RequestRole::Poll),
            after,
            ..FaultOrder::new(fault.clone())
        });
        let result = stage.finish(clone(&accepted)).await;
        let outputs = result.unwrap_or_else(|error| panic!("{fault:?} after {after}: {error:?}"));
        stage.check(&outputs).await;
        stage.world().clear_faults();
    }
    stage.paid_once();
}
