//! Finds pods that disagree about the SELinux label of a volume (KEP-1710).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use control_client::{Meta, Resource, View, resources};
use serde::{Deserialize, Deserializer};

use crate::key::Key;
use crate::views::{IscsiSource, Phase, Text, is_present, null_as_default};

/// A pod, of which only what concerns the labels of its volumes is read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct LabelledPod {
    /// Name and namespace.
    pub metadata: Meta,
    /// Containers and volumes.
    pub spec: LabelledPodSpec,
    #[serde(deserialize_with = "null_as_default")]
    status: LabelledPodStatus,
}

/// Containers and volumes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelledPodSpec {
    /// The volumes of the pod.
    #[serde(deserialize_with = "null_as_default")]
    pub volumes: Vec<LabelledVolume>,
    #[serde(deserialize_with = "null_as_default")]
    security_context: SecurityContext,
    #[serde(deserialize_with = "null_as_default")]
    containers: Vec<LabelledContainer>,
    #[serde(deserialize_with = "null_as_default")]
    init_containers: Vec<LabelledContainer>,
    #[serde(deserialize_with = "null_as_default")]
    ephemeral_containers: Vec<LabelledContainer>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct LabelledPodStatus {
    phase: Phase,
}

/// A volume of a pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelledVolume {
    /// Its name within the pod.
    pub name: Text,
    /// The claim behind it.
    #[serde(deserialize_with = "claim_name")]
    pub persistent_volume_claim: Option<Text>,
    /// Whether its claim is made for the pod.
    #[serde(deserialize_with = "is_present")]
    pub ephemeral: bool,
    /// An iSCSI disk.
    pub iscsi: Option<IscsiSource>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SecurityContext {
    se_linux_options: Option<SelinuxOptions>,
    se_linux_change_policy: Option<Text>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct SelinuxOptions {
    user: Text,
    role: Text,
    r#type: Text,
    level: Text,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LabelledContainer {
    #[serde(deserialize_with = "null_as_default")]
    security_context: SecurityContext,
    #[serde(deserialize_with = "null_as_default")]
    volume_mounts: Vec<Mount>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Mount {
    name: Text,
}

fn claim_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Text>, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Claim {
        claim_name: Text,
    }
    let claim = Option::<Claim>::deserialize(deserializer)?;
    Ok(claim.map(|claim| claim.claim_name))
}

impl View for LabelledPod {
    const RESOURCE: Resource = resources::PODS;
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl LabelledPod {
    /// Whether its volumes are unmounted, or will be.
    pub const fn has_ended(&self) -> bool {
        matches!(self.status.phase, Phase::Succeeded | Phase::Failed)
    }

    /// The claim behind a volume, if there is one.
    pub fn claim_of(&self, volume: &LabelledVolume) -> Option<Text> {
        if volume.persistent_volume_claim.is_some() {
            return volume.persistent_volume_claim.clone();
        }
        let name = format!("{}-{}", self.metadata.name, volume.name);
        volume.ephemeral.then(|| name.into())
    }

    /// The labels under which each mounted volume is used by a container.
    fn labels(&self) -> BTreeMap<&str, BTreeSet<String>> {
        let spec = &self.spec;
        let mut found: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        let containers = spec.init_containers.iter().chain(&spec.containers);
        for container in containers.chain(&spec.ephemeral_containers) {
            let own = container.security_context.se_linux_options.as_ref();
            let options = own.or(spec.security_context.se_linux_options.as_ref());
            for mount in &container.volume_mounts {
                let labels = found.entry(&mount.name).or_default();
                labels.extend(options.map(SelinuxOptions::label));
            }
        }
        found
    }
}

impl SelinuxOptions {
    /// Returns the label without parts that the node fills in; empty if it fills in
    /// everything.
    fn label(&self) -> String {
        let Self {
            user,
            role,
            r#type,
            level,
        } = self;
        let label = format!("{user}:{role}:{type}:{level}");
        if label == ":::" { String::new() } else { label }
    }
}

/// A volume that several pods may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedVolume {
    /// Unique among the volumes of the cluster.
    pub id: String,
    /// Whether it can be mounted with a label.
    pub supports_label: bool,
}

/// How a pod uses a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// The volume's id.
    pub volume: String,
    label: String,
    policy: Text,
}

const RECURSIVE: &str = "Recursive";
const MOUNT_OPTION: &str = "MountOption";

/// How a pod uses its volumes, and the names of volumes that its containers mount with
/// different labels. `find` resolves a volume.
pub fn usages(
    pod: &LabelledPod,
    find: impl Fn(&LabelledVolume) -> Option<SharedVolume>,
) -> (Vec<Usage>, Vec<Text>) {
    let labels = pod.labels();
    let chosen = &pod.spec.security_context.se_linux_change_policy;
    let chosen = chosen.as_deref().unwrap_or(MOUNT_OPTION);
    let (mut found, mut ambiguous) = (Vec::new(), Vec::new());
    for volume in &pod.spec.volumes {
        let Some(labels) = labels.get(volume.name.as_str()) else {
            continue;
        };
        let Some(shared) = find(volume) else { continue };
        if labels.len() > 1 {
            ambiguous.push(volume.name.clone());
            continue;
        }
        let mounts_with_label = shared.supports_label && chosen != RECURSIVE;
        let label = labels.first().filter(|_| mounts_with_label);
        let label = label.cloned().unwrap_or_default();
        let policy = if shared.supports_label && !label.is_empty() {
            chosen
        } else {
            RECURSIVE
        };
        found.push(Usage {
            volume: shared.id,
            label,
            policy: policy.into(),
        });
    }
    (found, ambiguous)
}

/// A conflict between two pods, as reported on one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The pod that gets the event.
    pub pod: Key,
    /// The event's reason.
    pub reason: &'static str,
    /// The event's message.
    pub message: String,
}

