//! No two files of the pure crates need each other, straight or around corners: what belongs
//! together is one file, and what two files share is a third. In the larger crates the same holds
//! for rooms: the modules of the crate, each with all below it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{files, root};

/// Modules of a crate by their paths, such as `picture::decode`; the crate's own file has none.
type Modules = BTreeMap<String, String>;

/// What each needs, without itself.
type Needs = BTreeMap<String, BTreeSet<String>>;

#[test]
fn there_are_no_circles_of_files() {
    for name in ["animatic", "artwork", "stems"] {
        let modules = modules(&root().join(format!("../{name}/src")));
        assert!(modules.len() > 5, "{name} was not found");
        let found = circles(&needs(&modules, |file| file));
        assert!(found.is_empty(), "{name}: {}", found.join(", "));
    }
}

#[test]
fn there_are_no_circles_of_rooms() {
    let crates = std::fs::read_dir(root().join("..")).unwrap();
    let mut looked_at = 0;
    for folder in crates.map(|entry| entry.unwrap().path()) {
        let files = modules(&folder.join("src"));
        let needs = needs(&files, |module| module.split("::").next().unwrap());
        let found = circles(&needs);
        let name = folder.file_name().unwrap().to_string_lossy();
        assert!(found.is_empty(), "{name}: {}", found.join(", "));
        looked_at += usize::from(!needs.is_empty());
    }
    assert!(looked_at > 15, "{looked_at} crates");
}

#[test]
fn a_circle_is_seen_however_it_is_written() {
    let needs = |texts: &[(&str, &str)]| -> Needs {
        let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
        needs(&texts.iter().map(owned).collect(), |file| file)
    };
    let root = ("", "pub use b::{Thing};");
    for (b, c) in [
        ("use crate::c::{x, y};", "use crate::b::Thing;"),
        ("use super::c;", "fn f() { super::b::g() }"),
        ("use crate::{a, c::x};", "use crate::Thing;"),
    ] {
        let found = circles(&needs(&[root, ("a", ""), ("b", b), ("c", c)]));
        assert_eq!(found, ["b -> c", "c -> b"], "{b} {c}");
    }
    let parent = ("a", "mod b;\nfn f() { b::g() }");
    let found = circles(&needs(&[root, parent, ("a::b", "use super::Thing;")]));
    assert_eq!(found, ["a -> a::b", "a::b -> a"]);
    let straight = needs(&[
        root,
        ("a", "mod b;\nuse b::x;"),
        ("a::b", ""),
        ("b", "use crate::a;"),
    ]);
    assert_eq!(circles(&straight), [""; 0]);
}

fn modules(src: &Path) -> Modules {
    let mut modules = Modules::new();
    for path in files(src, "rs") {
        let below = path.strip_prefix(src).unwrap().with_extension("");
        let below = below.to_str().unwrap().replace('/', "::");
        let name = match below.as_str() {
            "main" => continue,
            "lib" => "",
            other => other.strip_suffix("::mod").unwrap_or(other),
        };
        if name == "tests" || name.ends_with("::tests") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.split("\nmod tests").next().unwrap();
        let code = text.lines().map(|line| line.split("//").next().unwrap());
        modules.insert(name.to_owned(), code.collect::<Vec<_>>().join("\n"));
    }
    modules
}

/// What each room needs of the others. A room is what `room` says of a module's path.
fn needs(modules: &Modules, room: fn(&str) -> &str) -> Needs {
    let mut needs = Needs::new();
    // The crate's own file names all others, and these the crate's words.
    for name in modules.keys().filter(|name| !name.is_empty()) {
        let of = needs.entry(room(name).to_owned()).or_default();
        of.extend(
            needed(modules, name)
                .iter()
                .map(|other| room(other).to_owned()),
        );
        of.remove(room(name));
        of.remove("");
    }
    needs
}

/// The pairs of which the one needs the other, and around some corner the other the one.
fn circles(needs: &Needs) -> Vec<String> {
    let mut found = Vec::new();
    for (name, others) in needs {
        for other in others
            .iter()
            .filter(|other| reached(needs, other).contains(name.as_str()))
        {
            found.push(format!("{name} -> {other}"));
        }
    }
    found
}

/// All modules that a module needs, by way of others too.
fn reached<'a>(needs: &'a Needs, from: &str) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from.to_owned()];
    while let Some(at) = open.pop() {
        for next in &needs[&at] {
            if seen.insert(next.as_str()) {
                open.push(next.clone());
            }
        }
    }
    seen
}

/// The modules that a module names.
fn needed(modules: &Modules, name: &str) -> BTreeSet<String> {
    let text = &modules[name];
    let parent: Vec<&str> = name.split("::").collect();
    let mut found = BTreeSet::new();
    for path in paths(text, "crate::") {
        found.extend(module(modules, &path));
    }
    for path in paths(text, "super::") {
        let mut above = parent.clone();
        let mut rest = path.as_str();
        above.pop();
        while let Some(after) = rest.strip_prefix("super::") {
            above.pop();
            rest = after;
        }
        above.push(rest);
        found.extend(module(modules, &above.join("::")));
    }
    let below = format!("{name}::");
    for child in modules
        .keys()
        .filter_map(|other| other.strip_prefix(&below))
    {
        if !child.contains("::") && !paths(text, &format!("{child}::")).is_empty() {
            found.insert(format!("{below}{child}"));
        }
    }
    found.remove(name);
    found
}

/// The module in which a path ends or the one that the crate's own file says that it is from.
fn module(modules: &Modules, path: &str) -> Option<String> {
    let first = path.split("::").next()?;
    if let Some(module) = known(modules, path) {
        return Some(module.to_owned());
    }
    let ours = paths(modules.get("")?, "use ");
    let from = ours
        .iter()
        .find(|ours| ours.rsplit("::").next() == Some(first))?;
    known(modules, from).map(ToOwned::to_owned)
}

/// The longest beginning of a path that is a module.
fn known<'a>(modules: &Modules, path: &'a str) -> Option<&'a str> {
    let ends = path.match_indices("::").map(|(at, _)| at);
    let prefixes: Vec<&str> = ends.map(|end| &path[..end]).chain([path]).collect();
    let mut longest_first = prefixes.into_iter().rev();
    longest_first.find(|prefix| modules.contains_key(*prefix))
}

/// What follows `start` wherever it begins a path, one path for each name of a list.
fn paths(text: &str, start: &str) -> Vec<String> {
    let part_of_a_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let mut found = Vec::new();
    for (at, _) in text.match_indices(start) {
        if !text[..at].ends_with(part_of_a_path) {
            expand("", &text[at + start.len()..], &mut found);
        }
    }
    found
}

fn expand(prefix: &str, text: &str, found: &mut Vec<String>) {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
    let (head, rest) = text.split_at(end.unwrap_or(text.len()));
    let Some(list) = rest
        .strip_prefix('{')
        .filter(|_| head.is_empty() || head.ends_with("::"))
    else {
        found.push(format!("{prefix}{head}").trim_end_matches(':').to_owned());
        return;
    };
    let mut depth = 0;
    let mut item = 0;
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            ',' | '}' if depth == 0 => {
                let name = list[item..at].trim();
                if !name.is_empty() {
                    expand(&format!("{prefix}{head}"), name, found);
                }
                item = at + 1;
                if c == '}' {
                    return;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
}
