//! `MutatingAdmissionPolicy`: computes mutations of an object.

use control_cel::{Budget, List, Type, Val};
use control_types::value::{Map, Value};

use super::Facts;
use super::common::PolicyPreamble;
use super::conditions::{MatchResult, uses_authorizer};
use super::scope::{Expression, Failure, Scope};
use crate::rules::expressions::CompileError;
use crate::tree::Read;

/// A compiled policy.
#[derive(Debug)]
pub struct MutatingPolicy {
    common: PolicyPreamble,
    mutations: Vec<AppliedMutation>,
    authorizer: bool,
}

#[derive(Debug)]
struct AppliedMutation {
    applied: bool,
    made: Expression,
}

/// Error of a mutation that has no result; the message is for users.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct MutationError(#[from] MutationFault);

#[derive(Debug, thiserror::Error)]
enum MutationFault {
    #[error(transparent)]
    Compilation(CompileError),
    #[error(transparent)]
    Evaluation(Failure),
    /// Types are not named like the fields that contain them.
    #[error("type mismatch: {}", .0.join("\n"))]
    Misnamed(Vec<String>),
    /// The configuration to apply has this type.
    #[error("unsupported return type from ApplyConfiguration expression: {0}")]
    NoObject(String),
    #[error("invalid return type: the object holds what is no JSON")]
    NoJson,
    #[error("type mismatch: JSONPatchType.expression should evaluate to array")]
    NoArray,
    #[error("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch")]
    NoOperation,
    /// The value of an operation has this type.
    #[error("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {0}")]
    Unmarshalable(String),
}

/// The result of a mutation.
#[derive(Clone, Debug, PartialEq)]
pub enum Mutation {
    /// These fields, to be merged into the object as an apply does.
    Apply(Value),
    /// The operations of a JSON patch.
    Patch(Value),
}

impl MutatingPolicy {
    /// Compiles the `spec` of a policy. Parts that do not compile fail on evaluation.
    #[must_use]
    pub fn compile(spec: &Value) -> Self {
        let (common, mut names) = PolicyPreamble::compile(spec);
        names.patches = true;
        let mutations: Vec<AppliedMutation> = spec
            .items("mutations")
            .iter()
            .map(|stated| {
                let applied = stated.text("patchType") == "ApplyConfiguration";
                let (field, wanted) = if applied {
                    ("applyConfiguration", Type::made("Object"))
                } else {
                    ("jsonPatch", Type::list(Type::made("JSONPatch")))
                };
                let text = stated.at(field).text("expression");
                AppliedMutation {
                    applied,
                    made: Expression::compile(text, &names, &[wanted]),
                }
            })
            .collect();
        let authorizer =
            common.uses_authorizer() || mutations.iter().any(|one| uses_authorizer(&one.made));
        Self {
            common,
            mutations,
            authorizer,
        }
    }

    /// Whether an expression reads this variable, such as `request`.
    #[must_use]
    pub fn reads(&self, name: &str) -> bool {
        self.common.read(name) || self.mutations.iter().any(|one| one.made.reads(name))
    }

    /// Whether the policy is about the request.
    #[must_use]
    pub fn concerns(&self, facts: &Facts<'_>) -> MatchResult {
        self.common.concerns(facts)
    }

    /// How many mutations there are; they are done in order.
    #[must_use]
    pub fn len(&self) -> usize {
        self.mutations.len()
    }

    /// Returns whether there are no mutations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.mutations.is_empty()
    }

    /// Evaluates the mutation with this number.
    ///
    /// # Errors
    /// When an expression does not compile, fails, or is of no use.
    pub fn mutate(&self, number: usize, facts: &Facts<'_>) -> Result<Mutation, MutationError> {
        let Some(change) = self.mutations.get(number) else {
            return Ok(Mutation::Patch(Value::Array(Vec::new())));
        };
        if let Some(error) = change.made.broken() {
            return Err(MutationFault::Compilation(error.clone()).into());
        }
        let scope = Scope::new(&self.common.variables);
        scope.open(facts, self.authorizer);
        let mut budget = Budget::new(Budget::OBJECT);
        let value = change
            .made
            .evaluate(&scope, &mut budget)
            .map_err(MutationFault::Evaluation)?;
        Ok(if change.applied {
            Mutation::Apply(applied(&value)?)
        } else {
            Mutation::Patch(patch(&value)?)
        })
    }
}

/// Checks that an object's types are named like the fields that contain them.
fn named(value: &Val<'_>) -> Result<(), MutationFault> {
    let Val::Object(made) = value else {
        return Ok(());
    };
    let wrong = made.misnamed();
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(MutationFault::Misnamed(wrong))
    }
}

fn applied(value: &Val<'_>) -> Result<Value, MutationFault> {
    if !matches!(value, Val::Object(_)) {
        return Err(MutationFault::NoObject(value.type_name().to_owned()));
    }
    named(value)?;
    value.to_value().ok_or(MutationFault::NoJson)
}

fn patch(value: &Val<'_>) -> Result<Value, MutationFault> {
    let Val::List(List::Own(items)) = value else {
        return Err(MutationFault::NoArray);
    };
    let mut all = Vec::with_capacity(items.len());
    for item in items.iter() {
        let Val::Object(made) = item else {
            return Err(MutationFault::NoOperation);
        };
        let mut operation = Map::new();
        let text = |name: &str| made.get(name).and_then(Val::as_str).unwrap_or("");
        operation.insert("op", Value::from(text("op")));
        operation.insert("path", Value::from(text("path")));
        if !text("from").is_empty() {
            operation.insert("from", Value::from(text("from")));
        }
        if let Some(value) = made.get("value") {
            named(value)?;
            let value = value
                .to_value()
                .ok_or_else(|| MutationFault::Unmarshalable(value.type_name().to_owned()))?;
            operation.insert("value", value);
        }
        all.push(Value::Object(operation));
    }
    Ok(Value::Array(all))
}
