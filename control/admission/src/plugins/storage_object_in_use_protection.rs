//! `StorageObjectInUseProtection`: volumes and claims that are used stay.

use control_kinds::admission as rules;
use control_types::value::Value;

use crate::admission::{Admission, AdmissionResult, done};
use crate::attributes::Attributes;

/// The plugin.
#[derive(Debug)]
pub struct StorageObjectInUseProtection;

impl Admission for StorageObjectInUseProtection {
    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        _old: Option<&'a Value>,
    ) -> AdmissionResult<'a> {
        rules::protect_from_deletion(attributes.served.resource.kind, object);
        done(Ok(()))
    }
}
