//! Policies with their bindings, in the form in which requests use them.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use control_kinds::policies::{MutatingPolicy, ValidatingPolicy};
use control_types::meta;
use control_types::value::Value;

use super::super::matching::Constraints;
use super::super::source::Source;
use super::params::{ParamKind, ParamRef};
use control_strategy::ObjectCache;

/// A policy.
#[derive(Debug)]
pub(super) struct Policy<P> {
    pub name: String,
    /// Which requests it is about; none: it does not say, which is wrong.
    pub constraints: Option<Constraints>,
    /// What its parameters are.
    pub params: Option<ParamKind>,
    /// Whether what fails in it is ignored.
    pub ignore_failures: bool,
    /// Whether it wants to see the changes of others behind it.
    pub reinvoked: bool,
    /// Whether expressions read `request`.
    pub reads_request: bool,
    /// Whether expressions read `namespaceObject`.
    pub reads_namespace: bool,
    pub compiled: P,
}

/// What is done with what a policy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Deny,
    Warn,
    Audit,
}

/// A binding of a policy.
#[derive(Debug)]
pub(super) struct Binding {
    pub name: String,
    pub policy: String,
    /// Which of the policy's requests it is about; none: all.
    pub constraints: Option<Constraints>,
    /// Where the parameters are.
    pub params: Option<ParamRef>,
    pub actions: Vec<Action>,
    /// As they are written.
    pub validation_actions: Value,
}

/// A policy and all its bindings; it has at least one.
#[derive(Debug)]
pub(super) struct BoundPolicy<P> {
    pub policy: Arc<Policy<P>>,
    pub bindings: Vec<Arc<Binding>>,
}

/// All policies of a kind. Requests look at the caches themselves, so that what is
/// configured holds from the moment at which it can be read; they are joined anew
/// only when one of them changed.
#[derive(Debug)]
pub(super) struct Hooks<P> {
    policies: Source<Policy<P>>,
    bindings: Source<Binding>,
    joined: ArcSwapOption<PolicyJoin<P>>,
}

#[derive(Debug)]
struct PolicyJoin<P> {
    policies: Arc<[Arc<Policy<P>>]>,
    bindings: Arc<[Arc<Binding>]>,
    hooks: Arc<[BoundPolicy<P>]>,
}

impl<P: 'static> Hooks<P> {
    pub fn new(
        policies: Arc<dyn ObjectCache>,
        bindings: Arc<dyn ObjectCache>,
        make: fn(&Value) -> Policy<P>,
    ) -> Self {
        Self {
            policies: Source::new(policies, make),
            bindings: Source::new(bindings, binding),
            joined: ArcSwapOption::empty(),
        }
    }

    /// All policies that have bindings, by name; none if there are none.
    pub fn now(&self) -> Option<Arc<[BoundPolicy<P>]>> {
        let bindings = self.bindings.now()?;
        let policies = self.policies.now()?;
        if let Some(joined) = &*self.joined.load()
            && Arc::ptr_eq(&joined.policies, &policies)
            && Arc::ptr_eq(&joined.bindings, &bindings)
        {
            return Some(Arc::clone(&joined.hooks));
        }
        let hooks: Arc<[BoundPolicy<P>]> = policies
            .iter()
            .filter_map(|policy| {
                let own = bindings.iter().filter(|one| one.policy == policy.name);
                let own: Vec<_> = own.cloned().collect();
                (!own.is_empty()).then(|| BoundPolicy {
                    policy: Arc::clone(policy),
                    bindings: own,
                })
            })
            .collect();
        self.joined.store(Some(Arc::new(PolicyJoin {
            policies,
            bindings,
            hooks: Arc::clone(&hooks),
        })));
        Some(hooks)
    }
}

/// Reads a `ValidatingAdmissionPolicy`.
pub(super) fn validating(object: &Value) -> Policy<ValidatingPolicy> {
    let spec = spec(object);
    let compiled = ValidatingPolicy::compile(spec);
    let (request, namespace) = (compiled.reads("request"), compiled.reads("namespaceObject"));
    policy(object, request, namespace, compiled)
}

/// Reads a `MutatingAdmissionPolicy`.
pub(super) fn mutating(object: &Value) -> Policy<MutatingPolicy> {
    let spec = spec(object);
    let compiled = MutatingPolicy::compile(spec);
    let (request, namespace) = (compiled.reads("request"), compiled.reads("namespaceObject"));
    policy(object, request, namespace, compiled)
}

fn spec(object: &Value) -> &Value {
    static NONE: Value = Value::Null;
    object.get("spec").unwrap_or(&NONE)
}

fn policy<P>(object: &Value, request: bool, namespace: bool, compiled: P) -> Policy<P> {
    let spec = spec(object);
    Policy {
        name: meta::name(object).to_owned(),
        constraints: constraints(spec, "matchConstraints"),
        params: spec
            .get("paramKind")
            .filter(|kind| !kind.is_null())
            .map(ParamKind::read),
        ignore_failures: spec.str_at(&["failurePolicy"]) == Some("Ignore"),
        reinvoked: spec.str_at(&["reinvocationPolicy"]) == Some("IfNeeded"),
        reads_request: request,
        reads_namespace: namespace,
        compiled,
    }
}

fn constraints(spec: &Value, field: &str) -> Option<Constraints> {
    let stated = spec.get(field).filter(|stated| !stated.is_null())?;
    Some(Constraints::of_policy(stated))
}

fn binding(object: &Value) -> Binding {
    let spec = spec(object);
    let actions = spec.items_at(&["validationActions"]).iter();
    Binding {
        name: meta::name(object).to_owned(),
        policy: spec.str_at(&["policyName"]).unwrap_or_default().to_owned(),
        constraints: constraints(spec, "matchResources"),
        params: spec
            .get("paramRef")
            .filter(|reference| !reference.is_null())
            .map(ParamRef::read),
        actions: actions
            .filter_map(|action| match action.as_str()? {
                "Deny" => Some(Action::Deny),
                "Warn" => Some(Action::Warn),
                "Audit" => Some(Action::Audit),
                _ => None,
            })
            .collect(),
        validation_actions: spec.get("validationActions").cloned().unwrap_or_default(),
    }
}
