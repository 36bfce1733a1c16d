//! Checks documents: paths in backticks exist in the tree, and links between documents lead to a
//! file and to one of its headings. A change that moves a file also updates its mentions.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Documents besides those in `docs`.
const DOCUMENTS: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "cni/README.md",
];

/// Documents whose paths in backticks may be history.
const HISTORY: &[&str] = &["CHANGELOG.md"];

/// What a path in the tree begins with.
const FOLDERS: &[&str] = &[
    ".ci/",
    "cni/",
    "control/",
    "docs/",
    "ebpf/",
    "node-agent/",
    "tests/",
    "xtask/",
];

/// A Markdown file, without its fenced blocks.
struct Document {
    /// Its path below the root of the tree.
    path: PathBuf,
    /// Line numbers and lines.
    lines: Vec<(usize, String)>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn documents() -> Vec<Document> {
    let root = root();
    let mut paths: Vec<PathBuf> = DOCUMENTS.iter().map(PathBuf::from).collect();
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).expect("folder").flatten() {
            let path = folder.join(entry.file_name());
            if entry.path().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "md") {
                paths.push(path);
            }
        }
    }
    let read = |path: PathBuf| {
        let text = fs::read_to_string(root.join(&path)).expect("document");
        Document {
            lines: prose(&text),
            path,
        }
    };
    paths.into_iter().map(read).collect()
}

/// The lines outside fenced blocks, with their numbers.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut is_fenced = false;
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced {
            lines.push((number, line.to_owned()));
        }
    }
    lines
}

/// What stands in backticks.
fn code_spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The targets of links; a link inside backticks is none.
fn links(line: &str) -> Vec<String> {
    let text: String = line.split('`').step_by(2).collect();
    let targets = text.split("](").skip(1);
    targets
        .filter_map(|rest| Some(rest.split_once(')')?.0.to_owned()))
        .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
        .collect()
}

/// The anchors of a document's headings, as GitHub makes them.
fn anchors(lines: &[(usize, String)]) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let headings = lines
        .iter()
        .filter(|(_, line)| line.trim_start_matches('#').starts_with(' '));
    headings
        .filter_map(|(_, line)| line.strip_prefix('#'))
        .map(|heading| {
            let words = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = words
                .chars()
                .filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'));
            let anchor: String = kept.map(|it| if it == ' ' { '-' } else { it }).collect();
            let count = seen.entry(anchor.clone()).or_default();
            *count += 1;
            match *count {
                1 => anchor,
                more => format!("{anchor}-{}", more - 1),
            }
        })
        .collect()
}

#[test]
fn documents_name_only_paths_that_exist() {
    let root = root();
    let mut missing = Vec::new();
    for document in documents() {
        if HISTORY.iter().any(|it| document.path == Path::new(it)) {
            continue;
        }
        for (number, line) in &document.lines {
            for span in code_spans(line) {
                let is_path = FOLDERS.iter().any(|it| span.starts_with(it))
                    && !span.contains([' ', '*', '…', '<', '{']);
                if is_path && !root.join(span).exists() {
                    missing.push(format!("{}:{number}: `{span}`", document.path.display()));
                }
            }
        }
    }
    assert!(missing.is_empty(), "no such path:\n{}", missing.join("\n"));
}

#[test]
fn links_in_documents_lead_to_a_file_and_a_heading() {
    let root = root();
    let mut broken = Vec::new();
    for document in documents() {
        let folder = root.join(&document.path);
        let folder = folder.parent().expect("a folder");
        for (number, line) in &document.lines {
            for link in links(line) {
                let (path, anchor) = match link.split_once('#') {
                    Some((path, anchor)) => (path, Some(anchor)),
                    None => (link.as_str(), None),
                };
                let target = match path {
                    "" => root.join(&document.path),
                    path => folder.join(path),
                };
                let leads = match (fs::read_to_string(&target), anchor) {
                    (Ok(text), Some(anchor)) => anchors(&prose(&text)).contains(anchor),
                    (Ok(_), None) => true,
                    (Err(_), anchor) => anchor.is_none() && target.is_dir(),
                };
                if !leads {
                    broken.push(format!("{}:{number}: {link}", document.path.display()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

#[test]
fn links_and_anchors_are_read_as_github_reads_them() {
    let lines = prose("# A `b` c: d\n```\n# no heading\n```\n## A b c d\n# x_y-z (1)\n#none\n");
    let found = anchors(&lines);
    let expected = ["a-b-c-d", "a-b-c-d-1", "x_y-z-1"];
    assert_eq!(found, expected.map(str::to_owned).into());
    assert_eq!(
        links("[a](b.md#c), `[no](link)`, [d](https://e) and [`f`](g)"),
        ["b.md#c", "g"]
    );
    assert_eq!(
        code_spans("a `b/c` d `e`").collect::<Vec<_>>(),
        ["b/c", "e"]
    );
}
