//! The callers' types: compiled expressions, values for their variables, budgets.

use super::compile::CompiledNode;
use super::error::Error;
use super::eval::Machine;
use super::meter::Meter;
use super::node::Node;
use super::value::Val;
use crate::types::Type;

/// An expression that can be evaluated. May be shared between threads.
#[derive(Debug)]
pub struct Program {
    root: Node,
    variables: Vec<String>,
    of: Type,
}

/// The cost limits of evaluations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The limit of one evaluation.
    pub call: u64,
    /// The remaining budget of all evaluations together; each consumes its cost.
    pub left: u64,
}

/// The values of variables.
#[derive(Clone, Debug, Default)]
pub struct Bindings<'a> {
    values: Vec<(&'a str, Val<'a>)>,
}

impl Budget {
    /// The limit of one evaluation: about a tenth of a second.
    pub const CALL: u64 = 1_000_000;
    /// The limit of the rules of a policy or of a custom resource together.
    pub const OBJECT: u64 = 10_000_000;
    /// The limit of the match conditions of a webhook or policy together.
    pub const MATCH_CONDITIONS: u64 = 2_500_000;

    /// A budget for many evaluations of which none costs more than [`Self::CALL`].
    #[must_use]
    pub const fn new(left: u64) -> Self {
        Self {
            call: Self::CALL,
            left,
        }
    }

    /// A budget for one evaluation.
    #[must_use]
    pub const fn per_call() -> Self {
        Self::new(Self::CALL)
    }
}

impl<'a> Bindings<'a> {
    /// No variables.
    #[must_use]
    pub const fn new() -> Self {
        Self { values: Vec::new() }
    }

    /// One more variable.
    #[must_use]
    pub fn with(mut self, name: &'a str, value: Val<'a>) -> Self {
        self.set(name, value);
        self
    }

    /// Sets a variable.
    pub fn set(&mut self, name: &'a str, value: Val<'a>) {
        match self.values.iter_mut().find(|(known, _)| *known == name) {
            Some((_, place)) => *place = value,
            None => self.values.push((name, value)),
        }
    }

    /// The value of a variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Val<'a>> {
        if let Some((_, value)) = self.values.iter().find(|(known, _)| *known == name) {
            return Some(value.clone());
        }
        // `authorizer.requestResource` is a variable with a dot
        let (first, field) = name.split_once('.')?;
        match self.get(first)? {
            Val::Check(check) => check.field(field),
            _ => None,
        }
    }
}

impl Program {
    pub(crate) fn new(compiled: CompiledNode, of: Type) -> Self {
        Self {
            root: compiled.root,
            variables: compiled.variables,
            of,
        }
    }

    /// The type of the result.
    #[must_use]
    pub const fn type_of(&self) -> &Type {
        &self.of
    }

    /// The variables that the expression reads, each once. Those that it does
    /// not read need not be bound.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(String::as_str)
    }

    /// Whether the expression reads the variable `name`, such as `oldSelf`.
    #[must_use]
    pub fn reads(&self, name: &str) -> bool {
        self.variables.iter().any(|known| known == name)
    }

    /// Evaluates the expression.
    ///
    /// # Errors
    /// A failure of the expression, or [`Error::CostLimit`] and [`Error::Budget`] if it
    /// exceeds its limits. The cost is always charged to the budget.
    pub fn evaluate<'a>(
        &'a self,
        bindings: &Bindings<'a>,
        budget: &mut Budget,
    ) -> Result<Val<'a>, Error> {
        let values: smallvec::SmallVec<[Option<Val<'a>>; 6]> = self
            .variables
            .iter()
            .map(|name| bindings.get(name))
            .collect();
        let mut machine = Machine {
            variables: &values,
            names: &self.variables,
            slots: Vec::new(),
            meter: Meter::new(budget.call),
        };
        let result = machine.eval(&self.root);
        let cost = machine.meter.cost;
        match budget.left.checked_sub(cost) {
            Some(left) => {
                budget.left = left;
                result
            }
            None => {
                budget.left = 0;
                match result {
                    // the limit of the call is reported rather than that of all
                    Err(error) if error.is_final() => Err(error),
                    _ => Err(Error::Budget),
                }
            }
        }
    }
}

const _: () = {
    const fn shareable<T: Send + Sync>() {}
    shareable::<Program>();
};
