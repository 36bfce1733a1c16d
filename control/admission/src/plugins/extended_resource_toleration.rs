//! `ExtendedResourceToleration`: pods that ask for extended resources tolerate the taints of
//! their names.

use control_kinds::admission as rules;
use control_types::value::Value;

use crate::admission::{Admission, AdmissionResult, done};
use crate::attributes::Attributes;

/// The plugin.
#[derive(Debug)]
pub struct ExtendedResourceToleration;

impl Admission for ExtendedResourceToleration {
    fn admit<'a>(
        &'a self,
        _attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        _old: Option<&'a Value>,
    ) -> AdmissionResult<'a> {
        rules::tolerate_extended_resources(object);
        done(Ok(()))
    }
}
