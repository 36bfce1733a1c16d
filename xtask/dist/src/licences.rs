//! The licences of the crates that are linked in.

use std::{collections::BTreeMap, fmt::Write};

use crate::crates::Crate;

/// Beginnings of the names of files with licences.
const NAMES: [&str; 5] = ["license", "licence", "copying", "notice", "unlicense"];

/// Lists crates with their licences, then each text once with the crates that bring it.
pub fn write(crates: &[Crate]) -> String {
    let mut text =
        String::from("Libraries that are linked into Orlop's programs, with their licences.\n\n");
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for it in crates.iter().filter(|it| !it.is_own) {
        let licence = it.licence.as_deref().unwrap_or("see the text");
        // Writing to a string does not fail.
        let _ = writeln!(text, "{} {}: {licence}", it.name, it.version);
        for content in files(it) {
            let users = texts.entry(content).or_default();
            users.push(format!("{} {}", it.name, it.version));
        }
    }
    for (content, users) in texts {
        let line = "-".repeat(72);
        let _ = write!(text, "\n{line}\n{}\n{line}\n\n{content}", users.join(", "));
        if !content.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}

/// The texts that a crate brings, sorted by file name.
fn files(it: &Crate) -> Vec<String> {
    let entries = std::fs::read_dir(&it.folder)
        .into_iter()
        .flatten()
        .flatten();
    let mut paths: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let name = name.to_lowercase();
            path.is_file() && NAMES.iter().any(|start| name.starts_with(start))
        })
        .collect();
    paths.sort();
    let read = |path| std::fs::read(path).ok();
    paths
        .iter()
        .filter_map(read)
        .map(|bytes| String::from_utf8_lossy(&bytes).replace("\r\n", "\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_stand_once_with_all_who_bring_them() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("LICENSE-MIT"), "the text\n").unwrap();
        std::fs::write(folder.path().join("lib.rs"), "no licence").unwrap();
        let one = |name: &str, is_own| Crate {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            licence: Some("MIT".to_owned()),
            checksum: None,
            is_own,
            folder: folder.path().to_owned(),
            dependencies: Default::default(),
        };
        let text = write(&[one("a", false), one("b", false), one("own", true)]);
        assert_eq!(text.matches("the text").count(), 1, "{text}");
        assert!(text.contains("a 1.0.0, b 1.0.0"), "{text}");
        assert!(
            !text.contains("own") && !text.contains("no licence"),
            "{text}"
        );
    }
}
