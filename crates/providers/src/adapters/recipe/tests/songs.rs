//! Recipes for songs.

use super::answers::submitted;
use super::*;
use crate::order::Song;

const SINGER: &str = r#"
base_url = "https://api.example.com"
[music]
clips   = 2
seconds = { min = 10, max = 240 }
[submit]
path = "/songs"
[submit.body]
style        = "{tags}"
about        = "{prompt}"
words        = "{lyrics}"
avoid        = "{negative_tags}"
length       = "{seconds}"
instrumental = "{instrumental}"
name         = "{title}"
[submit.keep]
id = "/id"
[poll]
path = "/songs/{id}"
[state]
word = "/status"
done = ["done"]
[result]
address = "/songs/*/url"
"#;

fn song(fields: Value) -> Order {
    let mut order = stems("m");
    let Value::Object(fields) = fields else {
        panic!("no fields");
    };
    order.work = Work::Song(Song {
        task: "generate".into(),
        fields,
        uploads: Vec::new(),
    });
    order
}

#[test]
fn songs_are_ordered_and_all_their_clips_taken() {
    let cook = cook(SINGER).unwrap();
    let Some(Limits::Music(limits)) = cook.limits(Kind::Music, "m") else {
        panic!("no limits");
    };
    assert_eq!(limits.tasks, ["generate"]);
    assert_eq!(
        (limits.songs.clips, limits.songs.seconds),
        (2, Some((10, 240)))
    );
    let fields = ["negative_tags", "seconds", "make_instrumental", "lyrics"];
    assert_eq!(limits.songs.fields.as_deref(), Some(&fields[..]));
    let order =
        song(json!({"prompt": "[Verse] rain", "tags": "blues", "title": "Rain", "seconds": 30}));
    let sent = json!({"style": "blues", "about": "blues", "words": "[Verse] rain", "length": 30,
        "instrumental": false, "name": "Rain"});
    assert_eq!(content(&cook.start(&order).unwrap().body), sent);
    let Ok(Step::Submitted { handle, .. }) =
        submitted(cook.as_ref(), &order, 200, &json!({"id": "1"}))
    else {
        panic!("not submitted");
    };
    let songs = json!([{"url": "https://a.test/1"}, {"url": "https://a.test/2"}, {"url": "https://a.test/3"}]);
    let answer = Answer::json_of(200, &json!({"status": "done", "songs": songs}));
    let asked = cook.poll(&handle).unwrap().asked();
    let Step::Done { outputs } = cook.polled(&handle, &asked, &answer).unwrap() else {
        panic!("not done");
    };
    assert_eq!(outputs.len(), 2);
    for output in outputs {
        let What::Clip(facts) = output.what else {
            panic!("no clip");
        };
        assert_eq!(
            (facts.title.as_str(), facts.tags.as_str()),
            ("Rain", "blues")
        );
    }
    for (from, to, says) in [
        ("clips   = 2", "clips = 0", "from 1 to 10 clips"),
        ("length       = \"{seconds}\"\n", "", "{seconds}"),
        ("{negative_tags}", "{bad_tags}", "negative_tags"),
        ("address = \"/songs/*/url\"", "", "one of address"),
    ] {
        let (_, message) = fault(&SINGER.replace(from, to));
        assert!(message.contains(says), "{from}: {message}");
    }
}
