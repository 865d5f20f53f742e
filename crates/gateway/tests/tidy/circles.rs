//! No two files of `animatic`, `artwork` or `stems` depend on each other, directly or through
//! others: what belongs together is in one file, and what two files share is in a third. In every
//! crate the same holds for the top-level modules, each with all modules below it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{crates, files, root};

/// Modules of a crate by their paths, such as `picture::decode`; the crate's own file has none.
type Modules = BTreeMap<String, String>;

/// What each module depends on, without itself.
type Dependencies = BTreeMap<String, BTreeSet<String>>;

#[test]
fn files_have_no_cyclic_dependencies() {
    for name in ["animatic", "artwork", "stems"] {
        let modules = modules(&root().join(format!("../../engines/{name}/src")));
        assert!(modules.len() > 5, "{name} was not found");
        let cycles = cycles(&dependencies(&modules, |file| file));
        assert!(cycles.is_empty(), "{name}: {}", cycles.join(", "));
    }
}

#[test]
fn top_level_modules_have_no_cyclic_dependencies() {
    let mut checked = 0;
    for folder in crates() {
        let files = modules(&folder.join("src"));
        let dependencies = dependencies(&files, |module| module.split("::").next().unwrap());
        let cycles = cycles(&dependencies);
        let name = folder.file_name().unwrap().to_string_lossy();
        assert!(cycles.is_empty(), "{name}: {}", cycles.join(", "));
        checked += usize::from(!dependencies.is_empty());
    }
    assert!(checked > 15, "{checked} crates");
}

#[test]
fn a_cycle_is_found_in_every_notation() {
    let dependencies_of = |texts: &[(&str, &str)]| -> Dependencies {
        let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
        dependencies(&texts.iter().map(owned).collect(), |file| file)
    };
    let root = ("", "pub use b::{Thing};");
    for (b, c) in [
        ("use crate::c::{x, y};", "use crate::b::Thing;"),
        ("use super::c;", "fn f() { super::b::g() }"),
        ("use crate::{a, c::x};", "use crate::Thing;"),
    ] {
        let found = cycles(&dependencies_of(&[root, ("a", ""), ("b", b), ("c", c)]));
        assert_eq!(found, ["b -> c", "c -> b"], "{b} {c}");
    }
    let parent = ("a", "mod b;\nfn f() { b::g() }");
    let found = cycles(&dependencies_of(&[
        root,
        parent,
        ("a::b", "use super::Thing;"),
    ]));
    assert_eq!(found, ["a -> a::b", "a::b -> a"]);
    let acyclic = dependencies_of(&[
        root,
        ("a", "mod b;\nuse b::x;"),
        ("a::b", ""),
        ("b", "use crate::a;"),
    ]);
    assert_eq!(cycles(&acyclic), [""; 0]);
}

fn modules(src: &Path) -> Modules {
    let mut modules = Modules::new();
    for path in files(src, "rs") {
        let path_below = path.strip_prefix(src).unwrap().with_extension("");
        let path_below = path_below.to_str().unwrap().replace('/', "::");
        let name = match path_below.as_str() {
            "main" => continue,
            "lib" => "",
            other => other.strip_suffix("::mod").unwrap_or(other),
        };
        if name == "tests" || name.ends_with("::tests") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let is_code = |line: &&str| !line.ends_with("mod tests {") && *line != "mod tests;";
        let text = text.lines().take_while(is_code);
        let code = text.map(|line| line.split("//").next().unwrap());
        modules.insert(name.to_owned(), code.collect::<Vec<_>>().join("\n"));
    }
    modules
}

/// The dependencies between groups of modules; `group` maps a module's path to its group.
fn dependencies(modules: &Modules, group: fn(&str) -> &str) -> Dependencies {
    let mut dependencies = Dependencies::new();
    // The crate's own file names all others, and they use its names.
    for name in modules.keys().filter(|name| !name.is_empty()) {
        let others = dependencies.entry(group(name).to_owned()).or_default();
        others.extend(
            dependencies_of(modules, name)
                .iter()
                .map(|other| group(other).to_owned()),
        );
        others.remove(group(name));
        others.remove("");
    }
    dependencies
}

