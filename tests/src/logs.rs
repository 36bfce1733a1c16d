//! What the programs of a cluster wrote last, for whoever only sees that a scenario
//! failed.

use std::{
    fmt::Write as _,
    fs::{self, File},
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

/// So many lines a program are shown.
const LINES: usize = 60;
/// So much of the end of a log is looked at, in bytes.
const TAIL: u64 = 4 << 20;

/// The last lines of each program of each node of the cluster in `dir` that are warnings
/// or errors, or contain `subject`.
pub fn last(dir: &Path, subject: &str) -> String {
    let mut text = String::new();
    for log in logs(dir) {
        let all = tail(&log).unwrap_or_else(|error| error.to_string());
        let chosen = chosen(&all, subject);
        if !chosen.is_empty() {
            let name = log.strip_prefix(dir).unwrap_or(&log).display();
            let _ = writeln!(text, "    --- {name}");
        }
        for line in chosen {
            let _ = writeln!(text, "    {line}");
        }
    }
    text
}

/// The logs of all programs, in the order of their names.
fn logs(dir: &Path) -> Vec<PathBuf> {
    let entries = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = entries(dir.join("nodes"))
        .flat_map(|node| entries(node.path().join("logs")))
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|it| it == "log"))
        .collect();
    all.sort();
    all
}

fn tail(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn chosen<'a>(text: &'a str, subject: &str) -> Vec<&'a str> {
    // kubelet's and containerd's logs name levels otherwise.
    let levels = ["WARN", "ERROR", "panicked", "level=warn", "level=error"];
    let tells = |line: &&str| {
        let matters = |word: &str| line.contains(word);
        levels.into_iter().any(matters) || (!subject.is_empty() && matters(subject))
    };
    let mut last: Vec<&str> = text.lines().rev().filter(tells).take(LINES).collect();
    last.reverse();
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_log_the_last_lines_that_matter_are_shown() {
        let dir = tempfile::tempdir().unwrap();
        for node in ["node-1", "node-2"] {
            // as `xtask::cluster` has them
            fs::create_dir_all(dir.path().join("nodes").join(node).join("logs")).unwrap();
        }
        let mut lines: Vec<String> = (0..100).map(|n| format!("INFO announce: {n}")).collect();
        lines.push("INFO other: nothing".to_owned());
        lines.push("WARN other: cannot".to_owned());
        fs::write(
            dir.path().join("nodes/node-2/logs/orlop.log"),
            lines.join("\n"),
        )
        .unwrap();
        fs::write(
            dir.path().join("nodes/node-1/logs/quiet.log"),
            "INFO other: x\n",
        )
        .unwrap();
        let shown = last(dir.path(), "announce");
        let shown: Vec<&str> = shown.lines().map(str::trim).collect();
        assert_eq!(shown.len(), LINES + 1);
        assert_eq!(shown[0], "--- nodes/node-2/logs/orlop.log");
        assert_eq!(shown[1], "INFO announce: 41");
        assert_eq!(
            shown[LINES - 1..],
            ["INFO announce: 99", "WARN other: cannot"]
        );
    }
}
