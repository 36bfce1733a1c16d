//! What `cargo test` prints, counted: passed, failed and skipped tests of all programs.
//!
//! A test that cannot run on this machine prints `skipped: REASON` and returns; for
//! libtest it passed. So tests run with `--show-output`, which prints what passed tests
//! printed, and those that said so count as skipped. Test programs with their own `main`
//! print `test NAME ... skipped: REASON` and end with `N passed, N failed, N skipped`.

use std::{
    fmt,
    io::{BufRead, BufReader},
    process::Command,
};

use crate::{
    error::Error,
    run::{cannot_start, shown},
};

/// A test that was skipped, and what it lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedTest {
    /// The test, with the program that holds it.
    pub test: String,
    /// What is missing.
    pub reason: String,
}

/// A failed test, and its output.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FailedTest {
    /// The test, with the program that holds it.
    test: String,
    /// The first lines of its error or panic.
    said: Vec<String>,
}

/// The number of lines of a failure that are repeated at the end; all are further up.
const LINES_OF_A_FAILURE: usize = 6;

/// Results of test programs, added up.
#[derive(Debug, Default)]
pub struct Results {
    passed: u64,
    failed: u64,
    skipped: Vec<SkippedTest>,
    failures: Vec<FailedTest>,
}

impl Results {
    /// Counts a check that is no test program's.
    pub fn skip(&mut self, test: impl Into<String>, reason: impl Into<String>) {
        self.skipped.push(SkippedTest {
            test: test.into(),
            reason: reason.into(),
        });
    }

    /// Counts the output of a test program that ran elsewhere, with `--show-output`.
    pub fn count(&mut self, program: &str, printed: &str) {
        let mut parser = Parser {
            program: program.to_owned(),
            ..Parser::default()
        };
        for line in printed.lines() {
            parser.line(line, self);
        }
    }

    /// Runs `cargo test` with its output shown, and counts it. The command must not have
    /// arguments for the test programs; they get `--show-output`.
    ///
    /// # Errors
    /// When cargo cannot be started, or a test or a build fails.
    pub fn run(&mut self, command: &mut Command) -> Result<(), Error> {
        command.args(["--", "--show-output"]);
        self.count_run(command, Parser::default())
    }

    /// Runs a separate test program, which prints its results as those with their own
    /// `main` do, and counts it under this name.
    ///
    /// # Errors
    /// When it cannot be started, or a test fails.
    pub fn run_program(&mut self, name: &str, command: &mut Command) -> Result<(), Error> {
        let parser = Parser {
            program: name.to_owned(),
            ..Parser::default()
        };
        self.count_run(command, parser)
    }

    /// Runs a command, shows its output and counts the results in it.
    fn count_run(&mut self, command: &mut Command, mut parser: Parser) -> Result<(), Error> {
        let cannot = |command: &Command, error| Err(cannot_start(command, &error));
        let (reader, writer) = match std::io::pipe() {
            Ok(pipe) => pipe,
            Err(error) => return cannot(command, error),
        };
        // Both streams share a pipe: cargo names the program on standard error, and the
        // program prints its tests to standard output.
        let errors = match writer.try_clone() {
            Ok(errors) => errors,
            Err(error) => return cannot(command, error),
        };
        command.stdout(writer).stderr(errors);
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return cannot(command, error),
        };
        // The command holds the pipe's other end until it is given other streams.
        command
            .stdout(std::process::Stdio::inherit())
            .stderr(std::process::Stdio::inherit());
        let mut lines = BufReader::new(reader);
        let mut line = Vec::new();
        while matches!(lines.read_until(b'\n', &mut line), Ok(1..)) {
            let text = String::from_utf8_lossy(&line);
            if parser.line(text.trim_end_matches('\n'), self) {
                print!("{text}");
            }
            line.clear();
        }
        let status = child
            .wait()
            .map_err(|error| cannot_start(command, &error))?;
        if status.success() {
            return Ok(());
        }
        Err(Error::Command {
            command: shown(command),
            status: status.to_string(),
            output: String::new(),
        })
    }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for SkippedTest { test, reason } in &self.skipped {
            writeln!(f, "skipped {test}: {reason}")?;
        }
        for FailedTest { test, said } in &self.failures {
            writeln!(f, "failed {test}")?;
            for line in said {
                writeln!(f, "    {line}")?;
            }
        }
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed,
            self.failed,
            self.skipped.len()
        )
    }
}

/// Reads the output of test programs line by line.
#[derive(Debug, Default)]
struct Parser {
    /// The running test program, as cargo names it.
    program: String,
    /// The test whose output is being read, within the list of what passed tests printed.
    section: Option<String>,
    in_successes: bool,
    /// The failed test whose error is being read: its place in the results.
    failure: Option<usize>,
    /// Tests of the running program that said that they were skipped.
    skipped: u64,
}

