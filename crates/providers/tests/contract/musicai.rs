//! `musicai`.

use providers::{StemGroup, StemTarget};
use serde_json::json;

use crate::suite::{Case, Makes, orders};

pub(crate) fn cases() -> Vec<Case> {
    let vocals = StemGroup::Vocals;
    let two = vec![StemTarget::Without(vocals), StemTarget::Only(vocals)];
    let four = vec![
        StemTarget::Only(StemGroup::Bass),
        StemTarget::Only(StemGroup::Drums),
        StemTarget::Other,
        StemTarget::Only(vocals),
    ];
    let case = |name, options, model, order, targets| Case {
        name,
        protocol: "musicai",
        options,
        model,
        secret: "simulated-key",
        order,
        makes: Makes::Stems(targets),
        cancels: true,
    };
    vec![
        case(
            "musicai: two stems",
            json!({"stems": ["vocals", "instrumental"]}),
            "two-stems",
            orders::stems("two-stems"),
            two,
        ),
        case(
            "musicai: four stems",
            json!({}),
            "four-stems",
            orders::full_stems("four-stems", four.clone()),
            four,
        ),
    ]
}
