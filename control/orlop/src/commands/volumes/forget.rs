//! Determines what to remove for a permanently lost node.

use std::fmt;

use control_client::{Resource, resources};
use serde_json::Value;

use super::{DRIVER, node_of};

/// Snapshots in the storage of drivers.
pub const CONTENTS: Resource = Resource::cluster(
    "snapshot.storage.k8s.io",
    "v1",
    "volumesnapshotcontents",
    "VolumeSnapshotContent",
);

/// Finalizers behind which a driver would delete its storage.
const OF_DRIVER: [&str; 2] = [
    "external-provisioner.volume.kubernetes.io/finalizer",
    "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection",
];

/// Kind of an object that is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ForgottenKind {
    Claim,
    Volume,
    Content,
}

/// An object that is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRemoval {
    kind: ForgottenKind,
    /// Namespace; empty for objects of the cluster.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Identity.
    pub uid: String,
    /// The finalizers that stay, where some are the driver's.
    pub finalizers: Option<Vec<String>>,
}

impl VolumeRemoval {
    fn new(kind: ForgottenKind, object: &Value) -> Self {
        let meta = &object["metadata"];
        let text = |field: &str| meta[field].as_str().unwrap_or_default().to_owned();
        let all = meta["finalizers"].as_array().into_iter().flatten();
        let all: Vec<&str> = all.filter_map(Value::as_str).collect();
        let left = all.iter().filter(|it| !OF_DRIVER.contains(it));
        let left: Vec<String> = left.map(|it| (*it).to_owned()).collect();
        Self {
            kind,
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
            finalizers: (left.len() < all.len()).then_some(left),
        }
    }

    /// Returns the object's resource.
    pub fn resource(&self) -> &'static Resource {
        static CLAIMS: Resource = resources::PERSISTENT_VOLUME_CLAIMS;
        static VOLUMES: Resource = resources::PERSISTENT_VOLUMES;
        static SNAPSHOT_CONTENTS: Resource = CONTENTS;
        match self.kind {
            ForgottenKind::Claim => &CLAIMS,
            ForgottenKind::Volume => &VOLUMES,
            ForgottenKind::Content => &SNAPSHOT_CONTENTS,
        }
    }
}

impl fmt::Display for VolumeRemoval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (namespace, name) = (&self.namespace, &self.name);
        match self.kind {
            ForgottenKind::Claim => write!(f, "claim {namespace}/{name}"),
            ForgottenKind::Volume => write!(f, "volume {name}"),
            ForgottenKind::Content => write!(f, "snapshot content {name}"),
        }
    }
}

/// Returns the objects of a node's volumes to remove: claims first, so that no pod waits
/// for a volume that is being removed.
pub fn removals(
    node: &str,
    volumes: &[Value],
    claims: &[Value],
    contents: &[Value],
) -> Vec<VolumeRemoval> {
    let mut all = Vec::new();
    let lost: Vec<&Value> = volumes
        .iter()
        .filter(|it| node_of(it) == Some(node))
        .collect();
    for claim in claims {
        let is_lost = |volume: &&Value| {
            volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
                && volume["metadata"]["name"] == claim["spec"]["volumeName"]
        };
        if lost.iter().any(is_lost) {
            all.push(VolumeRemoval::new(ForgottenKind::Claim, claim));
        }
    }
    let managed_by = "snapshot.storage.kubernetes.io/managed-by";
    for content in contents {
        let label = &content["metadata"]["labels"][managed_by];
        if content["spec"]["driver"] == DRIVER && label == node {
            all.push(VolumeRemoval::new(ForgottenKind::Content, content));
        }
    }
    all.extend(
        lost.iter()
            .map(|it| VolumeRemoval::new(ForgottenKind::Volume, it)),
    );
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn volume(name: &str, node: &str, driver: &str) -> Value {
        json!({
            "metadata": {"name": name, "uid": format!("{name}-uid"), "finalizers": [
                "kubernetes.io/pv-protection", OF_DRIVER[0]
            ]},
            "spec": {
                "csi": {"driver": driver},
                "claimRef": {"uid": format!("{name}-claim")},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": super::super::NODE_KEY, "operator": "In", "values": [node]}
                ]}]}}
            }
        })
    }

    fn claim(name: &str, volume: &str) -> Value {
        json!({
            "metadata": {"namespace": "shop", "name": name, "uid": format!("{volume}-claim"),
                "finalizers": ["kubernetes.io/pvc-protection"]},
            "spec": {"volumeName": volume}
        })
    }

    #[test]
    fn volumes_of_the_lost_node_go_with_their_claims_and_snapshots_and_no_others() {
        let volumes = [
            volume("lost", "n2", DRIVER),
            volume("kept", "n1", DRIVER),
            volume("foreign", "n2", "other.example.com"),
        ];
        let claims = [
            claim("a", "lost"),
            claim("b", "kept"),
            claim("c", "foreign"),
        ];
        let content = |name: &str, node: &str| {
            json!({
                "metadata": {"name": name, "uid": "u", "finalizers": [OF_DRIVER[1]],
                    "labels": {"snapshot.storage.kubernetes.io/managed-by": node}},
                "spec": {"driver": DRIVER}
            })
        };
        let contents = [content("s2", "n2"), content("s1", "n1")];
        let all = removals("n2", &volumes, &claims, &contents);
        let shown: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            ["claim shop/a", "snapshot content s2", "volume lost"]
        );
        assert_eq!(
            all[0].finalizers, None,
            "its controller knows when no pod uses it"
        );
        assert_eq!(all[1].finalizers, Some(Vec::new()));
        let left = vec!["kubernetes.io/pv-protection".to_owned()];
        assert_eq!(all[2].finalizers, Some(left));
        assert!(removals("n3", &volumes, &claims, &contents).is_empty());
    }
}
