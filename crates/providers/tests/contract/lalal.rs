//! `lalal`.

use providers::{StemGroup, StemTarget};
use serde_json::json;

use crate::suite::{Case, Makes, orders};

pub(crate) fn cases() -> Vec<Case> {
    let all = vec![
        StemTarget::Only(StemGroup::Vocals),
        StemTarget::Only(StemGroup::Drums),
        StemTarget::Only(StemGroup::Bass),
        StemTarget::Only(StemGroup::Guitar),
        StemTarget::Only(StemGroup::Keyboard),
        StemTarget::Other,
    ];
    let case = |name, model, order, targets| Case {
        name,
        protocol: "lalal",
        options: json!({}),
        model,
        secret: "0123456789abcdef",
        order,
        makes: Makes::Stems(targets),
        cancels: true,
    };
    let vocals = StemGroup::Vocals;
    vec![
        case(
            "lalal: one stem and the rest",
            "phoenix",
            orders::stems("phoenix"),
            vec![StemTarget::Only(vocals), StemTarget::Without(vocals)],
        ),
        case(
            "lalal: full split",
            "auto",
            orders::full_stems("auto", all.clone()),
            all,
        ),
    ]
}
