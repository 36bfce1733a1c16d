//! Problems of a typed tree.

use std::fmt;

use crate::element::Element;

/// A problem of one value of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The path, as in `.spec.containers[name="a"]`.
    pub path: String,
    /// The problem.
    pub message: String,
}

/// All that is wrong with a tree; worded as structured-merge-diff words it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    pub(super) fn add(&mut self, message: impl Into<String>) {
        self.0.push(Problem {
            path: String::new(),
            message: message.into(),
        });
    }

    /// Takes the problems of a child.
    pub(super) fn below(&mut self, element: &Element, child: Problems) {
        self.0.extend(child.0.into_iter().map(|problem| Problem {
            path: format!("{element}{}", problem.path),
            message: problem.message,
        }));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn or<T>(self, value: T) -> Result<T, Self> {
        if self.is_empty() {
            Ok(value)
        } else {
            Err(self)
        }
    }
}

impl std::error::Error for Problems {}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => one.fmt(f),
            all => {
                f.write_str("errors:")?;
                all.iter().try_for_each(|one| write!(f, "\n  {one}"))
            }
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}
