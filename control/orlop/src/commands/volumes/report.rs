//! The rows of `orlop volumes`.

use std::collections::BTreeSet;

use control_types::quantity::{Format, Quantity};
use serde::Serialize;
use serde_json::Value;

use super::{DRIVER, node_of};

/// The objects of which the rows are made.
#[derive(Debug, Default)]
pub struct Inventory {
    pub claims: Vec<Value>,
    pub volumes: Vec<Value>,
    pub classes: Vec<Value>,
    pub pods: Vec<Value>,
    /// Events about claims.
    pub events: Vec<Value>,
    /// The kubelets' reports of volume usage.
    pub summaries: Vec<Value>,
}

/// A claim and its volume, or a volume without a claim.
#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    namespace: String,
    claim: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    volume: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    class: String,
    /// The storage behind the volume, as its driver reports it.
    #[serde(skip_serializing_if = "Storage::is_unknown")]
    storage: Storage,
    size: String,
    /// Bytes in use, while a pod has the volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    used_bytes: Option<i64>,
    /// The phase of the claim, or of a volume without one.
    state: String,
    /// Why it is pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// The storage behind a volume.
#[derive(Debug, Default, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// Class of devices in the node's configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    device_class: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backend: Option<String>,
    /// The image, folder or device.
    #[serde(skip_serializing_if = "Option::is_none")]
    location: Option<String>,
    /// The disk of an image or a folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    disk: Option<String>,
}

impl Storage {
    fn of(volume: &Value) -> Self {
        let attributes = &volume["spec"]["csi"]["volumeAttributes"];
        let attribute = |name: &str| {
            let text = attributes[format!("{DRIVER}/{name}")].as_str();
            text.map(str::to_owned)
        };
        Self {
            device_class: attribute("class"),
            backend: attribute("backend"),
            location: attribute("location"),
            disk: attribute("disk"),
        }
    }

    fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    fn cell(&self) -> String {
        let place = self.disk.as_ref().or(self.location.as_ref());
        let parts: Vec<&str> = [self.backend.as_ref(), place]
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect();
        if parts.is_empty() {
            return "-".to_owned();
        }
        parts.join(" ")
    }
}

impl Inventory {
    /// Returns the nodes that have volumes.
    pub fn nodes(&self) -> BTreeSet<String> {
        let nodes = self.volumes.iter().filter_map(node_of);
        nodes.map(str::to_owned).collect()
    }

    fn is_of_driver(&self, class: &str) -> bool {
        let mut classes = self.classes.iter();
        classes.any(|it| it["metadata"]["name"] == class && it["provisioner"] == DRIVER)
    }

    /// Returns how many bytes of a claim's volume are used, by a kubelet's summary.
    fn used(&self, namespace: &str, claim: &str) -> Option<i64> {
        let pods = self.summaries.iter().flat_map(|it| list(&it["pods"]));
        let mut volumes = pods.flat_map(|pod| list(&pod["volume"]));
        let own = volumes
            .find(|it| it["pvcRef"]["namespace"] == namespace && it["pvcRef"]["name"] == claim)?;
        own["usedBytes"].as_i64()
    }

