//! Recipes for separations.

use super::answers::submitted;
use super::*;

pub(super) const SEPARATOR: &str = r#"
base_url = "https://api.example.com"
[stems]
groups = { vocals = "voice", drums = "drums" }
two    = true
full   = true
[submit]
path = "/split"
[submit.body]
audio = "{recording}"
stem  = "{stem}"
[submit.keep]
id = "/id"
[poll]
path = "/jobs/{id}"
[state]
word = "/status"
done = ["done"]
[result.stems]
vocals = "/out/voice"
drums  = "/out/drums"
rest   = "/out/other"
other  = "/out/other"
"#;

#[test]
fn stems_are_labelled_by_what_was_wanted() {
    let cook = cook(SEPARATOR).unwrap();
    let Some(Limits::Music(limits)) = cook.limits(Kind::Music, "m") else {
        panic!("no limits");
    };
    let limits = limits.stems.unwrap();
    let groups = vec![StemGroup::Vocals, StemGroup::Drums];
    assert_eq!((&limits.groups, &limits.rests), (&groups, &groups));
    assert!(limits.two && limits.full && limits.other);
    assert_eq!(cook.limits(Kind::Video, "m"), None);
    let whats = |order: &Order, out: Value| {
        let taken = submitted(cook.as_ref(), order, 200, &json!({"id": "a/b"}));
        let Ok(Step::Submitted { handle, .. }) = taken else {
            panic!("not submitted");
        };
        let handle: Handle =
            serde_json::from_str(&serde_json::to_string(&handle).unwrap()).unwrap();
        let answer = Answer::json_of(200, &json!({"status": "done", "out": out}));
        let asked = cook.poll(&handle).unwrap().asked();
        match cook.polled(&handle, &asked, &answer).unwrap() {
            Step::Done { outputs } => outputs
                .into_iter()
                .map(|Output { what, .. }| what)
                .collect::<Vec<_>>(),
            other => panic!("not done: {other:?}"),
        }
    };
    let out = json!({"voice": "https://a.test/v", "drums": "https://a.test/d", "other": "https://a.test/o"});
    let mut order = stems("m");
    assert_eq!(content(&cook.start(&order).unwrap().body)["stem"], "voice");
    let two = json!({"voice": out["voice"], "drums": null, "other": out["other"]});
    let vocals = StemGroup::Vocals;
    assert_eq!(
        whats(&order, two),
        [StemTarget::Without(vocals), StemTarget::Only(vocals)].map(What::Stem)
    );
    if let Work::Stems(stems) = &mut order.work {
        stems.full = true;
    }
    assert_eq!(content(&cook.start(&order).unwrap().body).get("stem"), None);
    assert_eq!(
        whats(&order, out),
        [
            StemTarget::Only(StemGroup::Drums),
            StemTarget::Other,
            StemTarget::Only(vocals)
        ]
        .map(What::Stem)
    );
    for (from, to, says) in [
        (
            "drums  = \"/out/drums\"\n",
            "",
            "does not say where drums is",
        ),
        (
            "drums = \"drums\"",
            "drum = \"drums\"",
            "did you mean \"drums\"?",
        ),
        ("two    = true\nfull   = true\n", "", "two = true"),
        ("stem  = \"{stem}\"\n", "", "{stem}"),
    ] {
        let (_, message) = fault(&SEPARATOR.replace(from, to));
        assert!(message.contains(says), "{message}");
    }
}
