//! `TaintNodesByCondition`: new nodes are not ready.

use control_kinds::admission as rules;
use control_types::value::Value;

use crate::admission::{Admission, AdmissionResult, done};
use crate::attributes::Attributes;

/// The plugin.
#[derive(Debug)]
pub struct TaintNodesByCondition;

impl Admission for TaintNodesByCondition {
    fn admit<'a>(
        &'a self,
        _attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        _old: Option<&'a Value>,
    ) -> AdmissionResult<'a> {
        rules::taint_new_node(object);
        done(Ok(()))
    }
}
