//! Report of what a provider delivered beyond its order: a line in the log and a count.

use crate::run_output::RunOutput;
use mediagate_core::pricing::{DeliveredQuantity, DeliverySurplus, ReservedQuantity};
use mediagate_model::task::Task;

/// Logs and counts a surplus.
pub(super) fn report(task: &Task, output: &RunOutput) {
    let Some((provider, model)) = &output.made_by else {
        return;
    };
    let surplus = DeliverySurplus::of(task, &output.delivered);
    if !surplus.is_some() {
        return;
    }
    let ordered = ReservedQuantity::of(task).work();
    let delivered = DeliveredQuantity::of(task, Some(&output.delivered)).work();
    tracing::warn!(
        provider,
        route_model = model,
        ordered_ms = ordered.milliseconds,
        delivered_ms = delivered.milliseconds,
        ordered_pixels = ordered.pixels,
        delivered_pixels = delivered.pixels,
        ordered_parts = ordered.parts,
        delivered_parts = output.delivered.parts(),
        "the provider delivered more than was ordered; the caller does not pay for it"
    );
    for (is_more, kind) in [
        (surplus.is_longer, "length"),
        (surplus.is_larger, "size"),
        (surplus.has_more_clips, "clips"),
    ] {
        if is_more {
            metrics::counter!("mediagate_delivered_beyond_order_total", "provider" => provider.clone(), "what" => kind)
                .increment(1);
        }
    }
}
