//! `PodResizeValidator`: pods are resized only where that can be.

use control_kinds::admission as rules;
use control_types::meta;
use control_types::status::{Cause, Status, quote};
use control_types::value::Value;

use crate::admission::{Admission, AdmissionResult, Change, done};
use crate::attributes::Attributes;

/// The plugin.
#[derive(Debug)]
pub struct PodResizeValidator;

impl Admission for PodResizeValidator {
    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        change: Change<'a>,
        _warnings: &'a mut Vec<String>,
    ) -> AdmissionResult<'a> {
        done(check(attributes, change))
    }
}

fn check(attributes: &Attributes<'_>, change: Change<'_>) -> Result<(), Status> {
    let Some(node) = node_of_changed(change) else {
        return Ok(());
    };
    let node = find_node(attributes, change.new, node)?;
    rules::check_resize(change.new, &node).map_err(|refusal| {
        let mut status = attributes.refuse(change.new, &refusal.why);
        if let Some(details) = &mut status.details {
            details.causes.push(Cause {
                reason: refusal.cause.into(),
                message: String::new(),
                field: String::new(),
            });
        }
        status
    })
}

/// Returns the node of a bound pod whose specification changes.
pub(super) fn node_of_changed<'a>(change: Change<'a>) -> Option<&'a str> {
    let is_changed = change
        .old
        .is_some_and(|old| meta::generation(change.new) != meta::generation(old));
    let node = change.new.str_at(&["spec", "nodeName"]);
    node.filter(|node| is_changed && !node.is_empty())
}

/// Returns the node of a pod.
///
/// # Errors
/// 403 when it is not there.
pub(super) fn find_node(
    attributes: &Attributes<'_>,
    pod: &Value,
    node: &str,
) -> Result<Value, Status> {
    let found = attributes.cluster.object("", "nodes", node);
    found.ok_or_else(|| attributes.refuse(pod, format!("node {} not found", quote(node))))
}
