//! `NamespaceExists`: the namespace of a new object must be there.

use control_types::status::Status;
use control_types::value::Value;

use crate::admission::{Admission, AdmissionResult, done, wait};
use crate::attributes::Attributes;

/// The plugin.
#[derive(Debug)]
pub struct NamespaceExists;

impl Admission for NamespaceExists {
    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        _object: &'a mut Value,
        _old: Option<&'a Value>,
    ) -> AdmissionResult<'a> {
        let Attributes { cluster, .. } = *attributes;
        let name = &*attributes.context.info.namespace;
        if !attributes.is_in_namespace() || cluster.get("", "namespaces", name).is_some() {
            return done(Ok(()));
        }
        wait(async move {
            match cluster.find("", "namespaces", name).await? {
                Some(_) => Ok(()),
                None => Err(Status::not_found("", "namespaces", name)),
            }
        })
    }
}
