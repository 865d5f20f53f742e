//! `audioshake`.

use providers::{StemGroup, StemTarget};
use serde_json::json;

use crate::suite::{Case, Makes, orders};

pub(crate) fn cases() -> Vec<Case> {
    let vocals = StemGroup::Vocals;
    let all = vec![
        StemTarget::Only(vocals),
        StemTarget::Only(StemGroup::Drums),
        StemTarget::Only(StemGroup::Bass),
        StemTarget::Only(StemGroup::Guitar),
        StemTarget::Only(StemGroup::Keyboard),
    ];
    let case = |name, order, targets| Case {
        name,
        protocol: "audioshake",
        options: json!({}),
        model: "stems",
        secret: "simulated-key",
        order,
        makes: Makes::Stems(targets),
        cancels: false,
    };
    vec![
        case(
            "audioshake: vocals and the rest",
            orders::stems("stems"),
            vec![StemTarget::Only(vocals), StemTarget::Without(vocals)],
        ),
        case(
            "audioshake: five stems",
            orders::full_stems("stems", all.clone()),
            all,
        ),
    ]
}
