//! Property tests with arbitrary texts, templates and answers.

use crate::order::Choice;
use proptest::prelude::*;

use super::songs::SINGER;
use super::*;

fn any_word() -> impl Strategy<Value = String> {
    let names = [
        "prompt",
        "seconds",
        "size",
        "seed",
        "image",
        "references",
        "nothing",
        "tier",
    ];
    let formats = [
        "",
        ":text",
        ":x",
        "::",
        ":base64",
        ":data_url",
        ":mime",
        ":path",
        ":file",
        "|map",
        ":text|map",
    ];
    let placeholder = (
        prop::sample::select(names.to_vec()),
        prop::sample::select(formats.to_vec()),
    )
        .prop_map(|(name, format)| format!("{{{name}{format}}}"));
    prop_oneof![placeholder, "[a-z/{}é ]{0,6}"]
}

proptest! {
    /// Any text is a recipe or gives an error with a line.
    #[test]
    fn any_text_is_a_recipe_or_is_explained(text in "[\\[\\]{}=\"a-z./_ \n*0-9']{0,200}") {
        if let Err(error) = check::read(&text) {
            prop_assert!(error.line(&text) <= text.lines().count().max(1) + 1);
        }
    }

    /// Texts that are almost recipes give an error with a line, too.
    #[test]
    fn broken_recipes_are_explained(
        recipe_index in 0..3_usize,
        start in any::<prop::sample::Index>(),
        length in 0_usize..40,
        replacement in "[\\[\\]{}=\"a-z/*0-9\n|:]{0,12}",
    ) {
        let recipe = [OPENAI, KIE, SINGER][recipe_index];
        let mut text: Vec<char> = recipe.chars().collect();
        let from = start.index(text.len());
        let to = (from + length).min(text.len());
        text.splice(from..to, replacement.chars());
        let text: String = text.into_iter().collect();
        if let Err(error) = adapter_of(&text) {
            prop_assert!(error.line.is_some());
        }
    }

    /// Templates are read or refused, and those that are read can be filled in.
    #[test]
    fn rendering_never_panics(words in prop::collection::vec(any_word(), 0..4), seed in any::<Option<u64>>()) {
        let Ok(template) = template::Template::try_from(words.concat()) else {
            return Ok(());
        };
        let recipe = check::read(&short_recipe_with("seconds = [5]", "seconds = [5]\npictures = { max = 1 }")
            .replace("prompt = \"{prompt}\"", "prompt = \"{prompt}\"\nimage = \"{image}\"")).unwrap();
        let order = video_with("m", |video| {
            video.options.seed = seed.map(Choice::Asked);
            video.pictures.push(frame(PictureRole::FirstFrame));
            video.pictures.push(frame(PictureRole::Reference));
        });
        let values = order_values::values(&recipe, &order, &[]).unwrap();
        let maps = schema::ValueMaps::from([("map".into(), [("5".into(), json!(5))].into())]);
        let _ = template.value(&values, &maps);
        let _ = template.text(&values, &maps);
        let _ = template.path(&values, &maps);
    }

    /// No answer makes a recipe panic, and none without an id is a job.
    #[test]
    fn answers_may_be_anything(status in 100_u16..600, body in "[\\[\\]{}\":,a-z0-9]{0,60}") {
        let mut answer = ProviderResponse::from_json(status, &Value::Null);
        answer.body = body.into();
        for recipe in [OPENAI, KIE] {
            let adapter = adapter_of(recipe).unwrap();
            let order = video("m");
            let context = Call::get("submit", "").context();
            prop_assert!(adapter.read_submission(&order, &context, &answer).is_err());
            let handle = JobHandle(json!({}));
            let _ = adapter.poll(&handle);
            let _ = adapter.cancel(&handle);
            let since = crate::adapters::tests::since();
            if let Ok(lookup) = adapter.read_lookup(&order, since, &context, &answer) {
                prop_assert!(lookup.jobs.is_empty());
            }
            let _ = adapter.read_poll(&handle, &Call::get("poll", "").context(), &answer);
        }
    }
}
