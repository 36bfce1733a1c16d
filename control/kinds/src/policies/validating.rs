//! `ValidatingAdmissionPolicy`: evaluates requests.

use std::time::{Duration, Instant};

use control_cel::{Budget, Type, Val};
use control_types::value::Value;

use super::Facts;
use super::common::PolicyPreamble;
use super::conditions::{MatchResult, uses_authorizer};
use super::scope::{Expression, Failure, Scope};
use crate::rules::expressions::Names;
use crate::tree::Read;

/// The longest message that an expression may make, in bytes.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// A compiled policy.
#[derive(Debug)]
pub struct ValidatingPolicy {
    common: PolicyPreamble,
    validations: Vec<Validation>,
    annotations: Vec<(Box<str>, Expression)>,
    authorizer: bool,
}

#[derive(Debug)]
struct Validation {
    rule: Expression,
    message: Box<str>,
    message_expression: Option<Expression>,
    reason: Box<str>,
}

/// The result of a policy. Successful validations leave no trace.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Validations that failed, or could not be evaluated.
    pub findings: Vec<Finding>,
    /// Annotations for the audit log.
    pub annotations: Vec<Annotation>,
}

/// The reason of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The validation says no.
    Refused,
    /// An expression does not compile.
    Compilation,
    /// The budget was spent.
    Budget,
    /// An expression failed.
    Failure,
}

/// A validation that does not hold, or could not be evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The index of the validation; 0 if the finding concerns all.
    pub index: usize,
    /// The reason.
    pub cause: Cause,
    /// Whether the request is to be denied; else the failure is ignored.
    pub denies: bool,
    /// The message for users.
    pub message: String,
    /// The reason of the answer; empty: the usual one.
    pub reason: String,
    /// How long the evaluation took.
    pub elapsed: Duration,
}

/// An audit annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// Its key, without the policy's name.
    pub key: String,
    /// The outcome.
    pub note: Note,
    /// How long the evaluation took.
    pub elapsed: Duration,
}

/// The outcome of an audit annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Its text.
    Text(String),
    /// It failed, and the request is denied for that.
    Failed(String),
}

impl Cause {
    /// The cause of a failure by its text, as metrics tell it.
    #[must_use]
    pub fn of_failure(message: &str) -> Self {
        if message.starts_with("compilation") {
            Self::Compilation
        } else if message.starts_with("validation failed due to running out of cost budget") {
            Self::Budget
        } else {
            Self::Failure
        }
    }

    /// Returns its name in metrics. Rejections count as errors there, too.
    #[must_use]
    pub fn metric(self) -> &'static str {
        match self {
            Self::Refused | Self::Failure => "invalid_error",
            Self::Compilation => "compile_error",
            Self::Budget => "out_of_budget",
        }
    }
}

impl ValidatingPolicy {
    /// Compiles the `spec` of a policy. Parts that do not compile fail on evaluation.
    #[must_use]
    pub fn compile(spec: &Value) -> Self {
        let (common, names) = PolicyPreamble::compile(spec);
        let telling = Names {
            authorizer: false,
            ..names.clone()
        };
        let validations: Vec<Validation> = spec
            .items("validations")
            .iter()
            .map(|stated| {
                let message = stated.text("messageExpression");
                Validation {
                    rule: Expression::compile(stated.text("expression"), &names, &[Type::Bool]),
                    message: stated.text("message").trim().into(),
                    message_expression: (!message.is_empty())
                        .then(|| Expression::compile(message, &telling, &[Type::String])),
                    reason: stated.text("reason").into(),
                }
            })
            .collect();
        let wanted = [Type::String, Type::Null];
        let annotations: Vec<_> = spec
            .items("auditAnnotations")
            .iter()
            .map(|stated| {
                let text = stated.text("valueExpression");
                let made = Expression::compile(text, &names, &wanted);
                (Box::from(stated.text("key")), made)
            })
            .collect();
        let authorizer =
            common.uses_authorizer() || validations.iter().any(|one| uses_authorizer(&one.rule));
        Self {
            common,
            validations,
            annotations,
            authorizer,
        }
    }

    /// Whether an expression reads this variable, such as `request`.
    #[must_use]
    pub fn reads(&self, name: &str) -> bool {
        self.common.read(name)
            || self.validations.iter().any(|one| {
                one.rule.reads(name)
                    || one
                        .message_expression
                        .as_ref()
                        .is_some_and(|made| made.reads(name))
            })
            || self.annotations.iter().any(|(_, made)| made.reads(name))
    }

