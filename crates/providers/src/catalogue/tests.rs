//! Tests of the catalogue.

use super::*;
use crate::order::StemGroup;
use crate::settings::Settings;
use crate::{MusicLimits, SongLimits, StemLimits};

fn adapter(model: &KnownModel) -> std::sync::Arc<dyn crate::Adapter> {
    let name = &model.provider;
    let shipped = || crate::protocol(&format!("recipe:{name}"));
    let protocol = crate::protocol(name).or_else(shipped).unwrap();
    let settings = Settings {
        name: "known".into(),
        base_url: None,
        options: model.options.clone(),
    };
    (protocol.build)(&settings).unwrap()
}

#[test]
fn every_file_is_read() {
    for (name, text) in read::EMBEDDED {
        let models = read::file(name, text).unwrap_or_else(|error| panic!("{error}"));
        assert!(!models.is_empty(), "{name}");
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    let files = read::folder(Path::new(folder)).unwrap();
    assert_eq!(files.len(), read::EMBEDDED.len(), "a file is not embedded");
    let again = Catalogue::embedded()
        .with_folder(Path::new(folder))
        .unwrap();
    assert_eq!(again, *Catalogue::embedded());
}

#[test]
fn what_is_in_the_files_can_be_asked_for() {
    for model in Catalogue::embedded().models() {
        let adapter = adapter(model);
        let id = model.id.trim_end_matches('*');
        if model.retired.is_some() {
            continue;
        }
        let own = adapter
            .limits(model.kind, id)
            .unwrap_or_else(|| panic!("{id}"));
        assert_eq!(adapter.fault_of_model(model.kind, id), None, "{id}");
        for size in model.sizes.iter().flatten() {
            assert!(
                adapter.can_say(id, *size),
                "{id} cannot be asked for {size:?}"
            );
        }
        let Limits::Video(own) = own else { continue };
        assert!(
            model.pictures.is_none_or(|most| most <= own.pictures.max),
            "{id}"
        );
        assert!(model.seed != Some(true) || own.seed, "{id}");
        assert!(
            model.negative_prompt != Some(true) || own.negative_prompt,
            "{id}"
        );
        for price in &model.prices {
            assert!(["second", "video"].contains(&price.unit.as_str()), "{id}");
        }
    }
}

fn of(toml: &str) -> Catalogue {
    let head = "source = \"a page\"\ndate = 2026-11-22\nkey = \"FAL_KEY\"\n";
    let mut catalogue = Catalogue::default();
    catalogue.lay_over(read::file("fal", &format!("{head}{toml}")).unwrap());
    catalogue
}

#[test]
fn a_newer_entry_takes_the_place_of_the_one_of_its_id() {
    let mut catalogue = of("[[model]]\nid = \"a/b\"\nkind = \"video\"\nseconds = [5]\n\
                            [[model]]\nid = \"a/*\"\nname = \"any\"\nkind = \"video\"\n");
    let newer = "source = \"x\"\ndate = 2027-01-01\nkey = \"K\"\n[[model]]\nid = \"a/b\"\n\
                 kind = \"video\"\nseconds = { min = 3, max = 30 }\nsizes = [\"640x360\"]\n";
    catalogue.lay_over(read::file("fal", newer).unwrap());
    let model = catalogue.find("fal", "a/b").unwrap();
    assert_eq!(
        (model.date.as_str(), model.name.as_str()),
        ("2027-01-01", "b")
    );
    assert_eq!(catalogue.find("fal", "a/c").unwrap().name, "any");
    assert_eq!(catalogue.models().count(), 2);
    let own = crate::protocol("fal").unwrap();
    let settings = Settings {
        name: "x".into(),
        base_url: None,
        options: Map::new(),
    };
    let own = (own.build)(&settings)
        .unwrap()
        .limits(Kind::Video, "a/b")
        .unwrap();
    let Limits::Video(limits) = catalogue.limits("fal", "a/b", own) else {
        panic!("no video");
    };
    assert_eq!(limits.sizes, [(640, 360)]);
    assert_eq!((limits.durations.max(), limits.default_seconds), (30, 5));
    let stems = Limits::Music(MusicLimits {
        stems: Some(StemLimits {
            groups: vec![StemGroup::Vocals],
            two: true,
            rests: Vec::new(),
            full: false,
            other: false,
            handover: crate::Handover::Any,
        }),
        tasks: Vec::new(),
        personas: false,
        songs: SongLimits::DIALECT,
    });
    assert_eq!(catalogue.limits("fal", "a/b", stems.clone()), stems);
}

#[test]
fn a_slip_is_told_from_another_version() {
    let catalogue = of("[[model]]\nid = \"fal-ai/veo3.1/fast\"\nkind = \"video\"\n");
    let meant = |model: &str| catalogue.meant("fal", model);
    assert_eq!(meant("fal-ai/veo3.1/fsat"), Some("fal-ai/veo3.1/fast"));
    assert_eq!(meant("fal-ia/veo3.1/fast"), Some("fal-ai/veo3.1/fast"));
    assert_eq!(meant("fal-ai/veo3.2/fast"), None);
    assert_eq!(meant("fal-ai/veo3.1/fast"), None);
    assert_eq!(meant("fal-ai/veo3.1"), None);
    assert_eq!(catalogue.meant("replicate", "fal-ai/veo3.1/fsat"), None);
}

#[test]
fn a_wrong_file_is_explained_by_line() {
    let head = "source = \"a page\"\ndate = 2026-11-22\nkey = \"K\"\n";
    for (toml, line, words) in [
        ("[[model]]\nid = \"a\"\n", 4, "kind"),
        (
            "[[model]]\nid = \"a\"\nkind = \"video\"\nsize = []\n",
            7,
            "size",
        ),
        (
            "[[model]]\nid = \"a\"\nkind = \"video\"\nsizes = [\"big\"]\n",
            4,
            "1280x720",
        ),
        (
            "[[model]]\nid = \"a\"\nkind = \"video\"\nseconds = [0]\n",
            4,
            "seconds",
        ),
        (
            "[[model]]\nid = \"a\"\nkind = \"video\"\nprice = [{ unit = \"second\", usd = \"a lot\" }]\n",
            4,
            "decimal",
        ),
        (
            "[[model]]\nid = \"a\"\nkind = \"video\"\nprice = [{ unit = \"hour\", usd = \"1\" }]\n",
            4,
            "units are",
        ),
        (
            "[[model]]\nid = \"a\"\nkind = \"video\"\n[[model]]\nid = \"a\"\nkind = \"video\"\n",
            7,
            "twice",
        ),
    ] {
        let error = read::file("fal", &format!("{head}{toml}")).unwrap_err();
        assert_eq!(error.line, Some(line), "{toml}{error}");
        assert!(error.message.contains(words), "{toml}{error}");
    }
    let error = read::file("acme", head).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("acme.toml: is named after no protocol")
    );
}

