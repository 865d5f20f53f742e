//! `suno-family`.

use providers::{Order, StemGroup, StemTarget, WorkSpec};
use serde_json::{Value, json};

use crate::suite::{Case, Makes, orders};

fn case(name: &'static str, options: Value, order: Order, makes: Makes) -> Case {
    Case {
        name,
        protocol: "suno-family",
        options,
        // For a model with `bare` in its name, the simulated service answers with the bare record;
        // for one with `record`, with the enveloped record.
        model: match order.model.as_str() {
            "chirp-bare" => "chirp-bare",
            "chirp-record" => "chirp-record",
            _ => "chirp-auk",
        },
        secret: "sk-simulated-0123456789",
        order,
        makes,
        cancels: false,
    }
}

/// A song made of a recording that the provider does not have.
fn cover(model: &str) -> Order {
    let mut order = orders::song(model, "cover");
    if let WorkSpec::Song(song) = &mut order.work {
        song.uploads = vec![("cover_clip_id".into(), orders::recording())];
    }
    order
}

pub(crate) fn cases() -> Vec<Case> {
    let all: Vec<StemTarget> = StemGroup::ALL
        .iter()
        .copied()
        .map(StemTarget::Only)
        .collect();
    let direct = json!({"upload": "direct", "batch": "one"});
    let idempotent = json!({"upload": "direct", "batch": "one", "idempotency": true});
    vec![
        case(
            "suno-family: song",
            json!({}),
            orders::song("chirp-auk", "generate"),
            Makes::Clips(2),
        ),
        case(
            "suno-family: song, bare record",
            json!({"batch": "one"}),
            orders::song("chirp-bare", "generate"),
            Makes::Clips(2),
        ),
        case(
            "suno-family: song, enveloped record, keyed",
            json!({"batch": "one", "idempotency": true}),
            orders::song("chirp-record", "generate"),
            Makes::Clips(2),
        ),
        case(
            "suno-family: cover of an upload",
            direct.clone(),
            cover("chirp-auk"),
            Makes::Clips(2),
        ),
        case(
            "suno-family: two stems by way of a bucket",
            json!({}),
            orders::stems("chirp-auk"),
            Makes::Clips(2),
        ),
        case(
            "suno-family: two stems, bare record",
            direct,
            orders::stems("chirp-bare"),
            Makes::Clips(2),
        ),
        case(
            "suno-family: twelve stems, keyed",
            idempotent,
            orders::full_stems("chirp-auk", all),
            Makes::Clips(12),
        ),
        case(
            "suno-family: persona",
            json!({}),
            orders::persona("chirp-auk"),
            Makes::Persona,
        ),
    ]
}