/// The pairs in which the first depends on the second, and the second on the first, perhaps through
/// others.
fn cycles(dependencies: &Dependencies) -> Vec<String> {
    let mut cycles = Vec::new();
    for (name, others) in dependencies {
        for other in others
            .iter()
            .filter(|other| reachable(dependencies, other).contains(name.as_str()))
        {
            cycles.push(format!("{name} -> {other}"));
        }
    }
    cycles
}

/// All modules that a module depends on, directly or through others.
fn reachable<'a>(dependencies: &'a Dependencies, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut pending = vec![from.to_owned()];
    while let Some(module) = pending.pop() {
        for next in &dependencies[&module] {
            if reached.insert(next.as_str()) {
                pending.push(next.clone());
            }
        }
    }
    reached
}

/// The modules that a module names.
fn dependencies_of(modules: &Modules, name: &str) -> BTreeSet<String> {
    let text = &modules[name];
    let parent: Vec<&str> = name.split("::").collect();
    let mut dependencies = BTreeSet::new();
    for path in paths(text, "crate::") {
        dependencies.extend(module(modules, &path));
    }
    for path in paths(text, "super::") {
        let mut ancestors = parent.clone();
        let mut rest = path.as_str();
        ancestors.pop();
        while let Some(after) = rest.strip_prefix("super::") {
            ancestors.pop();
            rest = after;
        }
        ancestors.push(rest);
        dependencies.extend(module(modules, &ancestors.join("::")));
    }
    let child_prefix = format!("{name}::");
    for child in modules
        .keys()
        .filter_map(|other| other.strip_prefix(&child_prefix))
    {
        if !child.contains("::") && !paths(text, &format!("{child}::")).is_empty() {
            dependencies.insert(format!("{child_prefix}{child}"));
        }
    }
    dependencies.remove(name);
    dependencies
}

/// The module that a path names, or the one from which the crate's own file re-exports its first
/// name.
fn module(modules: &Modules, path: &str) -> Option<String> {
    let first = path.split("::").next()?;
    if let Some(module) = longest_module_prefix(modules, path) {
        return Some(module.to_owned());
    }
    let imports = paths(modules.get("")?, "use ");
    let import = imports
        .iter()
        .find(|import| import.rsplit("::").next() == Some(first))?;
    longest_module_prefix(modules, import).map(ToOwned::to_owned)
}

/// The longest beginning of a path that is a module.
fn longest_module_prefix<'a>(modules: &Modules, path: &'a str) -> Option<&'a str> {
    let separators = path.match_indices("::").map(|(at, _)| at);
    let prefixes: Vec<&str> = separators.map(|end| &path[..end]).chain([path]).collect();
    let mut longest_first = prefixes.into_iter().rev();
    longest_first.find(|prefix| modules.contains_key(*prefix))
}

/// The rest of every path that begins with `start`, one for each name of a list.
fn paths(text: &str, start: &str) -> Vec<String> {
    let is_path_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let mut paths = Vec::new();
    for (start_index, _) in text.match_indices(start) {
        if !text[..start_index].ends_with(is_path_part) {
            expand("", &text[start_index + start.len()..], &mut paths);
        }
    }
    paths
}

fn expand(prefix: &str, text: &str, paths: &mut Vec<String>) {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
    let (head, rest) = text.split_at(end.unwrap_or(text.len()));
    let Some(list) = rest
        .strip_prefix('{')
        .filter(|_| head.is_empty() || head.ends_with("::"))
    else {
        paths.push(format!("{prefix}{head}").trim_end_matches(':').to_owned());
        return;
    };
    let mut depth = 0;
    let mut item_start = 0;
    for (index, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            ',' | '}' if depth == 0 => {
                let name = list[item_start..index].trim();
                if !name.is_empty() {
                    expand(&format!("{prefix}{head}"), name, paths);
                }
                item_start = index + 1;
                if c == '}' {
                    return;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
}
