//! `chat-video`.

use providers::order::{Choice, ConversationMessage, PictureRole};
use serde_json::{Value, json};

use crate::suite::{Case, Makes, orders};

fn case(name: &'static str, model: &'static str, options: Value) -> Case {
    Case {
        name,
        protocol: "chat-video",
        options,
        model,
        secret: "sk-simulated-0123456789",
        order: orders::video(model),
        makes: Makes::Video,
        cancels: false,
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let message = |role: &str, text: &str| ConversationMessage {
        role: role.into(),
        text: text.into(),
    };
    let conversation = orders::video_with("sora-2", |video| {
        video.options.conversation = vec![
            message("system", "answer with a video"),
            message("user", "a harbour"),
            message("assistant", "https://old.example/1.mp4"),
        ];
    });
    let frames = orders::with_picture_as(
        orders::with_picture(orders::video("veo3-fl")),
        PictureRole::LastFrame,
    );
    let mediagate = orders::video_with("mediagate-animatic", |video| {
        video.options.seed = Some(Choice::Asked(7));
        video.options.negative_prompt = Some("rain".into());
    });
    let all_options = json!({"stream": true, "idempotency": true, "extension": true});
    vec![
        case("chat-video: streamed words", "veo3", json!({})),
        case("chat-video: words", "veo3", json!({"stream": false})),
        Case {
            order: conversation,
            ..case("chat-video: a conversation", "sora-2", json!({}))
        },
        Case {
            order: frames,
            ..case("chat-video: two frames", "veo3-fl", json!({}))
        },
        Case {
            order: mediagate.clone(),
            ..case(
                "chat-video: Mediagate streamed",
                "mediagate-animatic",
                all_options,
            )
        },
        Case {
            order: mediagate,
            ..case(
                "chat-video: Mediagate",
                "mediagate-animatic",
                json!({"stream": false, "extension": true}),
            )
        },
    ]
}
