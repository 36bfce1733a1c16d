//! `NamespaceAutoProvision`: makes the namespace of a new object.

use control_types::value::Value;

use crate::admission::{Admission, AdmissionResult, done, wait};
use crate::attributes::Attributes;

/// The plugin.
#[derive(Debug)]
pub struct NamespaceAutoProvision;

impl Admission for NamespaceAutoProvision {
    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        _object: &'a mut Value,
        _old: Option<&'a Value>,
    ) -> AdmissionResult<'a> {
        let Attributes { cluster, .. } = *attributes;
        let name = &*attributes.context.info.namespace;
        if !attributes.is_in_namespace()
            || attributes.dry_run
            || cluster.get("", "namespaces", name).is_some()
        {
            return done(Ok(()));
        }
        wait(async move {
            cluster.create_namespace(name).await?;
            cluster.catch_up().await
        })
    }
}