    /// Returns why a claim has no volume: what its pod waits for, or the last event.
    fn reason(&self, namespace: &str, claim: &str) -> Option<String> {
        let is_own = |event: &&Value| {
            let about = &event["involvedObject"];
            about["namespace"] == namespace && about["name"] == claim
        };
        let time = |event: &Value| {
            let time = event["lastTimestamp"].as_str();
            time.or(event["eventTime"].as_str())
                .unwrap_or_default()
                .to_owned()
        };
        let mut events: Vec<&Value> = self.events.iter().filter(is_own).collect();
        events.sort_by_key(|event| time(event));
        let failed = events.iter().rev().find(|it| it["type"] == "Warning");
        let unscheduled = self.pods.iter().find_map(|pod| {
            let mut volumes = list(&pod["spec"]["volumes"]);
            let uses = volumes.any(|it| it["persistentVolumeClaim"]["claimName"] == claim);
            let mut conditions = list(&pod["status"]["conditions"]);
            let waits =
                conditions.find(|it| it["type"] == "PodScheduled" && it["status"] == "False")?;
            let name = pod["metadata"]["name"].as_str()?;
            let message = waits["message"].as_str()?;
            (uses && pod["metadata"]["namespace"] == namespace)
                .then(|| format!("pod {name}: {message}"))
        });
        let message = |event: &&Value| Some(event["message"].as_str()?.to_owned());
        let failed = failed.and_then(message);
        failed
            .or(unscheduled)
            .or_else(|| events.last().and_then(message))
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns a row for each claim that has or waits for a local volume, and for each local
/// volume without a claim.
pub fn rows(inventory: &Inventory) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut claimed = BTreeSet::new();
    for claim in &inventory.claims {
        let meta = &claim["metadata"];
        let (namespace, name) = (text(&meta["namespace"]), text(&meta["name"]));
        let class = text(&claim["spec"]["storageClassName"]);
        let mut volumes = inventory.volumes.iter();
        let volume = volumes
            .find(|it| it["spec"]["claimRef"]["uid"] == meta["uid"] && node_of(it).is_some());
        if volume.is_none() && !inventory.is_of_driver(&class) {
            continue;
        }
        claimed.extend(volume.map(|it| text(&it["metadata"]["name"])));
        let annotation = &meta["annotations"]["volume.kubernetes.io/selected-node"];
        let node = volume.and_then(node_of).or(annotation.as_str());
        let state = text(&claim["status"]["phase"]);
        let size = match claim["status"]["capacity"]["storage"].as_str() {
            Some(size) => size.to_owned(),
            None => text(&claim["spec"]["resources"]["requests"]["storage"]),
        };
        rows.push(Row {
            volume: volume.map(|it| text(&it["metadata"]["name"])),
            node: node.map(str::to_owned),
            class,
            storage: volume.map(Storage::of).unwrap_or_default(),
            size,
            used_bytes: inventory.used(&namespace, &name),
            reason: (state == "Pending")
                .then(|| inventory.reason(&namespace, &name))
                .flatten(),
            state,
            namespace,
            claim: name,
        });
    }
    for volume in &inventory.volumes {
        let Some(node) = node_of(volume) else {
            continue;
        };
        let name = text(&volume["metadata"]["name"]);
        let phase = text(&volume["status"]["phase"]);
        // Claims in other namespaces are left out when one namespace was requested.
        if claimed.contains(&name) || phase == "Bound" {
            continue;
        }
        rows.push(Row {
            namespace: String::new(),
            claim: String::new(),
            volume: Some(name),
            node: Some(node.to_owned()),
            class: text(&volume["spec"]["storageClassName"]),
            storage: Storage::of(volume),
            size: text(&volume["spec"]["capacity"]["storage"]),
            used_bytes: None,
            state: phase,
            reason: volume["status"]["message"].as_str().map(str::to_owned),
        });
    }
    rows
}

impl Row {
    /// Returns the cells of the table.
    pub fn cells(&self) -> [String; 9] {
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let used = self.used_bytes.map_or_else(
            || "-".to_owned(),
            |bytes| {
                let size = Quantity::parse(&self.size).map_or(0, |size| size.value());
                let mebibytes = Quantity::new(bytes >> 20 << 20, Format::BinarySI);
                match bytes.saturating_mul(100).checked_div(size) {
                    Some(percent) => format!("{} ({percent}%)", mebibytes.canonical()),
                    None => mebibytes.canonical().to_string(),
                }
            },
        );
        let state = match &self.reason {
            Some(reason) => format!("{}: {reason}", self.state),
            None => self.state.clone(),
        };
        let dash = |text: &str| if text.is_empty() { "-" } else { text }.to_owned();
        [
            dash(&self.namespace),
            dash(&self.claim),
            or_dash(&self.node),
            dash(&self.class),
            self.storage.cell(),
            self.size.clone(),
            used,
            state,
            or_dash(&self.volume),
        ]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn inventory() -> Inventory {
        let claim = |name: &str, uid: &str, class: &str, phase: &str| {
            json!({
                "metadata": {"namespace": "shop", "name": name, "uid": uid},
                "spec": {"storageClassName": class,
                    "resources": {"requests": {"storage": "1Gi"}}},
                "status": {"phase": phase}
            })
        };
        let volume = |name: &str, claim: &str, phase: &str| {
            json!({
                "metadata": {"name": name},
                "spec": {
                    "csi": {"driver": DRIVER, "volumeAttributes": {
                        "csi.orlop.dev/backend": "file", "csi.orlop.dev/disk": "/dev/sdb"
                    }},
                    "claimRef": {"uid": claim},
                    "capacity": {"storage": "1Gi"}, "storageClassName": "local",
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                        {"key": super::super::NODE_KEY, "operator": "In", "values": ["n1"]}
                    ]}]}}
                },
                "status": {"phase": phase}
            })
        };
        Inventory {
            claims: vec![
                claim("data", "u1", "local", "Bound"),
                claim("waits", "u2", "local", "Pending"),
                claim("foreign", "u3", "nfs", "Pending"),
            ],
            volumes: vec![
                volume("pvc-u1", "u1", "Bound"),
                volume("pvc-u9", "u9", "Released"),
            ],
            classes: vec![
                json!({"metadata": {"name": "local"}, "provisioner": DRIVER}),
                json!({"metadata": {"name": "nfs"}, "provisioner": "nfs.example.com"}),
            ],
            summaries: vec![json!({"pods": [{"volume": [{
                "pvcRef": {"namespace": "shop", "name": "data"}, "usedBytes": 256 << 20
            }]}]})],
            ..Inventory::default()
        }
    }

    #[test]
    fn each_local_volume_is_shown_with_its_node_and_how_full_it_is() {
        let rows = rows(&inventory());
        let cells: Vec<_> = rows.iter().map(Row::cells).collect();
        let row = |cells: [&str; 9]| cells.map(str::to_owned);
        assert_eq!(
            cells,
            [
                row([
                    "shop",
                    "data",
                    "n1",
                    "local",
                    "file /dev/sdb",
                    "1Gi",
                    "256Mi (25%)",
                    "Bound",
                    "pvc-u1"
                ]),
                row([
                    "shop", "waits", "-", "local", "-", "1Gi", "-", "Pending", "-"
                ]),
                row([
                    "-",
                    "-",
                    "n1",
                    "local",
                    "file /dev/sdb",
                    "1Gi",
                    "-",
                    "Released",
                    "pvc-u9"
                ]),
            ]
        );
        assert_eq!(inventory().nodes(), BTreeSet::from(["n1".to_owned()]));
    }

    #[test]
    fn a_pending_claim_says_what_failed_or_what_its_pod_waits_for() {
        let mut all = inventory();
        let event = |kind: &str, time: &str, message: &str| {
            json!({"involvedObject": {"namespace": "shop", "name": "waits"}, "type": kind,
                "lastTimestamp": time, "message": message})
        };
        let reason = |all: &Inventory| rows(all)[1].reason.clone().unwrap_or_default();
        all.events = vec![event(
            "Normal",
            "2026-01-01T00:00:02Z",
            "waiting for first consumer",
        )];
        assert_eq!(reason(&all), "waiting for first consumer");
        all.pods = vec![json!({
            "metadata": {"namespace": "shop", "name": "web"},
            "spec": {"volumes": [{"persistentVolumeClaim": {"claimName": "waits"}}]},
            "status": {"conditions": [{"type": "PodScheduled", "status": "False",
                "message": "0/1 nodes are available"}]}
        })];
        assert_eq!(reason(&all), "pod web: 0/1 nodes are available");
        all.events
            .push(event("Warning", "2026-01-01T00:00:01Z", "no space"));
        assert_eq!(reason(&all), "no space");
    }
}
