use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::{ChildLauncher, ChildLimits, scan_films};
use crate::engines::EngineControl;
use crate::engines::film_scan::FilmScan;

/// A child that reports each film by its name, and dies at those named bad. A child without an
/// order leaves no trace.
fn child(folder: &Path) -> ChildLauncher {
    let program = folder.join("child");
    let looked = serde_json::to_string(&FilmScan::nothing("NAME")).unwrap();
    let (before, after) = looked.split_once("NAME").unwrap();
    let script = format!(
        "#!/bin/sh\nfilms=$(grep -o '[^\"/]*\\.mp4')\n[ -n \"$films\" ] || exit\n\
         echo start >> {started}\nfor film in $films; do\n\
         case $film in bad*) kill -9 $$;; esac\n\
         echo '{{\"Looked\":[{before}'$film'{after},null]}}'\ndone\necho '\"Seen\"'\n",
        started = folder.join("started").display(),
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    ChildLauncher::new(program, folder.to_owned(), ChildLimits::ENGINES)
}

#[test]
fn a_film_that_kills_the_child_keeps_no_other_from_being_seen() {
    let folder = tempfile::tempdir().unwrap();
    let launcher = child(folder.path());
    let names = ["a.mp4", "none.mp4", "bad.mp4", "b.mp4", "bad2.mp4", "c.mp4"];
    let files: Vec<PathBuf> = names.map(|name| folder.path().join(name)).into();
    for file in &files {
        std::fs::write(file, simulator::media::video(4)).unwrap();
    }
    std::fs::write(&files[1], "no film").unwrap();
    let films: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let seen = scan_films(&launcher, &films, &EngineControl::default()).unwrap();
    let why: Vec<String> = seen
        .into_iter()
        .filter_map(|(looked, _)| looked.why)
        .collect();
    assert_eq!(why.len(), names.len());
    for (name, why) in names.iter().zip(&why) {
        let expected = match *name {
            "none.mp4" => continue,
            name if name.starts_with("bad") => "its frames cannot be decoded",
            name => name,
        };
        assert_eq!(why, expected);
    }
    assert_ne!(why[1], "none.mp4", "it was not worth a child");
    // The children's orders: all films; those from the first bad one on, which dies at once; the
    // following ones up to the second bad one; that one; the rest.
    let started = std::fs::read_to_string(folder.path().join("started")).unwrap();
    assert_eq!(started.lines().count(), 5);
}