impl Parser {
    /// Takes a line; returns whether it is worth showing.
    fn line(&mut self, line: &str, results: &mut Results) -> bool {
        let plain = without_colours(line);
        let plain = plain.as_str();
        if let Some(program) = program_of(plain) {
            self.program = program;
            return true;
        }
        if let Some(counts) = plain.strip_prefix("test result: ") {
            self.in_successes = false;
            self.section = None;
            self.failure = None;
            let count = |what: &str| number_before(counts, what);
            results.passed += count(" passed").saturating_sub(self.skipped);
            results.failed += count(" failed");
            self.skipped = 0;
            return true;
        }
        if self.in_successes {
            return self.shown_output(plain, results);
        }
        if plain == "successes:" {
            self.in_successes = true;
            return false;
        }
        if self.failure_of(plain, results) {
            return true;
        }
        if let Some((test, reason)) = skipped_by_name(plain) {
            results.skip(format!("{}{test}", self.prefix()), reason);
        } else if let Some((passed, failed)) = own_summary(plain) {
            results.passed += passed;
            results.failed += failed;
        }
        true
    }

    /// Records the names of failed tests and the beginning of their output; returns
    /// whether the line belongs to that.
    fn failure_of(&mut self, line: &str, results: &mut Results) -> bool {
        if let Some(test) = failed_by_name(line) {
            self.failure = Some(results.failures.len());
            results.failures.push(FailedTest {
                test: format!("{}{test}", self.prefix()),
                said: Vec::new(),
            });
            return true;
        }
        // libtest tells all errors at the end, each under its test's name.
        if let Some(test) = heading_of(line) {
            let test = format!("{}{test}", self.prefix());
            self.failure = results.failures.iter().position(|it| it.test == test);
            return true;
        }
        let Some(failure) = self.failure.and_then(|at| results.failures.get_mut(at)) else {
            return false;
        };
        // An error's lines are indented; libtest's begin with the panic or the error.
        let begins = line.contains("panicked at ") || line.starts_with("Error: ");
        if line.starts_with("    ") || begins || !failure.said.is_empty() {
            let is_result = line.starts_with("test ") || own_summary(line).is_some();
            let ends = line.trim().is_empty() || is_result;
            if ends || failure.said.len() == LINES_OF_A_FAILURE {
                self.failure = None;
                return false;
            }
            failure.said.push(line.trim().to_owned());
            return true;
        }
        false
    }

    /// A line among what passed tests printed; their list of names follows once more.
    fn shown_output(&mut self, line: &str, results: &mut Results) -> bool {
        if line == "failures:" {
            self.in_successes = false;
            self.section = None;
            return true;
        }
        if let Some(test) = heading_of(line) {
            self.section = Some(test.to_owned());
        } else if let Some(reason) = line.trim_start().strip_prefix("skipped: ")
            // A test that skips several of its cases is counted once.
            && let Some(test) = self.section.take()
        {
            results.skip(format!("{}{test}", self.prefix()), reason);
            self.skipped += 1;
        }
        false
    }

    fn prefix(&self) -> String {
        match self.program.as_str() {
            "" => String::new(),
            program => format!("{program} "),
        }
    }
}

/// The test program that a line of cargo's announces.
fn program_of(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(name) = line.strip_prefix("Doc-tests ") {
        return Some(format!("{name} (documentation)"));
    }
    let (_, file) = line.strip_prefix("Running ")?.rsplit_once(" (")?;
    let name = file.strip_suffix(')')?.rsplit('/').next()?;
    // Without the hash that cargo adds.
    Some(
        name.rsplit_once('-')
            .map_or(name, |(name, _)| name)
            .to_owned(),
    )
}