    /// Evaluates the policy on a request.
    #[must_use]
    pub fn decide(&self, facts: &Facts<'_>) -> Verdict {
        match self.common.concerns(facts) {
            MatchResult::Yes => {}
            MatchResult::No => return Verdict::default(),
            MatchResult::Failed(why) => return self.failed(why),
        }
        let mut verdict = Verdict::default();
        if let Err(failure) = self.validate(facts, &mut verdict.findings) {
            return self.failed(failure.to_string());
        }
        if !self.annotations.is_empty()
            && let Err(failure) = self.annotate(facts, &mut verdict.annotations)
        {
            return self.failed(failure.to_string());
        }
        verdict
    }

    /// Returns the verdict that the policy as a whole failed.
    fn failed(&self, why: String) -> Verdict {
        let finding = self.failure(0, why, Duration::ZERO);
        Verdict {
            findings: vec![finding],
            annotations: Vec::new(),
        }
    }

    fn failure(&self, index: usize, message: String, elapsed: Duration) -> Finding {
        Finding {
            index,
            cause: Cause::of_failure(&message),
            denies: !self.common.ignore_failures,
            message,
            reason: String::new(),
            elapsed,
        }
    }

    fn validate(&self, facts: &Facts<'_>, findings: &mut Vec<Finding>) -> Result<(), Failure> {
        let scope = Scope::new(&self.common.variables);
        scope.open(facts, self.authorizer);
        let mut budget = Budget::new(Budget::OBJECT);
        let mut refused: Vec<(usize, Duration)> = Vec::new();
        for (index, validation) in self.validations.iter().enumerate() {
            let began = Instant::now();
            match validation.rule.evaluate(&scope, &mut budget) {
                Ok(value) if value.as_bool() == Some(true) => {}
                Ok(_) => refused.push((index, began.elapsed())),
                Err(Failure::Budget) => return Err(Failure::Budget),
                Err(failure) => {
                    findings.push(self.failure(index, failure.to_string(), began.elapsed()));
                }
            }
        }
        if refused.is_empty() {
            return Ok(());
        }
        // Messages are made of the same facts, but without the authorizer.
        let scope = Scope::new(&self.common.variables);
        scope.open(facts, false);
        for (index, elapsed) in refused {
            let Some(validation) = self.validations.get(index) else {
                continue;
            };
            let made = validation
                .message_expression
                .as_ref()
                .map(|made| made.evaluate(&scope, &mut budget));
            let finding = match made {
                Some(Err(Failure::Budget)) => {
                    let why = format!("failed messageExpression: {}", Failure::Budget);
                    self.failure(index, why, elapsed)
                }
                made => Finding {
                    index,
                    cause: Cause::Refused,
                    denies: true,
                    message: validation.message(made.and_then(Result::ok).as_ref()),
                    reason: validation.reason.to_string(),
                    elapsed,
                },
            };
            findings.push(finding);
        }
        findings.sort_by_key(|finding| finding.index);
        Ok(())
    }

    fn annotate(&self, facts: &Facts<'_>, notes: &mut Vec<Annotation>) -> Result<(), Failure> {
        let scope = Scope::new(&self.common.variables);
        scope.open(facts, false);
        let mut budget = Budget::new(Budget::OBJECT);
        for (key, made) in &self.annotations {
            let began = Instant::now();
            let note = match made.evaluate(&scope, &mut budget) {
                Ok(Val::Text(text)) => match text.trim() {
                    "" => continue,
                    text => Note::Text(text.to_owned()),
                },
                Ok(Val::Null) => continue,
                Ok(other) => Note::Failed(format!(
                    "valueExpression '{}' resulted in unsupported return type: {}. Return type must be either string or null.",
                    made.text(),
                    other.type_name()
                )),
                Err(Failure::Budget) => return Err(Failure::Budget),
                Err(_) if self.common.ignore_failures => continue,
                Err(failure) => Note::Failed(failure.to_string()),
            };
            notes.push(Annotation {
                key: key.to_string(),
                note,
                elapsed: began.elapsed(),
            });
        }
        Ok(())
    }
}

impl Validation {
    /// Returns the message for users: the result of the expression, else the text, else
    /// the rule.
    fn message(&self, made: Option<&Val<'_>>) -> String {
        let made = made
            .and_then(Val::as_str)
            .map(str::trim)
            .filter(|text| !text.is_empty())
            .filter(|text| text.len() <= LONGEST_MESSAGE && !text.contains('\n'));
        match made {
            Some(text) => text.to_owned(),
            None if !self.message.is_empty() => self.message.to_string(),
            None => format!("failed expression: {}", self.rule.text().trim()),
        }
    }
}
