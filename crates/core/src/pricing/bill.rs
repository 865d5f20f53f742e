//! Bills: what is charged for a result, for a job that was completed after its cancellation, and for
//! one whose outcome is unknown; and what its provider is paid.

use super::quotation::price_by;
use super::{BilledQuantity, DeliveredQuantity, DeliveredWork, RouteName};
use mediagate_model::money::{ChargeState, MicroDollars};
use mediagate_model::price::{Bill, charge};
use mediagate_model::task::{Task, TaskPayload};

/// The bill for a result: what was made, at the price that its route had when the task was accepted.
/// `None` for a free task. A result of this process has no route.
pub fn bill(task: &Task, delivered: &DeliveredWork, route: Option<RouteName<'_>>) -> Option<Bill> {
    write_bill(task, Some(delivered), route, missing_parts(task, delivered))
}

/// The bill for what a provider made although its task was cancelled; `None` for a free task. If it
/// is not known what was made, all of it.
pub fn cancelled_bill(
    task: &Task,
    delivered: Option<&DeliveredWork>,
    route: RouteName<'_>,
) -> Option<Bill> {
    let quantity = BilledQuantity::of(task, delivered).work();
    let (parts, parts_asked) = (quantity.parts, quantity.parts_asked);
    let shortfall = if parts < parts_asked {
        format!(" {parts} of {parts_asked} parts were made.")
    } else {
        String::new()
    };
    let note = format!("The task was cancelled, but the provider completed it anyway.{shortfall}");
    write_bill(task, delivered, Some(route), Some(note))
}

/// The bill for a cancelled task's job of which it is unknown whether it was completed: all of it.
/// `None` for a free task.
pub fn unknown_bill(task: &Task, route: RouteName<'_>) -> Option<Bill> {
    let note = "The task was cancelled, and it is unknown whether the provider completed it.";
    write_bill(task, None, Some(route), Some(note.to_owned()))
}

fn write_bill(
    task: &Task,
    delivered: Option<&DeliveredWork>,
    route: Option<RouteName<'_>>,
    partial: Option<String>,
) -> Option<Bill> {
    if task.money == ChargeState::Free {
        return None;
    }
    let quantity = BilledQuantity::of(task, delivered).work();
    let delivered = DeliveredQuantity::of(task, delivered).work();
    let tariff = task.tariff.as_ref();
    let price = tariff.and_then(|tariff| price_by(tariff, route));
    Some(Bill {
        price,
        quantity,
        cost: charge(price, quantity, task.reserved),
        delivered: (delivered != quantity).then_some(delivered),
        partial,
    })
}

/// What is missing in a result, in words; `None` if it is complete.
fn missing_parts(task: &Task, delivered: &DeliveredWork) -> Option<String> {
    let quantity = BilledQuantity::of(task, Some(delivered)).work();
    let (parts, parts_asked) = (quantity.parts, quantity.parts_asked);
    if parts >= parts_asked {
        return None;
    }
    match (delivered, &task.payload) {
        (DeliveredWork::Stems(stems), TaskPayload::StemsV1(job)) => {
            let missing = job.outputs.iter().map(|(_, target)| target);
            let missing = missing.filter(|target| !stems.contains(target));
            let names: Vec<String> = missing
                .map(|target| target.name().replace('_', " "))
                .collect();
            let names = names.join(", ");
            Some(format!(
                "{parts} of {parts_asked} stems were made; missing: {names}."
            ))
        }
        (DeliveredWork::Song { .. }, _) => {
            Some(format!("{parts} of {parts_asked} clips were made."))
        }
        _ => None,
    }
}

/// What a provider is paid for a delivery, by the cost that the operator configured for the route
/// when the task was accepted; `None` if there was none. It applies to results: only the provider
/// knows the cost of a failed job.
pub fn provider_cost(
    task: &Task,
    (provider, model): RouteName<'_>,
    delivered: DeliveredQuantity,
) -> Option<MicroDollars> {
    let tariff = task.tariff.as_ref()?;
    let cost = tariff.cost_by(provider, model)?;
    Some(cost.cost_of(delivered.work()))
}
