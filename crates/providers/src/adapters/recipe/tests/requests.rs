//! Request bodies of the shipped recipes for each model of the catalogue, against
//! the bodies that the providers' pages document.

use super::*;
use crate::catalogue::Catalogue;
use crate::order::Choice;

/// For each model: the recipe, the provider's name for the model, the path, and the documented body
/// of an order of the default length and size that uses every optional setting.
fn documented() -> Vec<(&'static str, &'static str, &'static str, Value)> {
    let prompt = "a lighthouse in a storm";
    let openrouter = |model: &str, seconds: u32, resolution: &str, extra: Value| {
        let mut body = json!({"model": model, "prompt": prompt, "duration": seconds,
            "resolution": resolution, "aspect_ratio": "16:9"});
        let Some(extra) = extra.as_object().cloned() else {
            return body;
        };
        body.as_object_mut().unwrap().extend(extra);
        body
    };
    let with_choices = json!({"seed": 7, "generate_audio": false});
    let row = |model, seconds, resolution, extra| {
        (
            "openrouter",
            model,
            "/videos",
            openrouter(model, seconds, resolution, extra),
        )
    };
    let (omni, wan) = (
        "google/gemini-omni-1.1-flash/text-to-video",
        "alibaba/wan-3.0/text-to-video",
    );
    let at_wavespeed = json!({"prompt": prompt, "duration": 5, "resolution": "720p", "aspect_ratio": "16:9", "seed": 7});
    let mut with_sound = at_wavespeed.clone();
    with_sound["enable_audio"] = json!(false);
    let seedance = json!({"model": "bytedance/seedance-2-5", "input": {"prompt": prompt, "duration": 5,
        "resolution": "720p", "aspect_ratio": "16:9", "generate_audio": false}});
    vec![
        row("google/veo-3.1", 8, "720p", with_choices.clone()),
        row("bytedance/seedance-2.5", 5, "720p", with_choices),
        row("minimax/hailuo-3", 6, "2K", Value::Null),
        row("minimax/hailuo-3-max", 6, "768p", Value::Null),
        (
            "wavespeed",
            omni,
            "/google/gemini-omni-1.1-flash/text-to-video",
            at_wavespeed,
        ),
        (
            "wavespeed",
            wan,
            "/alibaba/wan-3.0/text-to-video",
            with_sound,
        ),
        (
            "kie",
            "bytedance/seedance-2-5",
            "/jobs/createTask",
            seedance,
        ),
    ]
    .into_iter()
    .chain(of_own_apis())
    .collect()
}

/// Like [`documented`], for recipes of a single vendor's own API.
fn of_own_apis() -> Vec<(&'static str, &'static str, &'static str, Value)> {
    let prompt = "a lighthouse in a storm";
    let pixverse = json!({"model": "v5", "prompt": prompt, "duration": 5, "quality": "720p",
        "aspect_ratio": "16:9", "seed": 7});
    let mut with_sound = pixverse.clone();
    with_sound["model"] = json!("v6");
    with_sound["generate_audio_switch"] = json!(true);
    let vidu = |model: &str, extra: Value| {
        let mut body = json!({"model": model, "prompt": prompt, "duration": 5, "resolution": "720p", "seed": 7});
        let extra = extra.as_object().cloned().unwrap();
        body.as_object_mut().unwrap().extend(extra);
        body
    };
    let with_frame = json!({"images": [PICTURE]});
    let mut silent_with_frame = with_frame.clone();
    silent_with_frame["audio"] = json!(false);
    let landscape = json!({"aspect_ratio": "16:9"});
    let silent_landscape = json!({"aspect_ratio": "16:9", "audio": false});
    let row = |model, path, extra: &Value| ("vidu", model, path, vidu(model, extra.clone()));
    let ltx = |model| {
        let body = json!({"model": model, "prompt": prompt, "duration": 6, "resolution": "1920x1080",
            "generate_audio": false});
        ("ltx", model, "/v2/text-to-video", body)
    };
    let mureka = |model| {
        let body = json!({"model": model, "lyrics": "[Verse] rain", "prompt": "blues", "n": 1});
        ("mureka", model, "/v1/song/generate", body)
    };
    let suno = |model| {
        let body = json!({"customMode": true, "instrumental": false, "prompt": "[Verse] rain",
            "style": "blues", "title": "Rain", "model": model, "callBackUrl": "playground"});
        ("kie-suno", model, "/generate", body)
    };
    vec![
        ("pixverse", "v6", "/video/text/generate", with_sound),
        ("pixverse", "v5", "/video/text/generate", pixverse),
        (
            "hunyuan",
            "hunyuan",
            "/",
            json!({"Prompt": prompt, "Resolution": "720p"}),
        ),
        row("viduq3-pro", "/text2video", &silent_landscape),
        row("viduq3-turbo", "/text2video", &silent_landscape),
        row("viduq3-pro-fast", "/img2video", &silent_with_frame),
        row("viduq2", "/text2video", &landscape),
        row("viduq2-pro", "/img2video", &with_frame),
        ltx("ltx-2-3-pro"),
        ltx("ltx-2-3-fast"),
        ltx("ltx-2-5*"),
        ltx("ltx-2-pro"),
        ltx("ltx-2-fast"),
        mureka("mureka-9"),
        mureka("mureka-8"),
        mureka("mureka-7.6"),
        suno("V6"),
        suno("V6_WILD"),
        suno("V6_MINI"),
        suno("V5_5"),
        suno("V5"),
        suno("V4_5PLUS"),
        suno("V4_5"),
    ]
}

