//! What test programs with their own `main` print: a line for each test, and at the end
//! which were skipped, why, and how many there were of each.

use std::time::Instant;

use crate::Failure;

/// A test that cannot run here; returned as the error of a scenario.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Skip(pub String);

/// Returns the failure that [`Report::record`] counts as skipped.
pub fn skip<T>(missing: impl Into<String>) -> Result<T, Failure> {
    Err(Box::new(Skip(missing.into())))
}

/// Counts results and prints a line for each.
#[derive(Debug, Default)]
pub struct Report {
    passed: usize,
    failed: usize,
    skipped: Vec<(String, String)>,
}

/// What became of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ran and held.
    Passed,
    /// It ran and did not hold.
    Failed,
    /// It did not run.
    Skipped,
}

impl Report {
    /// Counts the result of a test that began at `started`, and prints its line.
    pub fn record(&mut self, name: &str, started: Instant, result: Result<(), Failure>) -> Outcome {
        let took = started.elapsed().as_secs_f64();
        let Err(error) = result else {
            self.passed += 1;
            println!("test {name} ... ok ({took:.1} s)");
            return Outcome::Passed;
        };
        if let Some(Skip(missing)) = error.downcast_ref() {
            println!("test {name} ... skipped: {missing}");
            self.skipped.push((name.to_owned(), missing.clone()));
            return Outcome::Skipped;
        }
        self.failed += 1;
        println!("test {name} ... FAILED ({took:.1} s)\n    {error}");
        Outcome::Failed
    }

    /// Records every test of `names` as skipped for the same reason.
    pub fn skip_all<'a>(&mut self, names: impl IntoIterator<Item = &'a str>, missing: &str) {
        for name in names {
            let _ = self.record(name, Instant::now(), skip(missing));
        }
    }

    /// The last lines: each skipped test with its reason, then the counts.
    pub fn summary(&self) -> String {
        let mut text = String::from("\n");
        for (name, missing) in &self.skipped {
            text.push_str(&format!("skipped {name}: {missing}\n"));
        }
        text.push_str(&format!(
            "{} passed, {} failed, {} skipped",
            self.passed,
            self.failed,
            self.skipped.len()
        ));
        text
    }

    /// Prints the summary; the code with which the program ends.
    pub fn end(&self) -> std::process::ExitCode {
        println!("{}", self.summary());
        if self.failed == 0 {
            std::process::ExitCode::SUCCESS
        } else {
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_test_is_not_counted_as_passed() {
        let mut report = Report::default();
        let now = Instant::now();
        assert_eq!(report.record("one", now, Ok(())), Outcome::Passed);
        let outcome = report.record("two", now, skip("no kubelet: set ORLOP_KUBELET"));
        assert_eq!(outcome, Outcome::Skipped);
        assert_eq!(
            report.record("three", now, Err("no".into())),
            Outcome::Failed
        );
        assert_eq!(
            report.summary(),
            "\nskipped two: no kubelet: set ORLOP_KUBELET\n1 passed, 1 failed, 1 skipped"
        );
    }
}
