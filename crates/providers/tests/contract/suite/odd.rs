//! Answers that no document of a protocol has, or that something on the way to
//! the provider may have said: they prove nothing about an order, and end no job.

use futures_util::future::join_all;
use providers::driver::OrderAcceptance;
use simulator::{Fault, FaultOrder, RequestRole};
use tokio::sync::Semaphore;

use super::scenarios::{a_job, clone, status, unclear};
use super::stage::Stage;

/// What proxies, front doors and gateways say for themselves.
pub(crate) const BODIES: [&str; 4] = [
    r#"{"message": "Service Unavailable"}"#,
    r#"{"error": {"code": "unavailable", "message": "busy"}}"#,
    "<html><body>503 Service Temporarily Unavailable</body></html>",
    "",
];

fn says(status: u16, retry_after: Option<u32>, body: &str) -> Fault {
    Fault::Says {
        status,
        retry_after,
        body: body.to_owned(),
    }
}

/// The same order at a provider of its own.
async fn anew(stage: &Stage) -> Stage {
    Stage::new(stage.case.clone()).await
}

/// No row of a protocol that comes with the program has it, so the order is sent
/// once, but where the provider makes one job of all.
pub(super) async fn a_503_proves_nothing(stage: Stage) {
    let own = [status(503, None), status(503, Some(1))];
    let foreign = BODIES.map(|body| says(503, Some(1), body));
    join_all(own.into_iter().chain(foreign).map(async |fault| {
        let _place = AT_ONCE.acquire().await.unwrap();
        unclear(anew(&stage).await, fault).await;
    }))
    .await;
}

/// The provider took it, whatever the status says.
pub(super) async fn a_job_that_a_refusal_names_is_followed(stage: Stage) {
    if a_job(&stage).await.is_none() {
        return;
    }
    for status in [400, 409, 410, 425, 429, 499, 503] {
        let stage = anew(&stage).await;
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

/// One answer of any sort in the place of a good one, at each call by which a job
/// that has ended is asked for.
pub(super) async fn one_odd_answer_about_a_job_ends_nothing(stage: Stage) {
    if a_job(&stage).await.is_none() {
        return;
    }
    let statuses = [400, 404, 409, 410, 425, 429, 500, 502, 503];
    let own = statuses.map(|code| status(code, None));
    let bare = [400, 410, 500, 503].map(|code| says(code, None, BODIES[2]));
    let broken = ["<html>Welcome</html>", "", r#"{"status": "#].map(|body| says(200, None, body));
    let all = own.into_iter().chain(bare).chain(broken);
    join_all(all.map(|fault| ends_nothing(&stage, fault))).await;
}

/// Orders at once, whose jobs are asked for every few milliseconds: more leave no processor for an answer.
static AT_ONCE: Semaphore = Semaphore::const_new(24);

async fn ends_nothing(stage: &Stage, fault: Fault) {
    let _place = AT_ONCE.acquire().await.unwrap();
    let stage = anew(stage).await;
    let accepted = stage.submit().await.unwrap();
    stage.finish(clone(&accepted)).await.unwrap();
    for after in 0..3 {
        stage.world().place(FaultOrder {
            provider: Some(stage.case.simulates().to_owned()),
            role: Some(RequestRole::Poll),
            after,
            ..FaultOrder::new(fault.clone())
        });
        let ended = stage.finish(clone(&accepted)).await;
        let outputs = ended.unwrap_or_else(|error| panic!("{fault:?} after {after}: {error:?}"));
        stage.check(&outputs).await;
        stage.world().clear_faults();
    }
    stage.paid_once();
}
