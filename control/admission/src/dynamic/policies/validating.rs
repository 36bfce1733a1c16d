//! What validating policies say of a request, and what follows from it.

use std::sync::Arc;

use control_kinds::policies::{
    Annotation, Cause as Why, Facts, Finding, Note, Question, ValidatingPolicy,
};
use control_types::status::{Cause, Status};
use control_types::value;
use control_types::value::Value;

use super::choice::{Choice, choose};
use super::hooks::{Action, Binding, BoundPolicy, Policy};
use super::{UserAuthorizer, forbidden, namespace_object, params, question, request};
use crate::attributes::Attributes;
use control_strategy::ServedVersion;

/// The longest text of an annotation, in bytes.
const LONGEST: usize = 10 * 1024;
/// What the audit log is told of failed validations.
const FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";

/// Why a request is denied: the first reason is told.
struct Denial {
    message: String,
    reason: String,
}

/// What one policy is asked with, for all its bindings.
struct ValidationRound<'a> {
    attributes: &'a Attributes<'a>,
    policy: &'a Policy<ValidatingPolicy>,
    object: Option<&'a Value>,
    old: Option<&'a Value>,
    request: &'a Value,
    namespace: Option<&'a Value>,
    asked: &'a UserAuthorizer<'a>,
    resource: &'a Question,
}

/// Asks all policies that are about a request.
///
/// # Errors
/// What the first of them that denies says.
pub(super) async fn run(
    hooks: &[BoundPolicy<ValidatingPolicy>],
    attributes: &Attributes<'_>,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<(), Status> {
    let asked = UserAuthorizer::new(attributes);
    let resource = question(attributes);
    let mut denied: Option<Denial> = None;
    let mut namespace = None;
    for hook in hooks {
        let policy = &*hook.policy;
        let fail = |binding: Option<&Binding>, why: &str| {
            if !policy.ignore_failures && denied.is_none() {
                denied = Some(Denial::of_configuration(policy, binding, why));
            }
        };
        let choice = choose(hook, attributes, object, old, fail);
        let Some(Choice {
            matched,
            bindings: chosen,
        }) = choice
        else {
            continue;
        };
        if chosen.iter().all(|(_, found)| found.is_empty()) {
            continue;
        }
        if policy.reads_namespace && namespace.is_none() {
            namespace = Some(namespace_object(attributes)?);
        }
        let (mut new_here, mut old_here) = (None, None);
        if matched.api_version != attributes.served.api_version {
            new_here = converted(object, attributes, &matched).await?;
            old_here = converted(old, attributes, &matched).await?;
        }
        let request = if policy.reads_request {
            request(attributes, &matched)
        } else {
            Value::Null
        };
        let asking = ValidationRound {
            attributes,
            policy,
            object: new_here.as_ref().or(object),
            old: old_here.as_ref().or(old),
            request: &request,
            namespace: namespace.as_ref().and_then(Option::as_ref),
            asked: &asked,
            resource: &resource,
        };
        let denial = asking.all(&chosen);
        denied = denied.or(denial);
    }
    denied.map_or(Ok(()), |denial| Err(denial.status(attributes, object)))
}

/// An object in the version in which a policy matched it.
async fn converted(
    object: Option<&Value>,
    attributes: &Attributes<'_>,
    matched: &Arc<ServedVersion>,
) -> Result<Option<Value>, Status> {
    let Some(object) = object else {
        return Ok(None);
    };
    let mut object = object.clone();
    let cluster = attributes.cluster;
    cluster
        .convert(&mut object, attributes.served, matched)
        .await?;
    Ok(Some(object))
}

