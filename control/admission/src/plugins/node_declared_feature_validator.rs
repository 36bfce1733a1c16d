//! `NodeDeclaredFeatureValidator`: pods change only as their node can bear.

use control_kinds::admission as rules;
use control_types::status::Status;

use super::pod_resize_validator::{find_node, node_of_changed};
use crate::admission::{Admission, AdmissionResult, Change, done};
use crate::attributes::Attributes;

/// The plugin.
#[derive(Debug)]
pub struct NodeDeclaredFeatureValidator;

impl Admission for NodeDeclaredFeatureValidator {
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
    let (Some(node), Some(old)) = (node_of_changed(change), change.old) else {
        return Ok(());
    };
    let features = rules::features_for_update(change.new, old);
    if features.is_empty() {
        return Ok(());
    }
    let node = find_node(attributes, change.new, node)?;
    rules::check_features(&features, &node).map_err(|why| attributes.refuse(change.new, &why))
}