/// A test that its program, or libtest for `#[ignore]`, reports as skipped.
fn skipped_by_name(line: &str) -> Option<(&str, &str)> {
    let (test, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    if let Some(reason) = result.strip_prefix("skipped: ") {
        return Some((test, reason));
    }
    let reason = result.strip_prefix("ignored")?;
    match reason.strip_prefix(", ") {
        Some(reason) => Some((test, reason)),
        None if reason.is_empty() => Some((test, "marked as ignored")),
        None => None,
    }
}

/// A test that its program, or libtest, reports as failed.
fn failed_by_name(line: &str) -> Option<&str> {
    let (test, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    result.starts_with("FAILED").then_some(test)
}

/// The test whose output follows.
fn heading_of(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

/// The counts of passed and failed tests in `N passed, N failed, N skipped`.
fn own_summary(line: &str) -> Option<(u64, u64)> {
    let (passed, rest) = line.split_once(" passed, ")?;
    let (failed, rest) = rest.split_once(" failed, ")?;
    rest.strip_suffix(" skipped")?.parse::<u64>().ok()?;
    Some((passed.parse().ok()?, failed.parse().ok()?))
}

/// Returns the number before a word.
fn number_before(text: &str, word: &str) -> u64 {
    text.split_once(word)
        .and_then(|(before, _)| before.rsplit(' ').next()?.parse().ok())
        .unwrap_or_default()
}

/// The line without the escape sequences of terminals (ECMA-48, `ESC [ … letter`).
fn without_colours(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        out.push_str(before);
        let end = after.find(|c: char| c.is_ascii_alphabetic());
        rest = end.map_or("", |end| &after[end + 1..]);
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Results, String) {
        let mut results = Results::default();
        let mut parser = Parser::default();
        let lines = text.lines().filter(|line| parser.line(line, &mut results));
        let shown: Vec<&str> = lines.collect();
        (results, shown.join("\n"))
    }

    const LIBTEST: &str = "\
\u{1b}[1m\u{1b}[32m     Running\u{1b}[0m tests/chain.rs (target/debug/deps/chain-0a1b2c)

running 3 tests
test runs ... ok
test is_skipped ... ok
test slow ... ignored, takes an hour

successes:

---- runs stdout ----
hello, 4 passed; nothing

---- is_skipped stdout ----
skipped: the standard plugin `loopback` is not installed
skipped: and another


successes:
    is_skipped
    runs

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s
";

    #[test]
    fn a_test_that_prints_that_it_was_skipped_is_not_passed() {
        let (results, shown) = read(LIBTEST);
        assert_eq!(
            results.to_string(),
            "skipped chain slow: takes an hour\n\
             skipped chain is_skipped: the standard plugin `loopback` is not installed\n\
             1 passed, 0 failed, 2 skipped"
        );
        assert!(shown.contains("test runs ... ok") && shown.contains("test result: ok"));
        assert!(!shown.contains("hello"), "{shown}");
    }

    #[test]
    fn failures_are_counted_and_shown() {
        let (results, shown) = read(
            "   Doc-tests control_types\n\nrunning 2 tests\ntest a ... FAILED\ntest b ... ok\n\n\
             successes:\n\n---- b stdout ----\nskipped: needs root\n\n\nsuccesses:\n    b\n\n\
             failures:\n\n---- a stdout ----\nskipped: this is no skip\nthread panicked\n\n\
             test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n",
        );
        assert_eq!(
            results.to_string(),
            "skipped control_types (documentation) b: needs root\n\
             failed control_types (documentation) a\n0 passed, 1 failed, 1 skipped"
        );
        assert!(shown.contains("thread panicked"), "{shown}");
    }

    #[test]
    fn the_last_lines_name_failures_with_what_they_said() {
        let (results, _) = read(
            "     Running a.rs (target/debug/deps/a-0a1b2c)\n\
             test slow ... FAILED\ntest other ... ok\n\nfailures:\n\n\
             ---- slow stdout ----\nconnecting\n\n\
             thread 'slow' (7) panicked at a.rs:5:9:\nleft: 1\nright: 2\n\n\n\
             failures:\n    slow\n\n\
             test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n\
             \x20    Running e2e/main.rs (target/debug/deps/e2e-77)\n\
             test two ... ok (1.0 s)\ntest drains ... FAILED (1.0 s)\n    pod a: still there\n\
             1 passed, 1 failed, 0 skipped\n",
        );
        assert_eq!(
            results.to_string(),
            "failed a slow\n    thread 'slow' (7) panicked at a.rs:5:9:\n    left: 1\n    \
             right: 2\nfailed e2e drains\n    pod a: still there\n2 passed, 2 failed, 0 skipped"
        );
    }

    #[test]
    fn a_program_of_its_own_is_counted_under_its_name() {
        let script = "echo 'test one ... ok (1.0 s)'; echo 'test two ... skipped: no kubectl'; \
                      echo '1 passed, 1 failed, 1 skipped'; exit 1";
        let mut results = Results::default();
        let failed = results.run_program("drill", Command::new("sh").args(["-c", script]));
        assert!(failed.is_err());
        assert_eq!(
            results.to_string(),
            "skipped drill two: no kubectl\n1 passed, 1 failed, 1 skipped"
        );
    }

    #[test]
    fn programs_with_their_own_main_are_counted_by_their_last_line() {
        let (results, _) = read(
            "     Running e2e/main.rs (target/release/deps/e2e-77)\n\
             test one ... ok (1.0 s)\ntest two ... skipped: no kubelet: set X\n\n\
             skipped two: no kubelet: set X\n1 passed, 0 failed, 1 skipped\n\
             12 passed, none failed, 3 skipped\n",
        );
        assert_eq!(
            results.to_string(),
            "skipped e2e two: no kubelet: set X\n1 passed, 0 failed, 1 skipped"
        );
    }
}
