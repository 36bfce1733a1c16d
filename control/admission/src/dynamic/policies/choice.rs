//! Which of a policy's bindings are about a request, and with which parameters.

use std::sync::Arc;

use control_types::value::Value;

use super::hooks::{Binding, BoundPolicy};
use super::params;
use crate::attributes::Attributes;
use control_strategy::ServedVersion;

/// What of a policy is about a request.
pub(super) struct Choice<'a> {
    /// The resource, in the version in which the policy matched it.
    pub matched: Arc<ServedVersion>,
    /// The bindings, each with the parameters that it found.
    pub bindings: Vec<(&'a Binding, params::Params)>,
}

/// What of a policy is about a request; `None` when nothing is. What is configured
/// wrongly is told to `fail`, with the binding where it is one's fault.
pub(super) fn choose<'a, P>(
    hook: &'a BoundPolicy<P>,
    attributes: &Attributes<'_>,
    object: Option<&Value>,
    old: Option<&Value>,
    mut fail: impl FnMut(Option<&Binding>, &str),
) -> Option<Choice<'a>> {
    let policy = &*hook.policy;
    let Some(constraints) = &policy.constraints else {
        fail(
            None,
            "policy contained no match constraints, a required field",
        );
        return None;
    };
    let matched = match constraints.find(attributes, object, old) {
        Ok(found) => found?,
        Err(status) => {
            fail(None, &status.message);
            return None;
        }
    };
    let kind = policy.params.as_ref();
    let kind = match kind.map(|kind| kind.resource(attributes.cluster)) {
        Some(Err(error)) => {
            fail(None, &error.to_string());
            return None;
        }
        Some(Ok(kind)) => Some(kind),
        None => None,
    };
    let mut bindings = Vec::new();
    for binding in &hook.bindings {
        let about = match &binding.constraints {
            Some(constraints) => constraints.find(attributes, object, old),
            None => Ok(Some(Arc::clone(&matched))),
        };
        let found = match about {
            Ok(Some(_)) => {
                let reference = binding.params.as_ref();
                params::collect(attributes, kind.as_ref(), reference)
            }
            Ok(None) => continue,
            Err(status) => Err(params::ParamError::Status(status)),
        };
        match found {
            Ok(found) => bindings.push((&**binding, found)),
            Err(error) => fail(Some(&**binding), &error.to_string()),
        }
    }
    Some(Choice { matched, bindings })
}
