//! `ServiceAccount`: every pod acts as someone, and gets a token that says so.

use std::time::Duration;

use control_kinds::admission as rules;
use control_strategy::names;
use control_types::meta;
use control_types::status::{Status, quote};
use control_types::value;
use control_types::value::Value;

use crate::admission::{Admission, AdmissionResult, Change, done, wait};
use crate::attributes::Attributes;

/// Where a pod finds its token, the cluster's authority and its namespace.
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// How often the account `default` of a young namespace is looked for, which a
/// controller is about to make, and how long each time.
const ATTEMPTS: usize = 10;
const PAUSE: Duration = Duration::from_millis(100);

/// The plugin.
#[derive(Debug)]
pub struct ServiceAccount;

impl Admission for ServiceAccount {
    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        old: Option<&'a Value>,
    ) -> AdmissionResult<'a> {
        if old.is_some() {
            return done(Ok(()));
        }
        if meta::annotation(object, "kubernetes.io/config.mirror").is_some() {
            return done(check_mirror(object).map_err(|why| attributes.refuse(object, why)));
        }
        let name = name_account(object);
        let key = format!("{}/{name}", attributes.context.info.namespace);
        match attributes.cluster.get("", "serviceaccounts", &key) {
            Some(account) => {
                let account = account.value();
                done(account.and_then(|account| complete(attributes, object, &account)))
            }
            None => wait(async move {
                let account = find_account(attributes, object, &name, &key).await?;
                complete(attributes, object, &account)
            }),
        }
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        change: Change<'a>,
        _warnings: &'a mut Vec<String>,
    ) -> AdmissionResult<'a> {
        done(match attributes.subresource {
            "ephemeralcontainers" => check_ephemeral(attributes, change.new),
            _ => Ok(()),
        })
    }
}

/// Names the pod's service account if it does not itself. Returns the name.
fn name_account(pod: &mut Value) -> String {
    let given = |field| pod.str_at(&["spec", field]).filter(|name| !name.is_empty());
    let name = given("serviceAccountName")
        .or_else(|| given("serviceAccount"))
        .unwrap_or("default")
        .to_owned();
    for field in ["serviceAccountName", "serviceAccount"] {
        pod.set_path(&["spec", field], name.as_str());
    }
    name
}

/// Mounts the account's token, and takes over its secrets for pulling images.
fn complete(attributes: &Attributes<'_>, pod: &mut Value, account: &Value) -> Result<(), Status> {
    let wanted = pod
        .bool_at(&["spec", "automountServiceAccountToken"])
        .or_else(|| account.bool_at(&["automountServiceAccountToken"]))
        .unwrap_or(true);
    if wanted {
        mount_token(pod);
    }
    let secrets = account.items_at(&["imagePullSecrets"]);
    if pod.items_at(&["spec", "imagePullSecrets"]).is_empty() && !secrets.is_empty() {
        pod.set_path(&["spec", "imagePullSecrets"], secrets.to_vec());
    }
    if rules::limits_secrets(account) {
        rules::check_secrets(pod, account).map_err(|why| attributes.refuse(pod, &why))?;
    }
    Ok(())
}

/// Looks at the ephemeral containers of a pod whose account may limit its secrets.
fn check_ephemeral(attributes: &Attributes<'_>, pod: &Value) -> Result<(), Status> {
    let name = pod
        .str_at(&["spec", "serviceAccountName"])
        .unwrap_or_default();
    let key = format!("{}/{name}", attributes.context.info.namespace);
    let account = attributes.cluster.object("", "serviceaccounts", &key);
    let account = account.ok_or_else(|| refuse_unknown(attributes, pod, name, &key))?;
    if !rules::limits_secrets(&account) {
        return Ok(());
    }
    // kube-apiserver returns this as it stands, which its clients see as a failure
    // of the server.
    rules::check_ephemeral_secrets(pod, &account).map_err(control_request::plain_error)
}

