//! Surplus of a delivery over its order: the quantity that is charged, and the quantity beyond it.

use crate::run_output::RunOutput;
use mediagate_model::ids::ClipId;
use mediagate_model::music::ClipMedia;
use mediagate_model::price::WorkQuantity;
use mediagate_model::task::{Task, TaskPayload};

/// Tolerance for lengths: results that are shorter by up to this much still count as complete, and
/// results that are longer by up to this much do not count as surplus.
const TOLERANCE_MS: u64 = 250;

/// The quantity to charge: the ordered one if the delivery is close enough, else the delivered one,
/// with its length rounded down to a tenth of a second. Larger frames than ordered count as the
/// ordered size. A song counts with its own length, but not with more than was reserved.
pub(super) fn paid_quantity(task: &Task, output: &RunOutput) -> WorkQuantity {
    let mut quantity = output.quantity;
    match &task.payload {
        TaskPayload::VideoV1(job) => {
            // Encoders cut films at frames, so a film may be a little shorter than ordered.
            quantity.milliseconds = if quantity.milliseconds + TOLERANCE_MS >= job.milliseconds {
                job.milliseconds
            } else {
                quantity.milliseconds / 100 * 100
            };
            quantity.pixels = quantity.pixels.min(pixels(job.width, job.height));
        }
        TaskPayload::SongV1(job) => {
            let length = length_of_ordered(&job.outputs, &output.clips);
            quantity.milliseconds = length.min(reserved_length(task));
        }
        TaskPayload::StemsV1(_) => {}
    }
    quantity
}

/// The length of the ordered clips: a provider may deliver more clips.
fn length_of_ordered(ordered: &[ClipId], clips: &[(ClipId, ClipMedia)]) -> u64 {
    let ordered_clips = clips.iter().filter(|(id, _)| ordered.contains(id));
    ordered_clips.map(|(_, media)| media.milliseconds).sum()
}

/// The length of all clips for which a song's price is reserved.
fn reserved_length(task: &Task) -> u64 {
    let tariff = task.tariff.as_ref();
    tariff.map_or(u64::MAX, |tariff| tariff.asked.milliseconds)
}

/// Everything that a provider delivered, if that is more than was ordered. The provider's cost is
/// computed from this, unless the provider reports it.
pub(super) fn delivered_quantity(task: &Task, output: &RunOutput) -> Option<WorkQuantity> {
    let (paid, produced) = (paid_quantity(task, output), output.quantity);
    let mut delivered = paid;
    match &task.payload {
        TaskPayload::VideoV1(job) => {
            if is_longer(produced.milliseconds, job.milliseconds) {
                delivered.milliseconds = produced.milliseconds;
            }
            if is_larger(produced.pixels, pixels(job.width, job.height)) {
                delivered.pixels = produced.pixels;
            }
        }
        TaskPayload::SongV1(_) => delivered.milliseconds = produced.milliseconds,
        TaskPayload::StemsV1(_) => {}
    }
    (delivered != paid).then_some(delivered)
}

/// Logs and counts what a provider delivered beyond the order.
pub(super) fn report(task: &Task, output: &RunOutput) {
    let Some((provider, model)) = &output.made_by else {
        return;
    };
    let count = |kind: &'static str| {
        metrics::counter!("mediagate_delivered_beyond_order_total", "provider" => provider.clone(), "what" => kind)
            .increment(1);
    };
    match &task.payload {
        TaskPayload::VideoV1(job) => {
            let (ordered, delivered) = (pixels(job.width, job.height), output.quantity);
            let longer = is_longer(delivered.milliseconds, job.milliseconds);
            let larger = is_larger(delivered.pixels, ordered);
            if longer || larger {
                tracing::warn!(
                    provider,
                    route_model = model,
                    ordered_ms = job.milliseconds,
                    delivered_ms = delivered.milliseconds,
                    ordered_pixels = ordered,
                    delivered_pixels = delivered.pixels,
                    "the provider delivered more than was ordered; the caller does not pay for it"
                );
            }
            if longer {
                count("length");
            }
            if larger {
                count("size");
            }
        }
        TaskPayload::SongV1(job) => {
            let length = length_of_ordered(&job.outputs, &output.clips);
            let longer = length.saturating_sub(TOLERANCE_MS) > reserved_length(task);
            let has_more = !output.more_clips.is_empty();
            if longer || has_more {
                let (ordered, delivered) = (output.quantity.parts_asked, output.quantity.parts);
                tracing::warn!(
                    provider,
                    route_model = model,
                    ordered_clips = ordered,
                    delivered_clips = delivered,
                    delivered_ms = output.quantity.milliseconds,
                    "the provider delivered more than was ordered; the caller does not pay for it"
                );
            }
            if longer {
                count("length");
            }
            if has_more {
                count("clips");
            }
        }
        TaskPayload::StemsV1(_) => {}
    }
}

fn pixels(width: u32, height: u32) -> u64 {
    u64::from(width) * u64::from(height)
}

const fn is_longer(delivered_ms: u64, ordered_ms: u64) -> bool {
    delivered_ms > ordered_ms + TOLERANCE_MS
}

/// Whether the delivered size is of a larger resolution class: sizes of one class differ by less
/// than a fifth, and the next class has twice as many pixels.
const fn is_larger(delivered: u64, ordered: u64) -> bool {
    delivered.saturating_mul(5) > ordered.saturating_mul(6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mediagate_model::ids::AssetId;
    use mediagate_model::media::MediaType;

    #[test]
    fn clips_beyond_the_order_add_nothing_to_the_length_that_is_paid_for() {
        let clip = |milliseconds| {
            let media = ClipMedia {
                audio: AssetId::new(),
                audio_type: MediaType::Flac,
                image: AssetId::new(),
                image_large: AssetId::new(),
                milliseconds,
                expires_at: None,
            };
            (ClipId::new(), media)
        };
        let clips = [clip(60_000), clip(61_000), clip(90_000)];
        let ordered = [clips[0].0, clips[1].0, ClipId::new()];
        assert_eq!(length_of_ordered(&ordered, &clips), 121_000);
        assert_eq!(length_of_ordered(&ordered[..1], &clips), 60_000);
        assert_eq!(length_of_ordered(&[], &clips), 0);
    }
}
