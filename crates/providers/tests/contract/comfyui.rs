//! `comfyui`.

use serde_json::{Value, json};

use crate::suite::{Case, Makes, orders};

/// A graph in the API form that the editor exports, without the nodes that no test needs.
fn graph(picture: bool) -> String {
    let mut graph = json!({
        "3": {"class_type": "KSampler", "inputs": {"seed": 1, "steps": 20, "model": ["37", 0], "latent_image": ["50", 0]}},
        "6": {"class_type": "CLIPTextEncode", "inputs": {"text": "", "clip": ["38", 0]}},
        "7": {"class_type": "CLIPTextEncode", "inputs": {"text": "blurry", "clip": ["38", 0]}},
        "50": {"class_type": "WanImageToVideo", "inputs": {"width": 832, "height": 480, "length": 81}},
        "57": {"class_type": "CreateVideo", "inputs": {"fps": 16, "images": ["8", 0]}},
        "58": {"class_type": "SaveVideo", "inputs": {"filename_prefix": "video/mediagate", "video": ["57", 0]}},
    });
    if picture {
        graph["52"] = json!({"class_type": "LoadImage", "inputs": {"image": "example.png"}});
    }
    graph.to_string()
}

fn options(picture: bool, api: &str) -> Value {
    let mut patch = json!({
        "prompt": "6.inputs.text", "negative_prompt": "7.inputs.text", "seed": "3.inputs.seed",
        "width": "50.inputs.width", "height": "50.inputs.height", "frames": "50.inputs.length",
    });
    if picture {
        patch["image"] = json!("52.inputs.image");
    }
    json!({"graph": graph(picture), "patch": patch, "fps": 16, "api": api})
}

pub(crate) fn cases() -> Vec<Case> {
    let case = |name, options, order| Case {
        name,
        protocol: "comfyui",
        model: "wan",
        options,
        secret: "a-key",
        order,
        makes: Makes::Video,
        cancels: true,
    };
    vec![
        case(
            "comfyui: text to video",
            options(false, "v1"),
            orders::video("wan"),
        ),
        case(
            "comfyui: picture to video",
            options(true, "v1"),
            orders::with_picture(orders::video("wan")),
        ),
        case(
            "comfyui: jobs API",
            options(false, "v2"),
            orders::video("wan"),
        ),
    ]
}
