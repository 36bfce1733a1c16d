//! The Common Expression Language ([CEL]), as far as an API server must know it
//! to accept or refuse an expression: syntax and types. Evaluation is not here.
//!
//! [`check`] reads an expression, resolves its names against an [`Env`] and finds
//! the type of its result. Its errors are worded as cel-go words them, since
//! users and tools know them from there.
//!
//! [CEL]: https://github.com/google/cel-spec

mod ast;
mod checker;
mod functions;
mod issue;
mod lexer;
mod parser;
mod regex;
mod types;

pub use issue::{Issue, Issues};
pub use types::{Object, Type};

/// What an expression may name.
#[derive(Clone, Debug, Default)]
pub struct Env {
    variables: Vec<(&'static str, Type)>,
}

impl Env {
    /// Nothing but the functions that every expression may call.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            variables: Vec::new(),
        }
    }

    /// The environment with one more variable.
    #[must_use]
    pub fn with(mut self, name: &'static str, of: Type) -> Self {
        self.variables.push((name, of));
        self
    }

    pub(crate) fn lookup(&self, name: &str) -> Option<&Type> {
        self.variables
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, of)| of)
    }
}

/// The type of an expression's result.
///
/// # Errors
/// What is wrong with the expression: its syntax, names that nothing declares,
/// operators and functions applied to types that they do not take.
pub fn check(source: &str, env: &Env) -> Result<Type, Issues> {
    let expression = parser::parse(source)?;
    checker::check(source, &expression, env)
}

/// Whether `name` can be the name of a variable.
#[must_use]
pub fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    chars.next().is_some_and(|c| word(c) && !c.is_ascii_digit())
        && chars.all(word)
        && !parser::RESERVED.contains(&name)
        && !matches!(name, "true" | "false" | "null" | "in")
}

#[cfg(test)]
mod tests;
