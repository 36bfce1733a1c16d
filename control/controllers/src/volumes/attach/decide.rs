//! Decides which volumes are attached to and detached from one node.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::views::{CsiDriver, Node, Pod, Text, Volume, VolumeAttachment};

/// On nodes whose kubelet leaves attaching to the control plane.
const MANAGED: &str = "volumes.kubernetes.io/controller-managed-attach-detach";
/// The taint of nodes that an operator declared to be out of service.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// How long the volumes of a node that is not healthy are waited for.
pub(super) const UNMOUNT_WAIT: Duration = Duration::from_secs(6 * 60);

/// A volume that pods of the node use.
pub(super) struct WantedVolume {
    pub volume: Arc<Volume>,
    pub pods: Vec<Arc<Pod>>,
}

/// An attachment to the node.
pub(super) struct HeldAttachment {
    pub attachment: Arc<VolumeAttachment>,
    pub volume: Option<Arc<Volume>>,
    /// How long it has been waited for to be unmounted.
    pub waited: Option<Duration>,
}

/// The input of the decision for one node.
pub(super) struct AttachSnapshot<'a> {
    /// The node, unless it was deleted.
    pub node: Option<&'a Node>,
    pub wanted: &'a [WantedVolume],
    pub held: &'a [HeldAttachment],
    /// Whether a volume is, or may be, attached to another node.
    pub is_elsewhere: &'a dyn Fn(&Volume) -> bool,
}

/// One write; actions run in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AttachAction {
    /// Says that the volume of this index among the wanted ones is attached.
    ReportAttached(usize),
    /// Says that it could not be attached.
    ReportFailure(usize, String),
    /// Says that it is in use on another node.
    ReportBlocked(usize),
    /// Attaches it.
    Attach(usize),
    /// Replaces the list of attached volumes in the node's status.
    Status(Vec<Text>),
    /// Removes the attachment of this index among the held ones. Unless `force`, only
    /// when the node that answers the status still does not use it.
    Detach { held: usize, force: bool },
    /// Counts from now on how long the node takes to unmount it.
    AwaitUnmount(usize),
}

/// The name that drivers' volumes have in the status of nodes.
pub(super) fn unique_name(volume: &Volume) -> Option<Text> {
    let csi = volume.spec.csi.as_ref()?;
    Some(format!("kubernetes.io/csi/{}^{}", csi.driver, csi.volume_handle).into())
}

/// The name of the attachment of a volume to a node.
pub(super) fn attachment_name(volume: &Volume, node: &str) -> Option<String> {
    let csi = volume.spec.csi.as_ref()?;
    let digest = Sha256::digest(format!("{}{}{node}", csi.volume_handle, csi.driver));
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("csi-{hex}"))
}

/// Whether this controller made an attachment: others have other names.
pub(super) fn is_own(attachment: &VolumeAttachment, volume: Option<&Volume>) -> bool {
    let name = &attachment.metadata.name;
    match volume.and_then(|volume| attachment_name(volume, &attachment.spec.node_name)) {
        Some(expected) => *name == expected,
        None => name
            .strip_prefix("csi-")
            .is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())),
    }
}

/// Whether volumes of a driver must be attached before nodes can mount them.
pub(super) fn needs_attach(driver: Option<&CsiDriver>) -> bool {
    driver.is_none_or(|driver| driver.spec.attach_required != Some(false))
}

/// Whether a volume may be attached to several nodes.
pub(super) fn is_shareable(volume: &Volume) -> bool {
    let modes = &volume.spec.access_modes;
    let shares = |mode: &Text| mode == "ReadWriteMany" || mode == "ReadOnlyMany";
    modes.is_empty() || modes.iter().any(shares)
}

/// The volumes in the node's status.
struct NodeState<'a> {
    in_use: BTreeSet<&'a str>,
    reported: BTreeSet<&'a str>,
    is_healthy: bool,
    is_out_of_service: bool,
}

