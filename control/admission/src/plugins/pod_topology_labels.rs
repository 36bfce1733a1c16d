//! `PodTopologyLabels`: pods get the place of their node, of the binding that gives it to them.

use control_kinds::admission as rules;
use control_types::value::Value;

use crate::admission::{Admission, AdmissionResult, done};
use crate::attributes::Attributes;

/// The plugin.
#[derive(Debug)]
pub struct PodTopologyLabels;

impl Admission for PodTopologyLabels {
    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        _old: Option<&'a Value>,
    ) -> AdmissionResult<'a> {
        let is_pod = attributes.is_for("", "pods") && attributes.subresource.is_empty();
        let path = if is_pod {
            ["spec", "nodeName"]
        } else {
            ["target", "name"]
        };
        let node = object.str_at(&path).unwrap_or_default();
        if let Some(node) = attributes.cluster.object("", "nodes", node) {
            rules::topology_labels(&node, object);
        }
        done(Ok(()))
    }
}