/// The lines of the document's table.
fn table() -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for model in Catalogue::embedded().models() {
        let prices = model.prices.iter().map(|price| {
            let holds_for = price.holds_for.as_ref();
            let holds_for = holds_for.map_or(String::new(), |what| format!(" ({what})"));
            format!("{} a {}{holds_for}", price.usd, price.unit)
        });
        let price = match &model.retired {
            Some(day) => format!("shut down on {day}"),
            None => prices.collect::<Vec<_>>().join(", "),
        };
        let seconds = match &model.seconds {
            Some(Durations::Range { min, max }) => format!("{min}–{max}"),
            Some(Durations::Only(list)) => {
                let list: Vec<String> = list.iter().map(u32::to_string).collect();
                list.join(", ")
            }
            None => String::new(),
        };
        writeln!(
            text,
            "| `{}/{}` | `{}` | {seconds} | {} | {price} |",
            model.provider,
            model.name,
            model.id,
            model.audio.map_or("", Sound::name),
        )
        .unwrap();
    }
    text
}

#[test]
fn the_document_lists_what_the_files_say() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/models/hosted.md");
    let document = std::fs::read_to_string(path).unwrap();
    let rows = document.lines().filter(|line| line.starts_with("| `"));
    let rows: Vec<&str> = rows.collect();
    let rows = rows.join("\n") + "\n";
    assert!(
        rows == table(),
        "the table in docs/models/hosted.md should be:\n{}",
        table()
    );
}