const PICTURE: &str = "https://media.example.com/first.png";

/// The order of the catalogue's model with which its recipe is tested.
fn order_of(adapter: &dyn Adapter, kind: MediaKind, model: &str) -> Order {
    let Some(ModelLimits::Video(limits)) = adapter.limits(kind, model) else {
        let fields = json!({"prompt": "[Verse] rain", "tags": "blues", "title": "Rain"});
        return super::songs::song_by(model, fields);
    };
    video_with(model, |video| {
        (video.seconds, video.size) = (limits.default_seconds, limits.sizes[0]);
        video.options.seed = limits.seed.then_some(Choice::Asked(7));
        video.options.audio = limits.audio.map(|on| Choice::Asked(!on));
        if limits.pictures.needed {
            let mut picture = frame(PictureRole::FirstFrame);
            picture.file.url = Some(PICTURE.into());
            video.pictures.push(picture);
        }
    })
}

#[test]
fn each_model_is_ordered_as_its_page_says() {
    let documented = documented();
    let mut checked = 0;
    for model in Catalogue::embedded().models() {
        let protocol = format!("recipe:{}", model.provider);
        if crate::protocol(&protocol).is_none() {
            continue;
        }
        checked += 1;
        let mut rows = documented.iter();
        let row = rows.find(|row| (row.0, row.1) == (model.provider.as_str(), model.id.as_str()));
        let (.., path, body) = row.unwrap_or_else(|| panic!("{protocol} {} has no body", model.id));
        let adapter = adapter(&protocol, &json!({}));
        let order = order_of(adapter.as_ref(), model.kind, &model.id);
        let call = adapter.start(&order).unwrap();
        assert_eq!(
            call.target,
            CallTarget::Path((*path).into()),
            "{protocol} {}",
            model.id
        );
        assert_eq!(content(&call.body), *body, "{protocol} {}", model.id);
    }
    assert_eq!(
        checked,
        documented.len(),
        "every row is of a model in the catalogue"
    );
}

#[test]
fn frames_decide_the_shape_of_seedance_2_5() {
    for (protocol, model, pointer) in [
        (
            "recipe:openrouter",
            "bytedance/seedance-2.5",
            "/aspect_ratio",
        ),
        (
            "recipe:kie",
            "bytedance/seedance-2-5",
            "/input/aspect_ratio",
        ),
    ] {
        let ratio = |model: &str, role: Option<PictureRole>| {
            let order = video_with(model, |video| {
                video.pictures.extend(role.map(|role| {
                    let mut picture = frame(role);
                    picture.file.url = Some(PICTURE.into());
                    picture
                }));
            });
            let call = adapter(protocol, &json!({})).start(&order).unwrap();
            content(&call.body).pointer(pointer).cloned()
        };
        let wide = Some(json!("16:9"));
        assert_eq!(ratio(model, None), wide, "{protocol}");
        assert_eq!(
            ratio(model, Some(PictureRole::FirstFrame)),
            None,
            "{protocol}"
        );
        assert_eq!(
            ratio(model, Some(PictureRole::Reference)),
            wide,
            "{protocol}"
        );
    }
}

#[test]
fn references_go_in_the_place_of_frames() {
    let references = |model: &str| {
        video_with(model, |video| {
            for number in 1..3 {
                let mut picture = frame(PictureRole::Reference);
                picture.file.url = Some(format!("https://media.example.com/{number}.png"));
                video.pictures.push(picture);
            }
        })
    };
    let urls = [
        "https://media.example.com/1.png",
        "https://media.example.com/2.png",
    ];
    let sent = |protocol: &str, model: &str| {
        let call = adapter(protocol, &json!({}))
            .start(&references(model))
            .unwrap();
        content(&call.body)
    };
    let parts = urls.map(|url| json!({"type": "image_url", "image_url": {"url": url}}));
    let body = sent("recipe:openrouter", "bytedance/seedance-2.5");
    assert_eq!(
        (&body["input_references"], &body["frame_images"]),
        (&json!(parts), &Value::Null)
    );
    let body = sent("recipe:kie", "bytedance/seedance-2-5");
    assert_eq!(body["input"]["reference_image_urls"], json!(urls));
    let body = sent("recipe:vidu", "viduq2");
    assert_eq!(
        (&body["images"], &body["aspect_ratio"]),
        (&json!(urls), &json!("16:9"))
    );
}
