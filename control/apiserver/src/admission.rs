//! Admission: rules about a request that look beyond its one object.

use control_types::meta;
use control_types::status::{Cause, Status};
use control_types::value::Value;

use crate::api::{Served, name_of};
use crate::chain::Context;

/// The namespaces that every cluster has and keeps.
pub const IMMORTAL: &[&str] = &["default", "kube-system", "kube-public"];

/// Admits a new object: its namespace must exist and must not be going.
///
/// # Errors
/// 404 and 403.
pub async fn admit_create(
    context: &Context,
    served: &Served,
    object: &mut Value,
) -> Result<(), Status> {
    if !served.resource.namespaced {
        return Ok(());
    }
    let namespace = context.info.namespace.as_str();
    let namespaces = context.api.resource("", "namespaces")?;
    let mut found = namespaces.cache()?.get(namespace);
    if found.is_none() {
        // It may have been made a moment ago.
        context.api.catch_up().await?;
        found = namespaces.cache()?.get(namespace);
    }
    let found = found.ok_or_else(|| Status::not_found("", "namespaces", namespace))?;
    if found.field("status.phase") == Some("Terminating") {
        let resource = served.resource;
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let mut status =
            Status::forbidden(resource.group, resource.plural, meta::name(object), &why);
        if let Some(details) = &mut status.details {
            details.causes.push(Cause {
                reason: "NamespaceTerminating".into(),
                message: format!("namespace {namespace} is being terminated"),
                field: "metadata.namespace".into(),
            });
        }
        return Err(status);
    }
    if (served.resource.group, served.resource.plural) == ("", "pods") {
        service_account(context, object)?;
    }
    Ok(())
}

/// Refuses the deletion of what every cluster must have.
///
/// # Errors
/// 403.
pub fn admit_delete(served: &Served, key: &str) -> Result<(), Status> {
    let namespaces = (served.resource.group, served.resource.plural) == ("", "namespaces");
    if namespaces && IMMORTAL.contains(&name_of(key)) {
        return Err(Status::forbidden(
            "",
            "namespaces",
            name_of(key),
            "this namespace may not be deleted",
        ));
    }
    Ok(())
}

/// Where a pod finds its token, the cluster's authority and its namespace.
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Names the pod's service account and mounts its token, as the
/// `ServiceAccount` admission of stock does.
fn service_account(context: &Context, pod: &mut Value) -> Result<(), Status> {
    let mirror = meta::annotation(pod, "kubernetes.io/config.mirror").is_some();
    if mirror {
        return Ok(());
    }
    if pod
        .str_at(&["spec", "serviceAccountName"])
        .is_none_or(str::is_empty)
    {
        let older = pod.str_at(&["spec", "serviceAccount"]).unwrap_or_default();
        let name = if older.is_empty() { "default" } else { older }.to_owned();
        pod.set_path(&["spec", "serviceAccountName"], name);
    }
    let name = pod
        .str_at(&["spec", "serviceAccountName"])
        .unwrap_or_default()
        .to_owned();
    pod.set_path(&["spec", "serviceAccount"], name.as_str());
    let key = format!("{}/{name}", context.info.namespace);
    let Some(account) = context.api.cached("", "serviceaccounts", &key) else {
        let why = format!(
            "error looking up service account {key}: serviceaccount {} not found",
            control_types::status::quote(&name)
        );
        return Err(Status::forbidden("", "pods", meta::name(pod), &why));
    };
    let account = account.value().map_err(Status::internal)?;
    let wanted = pod
        .bool_at(&["spec", "automountServiceAccountToken"])
        .or_else(|| account.bool_at(&["automountServiceAccountToken"]))
        .unwrap_or(true);
    if wanted {
        mount_token(pod);
    }
    Ok(())
}

fn mount_token(pod: &mut Value) {
    let volume = crate::verbs::create::generate("kube-api-access-");
    let mut used = false;
    for kind in ["initContainers", "containers"] {
        let Some(containers) = pod.path_mut(&["spec", kind]).and_then(Value::as_array_mut) else {
            continue;
        };
        for container in containers {
            let mounted = container
                .items_at(&["volumeMounts"])
                .iter()
                .any(|mount| mount.str_at(&["mountPath"]) == Some(TOKEN_PATH));
            if mounted {
                continue;
            }
            used = true;
            let mounts = container
                .make_object()
                .get_or_insert_with("volumeMounts", || Value::Array(Vec::new()));
            mounts.make_array().push(control_types::value!({
                "name": (volume.as_str()), "readOnly": true, "mountPath": TOKEN_PATH
            }));
        }
    }
    if !used {
        return;
    }
    let volumes = pod
        .make_object()
        .object_mut("spec")
        .get_or_insert_with("volumes", || Value::Array(Vec::new()));
    volumes.make_array().push(control_types::value!({
        "name": (volume.as_str()),
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {
                    "name": "kube-root-ca.crt",
                    "items": [{"key": "ca.crt", "path": "ca.crt"}]
                }},
                {"downwardAPI": {"items": [{
                    "path": "namespace",
                    "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
                }]}}
            ],
            "defaultMode": 420
        }
    }));
}
