//! Queries as they are read, and the whole way with a program in the journal's place.
//! What this cannot show is a real journal.

use std::fs;
use std::os::unix::fs::symlink;

use http_body_util::BodyExt;

use super::*;

fn asked(query: &str) -> Result<Option<LogQuery>, String> {
    parse(&super::super::query(Some(query))).map_err(|errors| together(&errors))
}

fn checked(query: &str) -> String {
    together(&asked(query).expect("read").expect("a query").check())
}

#[test]
fn what_is_no_query_is_left_to_the_files() {
    for query in ["", "unknown=true", "sinceTime=", "boot="] {
        assert_eq!(asked(query), Ok(None), "{query}");
    }
}

#[test]
fn values_that_are_none_are_named() {
    let error = |query: &str| asked(query).expect_err(query);
    assert_eq!(
        error("query=+++&query="),
        r#"query: Invalid value: ["   ",""]: may not be empty"#
    );
    assert!(error("query").contains("may not be empty"));
    for time in [
        "2019-12-04+02:00:00",
        "2019-12-04+02:00:00.000",
        "2019-12-04+02:00:00Z",
        "2019-12-04T02:00:00",
        "2019-12-04T02:00:00Z[UTC]",
        "2019-12-04",
        "now",
    ] {
        assert_eq!(
            error(&format!("untilTime={time}&query=a")),
            format!(
                "untilTime: Invalid value: \"{}\": invalid time format",
                time.replace('+', " ")
            )
        );
    }
    assert!(error("boot=foo").starts_with("boot: Invalid value: \"foo\": "));
    let both = error("tailLines=+&boot=x");
    assert!(
        both.starts_with("[boot: ") && both.contains(", tailLines: "),
        "{both}"
    );
}

#[test]
fn values_that_do_not_go_together_are_refused() {
    let fine = [
        "query=kubelet",
        "query=a&query=svc.foo&query=b@c&query=d:e_f-1",
        "query=a&boot=-1&tailLines=0&pattern=a.*b",
        "query=a&tailLines=100000",
        "query=a&sinceTime=2023-01-04T02:00:00Z&untilTime=2023-01-04T03:00:00%2B01:00",
        "query=/foo.log",
    ];
    for query in fine {
        assert_eq!(checked(query), "[]", "{query}");
    }
    for (query, error) in [
        (
            "tailLines=5",
            "query: Required value: cannot be empty with options",
        ),
        (
            "query=svc%0A",
            r#"query: Invalid value: "svc\n": input contains unsupported characters"#,
        ),
        (
            "query=a&query=/b",
            r#"query: Invalid value: "[/b], [a]": cannot specify a file and service"#,
        ),
        (
            "query=/a&query=%5Cb",
            r#"query: Invalid value: ["/a","\\b"]: cannot specify more than one file"#,
        ),
        (
            "query=/a&pattern=x",
            r#"query: Invalid value: ["/a"]: cannot specify file with options"#,
        ),
        (
            "query=a&query=b&query=c&query=d&query=e",
            "query: Too many: 5: must have at most 4 items",
        ),
        (
            "query=a&boot=1",
            "boot: Invalid value: 1: must be less than 1",
        ),
        (
            "query=a&tailLines=-1",
            "tailLines: Invalid value: -1: must be between 0 and 100000, inclusive",
        ),
        (
            "query=a&sinceTime=2023-02-04T02:00:00Z&untilTime=2023-01-04T02:00:00Z",
            r#"untilTime: Invalid value: "2023-01-04T02:00:00Z": must be after `sinceTime`"#,
        ),
    ] {
        assert_eq!(checked(query), error, "{query}");
    }
    let long = "a".repeat(LONGEST_NAME + 1);
    assert!(checked(&format!("query={long}")).contains("length must be less than 256"));
    assert!(checked("query=a&tailLines=100001").contains("100001"));
    assert!(checked("query=a&pattern=foo%5C").starts_with("pattern: Invalid value: "));
    assert!(checked("query=a&pattern=%5Ba").starts_with("pattern: Invalid value: "));
}

#[test]
fn the_journal_is_asked_for_no_more_than_was_wanted() {
    let query = asked(
        "query=a&sinceTime=2023-01-04T02:00:00.5%2B01:00&untilTime=2023-01-05T02:00:00Z\
         &tailLines=3&pattern=--x+;+rm&boot=-1",
    );
    let only = query.expect("read").expect("a query").only;
    assert_eq!(
        words(&["a", "b"], &only),
        [
            "--utc",
            "--no-pager",
            "--output=short-precise",
            "--since=2023-01-04 01:00:00 UTC",
            "--until=2023-01-05 02:00:00 UTC",
            "--lines=3",
            "--unit=a",
            "--unit=b",
            "--grep=--x ; rm",
            "--boot=-1",
        ]
    );
    assert_eq!(words(&[], &LineSelection::default()).len(), 3);
    let services = ["kubelet", "let", "b"].map(str::to_owned);
    let (native, others) = split(&services, "kubelet.service\nb.scope\n");
    assert_eq!(native, ["kubelet"]);
    assert_eq!(others, ["let", "b"]);
}

/// A node's folder of logs, and a journal that has `kubelet`.
struct Node {
    dir: tempfile::TempDir,
}

