//! The sources of the workspace, for tests that read them.
#![allow(dead_code, reason = "each test uses its part")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A Rust source of a package, without its tests.
pub struct Source {
    /// The path below the workspace.
    pub path: String,
    /// The package's name.
    pub package: String,
    /// The text; lines of test modules are empty, so that numbers of lines are true.
    pub text: String,
}

/// Folders with nothing that users run, or that nobody wrote by hand.
const SKIPPED_FOLDERS: &[&str] = &[
    "target",
    "tests",
    "benches",
    "examples",
    "fuzz",
    "testing",
    "generated",
    ".git",
];

/// Files of tests beside the code.
fn is_test_file(name: &str) -> bool {
    [
        "tests.rs",
        "testing.rs",
        "simulation.rs",
        "live.rs",
        "allocator_world.rs",
    ]
    .contains(&name)
        || name.ends_with("_tests.rs")
        || name.starts_with("fake")
}

/// The root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The sources of all packages but `tests`, without tests, benches and generated code.
pub fn production_sources() -> Vec<Source> {
    let root = root();
    let mut folders: Vec<PathBuf> = ["control", "node-agent", "ebpf", "cni", "csi", "xtask"]
        .iter()
        .map(|it| root.join(it))
        .collect();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("folder").flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() {
                if !SKIPPED_FOLDERS.contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if name.ends_with(".rs") && !is_test_file(&name) {
                let text = std::fs::read_to_string(&path).expect("source");
                let short = path.strip_prefix(&root).expect("below").display();
                found.push(Source {
                    path: short.to_string(),
                    package: package_of(&root, &path),
                    text: without_tests(&text),
                });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// The name of the package that a file belongs to.
fn package_of(root: &Path, file: &Path) -> String {
    let manifest = file
        .ancestors()
        .skip(1)
        .take_while(|folder| *folder != root)
        .map(|folder| folder.join("Cargo.toml"))
        .find_map(|manifest| std::fs::read_to_string(manifest).ok())
        .unwrap_or_default();
    let name = manifest.lines().find_map(|it| it.strip_prefix("name = "));
    name.unwrap_or_default().trim_matches('"').to_owned()
}

/// A source whose test modules are empty lines: `#[cfg(test)]`, attributes, and a module
/// that ends with the next brace at the beginning of a line.
pub fn without_tests(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut kept = Vec::with_capacity(lines.len());
    let mut at = 0;
    while at < lines.len() {
        let attributes = lines[at..]
            .iter()
            .take_while(|line| line.starts_with("#["))
            .count();
        let item = lines.get(at + attributes).copied().unwrap_or_default();
        let is_test = lines[at..at + attributes]
            .iter()
            .any(|it| *it == "#[cfg(test)]" || it.starts_with("#[cfg(all(test,"))
            && item.contains("mod ")
            && item.ends_with('{');
        if is_test {
            let after = at + attributes;
            let end = lines[after..]
                .iter()
                .position(|line| *line == "}")
                .map_or(lines.len(), |end| after + end + 1);
            kept.resize(kept.len() + end - at, "");
            at = end;
        } else {
            kept.push(lines[at]);
            at += 1;
        }
    }
    kept.join("\n")
}

/// Compares findings by package with what was counted before: more is wrong, and less is
/// to be written down.
pub fn only_falls(found: &BTreeMap<String, Vec<String>>, counted: &[(&str, usize)], advice: &str) {
    let counted: BTreeMap<&str, usize> = counted.iter().copied().collect();
    let packages: BTreeSet<&str> = found
        .keys()
        .map(String::as_str)
        .chain(counted.keys().copied())
        .collect();
    let mut wrong = Vec::new();
    for name in packages {
        let before = counted.get(name).copied().unwrap_or_default();
        let all = found.get(name).map(Vec::as_slice).unwrap_or_default();
        if all.len() > before {
            wrong.push(format!(
                "`{name}`: {} instead of {before} at most: {advice}\n  {}",
                all.len(),
                all.join("\n  ")
            ));
        }
        if all.len() < before {
            wrong.push(format!(
                "`{name}`: {} and no longer {before}: lower the number in this file",
                all.len()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The number of a source's lines without those of test modules beside the code.
pub fn lines_without_tests(text: &str) -> usize {
    let mut inside = 0;
    let kept = without_tests(text);
    for (before, after) in text.lines().zip(kept.lines()) {
        inside += usize::from(before != after);
    }
    text.lines().count() - inside
}

#[test]
fn what_stands_after_the_tests_of_a_file_is_kept() {
    let text = "a\n#[cfg(test)]\nmod tests {\n    b\n}\nc\n#[cfg(test)]\nmod far;\nd";
    assert_eq!(
        without_tests(text),
        "a\n\n\n\n\nc\n#[cfg(test)]\nmod far;\nd"
    );
}
