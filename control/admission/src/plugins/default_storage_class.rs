//! `DefaultStorageClass`: claims get the default class.

use control_kinds::admission as rules;
use control_types::value::Value;

use crate::admission::{Admission, AdmissionResult, done};
use crate::attributes::Attributes;

/// The plugin.
#[derive(Debug)]
pub struct DefaultStorageClass;

impl Admission for DefaultStorageClass {
    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        _old: Option<&'a Value>,
    ) -> AdmissionResult<'a> {
        let classes = attributes
            .cluster
            .list("storage.k8s.io", "storageclasses", "");
        done(classes.map(|classes| rules::default_storage_class(object, classes.iter())))
    }
}