impl<'a> NodeState<'a> {
    fn of(node: Option<&'a Node>) -> Self {
        let Some(node) = node else {
            // a deleted node mounts nothing
            return Self {
                in_use: BTreeSet::new(),
                reported: BTreeSet::new(),
                is_healthy: false,
                is_out_of_service: false,
            };
        };
        let status = &node.status;
        let attached = status.volumes_attached.iter();
        let mut conditions = status.conditions.iter();
        let mut taints = node.spec.taints.iter();
        Self {
            in_use: status.volumes_in_use.iter().map(Text::as_str).collect(),
            reported: attached.map(|volume| volume.name.as_str()).collect(),
            is_healthy: conditions.any(|c| c.r#type == "Ready" && c.status == "True"),
            is_out_of_service: taints
                .any(|taint| taint.key == OUT_OF_SERVICE && taint.effect == "NoExecute"),
        }
    }

    /// Returns whether the node may still have it mounted. If the volume of an attachment
    /// was deleted, only the driver is known.
    fn uses(&self, held: &HeldAttachment) -> bool {
        match held.volume.as_deref().and_then(unique_name) {
            Some(name) => self.in_use.contains(name.as_str()),
            None => {
                let prefix = format!("kubernetes.io/csi/{}^", held.attachment.spec.attacher);
                self.in_use.iter().any(|name| name.starts_with(&prefix))
            }
        }
    }
}

/// Returns the next steps for one node, in order.
pub(super) fn decide(snapshot: &AttachSnapshot<'_>) -> Vec<AttachAction> {
    let managed = |node: &Node| node.metadata.annotations.contains_key(MANAGED);
    if snapshot.node.is_some_and(|node| !managed(node)) {
        return Vec::new();
    }
    let state = NodeState::of(snapshot.node);
    let wanted = snapshot.node.map_or(&[][..], |_| snapshot.wanted);
    let (mut actions, mut report) = (Vec::new(), BTreeSet::new());
    for (index, want) in wanted.iter().enumerate() {
        let held = snapshot.held.iter().find(|held| is_of(held, &want.volume));
        let Some(held) = held else {
            let exclusive = !is_shareable(&want.volume);
            actions.push(if exclusive && (snapshot.is_elsewhere)(&want.volume) {
                AttachAction::ReportBlocked(index)
            } else {
                AttachAction::Attach(index)
            });
            continue;
        };
        let status = &held.attachment.status;
        if held.attachment.metadata.is_terminating() {
            continue;
        }
        if status.attached {
            let Some(name) = unique_name(&want.volume) else {
                continue;
            };
            if !state.reported.contains(name.as_str()) {
                actions.push(AttachAction::ReportAttached(index));
            }
            report.insert(name);
        } else if let Some(error) = &status.attach_error {
            actions.push(AttachAction::ReportFailure(index, error.message.clone()));
        }
    }
    let mut detach = Vec::new();
    for (index, held) in snapshot.held.iter().enumerate() {
        let is_wanted = wanted.iter().any(|want| is_of(held, &want.volume));
        if is_wanted || held.attachment.metadata.is_terminating() {
            continue;
        }
        let expired = held.waited.is_some_and(|waited| waited >= UNMOUNT_WAIT);
        let force = state.is_out_of_service || (expired && !state.is_healthy);
        if !state.uses(held) || force {
            detach.push(AttachAction::Detach { held: index, force });
            continue;
        }
        if held.attachment.status.attached {
            report.extend(held.volume.as_deref().and_then(unique_name));
        }
        if held.waited.is_none() {
            actions.push(AttachAction::AwaitUnmount(index));
        }
    }
    let changed = !report.iter().map(Text::as_str).eq(state.reported);
    if snapshot.node.is_some() && changed {
        let report = report.into_iter().collect();
        // Events follow the status: success is reported when the node may mount.
        actions.insert(0, AttachAction::Status(report));
    }
    actions.extend(detach);
    actions
}

fn is_of(held: &HeldAttachment, volume: &Volume) -> bool {
    let source = &held.attachment.spec.source.persistent_volume_name;
    source.as_deref() == Some(volume.metadata.name.as_str())
}

/// Returns the event for pods that need a volume which another node has. `others` are the
/// pods on other nodes that use it, by namespace and name; only those of the pod's own
/// namespace are named.
pub(super) fn multi_attach_message(
    volume: &str,
    namespace: &str,
    others: &[(Text, Text)],
) -> String {
    let local = others.iter().filter(|(of, _)| of == namespace);
    let local: Vec<&str> = local.map(|(_, name)| name.as_str()).collect();
    let foreign = others.len() - local.len();
    let why = match (others.len(), local.is_empty(), foreign) {
        (0, ..) => {
            "Volume is already exclusively attached to one node and can't be attached to another"
                .to_owned()
        }
        (_, true, _) => {
            format!("Volume is already used by {foreign} pod(s) in different namespaces")
        }
        (_, false, 0) => format!("Volume is already used by pod(s) {}", local.join(", ")),
        (_, false, _) => format!(
            "Volume is already used by pod(s) {} and {foreign} pod(s) in different namespaces",
            local.join(", ")
        ),
    };
    format!("Multi-Attach error for volume {volume:?} {why}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NAME: &str = "kubernetes.io/csi/d^h";

    fn volume(modes: &[&str]) -> Arc<Volume> {
        let volume = json!({"metadata": {"name": "v"}, "spec": {"accessModes": modes,
            "csi": {"driver": "d", "volumeHandle": "h"}}});
        Arc::new(serde_json::from_value(volume).unwrap())
    }

    fn node(ready: bool, in_use: &[&str], attached: &[&str], taints: Value) -> Node {
        let attached: Vec<Value> = attached.iter().map(|name| json!({"name": name})).collect();
        let ready = if ready { "True" } else { "Unknown" };
        serde_json::from_value(
            json!({"metadata": {"name": "n", "annotations": {MANAGED: "true"}},
            "spec": {"taints": taints}, "status": {"volumesInUse": in_use,
                "volumesAttached": attached, "conditions": [{"type": "Ready", "status": ready}]}}),
        )
        .unwrap()
    }

    fn held(status: Value, deleting: bool, waited: Option<u64>) -> HeldAttachment {
        let mut attachment = json!({"metadata": {"name": "a"}, "spec": {"attacher": "d",
            "nodeName": "n", "source": {"persistentVolumeName": "v"}}, "status": status});
        if deleting {
            attachment["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        HeldAttachment {
            attachment: Arc::new(serde_json::from_value(attachment).unwrap()),
            volume: Some(volume(&[])),
            waited: waited.map(Duration::from_secs),
        }
    }

    fn decided(
        node: Option<&Node>,
        wanted: bool,
        held: &[HeldAttachment],
        elsewhere: bool,
    ) -> Vec<AttachAction> {
        let want = WantedVolume {
            volume: volume(&["ReadWriteOnce"]),
            pods: Vec::new(),
        };
        decide(&AttachSnapshot {
            node,
            wanted: if wanted {
                std::slice::from_ref(&want)
            } else {
                &[]
            },
            held,
            is_elsewhere: &|_| elsewhere,
        })
    }

    #[test]
    fn names_are_those_of_upstream() {
        // echo -n 'hdn' | sha256sum
        assert_eq!(
            attachment_name(&volume(&[]), "n").unwrap(),
            format!("csi-{}", {
                let digest = Sha256::digest(b"hdn");
                digest
                    .iter()
                    .map(|b| format!("{b:02x}"))
                    .collect::<String>()
            })
        );
        assert_eq!(unique_name(&volume(&[])).unwrap(), NAME);
    }

    #[test]
    fn wanted_volume_is_attached_unless_another_node_has_it() {
        let n = node(true, &[], &[], json!([]));
        assert_eq!(
            decided(Some(&n), true, &[], false),
            [AttachAction::Attach(0)]
        );
        assert_eq!(
            decided(Some(&n), true, &[], true),
            [AttachAction::ReportBlocked(0)]
        );
        assert_eq!(decided(None, true, &[], false), []);
        let unmanaged = Node::default();
        assert_eq!(decided(Some(&unmanaged), true, &[], false), []);
        let waits = held(json!({}), false, None);
        assert_eq!(decided(Some(&n), true, &[waits], false), []);
        let fails = held(json!({"attachError": {"message": "full"}}), false, None);
        assert_eq!(
            decided(Some(&n), true, &[fails], false),
            [AttachAction::ReportFailure(0, "full".into())]
        );
    }

    #[test]
    fn attached_volume_is_reported_once() {
        let attached = || held(json!({"attached": true}), false, None);
        let n = node(true, &[], &[], json!([]));
        assert_eq!(
            decided(Some(&n), true, &[attached()], false),
            [
                AttachAction::Status(vec![NAME.into()]),
                AttachAction::ReportAttached(0)
            ]
        );
        let n = node(true, &[], &[NAME], json!([]));
        assert_eq!(decided(Some(&n), true, &[attached()], false), []);
        // while it is detached it is not safe to mount
        let going = held(json!({"attached": true}), true, None);
        assert_eq!(
            decided(Some(&n), true, &[going], false),
            [AttachAction::Status(vec![])]
        );
    }

    #[test]
    fn volume_is_detached_when_it_is_unmounted_or_its_node_is_lost() {
        let taint = json!([{"key": OUT_OF_SERVICE, "effect": "NoExecute"}]);
        let attached = |waited| held(json!({"attached": true}), false, waited);
        let detach = |force| AttachAction::Detach { held: 0, force };
        let gone = AttachAction::Status(vec![]);
        for (ready, in_use, taints, waited, expected) in [
            (true, false, json!([]), None, vec![gone, detach(false)]),
            (
                true,
                true,
                json!([]),
                None,
                vec![AttachAction::AwaitUnmount(0)],
            ),
            (true, true, json!([]), Some(10), vec![]),
            // a healthy node is never forced
            (true, true, json!([]), Some(400), vec![]),
            (false, true, json!([]), Some(359), vec![]),
            (
                false,
                true,
                json!([]),
                Some(360),
                vec![AttachAction::Status(vec![]), detach(true)],
            ),
            (
                true,
                true,
                taint,
                None,
                vec![AttachAction::Status(vec![]), detach(true)],
            ),
        ] {
            let in_use: &[&str] = if in_use { &[NAME] } else { &[] };
            let node = node(ready, in_use, &[NAME], taints);
            let actions = decided(Some(&node), false, &[attached(waited)], false);
            assert_eq!(actions, expected, "{ready} {in_use:?} {waited:?}");
        }
        assert_eq!(
            decided(None, false, &[attached(None)], false),
            [detach(false)]
        );
        let going = held(json!({"attached": true}), true, None);
        assert_eq!(decided(None, false, &[going], false), []);
    }

    #[test]
    fn attachment_of_an_unknown_volume_waits_for_all_volumes_of_its_driver() {
        let mut unknown = held(json!({"attached": true}), false, None);
        unknown.volume = None;
        let busy = node(true, &["kubernetes.io/csi/d^other"], &[], json!([]));
        assert_eq!(
            decided(Some(&busy), false, &[unknown], false),
            [AttachAction::AwaitUnmount(0)]
        );
    }

    #[test]
    fn only_own_attachments_are_touched() {
        let mut attachment = VolumeAttachment::default();
        attachment.spec.node_name = "n".into();
        attachment.metadata.name = attachment_name(&volume(&[]), "n").unwrap().into();
        assert!(is_own(&attachment, Some(&volume(&[]))));
        assert!(is_own(&attachment, None));
        attachment.metadata.name = "mine".into();
        assert!(!is_own(&attachment, Some(&volume(&[]))));
        assert!(!is_own(&attachment, None));
    }

    #[test]
    fn other_namespaces_are_not_told_names() {
        let pod = |namespace: &str, name: &str| (Text::from(namespace), Text::from(name));
        let all = [pod("a", "p"), pod("a", "q"), pod("b", "r")];
        for (others, message) in [
            (
                &all[..0],
                "Volume is already exclusively attached to one node and can't be attached to another",
            ),
            (&all[..2], "Volume is already used by pod(s) p, q"),
            (
                &all[..],
                "Volume is already used by pod(s) p, q and 1 pod(s) in different namespaces",
            ),
            (
                &all[2..],
                "Volume is already used by 1 pod(s) in different namespaces",
            ),
        ] {
            assert_eq!(
                multi_attach_message("v", "a", others),
                format!("Multi-Attach error for volume \"v\" {message}")
            );
        }
    }
}
