//! What documents say of the repository: every path that they name exists, and every link leads
//! somewhere. The test reads only the Markdown that this needs: code between backticks, fenced
//! blocks, links and headings.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use super::{CRATE_FOLDERS, crates};

/// Folders whose contents are not the repository's: those of `.gitignore`, and `.git`.
const FOREIGN: [&str; 6] = [
    ".git",
    "__pycache__",
    "mediagate-data",
    "mediagate-demo",
    "node_modules",
    "target",
];

/// Endings of files that only the repository has. A document may also speak of a reader's own
/// `mediagate.toml` or `song.mp3`.
const ENDINGS: [&str; 9] = ["css", "js", "md", "mjs", "py", "rs", "sh", "sql", "tsv"];

/// Names that look like our folders but are not: models in the catalogue are `provider/model`,
/// `models/…` is a repository on a model hub, and `media/folder-id` is in an operator's data
/// folder.
const FOREIGN_NAMES: [&str; 12] = [
    "dashscope/",
    "elevenlabs/",
    "fal/",
    "kling/",
    "luma/",
    "media/folder-id",
    "minimax/",
    "modelark/",
    "models/MDX_Net_Models/",
    "openrouter/",
    "replicate/",
    "runway/",
];

/// All files and folders of the repository, below its root.
struct Tree {
    paths: BTreeSet<String>,
    folders: BTreeSet<String>,
}

impl Tree {
    fn read() -> Self {
        let mut tree = Self {
            paths: BTreeSet::new(),
            folders: BTreeSet::new(),
        };
        tree.add(&repository(), "");
        tree
    }

    fn add(&mut self, folder: &Path, below: &str) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if FOREIGN.contains(&name.as_str()) {
                continue;
            }
            let path = format!("{below}{name}");
            if entry.file_type().unwrap().is_dir() {
                self.add(&entry.path(), &format!("{path}/"));
                self.folders.insert(name);
            }
            // Documents leave `src` out: `store/tasks.rs` is a file of that crate.
            if CRATE_FOLDERS.iter().any(|folder| path.starts_with(folder)) {
                self.paths.insert(path.replacen("/src/", "/", 1));
            }
            self.paths.insert(path);
        }
    }

    /// Whether a file or folder has this name or path ending: documents name `store/tasks.rs`, not
    /// the whole path.
    fn has(&self, name: &str) -> bool {
        let tail = format!("/{name}");
        self.paths.contains(name) || self.paths.iter().any(|path| path.ends_with(&tail))
    }

    fn documents(&self) -> impl Iterator<Item = &String> {
        let paths = self.paths.iter();
        paths.filter(|path| {
            Path::new(path)
                .extension()
                .is_some_and(|ending| ending == "md")
        })
    }
}

fn repository() -> PathBuf {
    super::root().join("../..").canonicalize().unwrap()
}

fn text_of(document: &str) -> String {
    std::fs::read_to_string(repository().join(document)).unwrap()
}

/// The lines with their numbers, and whether they are in a fenced block.
fn lines(text: &str) -> impl Iterator<Item = (usize, bool, &str)> {
    let mut fenced = false;
    let lines = text.lines().enumerate();
    lines.filter_map(move |(number, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        (!is_fence).then_some((number + 1, fenced, line))
    })
}

fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = lines(text);
    lines.filter_map(|(number, fenced, line)| (!fenced).then_some((number, line)))
}

/// The words between backticks: `cargo bench -p stems` has four. In a fenced block, the words that
/// begin with a folder of the root.
fn words<'a>(tree: &'a Tree, fenced: bool, line: &'a str) -> Vec<&'a str> {
    if fenced {
        let is_in_root = |word: &&str| {
            let folder = word.split_once('/').map(|(folder, _)| folder);
            folder.is_some_and(|folder| tree.paths.contains(folder))
        };
        return line.split_whitespace().filter(is_in_root).collect();
    }
    let code = line.split('`').skip(1).step_by(2);
    code.flat_map(str::split_whitespace).collect()
}

