//! Tests of the catalogue.

use super::*;
use crate::adapters::{fault_of_entry, limits_of};
use crate::order::{
    Choice, PictureRole, SourcePicture, StemGroup, VideoOptions, VideoSpec, WorkSpec,
};
use crate::settings::ProviderSettings;
use crate::{FileHandover, MusicLimits, SongLimits, StemLimits};

fn adapter(model: &KnownModel) -> std::sync::Arc<dyn crate::Adapter> {
    let name = &model.provider;
    let shipped = || crate::protocol(&format!("recipe:{name}"));
    let protocol = crate::protocol(name).or_else(shipped).unwrap();
    let settings = ProviderSettings::new("known", model.options.clone());
    (protocol.build)(&settings).unwrap()
}

#[test]
fn every_file_is_read() {
    for (name, text) in files::EMBEDDED {
        let models =
            files::file(name, text, fault_of_entry).unwrap_or_else(|error| panic!("{error}"));
        assert!(!models.is_empty(), "{name}");
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    let files = files::folder(Path::new(folder), fault_of_entry).unwrap();
    assert_eq!(files.len(), files::EMBEDDED.len(), "a file is not embedded");
    let reloaded = Catalogue::embedded()
        .with_folder(Path::new(folder), fault_of_entry)
        .unwrap();
    assert_eq!(reloaded, *Catalogue::embedded());
}

#[test]
fn every_model_in_the_files_can_be_ordered() {
    for model in Catalogue::embedded().models() {
        let adapter = adapter(model);
        let id = model.id.trim_end_matches('*');
        if model.retired.is_some() {
            continue;
        }
        assert!(adapter.limits(model.kind, id).is_some(), "{id}");
        assert_eq!(adapter.fault_of_model(model.kind, id), None, "{id}");
        for size in model.sizes.iter().flatten() {
            assert!(
                adapter.can_express_size(id, *size),
                "{id}: no request can express {size:?}"
            );
        }
        let prices = model
            .prices
            .iter()
            .filter(|_| model.kind == MediaKind::Video);
        for price in prices {
            assert!(["second", "video"].contains(&price.unit.as_str()), "{id}");
        }
    }
}

/// Nobody can set a price for a model of which the catalogue says neither a cost nor why there is
/// none.
#[test]
fn every_live_model_has_a_cost_or_the_reason_why_there_is_none() {
    let catalogue = Catalogue::embedded();
    let mut faults = Vec::new();
    for model in catalogue.models().filter(|model| model.retired.is_none()) {
        let name = format!("{}/{}", model.provider, model.name);
        let has_reason = model
            .price_unknown
            .as_ref()
            .is_some_and(|text| text.len() > 10);
        if model.prices.is_empty() != has_reason {
            faults.push(format!("{name}: neither a price nor price_unknown"));
        }
        if model.price_source.len() < 5 {
            faults.push(format!("{name}: no source"));
        }
        if model.price_date.len() != "2026-11-28".len() {
            faults.push(format!("{name}: no date"));
        }
        if model.refusals.source.is_none() {
            faults.push(format!("{name}: no source of charged_when_refused"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

type Setting<'a> = &'a dyn Fn(&mut VideoSpec);

/// Everything that an entry offers must reach the provider: a request with the setting must differ
/// from one without it.
#[test]
fn every_offered_setting_changes_the_request() {
    let picture = |role| SourcePicture {
        role,
        file: crate::adapters::tests::picture(),
    };
    for model in Catalogue::embedded().models() {
        let (id, adapter) = (model.id.replace('*', "x"), adapter(model));
        let protocol_limits = adapter.limits(model.kind, &id).unwrap();
        let ModelLimits::Video(limits) =
            Catalogue::embedded().limits(&model.provider, &id, protocol_limits)
        else {
            continue;
        };
        if model.retired.is_some() || limits.pictures.handover == FileHandover::AddressOnly {
            continue;
        }
        let mut order = crate::adapters::tests::video(&id);
        // A picture may decide the shape, but not the resolution.
        let first = limits.sizes[0];
        let shorter_side = |(width, height): (u32, u32)| width.min(height);
        let is_finer = |(width, height): &(u32, u32)| {
            shorter_side((*width, *height)) != shorter_side(first)
                && width * height > first.0 * first.1 * 3 / 2
        };
        let finer = limits.sizes.iter().copied().find(is_finer);
        let set_required = |video: &mut VideoSpec| {
            let role = match limits.pictures.purpose {
                PicturePurpose::Frames => PictureRole::FirstFrame,
                PicturePurpose::References => PictureRole::Reference,
            };
            video.size = limits.sizes[0];
            video.seconds = limits.default_seconds;
            video.pictures.clear();
            if limits.pictures.needed {
                video.pictures.push(picture(role));
            }
            if id.contains("kf2v") {
                video.pictures.push(picture(PictureRole::LastFrame));
            }
        };
        let mut request_with = |apply: Setting<'_>| {
            let WorkSpec::Video(video) = &mut order.work else {
                panic!("{id}");
            };
            video.options = VideoOptions::default();
            set_required(video);
            apply(video);
            let call = adapter
                .start(&order)
                .unwrap_or_else(|error| panic!("{id}: {error}"));
            format!("{:?} {:?}", call.target, call.body)
        };
        let request_without = request_with(&|_| {});
        let settings: [(bool, Setting<'_>); 6] = [
            (limits.seed, &|video| {
                video.options.seed = Some(Choice::Asked(424_242));
            }),
            (limits.negative_prompt, &|video| {
                video.options.negative_prompt = Some("no fog".into());
            }),
            (limits.audio.is_some(), &|video| {
                video.options.audio = limits.audio.map(|default| Choice::Asked(!default));
            }),
            (
                limits.pictures.takes_last_frame() && !id.contains("kf2v"),
                &|video| {
                    video.pictures.clear();
                    video.pictures.push(picture(PictureRole::FirstFrame));
                    video.pictures.push(picture(PictureRole::LastFrame));
                },
            ),
            (limits.pictures.most_references() > 1, &|video| {
                video.pictures = vec![picture(PictureRole::Reference); 2];
            }),
            (finer.is_some(), &|video| {
                video.size = finer.unwrap_or(video.size);
            }),
        ];
        for (number, (is_offered, apply)) in settings.into_iter().enumerate() {
            if is_offered {
                assert_ne!(
                    request_with(apply),
                    request_without,
                    "{}: {id}, setting {number}",
                    model.provider
                );
            }
        }
    }
}

fn catalogue_with(toml: &str) -> Catalogue {
    let head = "source = \"a page\"\ndate = 2026-11-22\nkey = \"FAL_KEY\"\n";
    let mut catalogue = Catalogue::default();
    catalogue.overlay(files::file("fal", &format!("{head}{toml}"), fault_of_entry).unwrap());
    catalogue
}

#[test]
fn a_newer_entry_replaces_the_one_with_its_id() {
    let mut catalogue = catalogue_with(
        "[[model]]\nid = \"a/b\"\nkind = \"video\"\nseconds = [5]\n\
                            [[model]]\nid = \"a/*\"\nname = \"any\"\nkind = \"video\"\n",
    );
    let newer = "source = \"x\"\ndate = 2027-01-01\nkey = \"K\"\n[[model]]\nid = \"a/b\"\n\
                 kind = \"video\"\nseconds = { min = 3, max = 30 }\nsizes = [\"640x360\"]\n";
    catalogue.overlay(files::file("fal", newer, fault_of_entry).unwrap());
    let model = catalogue.find("fal", "a/b").unwrap();
    assert_eq!(
        (model.date.as_str(), model.name.as_str()),
        ("2027-01-01", "b")
    );
    assert_eq!(catalogue.find("fal", "a/c").unwrap().name, "any");
    assert_eq!(catalogue.models().count(), 2);
    let fal = crate::protocol("fal").unwrap();
    let settings = ProviderSettings::new("x", Map::new());
    let fal = (fal.build)(&settings)
        .unwrap()
        .limits(MediaKind::Video, "a/b")
        .unwrap();
    let ModelLimits::Video(limits) = catalogue.limits("fal", "a/b", fal) else {
        panic!("no video");
    };
    assert_eq!(limits.sizes, [(640, 360)]);
    assert_eq!((limits.durations.max(), limits.default_seconds), (30, 5));
    let stems = ModelLimits::Music(MusicLimits {
        stems: Some(StemLimits {
            groups: vec![StemGroup::Vocals],
            two: true,
            complements: Vec::new(),
            full: false,
            other: false,
        }),
        tasks: Vec::new(),
        personas: false,
        songs: SongLimits::API_DEFAULT,
    });
    assert_eq!(catalogue.limits("fal", "a/b", stems.clone()), stems);
}

#[test]
fn an_alias_finds_the_most_specific_entry() {
    let catalogue = catalogue_with(
        "[[model]]\nid = \"a-1-240101\"\naliases = [\"*a-1-*\"]\nkind = \"video\"\n\
                        [[model]]\nid = \"a-1-fast\"\naliases = [\"*a-1-fast-*\"]\nkind = \"video\"\n",
    );
    let found_id = |model: &str| Some(catalogue.find("fal", model)?.id.as_str());
    assert_eq!(found_id("dreamina-a-1-260101"), Some("a-1-240101"));
    assert_eq!(found_id("dreamina-a-1-fast-260101"), Some("a-1-fast"));
    assert_eq!(found_id("a-1-240101"), Some("a-1-240101"));
    assert_eq!(found_id("a-2-260101"), None);
}

#[test]
fn a_newer_file_says_how_a_new_model_is_asked() {
    let newer = "source = \"x\"\ndate = 2027-01-01\nkey = \"K\"\n[[model]]\nid = \"gen9\"\n\
                 kind = \"video\"\nsizes = [\"2560x1440\"]\nmax_prompt = 20\n\
                 inputs = { text = \"shape\", resolutions = { 1440 = \"2K\" } }\n";
    let mut catalogue = (*Catalogue::embedded()).clone();
    catalogue.overlay(files::file("runway", newer, fault_of_entry).unwrap());
    let mut settings = ProviderSettings::new("x", Map::new());
    let start = |settings: &ProviderSettings| {
        let runway = (crate::protocol("runway").unwrap().build)(settings).unwrap();
        let mut order = crate::adapters::tests::video("gen9");
        if let WorkSpec::Video(video) = &mut order.work {
            (video.size, video.prompt) = ((2560, 1440), "rain".into());
        }
        let call = runway.start(&order).unwrap();
        (runway, format!("{:?}", call.body))
    };
    assert!(start(&settings).1.contains("2560:1440"));
    settings.catalogue = Arc::new(catalogue);
    let (runway, body) = start(&settings);
    assert!(body.contains("\"2K\"") && body.contains("16:9"), "{body}");
    assert!(!runway.can_express_size("gen9", (1280, 720)));
    let error = runway.start(&crate::adapters::tests::video("gen9"));
    let error = error.unwrap_err();
    assert!(error.message.contains("20 UTF-16"), "{error:?}");
}

#[test]
fn a_typo_is_distinguished_from_another_version() {
    let catalogue = catalogue_with("[[model]]\nid = \"fal-ai/veo3.1/fast\"\nkind = \"video\"\n");
    let suggestion = |model: &str| catalogue.suggestion("fal", model);
    assert_eq!(suggestion("fal-ai/veo3.1/fsat"), Some("fal-ai/veo3.1/fast"));
    assert_eq!(suggestion("fal-ia/veo3.1/fast"), Some("fal-ai/veo3.1/fast"));
    assert_eq!(suggestion("fal-ai/veo3.2/fast"), None);
    assert_eq!(suggestion("fal-ai/veo3.1/fast"), None);
    assert_eq!(suggestion("fal-ai/veo3.1"), None);
    assert_eq!(
        catalogue.suggestion("replicate", "fal-ai/veo3.1/fsat"),
        None
    );
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
        (
            "[[model]]\nid = \"a\"\nkind = \"video\"\nprice_unknown = \"x\"\nprice = [{ unit = \"second\", usd = \"1\" }]\n",
            4,
            "both price and price_unknown",
        ),
        (
            "[[model]]\nid = \"a\"\nkind = \"video\"\ncharged_when_refused = \"yes\"\n",
            4,
            "charged_when_refused_source",
        ),
    ] {
        let error = files::file("fal", &format!("{head}{toml}"), fault_of_entry).unwrap_err();
        assert_eq!(error.line, Some(line), "{toml}{error}");
        assert!(error.message.contains(words), "{toml}{error}");
    }
    for (provider, inputs, words) in [
        ("runway", "{ text = \"big\" }", "pixels"),
        ("replicate", "{ frist = \"image\" }", "frist"),
        ("kling", "{ first = \"image\" }", "remove this"),
    ] {
        let toml = format!("{head}[[model]]\nid = \"a\"\nkind = \"video\"\ninputs = {inputs}\n");
        let error = files::file(provider, &toml, fault_of_entry).unwrap_err();
        assert_eq!(error.line, Some(4), "{error}");
        assert!(error.message.contains(words), "{error}");
    }
    let error = files::file(
        "acme",
        &format!("{head}[[model]]\nid = \"a\"\nkind = \"video\"\n"),
        fault_of_entry,
    )
    .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("has the name of no known protocol")
    );
}

/// The lines of the document's table.
fn table() -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for model in Catalogue::embedded().models() {
        let model = model.with_protocol_limits(limits_of(model));
        let prices = model.prices.iter().map(|price| {
            let holds_for = price.holds_for.as_ref();
            let holds_for = holds_for.map_or(String::new(), |condition| format!(" ({condition})"));
            format!("{} a {}{holds_for}", price.usd, price.unit)
        });
        let (price, read, refused) = match (&model.retired, &model.price_unknown) {
            (Some(day), _) => (format!("shut down on {day}"), "", ""),
            (None, Some(reason)) => (
                format!("unknown: {reason}"),
                model.price_date.as_str(),
                model.refusals.charge.name(),
            ),
            (None, None) => (
                prices.collect::<Vec<_>>().join(", "),
                model.price_date.as_str(),
                model.refusals.charge.name(),
            ),
        };
        let seconds = match &model.seconds {
            Some(Durations::Range { min, max }) => format!("{min}–{max}"),
            Some(Durations::Only(list)) if is_row(list) => {
                format!("{}–{}", list[0], list[list.len() - 1])
            }
            Some(Durations::Only(list)) => {
                let list: Vec<String> = list.iter().map(u32::to_string).collect();
                list.join(", ")
            }
            None => String::new(),
        };
        writeln!(
            text,
            "| `{}/{}` | `{}` | {seconds} | {} | {price} | {read} | {refused} |",
            model.provider,
            model.name,
            model.id,
            model.audio.map_or("", SoundSupport::name),
        )
        .unwrap();
    }
    text
}

/// The document's list of what nobody has verified.
fn unverified() -> String {
    let catalogue = Catalogue::embedded();
    let models = catalogue.models().filter(|model| model.retired.is_none());
    let lines = models.filter_map(|model| {
        let reason = model.unverified.as_ref()?;
        Some(format!("* `{}/{}`: {reason}\n", model.provider, model.name))
    });
    lines.collect()
}

/// Whether every length between the first and the last is included.
fn is_row(list: &[u32]) -> bool {
    list.len() > 3 && list.windows(2).all(|pair| pair[0] + 1 == pair[1])
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
    let (_, rest) = document.split_once("## Not verified\n").unwrap();
    let lines = rest.lines().filter(|line| line.starts_with("* `"));
    let lines: Vec<&str> = lines.collect();
    assert!(
        lines.join("\n") + "\n" == unverified(),
        "\"Not verified\" in docs/models/hosted.md should be:\n{}",
        unverified()
    );
}
