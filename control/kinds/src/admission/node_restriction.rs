//! `NodeRestriction`: an agent writes only its own node and the pods on it, and cannot
//! attract other pods.

use std::collections::BTreeSet;

use control_types::meta;
use control_types::status::quote;
use control_types::value::Value;

use super::refusal::Refusal;
use crate::tree::{Read, Write as _, same};

/// Labels of nodes in namespaces of Kubernetes that agents may set.
const LABELS: &[&str] = &[
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Volumes that are made of nothing but the node itself and other machines.
const PLAIN_VOLUMES: &[&str] = &[
    "awsElasticBlockStore",
    "azureDisk",
    "cephfs",
    "cinder",
    "downwardAPI",
    "emptyDir",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

/// Checks a new pod of an agent, which must mirror a static pod. `uid` is that of the
/// node's object.
///
/// # Errors
/// Why the agent may not create it.
pub fn node_makes_pod(node: &str, uid: &str, pod: &Value) -> Result<(), Refusal> {
    let shown = quote(node);
    if meta::annotation(pod, MIRROR).is_none() {
        let mirror = quote(MIRROR);
        return Err(format!(
            "pod does not have {mirror} annotation, node {shown} can only create mirror pods"
        )
        .into());
    }
    if pod.at("spec").text("nodeName") != node {
        return Err(
            format!("node {shown} can only create pods with spec.nodeName set to itself").into(),
        );
    }
    let can = format!("node {shown} can only create pods with");
    let owner = match meta::owner_references(pod) {
        [] => return Err(format!("{can} an owner reference set to itself").into()),
        [owner] => owner,
        _ => return Err(format!("{can} a single owner reference set to itself").into()),
    };
    let names = (
        owner.text("apiVersion"),
        owner.text("kind"),
        owner.text("name"),
    );
    if names != ("v1", "Node", node) {
        return Err(format!("{can} an owner reference set to itself").into());
    }
    if !owner.flag("controller") {
        return Err(format!("{can} a controller owner reference set to itself").into());
    }
    if owner.flag("blockOwnerDeletion") {
        return Err(
            format!("node {shown} must not set blockOwnerDeletion on an owner reference").into(),
        );
    }
    let given = owner.text("uid");
    if given != uid {
        return Err(format!("node {node} UID mismatch: expected {given} got {uid}").into());
    }
    match referred(pod.at("spec")) {
        None => Ok(()),
        Some(what) => Err(format!("node {shown} can not create pods that reference {what}").into()),
    }
}

/// Returns the kind of API object that a pod refers to, if any.
fn referred(spec: &Value) -> Option<&'static str> {
    if !spec.text("serviceAccountName").is_empty() {
        return Some("serviceaccounts");
    }
    let mut secrets = !spec.items("imagePullSecrets").is_empty();
    let mut maps = false;
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.items(list) {
            for from in container.items("envFrom") {
                secrets |= from.has("secretRef");
                maps |= from.has("configMapRef");
            }
            for variable in container.items("env") {
                let from = variable.at("valueFrom");
                secrets |= from.has("secretKeyRef");
                maps |= from.has("configMapKeyRef");
            }
        }
    }
    for volume in spec.items("volumes") {
        let sources = volume.at("projected").items("sources");
        secrets |= volume.has("secret") || sources.iter().any(|source| source.has("secret"));
        maps |= volume.has("configMap") || sources.iter().any(|source| source.has("configMap"));
        // Volumes of clusters and drivers come with secrets of their own.
        secrets |= [
            "azureFile",
            "cephfs",
            "cinder",
            "flexVolume",
            "rbd",
            "scaleIO",
            "iscsi",
            "storageos",
        ]
        .iter()
        .any(|kind| {
            let volume = volume.at(kind);
            volume.has("secretRef") || !volume.text("secretName").is_empty()
        });
        secrets |= volume.at("csi").has("nodePublishSecretRef");
    }
    if secrets {
        return Some("secrets");
    }
    if maps {
        return Some("configmaps");
    }
    if !spec.items("resourceClaims").is_empty() {
        return Some("resourceclaims");
    }
    spec.items("volumes").iter().find_map(referred_by_volume)
}

fn referred_by_volume(volume: &Value) -> Option<&'static str> {
    const KINDS: &[(&str, &str)] = &[
        ("csi", "csidrivers (via CSI volumes)"),
        ("glusterfs", "endpoints (via glusterFS volumes)"),
        ("persistentVolumeClaim", "persistentvolumeclaims"),
        (
            "ephemeral",
            "persistentvolumeclaims (via ephemeral volumes)",
        ),
        ("azureFile", "secrets (via azureFile volumes)"),
    ];
    const SOURCES: &[(&str, &str)] = &[
        (
            "serviceAccountToken",
            "serviceaccounts (via projected volumes)",
        ),
        ("clusterTrustBundle", "clustertrustbundles"),
        ("podCertificate", "podcertificates"),
    ];
    if PLAIN_VOLUMES.iter().any(|kind| volume.has(kind)) {
        return None;
    }
    if let Some((_, what)) = KINDS.iter().find(|(kind, _)| volume.has(kind)) {
        return Some(what);
    }
    let mut sources = volume.at("projected").items("sources").iter();
    sources.find_map(|source| {
        let found = SOURCES.iter().find(|(kind, _)| source.has(kind));
        found.map(|(_, what)| *what)
    })
}