impl ValidationRound<'_> {
    /// Asks for each binding with each of its parameters. Answers the first denial.
    fn all(&self, chosen: &[(&Binding, params::Params)]) -> Option<Denial> {
        let mut denied = None;
        let mut notes: Vec<(String, Vec<String>)> = Vec::new();
        for (binding, found) in chosen {
            for params in found {
                let verdict = self.policy.compiled.decide(&Facts {
                    object: self.object,
                    old: self.old,
                    request: self.request,
                    namespace: self.namespace,
                    params: params.as_deref(),
                    authorizer: Some((self.asked, self.resource)),
                });
                for finding in &verdict.findings {
                    let denial = self.follow(binding, finding);
                    denied = denied.or(denial);
                }
                for annotation in verdict.annotations {
                    let denial = self.note(binding, annotation, &mut notes);
                    denied = denied.or(denial);
                }
            }
        }
        for (key, texts) in notes {
            let key = format!("{}/{key}", self.policy.name);
            self.attributes.context.annotate(key, texts.join(", "));
        }
        denied
    }

    /// Does what a binding wants to be done with a finding.
    fn follow(&self, binding: &Binding, finding: &Finding) -> Option<Denial> {
        let context = self.attributes.context;
        let count = |action: &'static str| {
            let metrics = self.attributes.metrics;
            metrics.validating_policy(
                &self.policy.name,
                &binding.name,
                finding.cause.metric(),
                action,
                finding.elapsed,
            );
        };
        if !finding.denies {
            count("allow");
            return None;
        }
        let mut denied = None;
        for action in &binding.actions {
            match action {
                Action::Deny => {
                    denied.get_or_insert_with(|| {
                        Denial::of(self.policy, binding, &finding.message, &finding.reason)
                    });
                    count("deny");
                }
                Action::Audit => {
                    let entry = value!([{
                        "message": (finding.message.as_str()),
                        "policy": (binding.policy.as_str()),
                        "binding": (binding.name.as_str()),
                        "expressionIndex": (i64::try_from(finding.index).unwrap_or(i64::MAX)),
                        "validationActions": (binding.validation_actions.clone())
                    }]);
                    context.annotate(FAILURE, entry.to_string());
                    count("audit");
                }
                Action::Warn => {
                    context.warnings.extend([format!(
                        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                        self.policy.name, binding.name, finding.message
                    )]);
                    count("warn");
                }
            }
        }
        denied
    }

    /// Gathers what the audit log is told; the same is told once.
    fn note(
        &self,
        binding: &Binding,
        annotation: Annotation,
        notes: &mut Vec<(String, Vec<String>)>,
    ) -> Option<Denial> {
        let mut text = match annotation.note {
            Note::Text(text) => text,
            Note::Failed(why) => {
                let metrics = self.attributes.metrics;
                metrics.validating_policy(
                    &self.policy.name,
                    &binding.name,
                    Why::of_failure(&why).metric(),
                    "deny",
                    annotation.elapsed,
                );
                return Some(Denial::of(self.policy, binding, &why, ""));
            }
        };
        if text.len() > LONGEST {
            let mut end = LONGEST;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
        }
        match notes.iter_mut().find(|(key, _)| *key == annotation.key) {
            Some((_, texts)) if texts.contains(&text) => {}
            Some((_, texts)) => texts.push(text),
            None => notes.push((annotation.key, vec![text])),
        }
        None
    }
}

impl Denial {
    fn of(
        policy: &Policy<ValidatingPolicy>,
        binding: &Binding,
        message: &str,
        reason: &str,
    ) -> Self {
        Self {
            message: format!(
                "ValidatingAdmissionPolicy '{}' with binding '{}' denied request: {message}",
                policy.name, binding.name
            ),
            reason: reason.to_owned(),
        }
    }

    /// A policy or a binding cannot be asked.
    fn of_configuration(
        policy: &Policy<ValidatingPolicy>,
        binding: Option<&Binding>,
        why: &str,
    ) -> Self {
        match binding {
            Some(binding) => {
                let why = format!("failed to configure binding: {why}");
                Self::of(policy, binding, &why, "")
            }
            None => Self {
                message: format!(
                    "ValidatingAdmissionPolicy '{}' denied request: failed to configure policy: {why}",
                    policy.name
                ),
                reason: String::new(),
            },
        }
    }

    fn status(self, attributes: &Attributes<'_>, object: Option<&Value>) -> Status {
        let mut status = forbidden(attributes, object, &self.message);
        let (code, reason) = match self.reason.as_str() {
            "Forbidden" => (403, "Forbidden"),
            "Unauthorized" => (401, "Unauthorized"),
            "RequestEntityTooLarge" => (413, "RequestEntityTooLarge"),
            _ => (422, "Invalid"),
        };
        (status.code, status.reason) = (code, reason.into());
        if let Some(details) = &mut status.details {
            details.causes.push(Cause {
                reason: String::new(),
                message: self.message,
                field: String::new(),
            });
        }
        status
    }
}
