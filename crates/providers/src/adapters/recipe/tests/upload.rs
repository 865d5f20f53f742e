//! Tests of files that are uploaded before the order.

use super::*;
use crate::order::Choice;
use crate::response::ProviderResponse;

/// Pictures are uploaded in a form, one by one.
const FORM: &str = r#"base_url = "https://api.example.com"
[video]
sizes = ["1280x720"]
seconds = [5]
audio = true
pictures = { max = 2, or_references = 3 }
[upload]
files = ["image", "last_frame", "references"]
path = "/files"
encoding = "multipart"
body = { picture = "{file:file}", trace = "{key}" }
id = "/data/id"
[submit]
path = "/jobs"
[submit.body]
prompt = "{prompt}"
first = "{image:uploaded}"
last = "{last_frame:uploaded}"
sound = "{audio|words}"
[[submit.body.people]]
for_each = "references"
id = "{reference:uploaded}"
[maps.words]
true = "on"
false = "off"
[submit.keep]
id = "/id"
[poll]
path = "/jobs/{id}"
[state]
word = "/status"
done = ["done"]
[result]
address = "/url"
"#;

/// Runs an order through its uploads, each of which gets the next number as its id.
fn follow_uploads(adapter: &dyn Adapter, order: &Order) -> (usize, Call) {
    let mut call = adapter.start(order).unwrap();
    let mut uploads = 0;
    while call.effect == CallEffect::Free {
        uploads += 1;
        let answer = json!({"data": {"id": 40 + uploads}});
        let answer = ProviderResponse::from_json(200, &answer);
        let Ok(AdapterStep::Next(next)) = adapter.read_submission(order, &call.context(), &answer)
        else {
            panic!("no next call");
        };
        call = *next;
    }
    (uploads, call)
}

#[test]
fn each_file_goes_first_and_the_order_names_it() {
    let adapter = adapter_of(FORM).unwrap();
    let plain = video("x");
    let (uploads, call) = follow_uploads(&*adapter, &plain);
    assert_eq!(
        (uploads, content(&call.body)),
        (0, json!({"prompt": "a lighthouse in a storm"}))
    );
    let order = video_with("x", |video| {
        video.pictures = vec![
            frame(PictureRole::LastFrame),
            frame(PictureRole::FirstFrame),
        ];
        video.options.audio = Some(Choice::Asked(false));
    });
    let first = adapter.start(&order).unwrap();
    assert_eq!(first.effect, CallEffect::Free);
    let form = json!({"picture": ["picture.png", "image/png", 8], "trace": "0197-key"});
    assert_eq!(content(&first.body), form);
    let (uploads, call) = follow_uploads(&*adapter, &order);
    let body =
        json!({"prompt": "a lighthouse in a storm", "first": 41, "last": 42, "sound": "off"});
    assert_eq!((uploads, content(&call.body)), (2, body));
    let order = video_with("x", |video| {
        video.pictures = vec![frame(PictureRole::Reference), frame(PictureRole::Reference)];
    });
    let (uploads, call) = follow_uploads(&*adapter, &order);
    let body = json!({"prompt": "a lighthouse in a storm", "people": [{"id": 41}, {"id": 42}]});
    assert_eq!((uploads, content(&call.body)), (2, body));
}

#[test]
fn limits_include_sound_and_references() {
    let adapter = adapter_of(FORM).unwrap();
    let Some(ModelLimits::Video(limits)) = adapter.limits(MediaKind::Video, "x") else {
        panic!("no videos");
    };
    assert_eq!(
        (limits.audio, limits.pictures.most_references()),
        (Some(true), 3)
    );
}

#[test]
fn nothing_before_the_order_is_unclear() {
    let adapter = adapter_of(FORM).unwrap();
    let order = video_with("x", |video| {
        video.pictures = vec![frame(PictureRole::FirstFrame)];
    });
    let context = adapter.start(&order).unwrap().context();
    for (status, body, class) in [
        (500, json!({}), ErrorClass::Unavailable),
        (200, json!({"data": {}}), ErrorClass::Unavailable),
        (401, json!({}), ErrorClass::Credentials),
        (400, json!({}), ErrorClass::Rejected),
    ] {
        let error = adapter.read_submission(
            &order,
            &context,
            &ProviderResponse::from_json(status, &body),
        );
        assert_eq!(error.unwrap_err().class, class, "{status} {body}");
    }
}