/// Returns an account that the caches lack, once they are as new as the store; the account
/// `default` of a young namespace is waited for.
async fn find_account(
    attributes: &Attributes<'_>,
    pod: &Value,
    name: &str,
    key: &str,
) -> Result<Value, Status> {
    attributes.cluster.catch_up().await?;
    let attempts = if name == "default" { ATTEMPTS } else { 1 };
    for attempt in 1..=attempts {
        if let Some(found) = attributes.cluster.get("", "serviceaccounts", key) {
            return found.value();
        }
        if attempt < attempts {
            tokio::time::sleep(PAUSE).await;
        }
    }
    Err(refuse_unknown(attributes, pod, name, key))
}

fn refuse_unknown(attributes: &Attributes<'_>, pod: &Value, name: &str, key: &str) -> Status {
    let name = quote(name);
    let why = format!("error looking up service account {key}: serviceaccount {name} not found");
    attributes.refuse(pod, &why)
}

/// Mirror pods are run by a node without asking; they may use nothing that the
/// API would have to hand out.
fn check_mirror(pod: &Value) -> Result<(), &'static str> {
    if pod
        .str_at(&["spec", "serviceAccountName"])
        .is_some_and(|name| !name.is_empty())
    {
        return Err("a mirror pod may not reference service accounts");
    }
    let projected = pod
        .items_at(&["spec", "volumes"])
        .iter()
        .flat_map(|volume| volume.items_at(&["projected", "sources"]));
    for source in projected {
        if source.get("secret").is_some() {
            return Err("a mirror pod may not reference secrets");
        }
        if source.get("serviceAccountToken").is_some() {
            return Err("a mirror pod may not use ServiceAccountToken volume projections");
        }
    }
    let by_volume = pod
        .items_at(&["spec", "volumes"])
        .iter()
        .any(|volume| volume.get("secret").is_some());
    let by_variable = ["initContainers", "containers", "ephemeralContainers"]
        .iter()
        .flat_map(|list| pod.items_at(&["spec", list]))
        .any(|container| {
            let from = |list, path: &[&str]| {
                let items = container.items_at(&[list]);
                items.iter().any(|item| item.path(path).is_some())
            };
            from("env", &["valueFrom", "secretKeyRef"]) || from("envFrom", &["secretRef"])
        });
    let by_pull = !pod.items_at(&["spec", "imagePullSecrets"]).is_empty();
    if by_volume || by_variable || by_pull {
        return Err("a mirror pod may not reference secrets");
    }
    Ok(())
}

fn mount_token(pod: &mut Value) {
    let volume = names::generate_name("kube-api-access-");
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
            mounts.make_array().push(value!({
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
    volumes.make_array().push(value!({
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_mounted_where_nothing_else_is() {
        let mut pod = value!({"spec": {"containers": [
            {"name": "a"}, {"name": "b", "volumeMounts": [{"name": "own", "mountPath": TOKEN_PATH}]}
        ]}});
        mount_token(&mut pod);
        let containers = pod.items_at(&["spec", "containers"]);
        assert_eq!(containers[0].items_at(&["volumeMounts"]).len(), 1);
        assert_eq!(containers[1].items_at(&["volumeMounts"]).len(), 1);
        assert_eq!(pod.items_at(&["spec", "volumes"]).len(), 1);
    }

    #[test]
    fn a_mirror_pod_may_use_no_secret() {
        let plain = value!({"spec": {"containers": [{"env": [{"name": "A", "value": "b"}]}]}});
        assert_eq!(check_mirror(&plain), Ok(()));
        for spec in [
            value!({"volumes": [{"secret": {"secretName": "s"}}]}),
            value!({"containers": [{"envFrom": [{"secretRef": {"name": "s"}}]}]}),
            value!({"serviceAccountName": "default"}),
        ] {
            assert!(check_mirror(&value!({"spec": (spec)})).is_err());
        }
    }
}