/// The volumes that pods use, and how.
#[derive(Debug, Default)]
pub struct VolumeUsers {
    volumes: HashMap<String, BTreeMap<Key, (String, Text)>>,
    of_pods: HashMap<Key, Vec<Usage>>,
}

impl VolumeUsers {
    /// Records how a pod uses its volumes. Returns the conflicts of new usages.
    pub fn set(&mut self, pod: &Key, usages: Vec<Usage>) -> Vec<Conflict> {
        let before = self.of_pods.get(pod);
        let new: Vec<Usage> = usages
            .iter()
            .filter(|usage| !before.is_some_and(|before| before.contains(usage)))
            .cloned()
            .collect();
        self.remove(pod);
        for usage in &usages {
            let users = self.volumes.entry(usage.volume.clone()).or_default();
            users.insert(pod.clone(), (usage.label.clone(), usage.policy.clone()));
        }
        self.of_pods.insert(pod.clone(), usages);
        new.iter().flat_map(|it| self.conflicts(pod, it)).collect()
    }

    /// Forgets a pod.
    pub fn remove(&mut self, pod: &Key) {
        for usage in self.of_pods.remove(pod).unwrap_or_default() {
            if let Some(users) = self.volumes.get_mut(&usage.volume) {
                users.remove(pod);
                if users.is_empty() {
                    self.volumes.remove(&usage.volume);
                }
            }
        }
    }

    fn conflicts(&self, pod: &Key, usage: &Usage) -> Vec<Conflict> {
        let mut found = Vec::new();
        let users = self.volumes.get(&usage.volume);
        for (other, (label, policy)) in users.into_iter().flatten() {
            let mut tell = |property: &str, reason, own: &str, others: &str| {
                for (one, value, another, other_value) in
                    [(pod, own, other, others), (other, others, pod, own)]
                {
                    found.push(Conflict {
                        pod: one.clone(),
                        reason,
                        message: message(property, one, value, another, other_value),
                    });
                }
            };
            if *policy != usage.policy {
                let reason = "SELinuxChangePolicyConflict";
                tell("SELinuxChangePolicy", reason, &usage.policy, policy);
            }
            if labels_conflict(&usage.label, label) {
                tell("SELinuxLabel", "SELinuxLabelConflict", &usage.label, label);
            }
        }
        found
    }
}

fn message(property: &str, pod: &Key, value: &str, other: &Key, other_value: &str) -> String {
    let end = "If both pods land on the same node, only one of them may access the volume.";
    if pod.namespace == other.namespace {
        let name = &other.name;
        format!(
            "{property} \"{value}\" conflicts with pod {name} that uses the same volume as this pod with {property} \"{other_value}\". {end}"
        )
    } else {
        // Names of other namespaces are not disclosed. Upstream has no space here.
        format!(
            "{property}\"{value}\" conflicts with another pod that uses the same volume as this pod with a different {property}. {end}"
        )
    }
}

