//! What mutating policies make of an object.
//!
//! Policies are asked in the order of their names, each with every matching binding
//! and parameter, each seeing what those before it made. One that is to be
//! reinvoked sees the object once more when others changed it behind it.

use std::sync::Arc;
use std::time::Instant;

use control_fields::typed::{self, Duplicates};
use control_kinds::policies::{
    Cause as Why, Facts, MatchResult, MutatingPolicy, Mutation, Question,
};
use control_types::status::{Cause, Status, quote};
use control_types::value::Value;
use control_types::{error_chain, json_patch, meta};

use super::choice::{Choice, choose};
use super::hooks::{Binding, BoundPolicy, Policy};
use super::{UserAuthorizer, forbidden, namespace_object, question, request};
use crate::attributes::Attributes;
use crate::dynamic::rounds::{InvocationKey, Rounds};
use crate::operation::Operation;
use control_strategy::ServedVersion;
use control_strategy::decode::ExpectedKind;

/// Why an object is not changed as a policy wants it.
enum MutationFailure {
    /// The policy fails; what becomes of it is its own choice.
    Policy(String),
    /// The request fails.
    Request(Status),
}

/// One question to one policy.
struct Invocation<'a> {
    policy: &'a Policy<MutatingPolicy>,
    binding: &'a Binding,
    params: Option<Arc<Value>>,
    matched: Arc<ServedVersion>,
}

/// What all questions of a request share.
struct MutationRound<'a> {
    attributes: &'a Attributes<'a>,
    old: Option<&'a Value>,
    namespace: Option<Value>,
    asked: UserAuthorizer<'a>,
    resource: Question,
}

/// Asks all policies that are about a request.
///
/// # Errors
/// What they refuse, and what fails in those that must not fail.
pub(super) async fn run(
    hooks: &[BoundPolicy<MutatingPolicy>],
    attributes: &Attributes<'_>,
    object: Option<&mut Value>,
    old: Option<&Value>,
    rounds: &mut Rounds,
) -> Result<(), Status> {
    if attributes.operation == Operation::Delete {
        return Ok(());
    }
    let mut errors: Vec<String> = Vec::new();
    let invocations = select(hooks, attributes, object.as_deref(), old, &mut errors);
    let mut object = object;
    if !invocations.is_empty() {
        let reads = invocations.iter().any(|one| one.policy.reads_namespace);
        let asking = MutationRound {
            attributes,
            old,
            namespace: if reads {
                namespace_object(attributes)?
            } else {
                None
            },
            asked: UserAuthorizer::new(attributes),
            resource: question(attributes),
        };
        if let Some(object) = object.as_deref_mut() {
            asking
                .all(&invocations, object, rounds, &mut errors)
                .await?;
        }
    }
    match errors.first() {
        None => Ok(()),
        Some(first) => {
            let mut status = forbidden(attributes, object.as_deref(), "");
            status.message.clone_from(first);
            if let Some(details) = &mut status.details {
                details.causes.extend(errors.iter().map(|message| Cause {
                    reason: String::new(),
                    message: message.clone(),
                    field: String::new(),
                }));
            }
            // What is configured wrongly is forbidden, what fails is invalid.
            if !first.contains("failed to configure ") {
                status.reason = "Invalid".into();
            }
            Err(status)
        }
    }
}

fn refusal(policy: &Policy<MutatingPolicy>, binding: Option<&Binding>, why: &str) -> String {
    match binding {
        Some(binding) => format!(
            "policy '{}' with binding '{}' denied request: {why}",
            policy.name, binding.name
        ),
        None => format!("policy {} denied request: {why}", quote(&policy.name)),
    }
}

/// What is to be asked; what is configured wrongly goes to `errors`.
fn select<'a>(
    hooks: &'a [BoundPolicy<MutatingPolicy>],
    attributes: &Attributes<'_>,
    object: Option<&Value>,
    old: Option<&Value>,
    errors: &mut Vec<String>,
) -> Vec<Invocation<'a>> {
    let mut all = Vec::new();
    for hook in hooks {
        let policy = &*hook.policy;
        let fail = |binding: Option<&Binding>, why: &str| {
            if !policy.ignore_failures {
                let what = if binding.is_some() {
                    "binding"
                } else {
                    "policy"
                };
                let why = format!("failed to configure {what}: {why}");
                errors.push(refusal(policy, binding, &why));
            }
        };
        let Some(Choice { matched, bindings }) = choose(hook, attributes, object, old, fail) else {
            continue;
        };
        for (binding, found) in bindings {
            all.extend(found.into_iter().map(|params| Invocation {
                policy,
                binding,
                params,
                matched: Arc::clone(&matched),
            }));
        }
    }
    all
}

