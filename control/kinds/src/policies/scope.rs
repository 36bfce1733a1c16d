//! Expressions of policies: compiled once, evaluated among a request's facts and
//! the policy's own variables.

use std::cell::{Cell, OnceCell, RefCell};

use control_cel::{Bindings, Budget, Entries, Error, Lazy, Program, Type, Val};
use control_types::value::Value;

use super::Facts;
use crate::rules::expressions::{self, CompileError, Names};
use crate::tree::Read;

/// An expression; a compile error is reported on evaluation.
#[derive(Debug)]
pub(super) struct Expression {
    text: Box<str>,
    program: Result<Program, CompileError>,
}

/// The reason why an expression has no value; the messages are for users.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// It does not compile.
    #[error("compilation error: {0}")]
    Compilation(CompileError),
    /// It fails.
    #[error("expression '{expression}' resulted in error: {error}")]
    Evaluation { expression: Box<str>, error: Error },
    /// All together cost more than they may: nothing else is evaluated.
    #[error("{}", Error::Budget)]
    Budget,
}

/// Variables and the expressions that make them, in the order of the policy.
#[derive(Debug, Default)]
pub(super) struct Variables(Vec<(Box<str>, Expression)>);

/// The variables that the expressions of one run may use.
#[derive(Debug)]
pub(super) struct Scope<'a> {
    variables: &'a Variables,
    /// The facts, and the variables themselves.
    bindings: OnceCell<Bindings<'a>>,
    made: RefCell<Vec<CompiledExpression<'a>>>,
    /// The cost of variables that was not charged yet.
    owed: Cell<u64>,
}

#[derive(Clone, Debug)]
enum CompiledExpression<'a> {
    Not,
    /// It is being evaluated: reading it now would be a cycle.
    Now,
    Done(Result<Val<'a>, Error>),
}

// === impl Expression ===

impl Expression {
    pub fn compile(text: &str, names: &Names, wanted: &[Type]) -> Self {
        Self {
            text: text.into(),
            program: expressions::compile(text, names, wanted),
        }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns why it does not compile.
    pub fn broken(&self) -> Option<&CompileError> {
        self.program.as_ref().err()
    }

    /// Whether it reads a variable of the environment.
    pub fn reads(&self, name: &str) -> bool {
        self.program
            .as_ref()
            .is_ok_and(|program| program.reads(name))
    }

    pub fn evaluate<'a>(
        &'a self,
        scope: &'a Scope<'a>,
        budget: &mut Budget,
    ) -> Result<Val<'a>, Failure> {
        let program = match &self.program {
            Ok(program) => program,
            Err(error) => return Err(Failure::Compilation(error.clone())),
        };
        let value = program.evaluate(scope.bindings(), budget);
        let owed = scope.owed.take();
        match budget.left.checked_sub(owed) {
            Some(left) => budget.left = left,
            None => {
                budget.left = 0;
                return Err(Failure::Budget);
            }
        }
        value.map_err(|error| match error {
            Error::Budget => Failure::Budget,
            error => Failure::Evaluation {
                expression: self.text.clone(),
                error,
            },
        })
    }
}

// === impl Variables ===

impl Variables {
    /// Compiles `spec.variables`; adds to `names` what the following expressions may use.
    pub fn compile(spec: &Value, names: &mut Names) -> Self {
        let all = spec.items("variables").iter().map(|stated| {
            let (name, text) = (stated.text("name"), stated.text("expression"));
            names.variables.get_or_insert_default();
            let made = Expression::compile(text, names, &[]);
            let of = made.program.as_ref().map(Program::type_of);
            names.declare(name, of.unwrap_or(&Type::Dyn));
            (name.into(), made)
        });
        Self(all.collect())
    }

    pub fn read(&self, name: &str) -> bool {
        self.0.iter().any(|(_, made)| made.reads(name))
    }
}

// === impl Scope ===

impl<'a> Scope<'a> {
    pub fn new(variables: &'a Variables) -> Self {
        Self {
            variables,
            bindings: OnceCell::new(),
            made: RefCell::new(vec![CompiledExpression::Not; variables.0.len()]),
            owed: Cell::new(0),
        }
    }

    /// Makes the facts known; before the first evaluation.
    pub fn open(&'a self, facts: &Facts<'a>, authorizer: bool) {
        self.bindings.get_or_init(|| {
            let mut bindings = facts.bindings(authorizer);
            bindings.set("variables", Val::Map(Entries::Lazy(self)));
            bindings
        });
    }

    fn bindings(&'a self) -> &'a Bindings<'a> {
        self.bindings.get_or_init(Bindings::new)
    }

    fn make(&'a self, name: &str, made: &'a Expression) -> Result<Val<'a>, Error> {
        let told = |what: &str, why: &str| {
            Err(Error::Failed(
                format!(
                    "composited variable {} fails to {what}: {why}",
                    crate::error::quoted(name)
                )
                .into(),
            ))
        };
        let program = match &made.program {
            Ok(program) => program,
            Err(error) => return told("compile", &error.to_string()),
        };
        let mut budget = Budget {
            call: Budget::CALL,
            left: u64::MAX,
        };
        let value = program.evaluate(self.bindings(), &mut budget);
        let cost = u64::MAX - budget.left;
        self.owed.set(self.owed.get().saturating_add(cost));
        match value {
            Ok(value) => Ok(value),
            Err(error) => told("evaluate", &error.to_string()),
        }
    }
}

impl<'a> Lazy<'a> for Scope<'a> {
    fn get(&'a self, name: &str) -> Option<Result<Val<'a>, Error>> {
        let all = &self.variables.0;
        // the last of a name counts
        let at = all.iter().rposition(|(known, _)| **known == *name)?;
        let known = self.made.borrow().get(at).cloned();
        match known {
            Some(CompiledExpression::Done(value)) => return Some(value),
            Some(CompiledExpression::Now) => {
                let why = format!("variable {} needs itself", crate::error::quoted(name));
                return Some(Err(Error::Failed(why.into())));
            }
            Some(CompiledExpression::Not) | None => {}
        }
        let set = |made: CompiledExpression<'a>| {
            if let Some(place) = self.made.borrow_mut().get_mut(at) {
                *place = made;
            }
        };
        set(CompiledExpression::Now);
        let value = self.make(name, &all[at].1);
        set(CompiledExpression::Done(value.clone()));
        Some(value)
    }
}
