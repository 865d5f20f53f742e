//! Wrong recipes, and their errors.

use super::*;

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn wrong_recipes_are_explained_by_line() {
    for (from, to, line, expected) in [
        // Errors that are found when the recipe is read.
        ("prompt = \"{prompt}\"", "prompt = {prompt}", 8, ""),
        (
            "path = \"/jobs\"",
            "pth = \"/jobs\"",
            6,
            "did you mean \"path\"?",
        ),
        ("[poll]", "[pol]", 11, "did you mean \"poll\"?"),
        ("[poll]\npath = \"/jobs/{id}\"\n", "", 1, "poll is missing"),
        (
            "address = \"/url\"",
            "address = \"/url\"\n[upload]\nfiles = [\"image\"]\npath = \"/files\"\nid = \"/id\"",
            21,
            "the submission does not use {image:uploaded}",
        ),
        (
            "prompt = \"{prompt}\"",
            "prompt = \"{prompt}\"\nimage = \"{image:uploaded}\"",
            6,
            "not one of the files of [upload]",
        ),
        (
            "address = \"/url\"",
            "address = \"/url\"\n[auth]\nscheme = \"Key\"\nsign = { method = \"tc3\", service = \"x\" }",
            6,
            "not both",
        ),
        (
            "[poll]",
            "[auth]\nsign = { method = \"tc4\", service = \"x\" }\n[poll]",
            12,
            "did you mean \"tc3\"?",
        ),
        (
            "[submit]\npath = \"/jobs\"",
            "[submit]",
            5,
            "path is missing",
        ),
        ("1280x720", "1280", 3, "\"1280\" is not a size"),
        ("seconds = [5]", "seconds = \"5\"", 4, "list of lengths"),
        (
            "id = \"/id\"",
            "id = \"id\"",
            10,
            "not a path in a response",
        ),
        ("{prompt}", "{prompt", 8, "unmatched brace"),
        ("{prompt}", "{prompt:txt}", 8, "did you mean \"text\"?"),
        (
            "path = \"/jobs\"",
            "path = \"/jobs\"\nmethod = \"get\"",
            7,
            "did you mean",
        ),
        // Faults that only the whole recipe shows.
        (
            "path = \"/jobs\"",
            "path = \"/jobs\"\nrefusal = [{ statuses = [503], source = \"a page\" }]",
            7,
            "add codes",
        ),
        (
            "path = \"/jobs\"",
            "path = \"/jobs\"\nrefusal = [{ statuses = [409], source = \"\" }]",
            7,
            "source is empty",
        ),
        (
            "https://api.example.com",
            "api.example.com",
            1,
            "must be an http or https URL",
        ),
        ("{prompt}", "{promt}", 8, "did you mean \"prompt\"?"),
        ("{prompt}", "{prompt|tone}", 8, "no [maps.tone]"),
        (
            "{prompt}",
            "{prompt:base64}",
            8,
            "cannot be used in this format",
        ),
        (
            "path = \"/jobs/{id}\"",
            "path = \"/jobs/{ids}\"",
            12,
            "did you mean \"id\"?",
        ),
        (
            "path = \"/jobs/{id}\"",
            "path = \"jobs/{id}\"",
            12,
            "must begin with a slash",
        ),
        (
            "failed = [\"failed\"]",
            "failed = [\"done\"]",
            17,
            "both in done and in failed",
        ),
        ("done = [\"done\"]\n", "", 14, "no word for done"),
        (
            "word = \"/status\"\n",
            "",
            12,
            "location of the status word",
        ),
        ("address = \"/url\"", "", 12, "either address or content"),
        ("id = \"/id\"\n", "", 9, "must not be empty"),
        ("[submit.keep]\nid = \"/id\"\n", "", 5, "keep is missing"),
        ("prompt = \"{prompt}\"", "text = 1", 7, "does not send it"),
        ("seconds = [5]", "seconds = [5, 10]", 7, "{seconds}"),
        (
            "sizes = [\"1280x720\"]",
            "sizes = [\"1280x720\", \"720x1280\"]",
            7,
            "{size}",
        ),
        ("seconds = [5]", "seconds = [5]\nseed = true", 8, "{seed}"),
        (
            "seconds = [5]",
            "seconds = [5]\npictures = { max = 1 }",
            8,
            "{image}",
        ),
        (
            "seconds = [5]",
            "seconds = { min = 9, max = 3 }",
            4,
            "ascending order",
        ),
        (
            "[poll]",
            "[errors.codes]\nx = \"rejectd\"\n[poll]",
            12,
            "did you mean \"rejected\"?",
        ),
        (
            "prompt = \"{prompt}\"",
            "prompt = \"{prompt}\"\nx = { only_with = \"imag\", a = 1 }",
            9,
            "did you mean \"image\"?",
        ),
        (
            "prompt = \"{prompt}\"",
            "prompt = \"{prompt}\"\nx = \"{image:file}\"",
            9,
            "multipart",
        ),
        (
            "prompt = \"{prompt}\"",
            "prompt = \"{prompt}\"\nx = \"{image:url}\"\ny = [ { for_each = \"image\" } ]",
            10,
            "for_each supports only",
        ),
        (
            "[poll]",
            "[auth]\nheader = \"no good\"\n[poll]",
            12,
            "not a valid header name",
        ),
    ] {
        let (actual_line, message) = fault(&short_recipe_with(from, to));
        assert_eq!(actual_line, line, "{to}: {message}");
        assert!(message.contains(expected), "{to}: {message}");
    }
    let (line, message) = fault("");
    assert_eq!(
        (line, message.contains("is missing")),
        (1, true),
        "{message}"
    );
}

#[test]
fn maps_must_have_an_entry_for_every_allowed_value() {
    let mapped = short_recipe_with("{prompt}", "{prompt} in {tier|fineness}")
        .replace("[\"1280x720\"]", "[\"1280x720\", \"864x480\"]");
    let (line, message) = fault(&format!("{mapped}[maps.fineness]\n\"720p\" = \"HD\"\n"));
    assert_eq!(line, 8);
    assert!(message.contains("no entry for \"480p\""), "{message}");
    adapter_of(&format!(
        "{mapped}[maps.fineness]\n\"720p\" = \"HD\"\n\"*\" = \"SD\"\n"
    ))
    .unwrap();
}

#[test]
fn files_are_read_when_the_settings_are() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("recipe.toml");
    std::fs::write(&path, SHORT).unwrap();
    adapter_of(&format!("file:{}", path.display())).unwrap();
    let error = adapter_of("file:/nowhere/recipe.toml").unwrap_err();
    assert_eq!((error.key.as_deref(), error.line), (Some("recipe"), None));
}
