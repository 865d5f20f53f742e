//! Surplus of a delivery over its order: the quantity that is charged, and the quantity beyond it.

use crate::run_output::RunOutput;
use mediagate_model::ids::ClipId;
use mediagate_model::music::ClipMedia;
use mediagate_model::price::WorkQuantity;
use mediagate_model::task::{Task, TaskPayload};

/// Tolerance for lengths: results that are shorter by up to this much still count as complete, and
/// results that are longer by up to this much not as surplus.
const TOLERANCE_MS: u64 = 250;

/// The quantity to charge: the ordered one if the delivery is close enough, else the delivered one,
/// with its length rounded down to a tenth of a second. Larger frames than ordered count as the
/// ordered size.
pub(super) fn paid_quantity(task: &Task, made: &RunOutput) -> WorkQuantity {
    let mut quantity = made.quantity;
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
            quantity.milliseconds = length_of_ordered(&job.outputs, &made.clips);
        }
        TaskPayload::StemsV1(_) => {}
    }
    quantity
}

/// The length of the ordered clips: a provider may deliver more clips.
fn length_of_ordered(ordered: &[ClipId], clips: &[(ClipId, ClipMedia)]) -> u64 {
    let of_order = clips.iter().filter(|(id, _)| ordered.contains(id));
    of_order.map(|(_, media)| media.milliseconds).sum()
}

/// Everything that a provider delivered, if that is more than was ordered. The provider's cost is
/// computed from this, unless the provider reports it.
pub(super) fn delivered_quantity(task: &Task, made: &RunOutput) -> Option<WorkQuantity> {
    let (paid, made) = (paid_quantity(task, made), made.quantity);
    let mut all = paid;
    match &task.payload {
        TaskPayload::VideoV1(job) => {
            if is_longer(made.milliseconds, job.milliseconds) {
                all.milliseconds = made.milliseconds;
            }
            if is_larger(made.pixels, pixels(job.width, job.height)) {
                all.pixels = made.pixels;
            }
        }
        TaskPayload::SongV1(_) => all.milliseconds = made.milliseconds,
        TaskPayload::StemsV1(_) => {}
    }
    (all != paid).then_some(all)
}

/// Logs and counts what a provider delivered beyond the order.
pub(super) fn report(task: &Task, made: &RunOutput) {
    let Some((provider, model)) = &made.made_by else {
        return;
    };
    let count = |what: &'static str| {
        metrics::counter!("mediagate_delivered_beyond_order_total", "provider" => provider.clone(), "what" => what)
            .increment(1);
    };
    match &task.payload {
        TaskPayload::VideoV1(job) => {
            let (ordered, came) = (pixels(job.width, job.height), made.quantity);
            let longer = is_longer(came.milliseconds, job.milliseconds);
            let larger = is_larger(came.pixels, ordered);
            if longer || larger {
                tracing::warn!(
                    provider,
                    route_model = model,
                    ordered_ms = job.milliseconds,
                    delivered_ms = came.milliseconds,
                    ordered_pixels = ordered,
                    delivered_pixels = came.pixels,
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
        TaskPayload::SongV1(_) if !made.more_clips.is_empty() => {
            let (ordered, came) = (made.quantity.parts_asked, made.quantity.parts);
            tracing::warn!(
                provider,
                route_model = model,
                ordered_clips = ordered,
                delivered_clips = came,
                "the provider delivered more than was ordered; the caller does not pay for it"
            );
            count("clips");
        }
        TaskPayload::SongV1(_) | TaskPayload::StemsV1(_) => {}
    }
}

fn pixels(width: u32, height: u32) -> u64 {
    u64::from(width) * u64::from(height)
}

const fn is_longer(made_ms: u64, ordered_ms: u64) -> bool {
    made_ms > ordered_ms + TOLERANCE_MS
}

/// Sizes of one resolution class differ by less than a fifth, and the next class has twice as many
/// pixels.
const fn is_larger(made: u64, ordered: u64) -> bool {
    made.saturating_mul(5) > ordered.saturating_mul(6)
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
