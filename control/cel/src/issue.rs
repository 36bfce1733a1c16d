//! Issues of an expression, with their positions.

use std::fmt;

/// The limit on reported issues.
const MOST: usize = 100;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Place in the source, in characters from its start; `None`: the expression as a whole.
    pub offset: Option<usize>,
    /// The message.
    pub message: String,
}

/// All that is wrong with an expression, in the order of places. Shown as
/// cel-go shows it: each with its line and a mark below the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issues {
    source: String,
    found: Vec<Issue>,
}

impl Issues {
    pub(crate) fn new(source: &str, mut found: Vec<Issue>) -> Self {
        found.sort_by_key(|issue| issue.offset);
        if found.len() > MOST {
            found.truncate(MOST);
            found.push(Issue {
                offset: None,
                message: format!("More than {MOST} syntax errors"),
            });
        }
        Self {
            source: source.to_owned(),
            found,
        }
    }

    /// The single issues.
    #[must_use]
    pub fn found(&self) -> &[Issue] {
        &self.found
    }
}

impl fmt::Display for Issues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, issue) in self.found.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            let Some(offset) = issue.offset else {
                write!(f, "ERROR: <input>:-1:0: {}", issue.message)?;
                continue;
            };
            if self.source.is_empty() {
                // An empty source has no position to point at.
                write!(f, "ERROR: <input>:1:0: {}", issue.message)?;
                continue;
            }
            let before: String = self.source.chars().take(offset).collect();
            let line = before.matches('\n').count();
            let column = before
                .rsplit('\n')
                .next()
                .map_or(0, |last| last.chars().count());
            write!(
                f,
                "ERROR: <input>:{}:{}: {}",
                line + 1,
                column + 1,
                issue.message
            )?;
            if let Some(text) = self.source.split('\n').nth(line) {
                write!(f, "\n | {}", text.replace('\t', " "))?;
                write!(f, "\n | {}^", ".".repeat(column))?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Issues {}
