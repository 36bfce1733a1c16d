//! Lines of etcd's log: JSON from 3.5 on, words before.

use serde::Deserialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

/// A line that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub level: Level,
    pub text: String,
}

#[derive(Deserialize)]
struct Json {
    level: String,
    msg: String,
    #[serde(default)]
    error: Option<String>,
}

/// Parses a line. Unknown formats count as information.
pub(crate) fn parse(line: &str) -> Line {
    if let Ok(json) = serde_json::from_str::<Json>(line) {
        let level = match json.level.as_str() {
            "debug" => Level::Debug,
            "warn" => Level::Warn,
            "error" | "fatal" | "panic" | "dpanic" => Level::Error,
            _ => Level::Info,
        };
        let text = match json.error {
            Some(error) => format!("{}: {error}", json.msg),
            None => json.msg,
        };
        return Line { level, text };
    }
    // 2026-11-26 19:53:12.123456 W | etcdserver: read-only range request took too long
    let mut words = line.splitn(5, ' ');
    let (date, time, letter, bar, rest) = (
        words.next(),
        words.next(),
        words.next(),
        words.next(),
        words.next(),
    );
    let is_dated = date.is_some_and(|date| date.len() == 10 && date.contains('-'))
        && time.is_some_and(|time| time.contains(':'))
        && bar == Some("|");
    let level = match letter {
        Some("D") => Level::Debug,
        Some("W") => Level::Warn,
        Some("E" | "C") => Level::Error,
        _ => Level::Info,
    };
    match rest {
        Some(rest) if is_dated => Line {
            level,
            text: rest.to_owned(),
        },
        _ => Line {
            level: Level::Info,
            text: line.to_owned(),
        },
    }
}

/// Whether the member says that it was removed from its cluster.
pub(crate) fn tells_of_removal(text: &str) -> bool {
    text.contains("permanently removed from the cluster")
        || text.contains("member has been removed from the cluster")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_versions_are_read() {
        let line = |level, text: &str| Line {
            level,
            text: text.to_owned(),
        };
        assert_eq!(
            parse("2026-11-26 19:53:12.123456 W | etcdserver: took too long"),
            line(Level::Warn, "etcdserver: took too long")
        );
        assert_eq!(
            parse(r#"{"level":"error","ts":"x","msg":"failed","error":"no space"}"#),
            line(Level::Error, "failed: no space")
        );
        assert_eq!(
            parse("[WARNING] Deprecated flag"),
            line(Level::Info, "[WARNING] Deprecated flag")
        );
        assert_eq!(parse(""), line(Level::Info, ""));
    }

    #[test]
    fn a_removal_is_recognised() {
        assert!(tells_of_removal(
            "rafthttp: the member has been permanently removed from the cluster"
        ));
        assert!(!tells_of_removal("added member 1 to cluster 2"));
    }
}