impl Invocation<'_> {
    fn key(&self) -> InvocationKey {
        let params = self.params.as_deref().map_or_else(String::new, |params| {
            format!("{}/{}", meta::namespace(params), meta::name(params))
        });
        (self.policy.name.clone(), self.binding.name.clone(), params)
    }
}

impl MutationRound<'_> {
    async fn all(
        &self,
        invocations: &[Invocation<'_>],
        object: &mut Value,
        rounds: &mut Rounds,
        errors: &mut Vec<String>,
    ) -> Result<(), Status> {
        let second = rounds.is_reinvocation();
        if second && rounds.policies.left.as_ref() != Some(object) {
            rounds.policies.repeat();
        }
        let mut touched = false;
        let cluster = self.attributes.cluster;
        for invocation in invocations {
            let policy = invocation.policy;
            let served = self.attributes.served;
            let elsewhere = invocation.matched.api_version != served.api_version;
            if elsewhere {
                cluster.convert(object, served, &invocation.matched).await?;
            }
            let result = self.one(invocation, object, rounds, second, errors);
            if elsewhere {
                cluster.convert(object, &invocation.matched, served).await?;
            }
            match result? {
                None => {}
                Some(changed) => {
                    touched = true;
                    if changed {
                        rounds.policies.repeat();
                        rounds.ask_again();
                    }
                    if policy.reinvoked {
                        rounds.policies.invoked.push(invocation.key());
                    }
                }
            }
        }
        if touched {
            rounds.policies.repeat();
            rounds.ask_again();
        }
        if !rounds.policies.again.is_empty() {
            rounds.policies.left = Some(object.clone());
        }
        Ok(())
    }

    /// Asks one policy. Answers whether it changed the object; nothing when it is
    /// not about it.
    fn one(
        &self,
        invocation: &Invocation<'_>,
        object: &mut Value,
        rounds: &Rounds,
        second: bool,
        errors: &mut Vec<String>,
    ) -> Result<Option<bool>, Status> {
        let policy = invocation.policy;
        let matched = &*invocation.matched;
        let request = if policy.reads_request {
            request(self.attributes, matched)
        } else {
            Value::Null
        };
        let mut fail = |why: &str| {
            if !policy.ignore_failures {
                errors.push(refusal(policy, Some(invocation.binding), why));
            }
        };
        let params = invocation.params.as_deref();
        match policy
            .compiled
            .concerns(&self.facts(object, &request, params))
        {
            MatchResult::Yes => {}
            MatchResult::No => return Ok(None),
            MatchResult::Failed(why) => {
                fail(&why);
                return Ok(None);
            }
        }
        if second && !rounds.policies.again.contains(&invocation.key()) {
            return Ok(None);
        }
        let mut changed = false;
        let mut done = false;
        for number in 0..policy.compiled.len() {
            let began = Instant::now();
            let made = policy
                .compiled
                .mutate(number, &self.facts(object, &request, params))
                .map_err(|error| MutationFailure::Policy(error.to_string()))
                .and_then(|mutation| self.changed(object, mutation, matched));
            let count = |error: &str| {
                let metrics = self.attributes.metrics;
                let (policy, binding) = (&policy.name, &invocation.binding.name);
                metrics.mutating_policy(policy, binding, error, began.elapsed());
            };
            match made {
                Ok(made) => {
                    count("no_error");
                    done = true;
                    changed |= made != *object;
                    *object = made;
                }
                Err(MutationFailure::Request(status)) => {
                    count("invalid_error");
                    return Err(status);
                }
                Err(MutationFailure::Policy(why)) => {
                    count(Why::of_failure(&why).metric());
                    fail(&why);
                }
            }
        }
        Ok((done || policy.reinvoked).then_some(changed))
    }

    fn facts<'f>(
        &'f self,
        object: &'f Value,
        request: &'f Value,
        params: Option<&'f Value>,
    ) -> Facts<'f> {
        Facts {
            object: Some(object),
            old: self.old,
            request,
            namespace: self.namespace.as_ref(),
            params,
            authorizer: Some((&self.asked, &self.resource)),
        }
    }

    /// What a mutation makes of an object.
    fn changed(
        &self,
        object: &Value,
        mutation: Mutation,
        matched: &ServedVersion,
    ) -> Result<Value, MutationFailure> {
        let expected = matched.expected_of(self.attributes.subresource);
        let mut made = match mutation {
            Mutation::Apply(patch) => apply(object, patch, expected).map_err(|error| {
                let why = error_chain(&error);
                MutationFailure::Policy(format!("error applying patch: {why}"))
            })?,
            Mutation::Patch(operations) => {
                let refused = |why: String| MutationFailure::Policy(format!("JSON Patch: {why}"));
                let patch = json_patch::Patch::read(&operations)
                    .map_err(|error| refused(error.to_string()))?;
                let mut made = object.clone();
                match patch.apply(&mut made) {
                    Ok(()) => made,
                    // What a test refuses is not applied, and that is all.
                    Err(json_patch::Error::Test) => object.clone(),
                    Err(error) => {
                        let why = patch.explain(object);
                        return Err(refused(why.unwrap_or_else(|| error.to_string())));
                    }
                }
            }
        };
        let wrong = |why: String| MutationFailure::Request(Status::internal(why));
        let unknown = expected
            .form
            .coerce(&mut made)
            .map_err(|error| wrong(error.to_string()))?;
        if !unknown.is_empty() {
            let why = format!("strict decoding error: {}", unknown.join(", "));
            return Err(wrong(why));
        }
        if expected.kind == matched.resource.kind {
            matched.kind.default(&mut made);
        }
        // Fields that are zero are written as before.
        expected.form.complete(&mut made);
        Ok(made)
    }
}