/// Whether a word can only be meant as a path of this repository.
fn is_path(tree: &Tree, word: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    if !word.chars().all(is_plain) || word.starts_with(['/', '.']) {
        return false;
    }
    let ending = word.rsplit_once('.').map_or("", |(_, ending)| ending);
    let is_in_a_folder = || {
        let folder = word.split_once('/').map(|(folder, _)| folder);
        let is_foreign = FOREIGN_NAMES.iter().any(|name| word.starts_with(name));
        folder.is_some_and(|folder| tree.folders.contains(folder)) && !is_foreign
    };
    ENDINGS.contains(&ending) || is_in_a_folder()
}

/// The folder of `…/NAME.rs`, by which a recipe means a file that the reader creates.
fn without_placeholder(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some((folder, file)) if file.is_empty() || file.starts_with("NAME.") => folder,
        _ => path,
    }
}

#[test]
fn documents_name_only_existing_paths() {
    let tree = Tree::read();
    let mut missing = String::new();
    let mut count = 0;
    for document in tree.documents() {
        let text = text_of(document);
        for (number, fenced, line) in lines(&text) {
            for word in words(&tree, fenced, line) {
                if !is_path(&tree, word) {
                    continue;
                }
                count += 1;
                if !tree.has(without_placeholder(word)) {
                    let _ = writeln!(missing, "{document}:{number} names {word}");
                }
            }
        }
    }
    assert!(count > 100, "only {count} paths were recognised");
    assert!(missing.is_empty(), "these are not there:\n{missing}");
}

/// The fragment of a heading: lower case, dashes for spaces.
fn fragment(heading: &str) -> String {
    let is_kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    heading
        .chars()
        .filter(is_kept)
        .collect::<String>()
        .replace(' ', "-")
}

/// Targets of the links of a line.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
}

/// A relative target as a path below the root.
fn resolve(document: &str, target: &str) -> String {
    let mut path = PathBuf::new();
    let folder = Path::new(document).parent().unwrap();
    for part in folder.join(target).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            part => path.push(part),
        }
    }
    path.to_str().unwrap().to_owned()
}

#[test]
fn links_between_documents_have_targets() {
    let tree = Tree::read();
    let mut broken = String::new();
    for document in tree.documents() {
        for (number, line) in prose(&text_of(document)) {
            for link in links(line).filter(|link| !link.contains("://")) {
                let (target, heading) = link.split_once('#').unwrap_or((link, ""));
                let target = if target.is_empty() {
                    document.clone()
                } else {
                    resolve(document, target)
                };
                let exists = tree.paths.contains(&target)
                    && (heading.is_empty()
                        || prose(&text_of(&target))
                            .any(|(_, line)| line.starts_with('#') && fragment(line) == heading));
                if !exists {
                    let _ = writeln!(broken, "{document}:{number} links to {link}");
                }
            }
        }
    }
    assert!(broken.is_empty(), "broken links:\n{broken}");
}

/// The map is in a fenced block of ARCHITECTURE.md.
#[test]
fn the_map_shows_every_crate() {
    let text = text_of("ARCHITECTURE.md");
    let map: BTreeSet<&str> = lines(&text)
        .filter(|(_, fenced, _)| *fenced)
        .flat_map(|(_, _, line)| line.split_whitespace())
        .map(|word| word.trim_end_matches('/'))
        .collect();
    let root = repository();
    let crates = crates()
        .into_iter()
        .map(|folder| folder.canonicalize().unwrap());
    let crates = crates.map(|folder| folder.strip_prefix(&root).unwrap().display().to_string());
    let hidden: Vec<String> = crates.filter(|name| !map.contains(name.as_str())).collect();
    assert!(
        hidden.is_empty(),
        "ARCHITECTURE.md does not show {hidden:?}"
    );
}

/// The commands of docs/admin.md are those that the program lists, in its order.
#[test]
fn the_list_of_commands_is_complete() {
    let help = std::process::Command::new(env!("CARGO_BIN_EXE_mediagate"))
        .arg("--help")
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let listed: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .map_while(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    let document = text_of("docs/admin.md");
    let documented: Vec<&str> = document
        .lines()
        .filter_map(|line| line.strip_prefix("| `mediagate ")?.split([' ', '`']).next())
        .collect();
    assert_eq!(documented, listed, "docs/admin.md");
}
