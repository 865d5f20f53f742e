//! The models folder: what is found, what is reloaded, and what is refused.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use stems::onnx::{ModelFolder, SeparationModel, uvr};

use super::fixtures::Fixtures;

const MANIFEST: &str = "name = 'NAME'\nkind = 'mdx'\nfile = 'FILE'\nstems = ['vocals']\n\
    [mdx]\nn_fft = 1200\nhop = 160\ndim_f = 500\ndim_t = 24\n";

fn manifest(name: &str, file: &str) -> String {
    MANIFEST.replace("NAME", name).replace("FILE", file)
}

fn write(folder: &Path, file: &str, content: impl AsRef<[u8]>) {
    fs::write(folder.join(file), content).unwrap();
}

/// Names of models, and errors of files that are not usable models.
fn scan(folder: &mut ModelFolder) -> Vec<String> {
    let describe = |result: Result<Arc<SeparationModel>, _>| match result {
        Ok(model) => model.name().to_owned(),
        Err(refused) => format!("{refused}"),
    };
    folder.scan().into_iter().map(describe).collect()
}

#[test]
fn all_fixtures_are_found() {
    let Some(fixtures) = Fixtures::find() else {
        return;
    };
    let names = scan(&mut fixtures.models());
    assert_eq!(
        names,
        [
            "ht-inside",
            "ht-outside",
            "ht-published",
            "ht-short",
            "mdx-bias",
            "mdx-half",
            "mdx-identity",
            "mdx-relu",
            "mdx-swap",
            "unmix-fixed",
            "unmix-lone",
            "unmix-long",
            "unmix-open",
        ]
    );
}

#[test]
fn only_what_changed_is_reloaded() {
    let Some(fixtures) = Fixtures::find() else {
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let graph = fs::read(fixtures.folder.join("bad/fine.onnx")).unwrap();
    write(home.path(), "a.onnx", &graph);
    write(home.path(), "a.toml", manifest("a", "a.onnx"));
    write(home.path(), "broken.toml", "name = 3");
    write(home.path(), "notes.txt", "not a model");
    let mut folder = ModelFolder::new(home.path(), fixtures.options.clone());
    let first = folder.scan();
    assert_eq!(first.len(), 2);
    let model = first[0].as_ref().unwrap();
    let refused = first[1].as_ref().unwrap_err();
    assert_eq!(refused.file, "broken.toml");
    assert!(
        refused
            .to_string()
            .starts_with("broken.toml: name: invalid type: integer"),
        "{refused}"
    );

    let rescanned = folder.scan();
    assert!(Arc::ptr_eq(model, rescanned[0].as_ref().unwrap()));

    write(home.path(), "a.toml", manifest("renamed", "a.onnx"));
    write(home.path(), "broken.toml", manifest("b", "a.onnx"));
    assert_eq!(scan(&mut folder), ["renamed", "b"]);
    assert_eq!(model.name(), "a", "the old model stays usable");

    write(home.path(), "b.toml", manifest("b", "a.onnx"));
    assert_eq!(
        scan(&mut folder),
        [
            "renamed",
            "b",
            "broken.toml: name: b is already the name of b.toml"
        ]
    );

    fs::remove_file(home.path().join("a.onnx")).unwrap();
    assert!(
        scan(&mut folder)
            .iter()
            .all(|entry| entry.contains("a.onnx: No such file"))
    );
    fs::remove_dir_all(home.path()).unwrap();
    assert!(scan(&mut folder)[0].starts_with(".: the folder: No such file"));
}

#[test]
fn a_table_replaces_manifests() {
    let Some(fixtures) = Fixtures::find() else {
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let graph = fs::read(fixtures.folder.join("mdx-identity.onnx")).unwrap();
    write(home.path(), "Kim Vocal_2.onnx", &graph);
    let mut folder = ModelFolder::new(home.path(), fixtures.options.clone());
    let expected =
        "Kim Vocal_2.onnx: manifest: there is none, and no model_data.json that knows the graph";
    assert_eq!(scan(&mut folder), [expected]);

    let entry = |stem: &str| {
        format!(
            r#"{{"{}": {{"compensate": 1.009, "mdx_dim_f_set": 3072, "mdx_dim_t_set": 8,
                "mdx_n_fft_scale_set": 7680, "primary_stem": "{stem}"}}}}"#,
            uvr::hash(&graph)
        )
    };
    write(home.path(), uvr::TABLE_FILE, entry("Vocals"));
    assert_eq!(scan(&mut folder), ["Kim-Vocal_2"]);
    write(home.path(), uvr::TABLE_FILE, entry("No Crowd"));
    assert!(scan(&mut folder)[0].contains("primary_stem: there is no stem \"No Crowd\""));
    write(home.path(), uvr::TABLE_FILE, "{");
    assert!(scan(&mut folder)[0].contains("model_data.json: EOF"));
}

#[cfg(unix)]
#[test]
fn links_cannot_leave_the_folder() {
    let Some(fixtures) = Fixtures::find() else {
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let link = home.path().join("a.onnx");
    std::os::unix::fs::symlink(fixtures.folder.join("bad/fine.onnx"), link).unwrap();
    write(home.path(), "a.toml", manifest("a", "a.onnx"));
    fs::create_dir(home.path().join("dir.onnx")).unwrap();
    write(home.path(), "dir.toml", manifest("dir", "dir.onnx"));
    let mut folder = ModelFolder::new(home.path(), fixtures.options.clone());
    assert_eq!(
        scan(&mut folder),
        [
            "a.toml: a.onnx: leads out of the models folder",
            "dir.toml: dir.onnx: is not a regular file",
        ]
    );
}
