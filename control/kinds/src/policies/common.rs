//! Parts that policies of both kinds share.

use control_types::value::Value;

use super::Facts;
use super::conditions::{Conditions, MatchResult};
use super::scope::Variables;
use crate::rules::expressions::Names;
use crate::tree::Read;

/// The parts of a policy before its own expressions.
#[derive(Debug)]
pub struct PolicyPreamble {
    conditions: Option<Conditions>,
    pub variables: Variables,
    /// Whether the failure policy is `Ignore`.
    pub ignore_failures: bool,
}

impl PolicyPreamble {
    /// Compiles them, and returns the names that the following expressions may use.
    pub fn compile(spec: &Value) -> (Self, Names) {
        let ignore_failures = spec.text("failurePolicy") == "Ignore";
        let mut names = Names {
            params: spec.has("paramKind"),
            authorizer: true,
            // here there are always variables
            variables: Some(Vec::new()),
            ..Names::default()
        };
        let variables = Variables::compile(spec, &mut names);
        let conditions = Conditions::among(spec.items("matchConditions"), &names, ignore_failures);
        let common = Self {
            conditions,
            variables,
            ignore_failures,
        };
        (common, names)
    }

    /// Whether an expression in it reads this variable.
    pub fn read(&self, name: &str) -> bool {
        self.variables.read(name) || self.conditions.as_ref().is_some_and(|all| all.read(name))
    }

    /// Whether a variable asks the authorizer.
    pub fn uses_authorizer(&self) -> bool {
        self.variables.read("authorizer") || self.variables.read("authorizer.requestResource")
    }

    /// Whether the policy is about the request.
    pub fn concerns(&self, facts: &Facts<'_>) -> MatchResult {
        self.conditions.as_ref().map_or(MatchResult::Yes, |all| {
            all.meet_with(facts, &self.variables)
        })
    }
}
