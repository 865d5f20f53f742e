//! Generates the list of the files in `migrations/`, so that adding a migration is adding a file.

#![expect(
    clippy::expect_used,
    reason = "a panic is how a build script reports that it cannot build"
)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=migrations");
    let own =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where the crate is"));
    let folder = own.join("migrations");
    let samples = numbered_sql_files(&folder.join("samples"));
    let mut list = String::from("&[\n");
    for (version, file) in numbered_sql_files(&folder) {
        // A version without samples of its own uses those of the newest version before it.
        let sample = samples.iter().rev().find(|(of, _)| *of <= version);
        let (_, sample) = sample.expect("the first migration has sample rows");
        // `{:?}` writes the paths as Rust string literals, whatever characters they contain.
        let (file, sample) = (file.display().to_string(), sample.display().to_string());
        writeln!(
            list,
            "    migration({version}, include_str!({file:?}), include_str!({sample:?})),"
        )
        .expect("a text can be written to");
    }
    list.push(']');
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo says where to write"));
    fs::write(out.join("migrations.rs"), list).expect("the list is written");
}

/// The SQL files of a folder by the number that their names begin with.
fn numbered_sql_files(folder: &Path) -> Vec<(u32, PathBuf)> {
    let entries = fs::read_dir(folder).expect("the folder is read").flatten();
    let mut files: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sql"))
        .map(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let number = name.get(..4).and_then(|digits| digits.parse().ok());
            let number = number.expect("a migration's name begins with four digits");
            (number, path)
        })
        .collect();
    files.sort();
    files
}
