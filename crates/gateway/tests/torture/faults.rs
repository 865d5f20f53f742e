//! Random faults at the providers, and the jobs that they created.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use simulator::{Fault, FaultOrder, JobPlan, PlannedEnd, RequestRole, World};

use crate::dice::Dice;
use crate::settings::PROTOCOLS;

/// How often each fault was ordered.
pub(crate) type Counts = BTreeMap<&'static str, u64>;

/// Orders some random faults and random plans for jobs.
pub(crate) fn spread(world: &World, dice: &mut Dice, counts: &mut Counts) {
    world.clear_faults();
    world.set_plan(plan(dice, VIDEOS));
    for protocol in PROTOCOLS {
        if dice.chance(40) {
            world.set_plan_of(protocol, plan(dice, protocol));
        }
    }
    if dice.chance(40) {
        *counts.entry("late file").or_default() += 1;
        place(
            world,
            None,
            RequestRole::Download,
            late_file(dice),
            dice.between(2, 9),
        );
    }
    if dice.chance(30) {
        *counts.entry("inner gateway does not know").or_default() += 1;
        place(world, Some(VIDEOS), RequestRole::Poll, unconfirmed(), 1);
    }
    for _ in 0..dice.roll(9) {
        let protocol = *dice.pick(&PROTOCOLS);
        let (name, fault) = fault(dice, protocol);
        *counts.entry(name).or_default() += 1;
        let role = match dice.roll(10) {
            0..5 => Some(RequestRole::Submit),
            5..7 => Some(RequestRole::Poll),
            7 => Some(RequestRole::Download),
            8 => Some(RequestRole::Upload),
            _ => None,
        };
        world.place(FaultOrder {
            provider: Some(protocol.to_owned()),
            role: role.filter(|role| fault.concerns(*role)),
            after: u32::try_from(dice.roll(3)).unwrap(),
            times: u32::try_from(dice.between(1, 3)).unwrap(),
            ..FaultOrder::new(fault)
        });
    }
}

/// The protocol whose finished jobs do not name their file: one without a file is fetched for an
/// hour.
const VIDEOS: &str = "openai-videos";

fn place(world: &World, provider: Option<&str>, role: RequestRole, fault: Fault, times: u64) {
    world.place(FaultOrder {
        provider: provider.map(str::to_owned),
        role: Some(role),
        times: u32::try_from(times).unwrap(),
        ..FaultOrder::new(fault)
    });
}

/// A finished file has not yet reached the host at its URL.
fn late_file(dice: &mut Dice) -> Fault {
    Fault::Status {
        status: *dice.pick(&[403, 404]),
        retry_after: None,
        bare: true,
    }
}

/// The provider is a gateway that does not know what became of the order.
fn unconfirmed() -> Fault {
    let body = json!({
        "status": "failed",
        "error": {"code": "submission_unconfirmed", "message": "It is unknown."},
    });
    Fault::Says {
        status: 200,
        retry_after: None,
        body: body.to_string(),
    }
}

fn plan(dice: &mut Dice, protocol: &str) -> JobPlan {
    let end = match dice.roll(20) {
        0 => PlannedEnd::Failure,
        1 => PlannedEnd::Refusal,
        2 if protocol == VIDEOS => PlannedEnd::Unfit,
        2 => PlannedEnd::Empty,
        _ => PlannedEnd::Success,
    };
    JobPlan {
        queued: dice.millis(10, 300),
        running: dice.millis(50, 3000),
        end,
        incomplete: dice.chance(10),
        ..JobPlan::default()
    }
}

/// Removes all faults; jobs follow this plan.
pub(crate) fn reset_providers(world: &World, plan: JobPlan) {
    world.clear_faults();
    world.set_plan(plan);
}

fn fault(dice: &mut Dice, protocol: &str) -> (&'static str, Fault) {
    let status = *dice.pick(&[429_u16, 500, 502, 503, 504]);
    let retry_after = dice.chance(50).then_some(1);
    let bare = dice.chance(30);
    match dice.roll(13) {
        0 | 1 => ("latency", Fault::Latency(dice.millis(200, 2500))),
        2 | 3 => (
            "status",
            Fault::Status {
                status,
                retry_after,
                bare,
            },
        ),
        // Never 429, which would mean that nothing was done.
        4 => (
            "status after",
            Fault::StatusAfter(*dice.pick(&[409, 500, 502, 503, 504])),
        ),
        5 => ("drop before", Fault::DropBefore),
        6 | 7 => ("drop after", Fault::DropAfter),
        8 => ("drop in body", Fault::DropInBody),
        9 => ("truncated", Fault::Truncated),
        10 => (
            "slow",
            Fault::Slow(Duration::from_millis(dice.between(20, 200))),
        ),
        11 => ("expired", Fault::Expired),
        // `suno-family` makes personas and songs: an answer of the other sort would be no
        // duplicate.
        12 if protocol != "suno-family" => ("duplicate", Fault::Duplicate),
        _ => ("unknown word", Fault::UnknownWord),
    }
}
