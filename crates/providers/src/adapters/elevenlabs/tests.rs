use std::io::Write as _;

use serde_json::json;
use zip::write::{SimpleFileOptions, ZipWriter};

use super::*;
use crate::adapters::tests::{adapter, stems, video};

fn archive(names: &[&str]) -> ProviderResponse {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for name in names {
        writer
            .start_file(*name, SimpleFileOptions::default())
            .unwrap();
        writer.write_all(name.as_bytes()).unwrap();
    }
    let mut answer = ProviderResponse::from_json(200, &json!(null));
    answer.body = writer.finish().unwrap().into_inner().into();
    answer
}

fn read(answer: &ProviderResponse) -> Result<Vec<(String, Bytes)>, ProviderError> {
    let adapter = adapter("elevenlabs", &json!({}));
    let order = stems("music");
    let context = adapter.start(&order).unwrap().context();
    match adapter.read_submission(&order, &context, answer)? {
        AdapterStep::Done { outputs } => Ok(outputs
            .into_iter()
            .map(|output| match (output.kind, output.source) {
                (OutputKind::Stem(target), OutputSource::Bytes(bytes)) => (target.name(), bytes),
                other => panic!("{other:?}"),
            })
            .collect()),
        other => panic!("{other:?}"),
    }
}

fn names(files: &[&str]) -> Result<Vec<String>, ProviderError> {
    Ok(read(&archive(files))?
        .into_iter()
        .map(|(name, _)| name)
        .collect())
}

#[test]
fn files_are_known_by_the_words_in_their_names() {
    let two = ["Vocals", "Instrumental"];
    for files in [
        ["vocals.mp3", "instrumental.mp3"],
        ["stems/Vocals.mp3", "stems/Accompaniment.mp3"],
        ["Bass Song_vocals.mp3", "Bass Song_no_vocals.mp3"],
        ["vocals_44100.mp3", "background.mp3"],
        ["vocals.mp3", "b.mp3"],
    ] {
        assert_eq!(names(&files).unwrap(), two, "{files:?}");
    }
    let six = [
        "vocals.mp3",
        "drums.mp3",
        "bass.mp3",
        "guitar.mp3",
        "piano.mp3",
        "other.mp3",
    ];
    assert_eq!(
        names(&six).unwrap(),
        ["Vocals", "Drums", "Bass", "Guitar", "Keyboard", "Other"]
    );
    let beside = [
        "vocals.mp3",
        "__MACOSX/._vocals.mp3",
        "notes.json",
        "instrumental.mp3",
    ];
    assert_eq!(names(&beside).unwrap(), two);
    assert_eq!(&read(&archive(&six)).unwrap()[1].1[..], b"drums.mp3");
}

#[test]
fn no_file_is_given_a_name_by_guessing() {
    for files in [
        &["a.mp3", "b.mp3"][..],
        &["vocals.mp3", "b.mp3", "c.mp3"],
        &["vocals.mp3", "lead_vocals.mp3"],
    ] {
        let error = names(files).unwrap_err();
        assert_eq!(error.class, ErrorClass::Failed);
        assert!(error.message.ends_with(&files.join(", ")), "{error}");
    }
}

#[test]
fn an_invalid_archive_is_an_error() {
    let class_of_answer = |body: &'static [u8]| {
        let mut answer = ProviderResponse::from_json(200, &json!(null));
        answer.body = Bytes::from_static(body);
        read(&answer).unwrap_err().class
    };
    assert_eq!(class_of_answer(b""), ErrorClass::Unclear);
    assert_eq!(class_of_answer(b"<html>"), ErrorClass::Unclear);
    assert_eq!(
        class_of_answer(b"PK\x03\x04 and no more"),
        ErrorClass::Failed
    );
    assert_eq!(read(&archive(&[])).unwrap_err().class, ErrorClass::Failed);
    let many: Vec<String> = (0..17).map(|number| format!("{number}.mp3")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(names(&many).unwrap_err().message.contains("17 files"));
}

#[test]
fn the_variation_fits_the_requested_stems() {
    let adapter = adapter("elevenlabs", &json!({"output_format": "mp3_44100_192"}));
    let variation = |order: &Order| {
        let call = adapter.start(order).unwrap();
        assert_eq!(
            call.query,
            [("output_format".into(), "mp3_44100_192".into())]
        );
        assert_eq!(call.timeout, crate::port::TimeoutClass::Work);
        match call.body {
            RequestBody::Multipart(parts) => match &parts[0] {
                FormPart::Text { value, .. } => value.clone(),
                FormPart::File { .. } => panic!("a file"),
            },
            _ => panic!("no form"),
        }
    };
    let mut order = stems("music");
    assert_eq!(variation(&order), TWO);
    if let WorkSpec::Stems(stems) = &mut order.work {
        stems.targets = vec![StemTarget::Only(StemGroup::Drums)];
    }
    assert_eq!(variation(&order), SIX);
    if let WorkSpec::Stems(stems) = &mut order.work {
        stems.full = true;
    }
    assert_eq!(variation(&order), SIX);
    assert_eq!(variation(&stems(SIX)), SIX);
    assert_eq!(
        adapter.start(&video("x")).unwrap_err().class,
        ErrorClass::Rejected
    );
}

#[test]
fn errors_are_read() {
    let detail = |code: &str| json!({"detail": {"status": code, "message": "so it is"}});
    for (status, body, class) in [
        (401, detail("invalid_api_key"), ErrorClass::Credentials),
        (401, detail("quota_exceeded"), ErrorClass::Account),
        (
            422,
            json!({"detail": [{"type": "missing", "msg": "Field required"}]}),
            ErrorClass::Rejected,
        ),
        (
            429,
            detail("too_many_concurrent_requests"),
            ErrorClass::RateLimited,
        ),
        (500, detail("internal"), ErrorClass::Unclear),
        (503, detail("system_busy"), ErrorClass::Unavailable),
        (504, json!(null), ErrorClass::Unclear),
    ] {
        let error = read(&ProviderResponse::from_json(status, &body)).unwrap_err();
        assert_eq!(error.class, class, "{status}");
    }
}
