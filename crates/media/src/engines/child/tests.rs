use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::{ChildLauncher, ChildLimits, scan_films};
use crate::engines::EngineControl;
use crate::engines::film_scan::FilmScan;

/// A child that reports each film by its name, and dies at films whose names begin with "bad". A
/// child without an order leaves no trace.
fn child(folder: &Path) -> ChildLauncher {
    let program = folder.join("child");
    let scan = serde_json::to_string(&FilmScan::nothing("NAME")).unwrap();
    let (before, after) = scan.split_once("NAME").unwrap();
    let script = format!(
        "#!/bin/sh\nfilms=$(grep -o '[^\"/]*\\.mp4')\n[ -n \"$films\" ] || exit\n\
         echo start >> {started}\necho '\"Started\"'\nfor film in $films; do\n\
         case $film in bad*) kill -9 $$;; esac\n\
         echo '{{\"FilmScanned\":[{before}'$film'{after},null]}}'\ndone\necho '\"AllScanned\"'\n",
        started = folder.join("started").display(),
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    ChildLauncher::new(program, folder.to_owned(), ChildLimits::ENGINES)
}

#[test]
fn a_film_that_kills_the_child_does_not_prevent_the_scan_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let launcher = child(folder.path());
    let names = ["a.mp4", "none.mp4", "bad.mp4", "b.mp4", "bad2.mp4", "c.mp4"];
    let files: Vec<PathBuf> = names.map(|name| folder.path().join(name)).into();
    for file in &files {
        std::fs::write(file, simulator::media::video(4)).unwrap();
    }
    std::fs::write(&files[1], "no film").unwrap();
    let films: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let scans = scan_films(&launcher, &films, &EngineControl::default()).unwrap();
    let reasons: Vec<String> = scans.into_iter().filter_map(|(scan, _)| scan.why).collect();
    assert_eq!(reasons.len(), names.len());
    for (name, reason) in names.iter().zip(&reasons) {
        let expected = match *name {
            "none.mp4" => continue,
            name if name.starts_with("bad") => "its frames cannot be decoded",
            name => name,
        };
        assert_eq!(reason, expected);
    }
    assert_ne!(reasons[1], "none.mp4", "no child was given this file");
    // Two children die at each bad film: one after the films before it, one at once. The fifth
    // finishes the rest.
    let started = std::fs::read_to_string(folder.path().join("started")).unwrap();
    assert_eq!(started.lines().count(), 5);
}
