//! The Common Expression Language ([CEL]) as Kubernetes 1.36 has it: syntax,
//! types, evaluation over object trees, costs and their limits. Pure.
//!
//! [`check`] reads an expression, resolves its names against an [`Env`] and finds
//! the type of its result. [`compile`] makes a [`Program`] of it, which is
//! evaluated with [`Bindings`] within a [`Budget`]. Errors are worded as cel-go
//! words them, since users and tools know them from there, and costs are the
//! same, since limits on them decide what is accepted.
//!
//! ```
//! use control_cel::{Bindings, Budget, Env, Type, Val, compile};
//! use control_types::value::Value;
//!
//! let env = Env::new().with("object", Type::Dyn);
//! let program = compile("object.spec.replicas <= 5", &env)?;
//! let object = Value::from_slice(br#"{"spec":{"replicas":3}}"#)?;
//! let bindings = Bindings::new().with("object", Val::tree(&object));
//! let verdict = program.evaluate(&bindings, &mut Budget::per_call())?;
//! assert_eq!(verdict.as_bool(), Some(true));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [CEL]: https://github.com/google/cel-spec

mod ast;
mod checker;
mod env;
mod estimate;
mod functions;
mod issue;
mod kube;
mod lexer;
mod literals;
mod names;
mod opaque;
mod parser;
mod regex;
mod run;
mod schema;
mod tables;
mod types;

pub use env::Env;
pub use estimate::{CRD_LIMIT, Estimate, RULE_LIMIT, exceeds};
pub use issue::{Issue, Issues};
pub use names::escape;
pub use opaque::authorizer::{Authorizer, Check, Decision, Question};
pub use run::{
    Bindings, Budget, ConstructedValue, Entries, Error, Key, Lazy, List, Moment, Program, Text, Val,
};
pub use schema::Schema;
pub use types::{Object, Type};

/// The type of an expression's result.
///
/// # Errors
/// What is wrong with the expression: its syntax, names that nothing declares,
/// operators and functions applied to types that they do not take.
pub fn check(source: &str, env: &Env) -> Result<Type, Issues> {
    let expression = parser::parse(source)?;
    checker::check(source, &expression, env).map(|checked| checked.of)
}

/// Checks an expression and compiles it.
///
/// # Errors
/// As [`check`]; also a constant that cannot be converted as required, which is reported
/// for the expression as a whole.
pub fn compile(source: &str, env: &Env) -> Result<Program, Issues> {
    let expression = parser::parse(source)?;
    let checked = checker::check(source, &expression, env)?;
    match run::compile::compile(&expression, env, &checked) {
        Ok(compiled) => Ok(Program::new(compiled, checked.of)),
        Err(error) => Err(Issues::new(
            source,
            vec![Issue {
                offset: None,
                message: error.to_string(),
            }],
        )),
    }
}

/// Estimates the maximum cost of an expression about values of `root`. All variables
/// (`self`, `oldSelf`) have that schema.
///
/// # Errors
/// As [`check`].
pub fn estimate(source: &str, env: &Env, root: &Schema) -> Result<Estimate, Issues> {
    let expression = parser::parse(source)?;
    let checked = checker::check(source, &expression, env)?;
    Ok(estimate::estimate(&expression, &checked, Some(root)))
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