/// Whether two labels differ in a part that both have. Levels must be equal.
fn labels_conflict(a: &str, b: &str) -> bool {
    let parts = |label: &str| {
        let mut parts = label.splitn(4, ':').map(ToOwned::to_owned);
        [(); 4].map(|()| parts.next().unwrap_or_default())
    };
    let (a, b) = (parts(a), parts(b));
    let mut pairs = a.iter().zip(&b).enumerate();
    pairs.any(|(i, (a, b))| a != b && (i == 3 || (!a.is_empty() && !b.is_empty())))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(options: Value, policy: Option<&str>) -> LabelledPod {
        let pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {
            "securityContext": {"seLinuxOptions": options, "seLinuxChangePolicy": policy},
            "containers": [{"volumeMounts": [{"name": "v"}]}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}},
                {"name": "idle", "persistentVolumeClaim": {"claimName": "d"}}]}});
        serde_json::from_value(pod).unwrap()
    }

    fn shared(supports_label: bool) -> impl Fn(&LabelledVolume) -> Option<SharedVolume> {
        move |_| {
            Some(SharedVolume {
                id: "disk".to_owned(),
                supports_label,
            })
        }
    }

    fn used(pod: &LabelledPod, supports_label: bool) -> (String, String) {
        let (usages, ambiguous) = usages(pod, shared(supports_label));
        assert!(ambiguous.is_empty());
        assert_eq!(usages.len(), 1);
        (usages[0].label.clone(), usages[0].policy.to_string())
    }

    #[test]
    fn volumes_are_labelled_at_mount_only_where_pod_and_driver_allow_it() {
        let level = json!({"level": "s0:c1"});
        let both = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let labelled = pod(level.clone(), None);
        assert_eq!(used(&labelled, true), both(":::s0:c1", "MountOption"));
        assert_eq!(used(&labelled, false), both("", "Recursive"));
        let recursive = pod(level, Some("Recursive"));
        assert_eq!(used(&recursive, true), both("", "Recursive"));
        assert_eq!(used(&pod(Value::Null, None), true), both("", "Recursive"));
    }

    #[test]
    fn containers_that_disagree_make_a_volume_ambiguous() {
        let mut value = json!({"spec": {"volumes": [{"name": "v"}], "containers": []}});
        for level in ["s0:c1", "s0:c2"] {
            value["spec"]["containers"]
                .as_array_mut()
                .unwrap()
                .push(json!({
                "securityContext": {"seLinuxOptions": {"level": level}},
                "volumeMounts": [{"name": "v"}]}));
        }
        let pod: LabelledPod = serde_json::from_value(value).unwrap();
        let (found, ambiguous) = usages(&pod, shared(true));
        assert!(found.is_empty());
        assert_eq!(ambiguous, ["v"]);
    }

    #[test]
    fn labels_conflict_in_parts_that_both_have_and_in_levels() {
        assert!(!labels_conflict("", ""));
        assert!(!labels_conflict("u:r:t:s0", "u:::s0"));
        assert!(labels_conflict("u:r:t:s0", "v:r:t:s0"));
        assert!(labels_conflict(":::s0:c1", ":::s0:c2"));
        assert!(labels_conflict(":::s0", ""));
    }

    #[test]
    fn both_pods_of_a_conflict_are_told_once() {
        let usage = |label: &str| Usage {
            volume: "disk".to_owned(),
            label: label.to_owned(),
            policy: MOUNT_OPTION.into(),
        };
        let (a, b, far) = (Key::new("n", "a"), Key::new("n", "b"), Key::new("m", "c"));
        let mut users = VolumeUsers::default();
        assert!(users.set(&a, vec![usage(":::s0:c1")]).is_empty());
        let told = users.set(&b, vec![usage(":::s0:c2")]);
        assert_eq!(told.len(), 2);
        assert_eq!(told[0].pod, b);
        assert_eq!(
            told[0].message,
            "SELinuxLabel \":::s0:c2\" conflicts with pod a that uses the same volume as this pod with SELinuxLabel \":::s0:c1\". If both pods land on the same node, only one of them may access the volume."
        );
        assert!(users.set(&b, vec![usage(":::s0:c2")]).is_empty());
        let told = users.set(&far, vec![usage(":::s0:c1")]);
        assert_eq!(told.len(), 2, "only with b");
        assert!(!told[0].message.contains("pod b"));
        users.remove(&b);
        users.remove(&far);
        assert!(users.set(&b, vec![usage(":::s0:c1")]).is_empty());
    }
}
