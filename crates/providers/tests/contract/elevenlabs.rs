//! `elevenlabs`.

use providers::{StemGroup, StemTarget};
use serde_json::json;

use crate::suite::{Case, Makes, orders};

pub(crate) fn cases() -> Vec<Case> {
    let six = vec![
        StemTarget::Only(StemGroup::Vocals),
        StemTarget::Only(StemGroup::Drums),
        StemTarget::Only(StemGroup::Bass),
        StemTarget::Only(StemGroup::Guitar),
        StemTarget::Only(StemGroup::Keyboard),
        StemTarget::Other,
    ];
    let case = |name, order, targets| Case {
        name,
        protocol: "elevenlabs",
        options: json!({}),
        model: "stems",
        secret: "sk_simulated",
        order,
        makes: Makes::Stems(targets),
        cancels: false,
    };
    let vocals = StemGroup::Vocals;
    vec![
        case(
            "elevenlabs: two stems",
            orders::stems("stems"),
            vec![StemTarget::Only(vocals), StemTarget::Without(vocals)],
        ),
        case(
            "elevenlabs: six stems",
            orders::full_stems("stems", six.clone()),
            six,
        ),
        Case {
            model: "music_v1",
            makes: Makes::Clips(1),
            ..case(
                "elevenlabs: song",
                orders::song("music_v1", "generate"),
                Vec::new(),
            )
        },
    ]
}