/// A change of a pod's status by an agent.
///
/// # Errors
/// Why the agent may not write it.
pub fn node_reports_pod(node: &str, new: &Value, old: &Value) -> Result<(), Refusal> {
    let shown = quote(node);
    if old.at("spec").text("nodeName") != node {
        return Err(format!(
            "node {shown} can only update pod status for pods with spec.nodeName set to itself"
        )
        .into());
    }
    let labels = |pod: &Value| -> Vec<(String, String)> {
        let mut labels: Vec<_> = meta::labels(pod)
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        labels.sort_unstable();
        labels
    };
    if labels(new) != labels(old) {
        return Err(format!("node {shown} cannot update labels through pod status").into());
    }
    let status = |field| (new.at("status").at(field), old.at("status").at(field));
    let (now, before) = status("resourceClaimStatuses");
    if !same(now, before) {
        return Err(format!("node {shown} cannot update resource claim statues").into());
    }
    let (now, before) = status("extendedResourceClaimStatus");
    if !same(now, before) {
        return Err(format!("node {shown} cannot update extended resource claim status").into());
    }
    Ok(())
}

/// A pod that an agent deletes (`verb` is `delete`) or evicts (`evict`).
///
/// # Errors
/// Why the agent may not end it.
pub fn node_ends_pod(node: &str, verb: &str, pod: &Value) -> Result<(), Refusal> {
    if pod.at("spec").text("nodeName") == node {
        return Ok(());
    }
    let shown = if verb == "evict" {
        node.to_owned()
    } else {
        quote(node)
    };
    Err(format!("node {shown} can only {verb} pods with spec.nodeName set to itself").into())
}

/// A node's object as its agent makes or changes it.
///
/// # Errors
/// Why the agent may not write it.
pub fn node_writes_node(node: &str, new: &Value, old: Option<&Value>) -> Result<(), Refusal> {
    let shown = quote(node);
    let (spec, none) = (new.at("spec"), Value::Null);
    let before = old.unwrap_or(&none);
    if spec.has("configSource")
        && !same(
            spec.at("configSource"),
            before.at("spec").at("configSource"),
        )
    {
        return Err(match old {
            None => {
                format!("node {shown} is not allowed to create pods with a non-nil configSource")
            }
            Some(_) => format!(
                "node {shown} is not allowed to update configSource to a new non-nil configSource"
            ),
        }
        .into());
    }
    if old.is_some() && !same(spec.at("taints"), before.at("spec").at("taints")) {
        return Err(format!("node {shown} is not allowed to modify taints").into());
    }
    let owners = |node: &Value| node.at("metadata").at("ownerReferences").clone();
    if old.is_some() && !same(&owners(new), &owners(before)) {
        return Err(format!("node {shown} is not allowed to modify ownerReferences").into());
    }
    let labels = |node: &Value| -> BTreeSet<(String, String)> {
        meta::labels(node)
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    };
    let changed: BTreeSet<String> = labels(new)
        .symmetric_difference(&labels(before))
        .map(|(key, _)| key.clone())
        .filter(|key| is_forbidden(key))
        .collect();
    if changed.is_empty() {
        return Ok(());
    }
    let list = changed.into_iter().collect::<Vec<_>>().join(", ");
    Err(match old {
        None => format!("node {shown} is not allowed to set the following labels: {list}"),
        Some(_) => format!("is not allowed to modify labels: {list}"),
    }
    .into())
}

