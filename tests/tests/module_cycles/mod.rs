//! Import cycles among the modules of a crate. Modules that import each other can only be
//! understood, tested and replaced together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The most modules that may form a cycle.
const LIMIT: usize = 5;

/// A path of module names below the crate's root.
type Module = Vec<String>;

#[test]
fn no_import_cycle_is_larger_than_five_modules() {
    let mut wrong = Vec::new();
    for (name, folder) in crate::graph().folders {
        let largest = largest_cycle(&imports(&folder.join("src")));
        if largest.len() > LIMIT {
            let modules: Vec<String> = largest.iter().map(|module| module.join("::")).collect();
            wrong.push(format!(
                "`{name}`: {} modules import each other, {LIMIT} may: {}",
                largest.len(),
                modules.join(", ")
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Which modules each module of a crate imports, without those that only tests import.
fn imports(source: &Path) -> BTreeMap<Module, BTreeSet<Module>> {
    let mut texts = BTreeMap::new();
    read(source, source, &mut texts);
    // Names that modules re-export lead to where they come from.
    let mut aliases: BTreeMap<Module, Module> = BTreeMap::new();
    let mut paths: BTreeMap<Module, Vec<Module>> = BTreeMap::new();
    for (module, text) in &texts {
        for (is_public, path) in used_paths(text) {
            let Some(path) = absolute(module, &path, &texts) else {
                continue;
            };
            if let (true, Some(last)) = (is_public, path.last()) {
                let alias = module.iter().chain([last]).cloned().collect();
                aliases.insert(alias, path.clone());
            }
            paths.entry(module.clone()).or_default().push(path);
        }
    }
    let owner = |path: &Module| {
        let mut path = path.clone();
        for _ in 0..aliases.len() {
            match aliases.get(&path) {
                Some(further) if *further != path => path.clone_from(further),
                _ => break,
            }
        }
        while !texts.contains_key(&path) && path.pop().is_some() {}
        path
    };
    texts
        .keys()
        .map(|module| {
            let paths = paths.get(module).into_iter().flatten();
            let mut imported: BTreeSet<Module> = paths.map(owner).collect();
            imported.remove(module);
            (module.clone(), imported)
        })
        .collect()
}

/// Reads the modules below a folder; tests and comments are left out.
fn read(root: &Path, folder: &Path, texts: &mut BTreeMap<Module, String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            read(root, &path, texts);
            continue;
        }
        let below = path.strip_prefix(root).expect("below").with_extension("");
        let mut module: Module = below
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        if module
            .last()
            .is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str()))
        {
            module.pop();
        }
        let is_test = module.iter().any(|part| {
            ["tests", "testing", "fake"].contains(&part.as_str()) || part.ends_with("_tests")
        });
        if is_test || path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("source");
        let product = crate::sources::without_tests(&text);
        let lines = product
            .lines()
            .map(|line| line.split("//").next().unwrap_or_default());
        // A crate may have a library and a program.
        let known: &mut String = texts.entry(module).or_default();
        known.extend(lines.flat_map(|line| [line, "\n"]));
    }
}

/// The paths that a source names: those of `use`, and those in code that begin with
/// `crate`, `self` or `super`; whether each is re-exported.
fn used_paths(text: &str) -> Vec<(bool, Vec<String>)> {
    let mut found = Vec::new();
    let mut code = String::new();
    let mut statement: Option<String> = None;
    for line in text.lines() {
        let begins = line.trim_start();
        let public = begins.starts_with("pub");
        let begins = begins.trim_start_matches("pub ");
        let begins = match (begins.strip_prefix("pub("), public) {
            (Some(rest), true) => rest.split_once(") ").map_or(begins, |(_, rest)| rest),
            _ => begins,
        };
        if statement.is_none() && begins.starts_with("use ") {
            statement = Some(if public { "pub " } else { "" }.to_owned());
        }
        let Some(known) = &mut statement else {
            code.push_str(line);
            code.push('\n');
            continue;
        };
        known.push_str(begins);
        if line.trim_end().ends_with(';') {
            let known = statement.take().unwrap_or_default();
            let (_, tree) = known.split_once("use ").unwrap_or_default();
            let tree = tree.trim_end_matches(';');
            let mut paths = Vec::new();
            expand(&[], tree, &mut paths);
            found.extend(
                paths
                    .into_iter()
                    .map(|path| (known.starts_with("pub "), path)),
            );
        }
    }
    for root in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(root) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|letter| letter.is_alphanumeric() || ":_$".contains(letter)) {
                continue;
            }
            let end =
                code[at..].find(|letter: char| !letter.is_alphanumeric() && !":_".contains(letter));
            let path = &code[at..end.map_or(code.len(), |end| at + end)];
            let parts = path.split("::").filter(|part| !part.is_empty());
            found.push((false, parts.map(str::to_owned).collect()));
        }
    }
    found
}

