//! Random faults at the providers, and the jobs that they created.

use std::collections::BTreeMap;
use std::time::Duration;

use simulator::{Fault, FaultOrder, JobPlan, PlannedEnd, RequestRole, World};

use crate::dice::Dice;
use crate::settings::PROTOCOLS;

/// How often each fault was ordered.
pub(crate) type Counts = BTreeMap<&'static str, u64>;

/// Orders some random faults and random plans for jobs.
pub(crate) fn spread(world: &World, dice: &mut Dice, counts: &mut Counts) {
    world.clear_faults();
    world.set_plan(plan(dice));
    for protocol in PROTOCOLS {
        if dice.chance(40) {
            world.set_plan_of(protocol, plan(dice));
        }
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

fn plan(dice: &mut Dice) -> JobPlan {
    let end = match dice.roll(20) {
        0 => PlannedEnd::Failure,
        1 => PlannedEnd::Refusal,
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
