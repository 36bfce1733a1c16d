//! `matchConditions`: what must hold of a request for a policy or a webhook to
//! be about it.

use control_cel::{Budget, Type};
use control_types::value::Value;

use super::Facts;
use super::scope::{Expression, Scope, Variables};
use crate::rules::expressions::Names;
use crate::tree::Read;

/// Compiled conditions.
#[derive(Debug)]
pub struct Conditions {
    list: Vec<(Box<str>, Expression)>,
    ignore_failures: bool,
    authorizer: bool,
}

/// Whether conditions are met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MatchResult {
    /// All match, or there are none.
    Yes,
    /// One is not, or cannot be evaluated while failures are ignored.
    No,
    /// Some cannot be evaluated, and none says no: the request is to be refused.
    Failed(String),
}

impl Conditions {
    /// Compiles the items of `matchConditions`; an empty list always matches. `params`:
    /// whether they may use parameters. `ignore_failures`: whether the failure policy is
    /// `Ignore`.
    #[must_use]
    pub fn compile(list: &[Value], params: bool, ignore_failures: bool) -> Option<Self> {
        let names = Names {
            params,
            authorizer: true,
            ..Names::default()
        };
        Self::among(list, &names, ignore_failures)
    }

    /// As [`Self::compile`], where expressions may name more.
    pub(super) fn among(list: &[Value], names: &Names, ignore_failures: bool) -> Option<Self> {
        if list.is_empty() {
            return None;
        }
        let list: Vec<_> = list
            .iter()
            .map(|stated| {
                let text = stated.text("expression");
                let made = Expression::compile(text, names, &[Type::Bool]);
                (Box::from(stated.text("name")), made)
            })
            .collect();
        let authorizer = list.iter().any(|(_, made)| uses_authorizer(made));
        Some(Self {
            list,
            ignore_failures,
            authorizer,
        })
    }

    /// Whether an expression reads this variable, such as `request`.
    #[must_use]
    pub fn read(&self, name: &str) -> bool {
        self.list.iter().any(|(_, made)| made.reads(name))
    }

    /// Whether they are met. The namespace's object is not known to conditions.
    #[must_use]
    pub fn meet(&self, facts: &Facts<'_>) -> MatchResult {
        self.meet_with(facts, &Variables::default())
    }

    pub(super) fn meet_with(&self, facts: &Facts<'_>, variables: &Variables) -> MatchResult {
        let facts = Facts {
            namespace: None,
            ..*facts
        };
        let scope = Scope::new(variables);
        scope.open(&facts, self.authorizer || variables.read("authorizer"));
        let mut budget = Budget::new(Budget::MATCH_CONDITIONS);
        let mut failed: Vec<String> = Vec::new();
        for (_, made) in &self.list {
            match made.evaluate(&scope, &mut budget) {
                Ok(value) if value.as_bool() == Some(false) => return MatchResult::No,
                Ok(_) => {}
                Err(failure @ super::scope::Failure::Budget) => {
                    failed = vec![failure.to_string()];
                    break;
                }
                Err(failure) => {
                    let why = failure.to_string();
                    if !failed.contains(&why) {
                        failed.push(why);
                    }
                }
            }
        }
        match failed.as_slice() {
            [] => MatchResult::Yes,
            _ if self.ignore_failures => MatchResult::No,
            [one] => MatchResult::Failed(one.clone()),
            all => MatchResult::Failed(format!("[{}]", all.join(", "))),
        }
    }
}

/// Whether an expression asks the authorizer.
pub(super) fn uses_authorizer(made: &Expression) -> bool {
    made.reads("authorizer") || made.reads("authorizer.requestResource")
}