/// Returns whether a label could attract pods that are not meant for the node.
fn is_forbidden(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let within = |parent: &str| {
        domain
            .strip_suffix(parent)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    if within("node-restriction.kubernetes.io") {
        return true;
    }
    let own = within("kubelet.kubernetes.io") || within("node.kubernetes.io");
    (within("kubernetes.io") || within("k8s.io")) && !own && !LABELS.contains(&key)
}

/// A change of a claim's status by an agent, which grows volumes.
///
/// # Errors
/// Why the agent may not write it.
pub fn node_reports_claim(node: &str, new: &Value, old: &Value) -> Result<(), Refusal> {
    let rest = |claim: &Value| {
        let mut claim = claim.clone();
        if let Some(metadata) = claim.there("metadata") {
            metadata.drop_field("resourceVersion");
            metadata.drop_field("managedFields");
        }
        if let Some(status) = claim.there("status") {
            for field in [
                "capacity",
                "conditions",
                "allocatedResourceStatuses",
                "allocatedResources",
            ] {
                status.drop_field(field);
            }
        }
        claim
    };
    if same(&rest(new), &rest(old)) {
        return Ok(());
    }
    Err(format!(
        "node {} is not allowed to update fields other than status.quantity and status.conditions",
        quote(node)
    )
    .into())
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    fn mirror() -> Value {
        value!({
            "metadata": {
                "annotations": {"kubernetes.io/config.mirror": "x"},
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": true}
                ]
            },
            "spec": {"nodeName": "n", "containers": [{"name": "c"}]}
        })
    }

    #[test]
    fn an_agent_makes_only_mirrors_that_need_nothing() {
        assert_eq!(node_makes_pod("n", "u", &mirror()), Ok(()));
        let changed = |path: &[&str], value: Value| {
            let mut pod = mirror();
            pod.set_path(path, value);
            node_makes_pod("n", "u", &pod)
                .expect_err("it is not allowed")
                .to_string()
        };
        let cases: &[(&[&str], Value, &str)] = &[
            (
                &["metadata", "annotations"],
                value!({}),
                "pod does not have \"kubernetes.io/config.mirror\" annotation, node \"n\" can only create mirror pods",
            ),
            (
                &["spec", "nodeName"],
                value!("m"),
                "node \"n\" can only create pods with spec.nodeName set to itself",
            ),
            (
                &["metadata", "ownerReferences"],
                value!([]),
                "node \"n\" can only create pods with an owner reference set to itself",
            ),
            (
                &["metadata", "ownerReferences"],
                value!([{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]),
                "node \"n\" can only create pods with a controller owner reference set to itself",
            ),
            (
                &["spec", "serviceAccountName"],
                value!("default"),
                "node \"n\" can not create pods that reference serviceaccounts",
            ),
            (
                &["spec", "volumes"],
                value!([{"name": "v", "projected": {"sources": [{"serviceAccountToken": {}}]}}]),
                "node \"n\" can not create pods that reference serviceaccounts (via projected volumes)",
            ),
            (
                &["spec", "volumes"],
                value!([{"name": "v", "secret": {"secretName": "s"}}]),
                "node \"n\" can not create pods that reference secrets",
            ),
        ];
        for (path, value, why) in cases {
            assert_eq!(changed(path, value.clone()), *why);
        }
        assert_eq!(
            node_makes_pod("n", "v", &mirror()),
            Err("node n UID mismatch: expected u got v".into())
        );
    }

    #[test]
    fn an_agent_does_not_label_or_taint_its_node_as_it_likes() {
        let node = |label: &str| value!({"metadata": {"labels": {label: "x"}}});
        let plain = value!({"metadata": {}});
        for (label, allowed) in [
            ("example.com/x", true),
            ("kubernetes.io/hostname", true),
            ("a.kubelet.kubernetes.io/x", true),
            ("node.kubernetes.io/x", true),
            ("node-role.kubernetes.io/control-plane", false),
            ("x.node-restriction.kubernetes.io/y", false),
            ("k8s.io/x", false),
            ("notk8s.io/x", true),
        ] {
            let made = node_writes_node("n", &node(label), None);
            assert_eq!(made.is_ok(), allowed, "{label}");
            // Taking a label away is a change as well.
            let taken = node_writes_node("n", &plain, Some(&node(label)));
            assert_eq!(taken.is_ok(), allowed, "{label}");
        }
        let tainted = value!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}});
        assert_eq!(
            node_writes_node("n", &plain, Some(&tainted)),
            Err("node \"n\" is not allowed to modify taints".into())
        );
    }

    #[test]
    fn an_agent_reports_of_its_pods_and_claims_and_nothing_else() {
        let pod = |node: &str, phase: &str, label: &str| {
            value!({
                "metadata": {"labels": {"a": label}},
                "spec": {"nodeName": node},
                "status": {"phase": phase}
            })
        };
        let old = pod("n", "Pending", "x");
        assert_eq!(
            node_reports_pod("n", &pod("n", "Running", "x"), &old),
            Ok(())
        );
        assert!(node_reports_pod("m", &old, &old).is_err());
        assert!(node_reports_pod("n", &pod("n", "Running", "y"), &old).is_err());
        let claim = |size: &str, phase: &str| value!({"status": {"capacity": {"storage": size}, "phase": phase}});
        let old = claim("1Gi", "Bound");
        assert_eq!(
            node_reports_claim("n", &claim("2Gi", "Bound"), &old),
            Ok(())
        );
        assert!(node_reports_claim("n", &claim("1Gi", "Lost"), &old).is_err());
    }
}