/// Takes the tree of a `use` apart.
fn expand(before: &[String], tree: &str, paths: &mut Vec<Vec<String>>) {
    let (head, group) = match tree.split_once('{') {
        Some((head, rest)) => (
            head,
            Some(rest.rsplit_once('}').map_or(rest, |(inner, _)| inner)),
        ),
        None => (tree, None),
    };
    let head = head.split(" as ").next().unwrap_or_default();
    let mut path = before.to_vec();
    path.extend(
        head.split("::")
            .map(str::trim)
            .filter(|part| !part.is_empty() && *part != "*")
            .map(str::to_owned),
    );
    let Some(group) = group else {
        if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
            path.pop();
        }
        paths.push(path);
        return;
    };
    let (mut depth, mut from) = (0_usize, 0);
    for (at, letter) in group.char_indices().chain([(group.len(), ',')]) {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                let one = group[from..at].trim();
                if !one.is_empty() {
                    expand(&path, one, paths);
                }
                from = at + 1;
            }
            _ => {}
        }
    }
}

/// A path from the crate's root; `None` for those into other crates.
fn absolute(module: &Module, path: &[String], texts: &BTreeMap<Module, String>) -> Option<Module> {
    let mut base = module.clone();
    let mut rest = path;
    match rest.first()?.as_str() {
        "crate" => {
            base.clear();
            rest = &rest[1..];
        }
        "self" => rest = &rest[1..],
        "super" => {
            while rest.first().is_some_and(|part| part == "super") {
                base.pop();
                rest = &rest[1..];
            }
        }
        first => {
            let mut child = base.clone();
            child.push(first.to_owned());
            if !texts.contains_key(&child) {
                return None;
            }
        }
    }
    base.extend(rest.iter().cloned());
    Some(base)
}

/// The largest set of modules each of which reaches all others.
fn largest_cycle(imports: &BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<Module> {
    let reached = |from: &Module| {
        let mut seen = BTreeSet::new();
        let mut next = vec![from];
        while let Some(module) = next.pop() {
            for to in imports.get(module).into_iter().flatten() {
                if seen.insert(to.clone()) {
                    next.push(to);
                }
            }
        }
        seen
    };
    let all: BTreeMap<&Module, BTreeSet<Module>> = imports
        .keys()
        .map(|module| (module, reached(module)))
        .collect();
    all.iter()
        .map(|(module, reached)| {
            let back = reached
                .iter()
                .filter(|to| all.get(to).is_some_and(|it| it.contains(*module)));
            back.cloned().collect::<BTreeSet<Module>>()
        })
        .max_by_key(BTreeSet::len)
        .unwrap_or_default()
}

#[test]
fn cycles_are_found_through_groups_and_re_exports() {
    let folder = tempfile::tempdir().expect("a folder");
    let write =
        |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    write(
        "lib.rs",
        "mod a;\nmod b;\nmod c;\nmod d;\npub use a::{A, Other};\n",
    );
    write(
        "a.rs",
        "use std::fmt;\nuse crate::{\n    b::B,\n    d,\n};\n",
    );
    write("b.rs", "use super::c;\n");
    write("c.rs", "fn c() -> crate::A {}\n");
    write(
        "d.rs",
        "// use crate::a;\n\n#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n",
    );
    let largest = largest_cycle(&imports(folder.path()));
    let names: Vec<&str> = largest
        .iter()
        .filter_map(|module| Some(module.last()?.as_str()))
        .collect();
    assert_eq!(names, ["a", "b", "c"]);
}
