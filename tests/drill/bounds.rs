//! What a scenario measured, beside its bounds.

use tests::{Failure, ensure};

/// The rows of one scenario's table.
#[derive(Default)]
pub struct Bounds {
    rows: Vec<Row>,
}

struct Row {
    what: String,
    measured: String,
    bound: String,
    holds: bool,
}

impl Bounds {
    /// A time in seconds that may not be longer than `bound`; `None` did not happen at all.
    pub fn within(&mut self, what: &str, seconds: Option<f64>, bound: f64) {
        self.rows.push(Row {
            what: what.to_owned(),
            measured: seconds.map_or("never".to_owned(), |seconds| format!("{seconds:.2} s")),
            bound: format!("\u{2264} {bound} s"),
            holds: seconds.is_some_and(|seconds| seconds <= bound),
        });
    }

    /// A number that may not be larger than `bound`.
    pub fn at_most(&mut self, what: &str, number: usize, bound: usize) {
        self.rows.push(Row {
            what: what.to_owned(),
            measured: number.to_string(),
            bound: format!("\u{2264} {bound}"),
            holds: number <= bound,
        });
    }

    /// A statement that must hold; `found` says what was found.
    pub fn holds_that(&mut self, what: &str, holds: bool, found: impl Into<String>) {
        self.rows.push(Row {
            what: what.to_owned(),
            measured: found.into(),
            bound: String::new(),
            holds,
        });
    }

    /// A measurement without a bound.
    pub fn note(&mut self, what: &str, found: impl Into<String>) {
        self.holds_that(what, true, found);
    }

    /// Whether every bound holds.
    ///
    /// # Errors
    /// How many do not.
    pub fn judge(&self) -> Result<(), Failure> {
        let broken = self.rows.iter().filter(|row| !row.holds).count();
        ensure(broken == 0, format!("{broken} bounds do not hold"))
    }

    /// Prints the table.
    pub fn print(&self) {
        let width = self.rows.iter().map(|row| row.what.chars().count()).max();
        let width = width.unwrap_or(0);
        for row in &self.rows {
            let sign = if row.holds { " " } else { "!" };
            println!(
                "{sign} {:<width$}  {:<12} {}",
                row.what, row.measured, row.bound
            );
        }
    }
}