/// Error of fields that cannot be merged into an object, in the words of stock.
#[derive(Debug, PartialEq, thiserror::Error)]
enum ApplyError {
    #[error("failed to convert patch object to typed object")]
    Patch(#[source] typed::Problems),
    #[error(
        "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
        .0.join(", ")
    )]
    Atomic(Vec<String>),
    #[error("failed to convert original object to typed object")]
    Original(#[source] typed::Problems),
    #[error("failed to merge patch")]
    Merge(#[source] typed::Problems),
}

/// Merges fields into an object as an apply does; owners are not told.
fn apply(
    object: &Value,
    mut patch: Value,
    expected: ExpectedKind<'_>,
) -> Result<Value, ApplyError> {
    let version = meta::join_api_version(expected.group, expected.version);
    meta::set_type(&mut patch, &version, expected.kind);
    let schema = expected.form.schema();
    // `null` of an expression is a value of its own, which nothing takes.
    let mut shown = patch.clone();
    name_nulls(&mut shown);
    typed::validate(schema, &shown, Duplicates::Refused).map_err(ApplyError::Patch)?;
    let atomics = typed::atomics(schema, &patch);
    if !atomics.is_empty() {
        return Err(ApplyError::Atomic(atomics));
    }
    typed::validate(schema, object, Duplicates::Allowed).map_err(ApplyError::Original)?;
    typed::merge(schema, object, &patch).map_err(ApplyError::Merge)
}

fn name_nulls(value: &mut Value) {
    match value {
        Value::Null => *value = Value::from("NULL_VALUE"),
        Value::Array(items) => items.iter_mut().for_each(name_nulls),
        Value::Object(members) => members.values_mut().for_each(name_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use control_types::schema::TypeId;
    use control_types::value;

    use super::*;
    use control_strategy::ObjectSchema;

    fn deployment() -> ExpectedKind<'static> {
        ExpectedKind {
            group: "apps",
            version: "v1",
            kind: "Deployment",
            form: ObjectSchema::Typed(
                TypeId::by_name("io.k8s.api.apps.v1.Deployment").expect("a type of the API"),
            ),
        }
    }

    fn applied(patch: Value) -> Result<Value, ApplyError> {
        let object = value!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "a", "labels": {"x": "y"}},
            "spec": {
                "selector": {"matchLabels": {"x": "y"}},
                "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}
            }
        });
        apply(&object, patch, deployment())
    }

    #[test]
    fn fields_are_merged_by_key() {
        let made = applied(value!({
            "metadata": {"labels": {"z": "1"}},
            "spec": {"template": {"spec": {"containers": [
                {"name": "c", "env": [{"name": "A", "value": "B"}]}, {"name": "d"}
            ]}}}
        }))
        .expect("it fits");
        assert_eq!(
            made.path(&["metadata", "labels"]),
            Some(&value!({"x": "y", "z": "1"}))
        );
        assert_eq!(
            made.path(&["spec", "template", "spec", "containers"]),
            Some(&value!([
                {"name": "c", "image": "i", "env": [{"name": "A", "value": "B"}]}, {"name": "d"}
            ]))
        );
    }

    #[test]
    fn what_would_be_replaced_as_a_whole_is_refused() {
        assert_eq!(
            applied(value!({"spec": {"selector": {"matchLabels": {"a": "b"}}}})),
            Err(ApplyError::Atomic(vec![".spec.selector".into()]))
        );
        let args = value!({"spec": {"template": {"spec": {"containers": [{"name": "c", "args": ["a"]}]}}}});
        assert_eq!(
            applied(args),
            Err(ApplyError::Atomic(vec![
                ".spec.template.spec.containers[0].args".into()
            ]))
        );
    }

    #[test]
    fn fields_that_are_not_of_the_type_are_refused() {
        let error = applied(value!({"spec": {"nothing": 1}})).expect_err("there is no such field");
        assert!(matches!(error, ApplyError::Patch(_)), "{error}");
    }
}