impl Node {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let it = Self { dir };
        fs::create_dir_all(it.root().join("both")).expect("made");
        for (file, text) in [
            ("log/plain", "of plain\n"),
            ("log/named.log", "of named\n"),
            ("log/both/both.log", "of both\n"),
            ("secret", "secret"),
            (
                "journal.sh",
                "case $1 in --field) echo kubelet.service;; \
                 *) echo \"$@\"; echo complaint >&2; exit 1;; esac\n",
            ),
        ] {
            fs::write(it.dir.path().join(file), text).expect("written");
        }
        symlink("../secret", it.root().join("out.log")).expect("linked");
        symlink(it.root().join("plain"), it.root().join("in.log")).expect("linked");
        it
    }

    fn root(&self) -> std::path::PathBuf {
        self.dir.path().join("log")
    }

    async fn ask(&self, query: &str) -> (u16, String) {
        self.ask_at(&[], query).await.expect("a query")
    }

    async fn ask_at(&self, parts: &[&str], query: &str) -> Option<(u16, String)> {
        let script = self.dir.path().join("journal.sh").display().to_string();
        let journal = Journal(vec!["sh".to_owned(), script]);
        let answer = answer(journal, &self.root(), parts, Some(query)).await?;
        let status = answer.status().as_u16();
        let read = answer.into_body().collect().await.expect("read");
        let text = String::from_utf8(read.to_bytes().to_vec()).expect("text");
        Some((status, text))
    }
}

#[tokio::test]
async fn services_are_read_from_the_journal_and_else_from_their_files() {
    let node = Node::new();
    let (status, text) = node.ask("query=kubelet&tailLines=2").await;
    assert_eq!(status, 200);
    assert_eq!(
        text,
        "--utc --no-pager --output=short-precise --lines=2 --unit=kubelet\ncomplaint\n"
    );
    let (_, text) = node.ask("query=plain&query=named&query=both").await;
    assert_eq!(text, "of plain\nof named\nof both\n");
    let (status, text) = node.ask("query=none").await;
    assert_eq!((status, text.as_str()), (200, "\nlog not found for none\n"));
    // with options, files are not guessed at
    let (_, text) = node.ask("query=kubelet&query=plain&boot=0").await;
    assert!(text.contains("--unit=kubelet --boot=0"), "{text}");
    assert!(
        text.contains("plain are files") && !text.contains("of plain\n"),
        "{text}"
    );
    // names lead nowhere else
    for outside in ["out", "..", "."] {
        let (_, text) = node.ask(&format!("query={outside}")).await;
        assert_eq!(text, format!("\nlog not found for {outside}\n"));
    }
}

#[tokio::test]
async fn files_are_those_below_the_folder_of_logs_only() {
    let node = Node::new();
    for file in ["/plain", "./plain", "%5Cplain", "/in.log"] {
        let (status, text) = node.ask(&format!("query={file}")).await;
        assert_eq!((status, text.as_str()), (200, "of plain\n"), "{file}");
    }
    let (status, text) = node.ask("query=both/").await;
    assert_eq!(status, 200);
    assert!(text.contains("both.log"), "{text}");
    for outside in [
        "/../secret",
        "../secret",
        "both/../../secret",
        "..%5Csecret",
        "/out.log",
        "/none",
        "/etc/passwd",
        "/plain%00",
    ] {
        let (status, text) = node.ask(&format!("query={outside}")).await;
        assert_eq!(status, 406, "{outside}: {text}");
        assert!(text.starts_with("query: Invalid value: ["), "{text}");
    }
}

#[tokio::test]
async fn a_query_is_refused_as_by_the_kubelet_and_other_paths_are_files() {
    let node = Node::new();
    let (status, text) = node.ask("query=").await;
    assert_eq!(status, 400);
    assert_eq!(text, "query: Invalid value: [\"\"]: may not be empty\n");
    assert_eq!(node.ask("query=a&boot=3").await.0, 406);
    let at = node.ask_at(&["pods"], "query=kubelet").await;
    assert_eq!(
        at,
        Some((406, "path not allowed in query mode\n".to_owned()))
    );
    assert_eq!(node.ask_at(&["plain"], "").await, None);
}

#[tokio::test]
async fn where_there_is_no_journal_there_are_files() {
    let node = Node::new();
    let journal = Journal(vec!["/nonexistent/journalctl".to_owned()]);
    let answer = answer(journal, &node.root(), &[], Some("query=plain")).await;
    let body = answer.expect("a query").into_body();
    let read = body.collect().await.expect("read").to_bytes();
    assert_eq!(read, "of plain\n");
}

#[tokio::test]
async fn who_no_longer_listens_has_the_reading_end() {
    let (read, write) = io::pipe().expect("a pipe");
    let script = format!(
        "exec 9>/proc/{}/fd/{}; while :; do echo more; done",
        std::process::id(),
        std::os::fd::AsRawFd::as_raw_fd(&write)
    );
    let journal = Journal(vec!["sh".to_owned(), "-c".to_owned(), script]);
    let (sender, mut receiver) = mpsc::channel(1);
    let reading = tokio::spawn(async move { journal.read(&[], &sender).await });
    assert!(receiver.recv().await.is_some());
    drop((receiver, write));
    reading.await.expect("no panic").expect("ended");
    // its end of the pipe is the last
    let closed = tokio::task::spawn_blocking(move || {
        let mut read = read;
        io::Read::read(&mut read, &mut [0])
    });
    let closed = tokio::time::timeout(Duration::from_secs(60), closed).await;
    assert_eq!(closed.expect("killed").expect("no panic").expect("read"), 0);
}
