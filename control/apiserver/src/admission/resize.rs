//! `PodResizeValidator` and `NodeDeclaredFeatureValidator`: what a change of a
//! bound pod asks of its node.

use control_kinds::admission as rules;
use control_types::meta;
use control_types::status::{Cause, Status, quote};
use control_types::value::Value;

use super::{Plugin, on, refuse, value};
use crate::api::ServedResource;
use crate::chain::Context;

/// Looks at a change of a pod, or of its size.
pub(super) fn check(
    context: &Context,
    served: &ServedResource,
    subresource: &str,
    new: &Value,
    old: &Value,
) -> Result<(), Status> {
    let node = new.str_at(&["spec", "nodeName"]).unwrap_or_default();
    if node.is_empty() || meta::generation(new) == meta::generation(old) {
        return Ok(());
    }
    let api = &context.api;
    let features = if on(api, Plugin::NodeDeclaredFeatureValidator) {
        rules::features_for_update(new, old)
    } else {
        Default::default()
    };
    let resized = subresource == "resize" && on(api, Plugin::PodResizeValidator);
    if features.is_empty() && !resized {
        return Ok(());
    }
    let Some(found) = value(api, "", "nodes", node) else {
        let why = format!("node {} not found", quote(node));
        return Err(refuse(served, new, &why));
    };
    if !features.is_empty() {
        rules::check_features(&features, &found).map_err(|why| refuse(served, new, &why))?;
    }
    if !resized {
        return Ok(());
    }
    rules::check_resize(new, &found).map_err(|(cause, why)| {
        let mut status = refuse(served, new, &why);
        if let Some(details) = &mut status.details {
            details.causes.push(Cause {
                reason: cause.into(),
                message: String::new(),
                field: String::new(),
            });
        }
        status
    })
}
