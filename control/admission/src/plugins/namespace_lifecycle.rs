//! `NamespaceLifecycle`: nothing is made in namespaces that end, and those that every cluster
//! needs stay.

use control_strategy::CachedObject;
use control_types::meta;
use control_types::status::{Cause, Status};
use control_types::value::Value;

use crate::admission::{Admission, AdmissionResult, Change, done, wait};
use crate::attributes::Attributes;
use crate::operation::Operation;

/// The namespaces that every cluster has and keeps.
pub const IMMORTAL: &[&str] = &["default", "kube-system", "kube-public"];

/// The plugin.
#[derive(Debug)]
pub struct NamespaceLifecycle;

impl Admission for NamespaceLifecycle {
    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        _old: Option<&'a Value>,
    ) -> AdmissionResult<'a> {
        if !attributes.is_in_namespace() {
            return done(Ok(()));
        }
        let Attributes { cluster, .. } = *attributes;
        let namespace = &*attributes.context.info.namespace;
        if let Some(found) = cluster.get("", "namespaces", namespace) {
            return done(check_phase(attributes, object, &*found));
        }
        wait(async move {
            let found = cluster.find("", "namespaces", namespace).await?;
            let found = found.ok_or_else(|| Status::not_found("", "namespaces", namespace))?;
            check_phase(attributes, object, &*found)
        })
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        change: Change<'a>,
        _warnings: &'a mut Vec<String>,
    ) -> AdmissionResult<'a> {
        done(match attributes.operation {
            Operation::Delete => check_deletion(meta::name(change.new)),
            _ => Ok(()),
        })
    }
}

/// Refuses the deletion of a namespace that every cluster must have.
///
/// # Errors
/// 403.
pub fn check_deletion(namespace: &str) -> Result<(), Status> {
    if !IMMORTAL.contains(&namespace) {
        return Ok(());
    }
    let why = "this namespace may not be deleted";
    Err(Status::forbidden("", "namespaces", namespace, why))
}

/// Refuses new objects in a namespace that is being terminated; an eviction, a binding and a
/// request for a token are such objects, too.
fn check_phase(
    attributes: &Attributes<'_>,
    object: &Value,
    namespace: &dyn CachedObject,
) -> Result<(), Status> {
    if namespace.field("status.phase") != Some("Terminating") {
        return Ok(());
    }
    let info = &attributes.context.info;
    let namespace = &*info.namespace;
    let why = format!(
        "unable to create new content in namespace {namespace} because it is being terminated"
    );
    let mut status = match &*info.name {
        "" => attributes.refuse(object, &why),
        name => {
            let resource = attributes.served.resource;
            Status::forbidden(resource.group, resource.plural, name, &why)
        }
    };
    if let Some(details) = &mut status.details {
        details.causes.push(Cause {
            reason: "NamespaceTerminating".into(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".into(),
        });
    }
    Err(status)
}
