//! Which devices there are, and whose they are: pure, without any plugin.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use node_agent_cri::RuntimeError;
use node_agent_objects::status::{ResourceHealth, ResourceStatus};
use prost::Message as _;
use serde::{Deserialize, Serialize};

use super::api::{ContainerAllocateResponse, ContainerDevices, Device, NumaNode, TopologyInfo};
use crate::hints::{NumaMask, TopologyHint, TopologyHints};
use crate::{checksum, fields, list, map, typed};

/// Why a container does not get its devices.
#[derive(Debug, thiserror::Error)]
pub enum AllocationError {
    /// It has another number of them already.
    #[error(
        "pod \"{pod}\" container \"{container}\" changed request for resource \"{resource}\" from {held} to {requested}"
    )]
    RequestChanged {
        /// The pod's uid.
        pod: String,
        /// The container.
        container: String,
        /// The resource.
        resource: String,
        /// How many it has.
        held: usize,
        /// How many it requests.
        requested: usize,
    },
    /// The resource has no plugin.
    #[error("cannot allocate unregistered device {0}")]
    Unregistered(String),
    /// The resource has no healthy device.
    #[error("no healthy devices present; cannot allocate unhealthy devices {0}")]
    Unhealthy(String),
    /// Others have them.
    #[error(
        "requested number of devices unavailable for {resource}. Requested: {requested}, Available: {available}"
    )]
    Unavailable {
        /// The resource.
        resource: String,
        /// How many it needs.
        requested: usize,
        /// How many are free.
        available: usize,
    },
    /// The plugin refused a call or did not answer.
    #[error(transparent)]
    Call(#[from] RuntimeError),
    /// The plugin's answer is empty.
    #[error("no containers return in allocation response of {0}")]
    NoResponse(String),
}

/// Why a text is no checkpoint of devices.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It is not JSON, or lacks fields.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A plugin's response is not base64.
    #[error(transparent)]
    Base64(#[from] base64::DecodeError),
    /// A plugin's response is no message.
    #[error(transparent)]
    Response(#[from] prost::DecodeError),
}

/// The devices of one resource that a container holds.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceGrant {
    /// The pod.
    pub pod: String,
    /// The container.
    pub container: String,
    /// The resource.
    pub resource: String,
    /// By NUMA node, -1 for none: the devices.
    pub ids: BTreeMap<i64, BTreeSet<String>>,
    /// What the container needs for them.
    pub response: ContainerAllocateResponse,
}

impl DeviceGrant {
    /// The devices.
    pub fn devices(&self) -> impl Iterator<Item = &String> {
        self.ids.values().flatten()
    }

    /// As monitors are told, a message for each NUMA node.
    pub fn pod_resources(&self) -> impl Iterator<Item = ContainerDevices> {
        self.ids.iter().map(|(node, ids)| ContainerDevices {
            resource_name: self.resource.clone(),
            device_ids: ids.iter().cloned().collect(),
            topology: (*node >= 0).then(|| TopologyInfo {
                nodes: vec![NumaNode { id: *node }],
            }),
        })
    }
}

/// The devices of one resource.
#[derive(Clone, Debug, Default)]
struct DeviceResource {
    all: BTreeMap<String, Device>,
    /// Whether its plugin is there.
    served: bool,
}

/// All devices of the node, and which containers hold them.
#[derive(Clone, Debug, Default)]
pub struct DevicePool {
    resources: BTreeMap<String, DeviceResource>,
    grants: Vec<DeviceGrant>,
}

/// The devices of one resource that are about to be granted.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceChoice {
    /// Devices that have to be among those taken.
    pub must: BTreeSet<String>,
    /// Devices that can be.
    pub free: BTreeSet<String>,
    /// How many in all.
    pub count: usize,
}

impl DeviceChoice {
    /// The devices, as far as possible those that the plugin prefers.
    #[must_use]
    pub fn pick(&self, preferred: &[String]) -> BTreeSet<String> {
        let mut taken = self.must.clone();
        let preferred = preferred.iter().filter(|id| self.free.contains(*id));
        for id in preferred.chain(&self.free) {
            if taken.len() >= self.count {
                break;
            }
            taken.insert(id.clone());
        }
        taken
    }
}

impl DevicePool {
    /// Takes what a plugin says of its devices now: the pods that have some, if
    /// others are of use than before.
    pub fn set(&mut self, resource: &str, devices: Vec<Device>) -> BTreeSet<String> {
        let before = self.healthy(resource);
        let own = self.resources.entry(resource.to_owned()).or_default();
        own.served = true;
        own.all = devices.into_iter().map(|d| (d.id.clone(), d)).collect();
        self.having(resource, self.healthy(resource) != before)
    }

    /// Notes that the plugin is gone: its devices are of no use until it is
    /// back. The pods that have some, if they were of use.
    pub fn lost(&mut self, resource: &str) -> BTreeSet<String> {
        let before = self.healthy(resource);
        if let Some(own) = self.resources.get_mut(resource) {
            own.served = false;
        }
        self.having(resource, !before.is_empty())
    }

    fn having(&self, resource: &str, changed: bool) -> BTreeSet<String> {
        let own = self.grants.iter();
        let own = own.filter(|g| changed && g.resource == resource);
        own.map(|g| g.pod.clone()).collect()
    }

    /// By container: how the devices are that a pod was given. Those of which
    /// no plugin told are taken for good.
    #[must_use]
    pub fn health(&self, pod: &str) -> BTreeMap<String, Vec<ResourceStatus>> {
        let mut all: BTreeMap<String, Vec<ResourceStatus>> = BTreeMap::new();
        for grant in self.grants.iter().filter(|g| g.pod == pod) {
            let known = self.resources.get(&grant.resource);
            let healthy = self.healthy(&grant.resource);
            let health = |id: &String| ResourceHealth {
                resource_id: id.clone(),
                health: match known {
                    Some(own) if own.all.contains_key(id) && !healthy.contains(id) => "Unhealthy",
                    _ => "Healthy",
                }
                .to_owned(),
                message: None,
            };
            let own = all.entry(grant.container.clone()).or_default();
            own.push(ResourceStatus {
                name: grant.resource.clone(),
                resources: grant.devices().map(health).collect(),
            });
        }
        all
    }

    /// Whether a plugin has, or had, the resource.
    #[must_use]
    pub fn knows(&self, resource: &str) -> bool {
        self.resources.contains_key(resource) || self.grants.iter().any(|g| g.resource == resource)
    }

    fn healthy(&self, resource: &str) -> BTreeSet<String> {
        let own = self.resources.get(resource).filter(|own| own.served);
        own.into_iter()
            .flat_map(|own| own.all.values())
            .filter(|device| device.health == "Healthy")
            .map(|device| device.id.clone())
            .collect()
    }

    /// By resource: how many devices there are, and how many of use.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, (usize, usize)> {
        self.resources
            .iter()
            .map(|(name, own)| {
                let healthy = self.healthy(name).len();
                (name.clone(), (own.all.len(), healthy))
            })
            .collect()
    }

    /// All devices of use, as monitors are told.
    #[must_use]
    pub fn usable(&self) -> Vec<ContainerDevices> {
        let mut pool = self.clone();
        pool.grants.clear();
        for resource in self.resources.keys() {
            let healthy = self.healthy(resource);
            let response = ContainerAllocateResponse::default();
            pool.grant("", "", resource, &healthy, response);
        }
        pool.grants
            .iter()
            .flat_map(DeviceGrant::pod_resources)
            .collect()
    }

    /// What a container was given of all resources.
    pub fn grants_of<'a>(
        &'a self,
        pod: &'a str,
        container: &'a str,
    ) -> impl Iterator<Item = &'a DeviceGrant> {
        self.grants
            .iter()
            .filter(move |g| g.pod == pod && g.container == container)
    }

    /// All grants.
    #[cfg(test)]
    pub fn grants(&self) -> &[DeviceGrant] {
        &self.grants
    }

    /// What a container can take; none when it has what it asks for. Of
    /// `before` are the pod's containers that are through when this one starts.
    ///
    /// # Errors
    /// Why it cannot have that many.
    pub fn choose(
        &self,
        pod: &str,
        container: &str,
        resource: &str,
        count: usize,
        before: &[&str],
        near: Option<NumaMask>,
    ) -> Result<Option<DeviceChoice>, AllocationError> {
        let held: BTreeSet<String> = self
            .grants_of(pod, container)
            .filter(|g| g.resource == resource)
            .flat_map(|g| g.devices().cloned())
            .collect();
        if held.len() == count && count > 0 {
            return Ok(None);
        }
        if !held.is_empty() {
            return Err(AllocationError::RequestChanged {
                pod: pod.to_owned(),
                container: container.to_owned(),
                resource: resource.to_owned(),
                held: held.len(),
                requested: count,
            });
        }
        let served = self.resources.get(resource).is_some_and(|own| own.served);
        if !served {
            return Err(AllocationError::Unregistered(resource.to_owned()));
        }
        let healthy = self.healthy(resource);
        if healthy.is_empty() {
            return Err(AllocationError::Unhealthy(resource.to_owned()));
        }
        let (mut again, free) = self.left(pod, resource, before);
        again = again.into_iter().take(count).collect();
        let needed = count - again.len();
        if free.len() < needed {
            return Err(AllocationError::Unavailable {
                resource: resource.to_owned(),
                requested: needed,
                available: free.len(),
            });
        }
        let aligned: BTreeSet<String> = match near {
            None => BTreeSet::new(),
            Some(near) => free
                .iter()
                .filter(|id| {
                    self.nodes_of(resource, id)
                        .is_some_and(|n| n.and(near).count() > 0)
                })
                .cloned()
                .collect(),
        };
        // enough of them are there: the plugin chooses among them alone
        if needed <= aligned.len() {
            return Ok(Some(DeviceChoice {
                must: again,
                free: aligned,
                count,
            }));
        }
        again.extend(aligned);
        Ok(Some(DeviceChoice {
            must: again,
            free,
            count,
        }))
    }

    /// The devices that containers of the pod have who are through, and those
    /// that nobody has.
    fn left(
        &self,
        pod: &str,
        resource: &str,
        before: &[&str],
    ) -> (BTreeSet<String>, BTreeSet<String>) {
        let healthy = self.healthy(resource);
        let own = |through: bool| -> BTreeSet<&String> {
            self.grants
                .iter()
                .filter(|g| g.pod == pod && g.resource == resource)
                .filter(|g| before.contains(&g.container.as_str()) == through)
                .flat_map(DeviceGrant::devices)
                .collect()
        };
        // what one has that is through, and nobody who is not
        let again = own(true)
            .difference(&own(false))
            .filter(|id| healthy.contains(**id))
            .map(|id| (*id).clone())
            .collect();
        let taken: BTreeSet<&String> = self
            .grants
            .iter()
            .filter(|g| g.resource == resource)
            .flat_map(DeviceGrant::devices)
            .collect();
        let free = healthy.iter().filter(|id| !taken.contains(id));
        (again, free.cloned().collect())
    }

    /// The NUMA nodes of a device; none for one without a place.
    fn nodes_of(&self, resource: &str, id: &str) -> Option<NumaMask> {
        let device = self.resources.get(resource)?.all.get(id)?;
        let nodes = &device.topology.as_ref()?.nodes;
        Some(
            nodes
                .iter()
                .filter_map(|n| u32::try_from(n.id).ok())
                .collect(),
        )
    }

    /// On which of `nodes` a container, or a whole pod, could get so many; none
    /// where no device of the resource has a place.
    #[must_use]
    pub fn places(
        &self,
        pod: &str,
        container: Option<&str>,
        resource: &str,
        count: usize,
        before: &[&str],
        nodes: NumaMask,
    ) -> TopologyHints {
        let own = self.resources.get(resource)?;
        if own.all.values().all(|device| device.topology.is_none()) {
            return None;
        }
        let held: BTreeSet<String> = self
            .grants
            .iter()
            .filter(|g| g.pod == pod && g.resource == resource)
            .filter(|g| container.is_none_or(|name| g.container == name))
            .flat_map(|g| g.devices().cloned())
            .collect();
        let (again, free) = if held.is_empty() {
            self.left(pod, resource, before)
        } else {
            (BTreeSet::new(), held.clone())
        };
        if !held.is_empty() && held.len() != count || again.len() + free.len() < count {
            return Some(Vec::new());
        }
        let inside = |id: &&String, mask: NumaMask| {
            let place = self.nodes_of(resource, id);
            place.is_some_and(|place| place.and(mask).count() > 0)
        };
        let mut least = nodes.count();
        let mut found = Vec::new();
        for mask in nodes.subsets() {
            let of_all = own.all.keys().filter(|id| inside(id, mask)).count();
            if of_all >= count {
                least = least.min(mask.count());
            }
            let placed: Vec<&String> = again
                .iter()
                .filter(|id| self.nodes_of(resource, id).is_some())
                .collect();
            let has = placed.len() + free.iter().filter(|id| inside(id, mask)).count();
            if placed.iter().all(|id| inside(id, mask)) && has >= count {
                found.push(mask);
            }
        }
        let hint = |nodes: NumaMask| TopologyHint {
            nodes: Some(nodes),
            preferred: nodes.count() == least,
        };
        Some(found.into_iter().map(hint).collect())
    }

    /// Gives devices to a container.
    pub fn grant(
        &mut self,
        pod: &str,
        container: &str,
        resource: &str,
        devices: &BTreeSet<String>,
        response: ContainerAllocateResponse,
    ) {
        let mut ids: BTreeMap<i64, BTreeSet<String>> = BTreeMap::new();
        for id in devices {
            let device = self.resources.get(resource).and_then(|own| own.all.get(id));
            let nodes = device.and_then(|d| d.topology.as_ref());
            let nodes: Vec<i64> = nodes
                .into_iter()
                .flat_map(|t| &t.nodes)
                .map(|n| n.id)
                .collect();
            // a device without a place is at -1
            for node in if nodes.is_empty() { vec![-1] } else { nodes } {
                ids.entry(node).or_default().insert(id.clone());
            }
        }
        self.grants.push(DeviceGrant {
            pod: pod.to_owned(),
            container: container.to_owned(),
            resource: resource.to_owned(),
            ids,
            response,
        });
    }

    /// Takes back what pods were given that are not to be kept; whether there
    /// was any.
    pub fn keep(&mut self, keeps: impl Fn(&str) -> bool) -> bool {
        let before = self.grants.len();
        self.grants.retain(|g| keeps(&g.pod));
        before != self.grants.len()
    }

    /// As the kubelet's checkpoint.
    #[must_use]
    pub fn save(&self) -> String {
        let base64 = base64::engine::general_purpose::STANDARD;
        let entries = self.grants.iter().map(|g| DeviceCheckpointEntry {
            pod_uid: g.pod.clone(),
            container_name: g.container.clone(),
            resource_name: g.resource.clone(),
            device_ids: g.ids.clone(),
            alloc_resp: base64.encode(g.response.encode_to_vec()),
        });
        let registered = self.resources.keys().map(|name| {
            let healthy = self.healthy(name).into_iter().collect();
            (name.clone(), healthy)
        });
        let checkpoint = DeviceCheckpoint {
            data: DeviceCheckpointData {
                pod_device_entries: Some(entries.collect()),
                registered_devices: Some(registered.collect()),
            },
            checksum: 0,
        };
        let checkpoint = DeviceCheckpoint {
            checksum: checkpoint.data.checksum(),
            ..checkpoint
        };
        serde_json::to_string(&checkpoint).unwrap_or_default()
    }

    /// From a checkpoint, the agent's or the kubelet's. Resources are there
    /// again when their plugins are.
    ///
    /// # Errors
    /// When it is none.
    pub fn load(text: &str) -> Result<Self, LoadError> {
        let checkpoint: DeviceCheckpoint = serde_json::from_str(text)?;
        let base64 = base64::engine::general_purpose::STANDARD;
        let mut pool = Self::default();
        for name in checkpoint
            .data
            .registered_devices
            .unwrap_or_default()
            .into_keys()
        {
            pool.resources.insert(name, DeviceResource::default());
        }
        for entry in checkpoint.data.pod_device_entries.unwrap_or_default() {
            let bytes = base64.decode(&entry.alloc_resp)?;
            pool.grants.push(DeviceGrant {
                pod: entry.pod_uid,
                container: entry.container_name,
                resource: entry.resource_name,
                ids: entry.device_ids,
                response: ContainerAllocateResponse::decode(&*bytes)?,
            });
        }
        Ok(pool)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DeviceCheckpoint {
    data: DeviceCheckpointData,
    #[serde(default)]
    checksum: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DeviceCheckpointData {
    pod_device_entries: Option<Vec<DeviceCheckpointEntry>>,
    registered_devices: Option<BTreeMap<String, Vec<String>>>,
}

impl DeviceCheckpointData {
    /// As the kubelet computes it.
    fn checksum(&self) -> u64 {
        let text = |text: &String| typed("string", text);
        let base64 = base64::engine::general_purpose::STANDARD;
        let entry = |entry: &DeviceCheckpointEntry| {
            let ids = map(entry.device_ids.iter().map(|(node, ids)| (node, list(ids))));
            let bytes = base64.decode(&entry.alloc_resp).unwrap_or_default();
            fields(&[
                ("PodUID", text(&entry.pod_uid)),
                ("ContainerName", text(&entry.container_name)),
                ("ResourceName", text(&entry.resource_name)),
                ("DeviceIDs", typed("checkpoint.DevicesPerNUMA", ids)),
                ("AllocResp", typed("[]uint8", list(bytes))),
            ])
        };
        let entries = list(self.pod_device_entries.iter().flatten().map(entry));
        let registered = self.registered_devices.iter().flatten();
        let registered = map(registered.map(|(name, ids)| (name, list(ids))));
        let all = fields(&[
            (
                "PodDeviceEntries",
                typed("[]checkpoint.PodDevicesEntry", entries),
            ),
            (
                "RegisteredDevices",
                typed("map[string][]string", registered),
            ),
        ]);
        checksum(&typed("checkpoint.checkpointData", all))
    }
}

#[derive(Serialize, Deserialize)]
struct DeviceCheckpointEntry {
    #[serde(rename = "PodUID")]
    pod_uid: String,
    #[serde(rename = "ContainerName")]
    container_name: String,
    #[serde(rename = "ResourceName")]
    resource_name: String,
    #[serde(rename = "DeviceIDs")]
    device_ids: BTreeMap<i64, BTreeSet<String>>,
    #[serde(rename = "AllocResp")]
    alloc_resp: String,
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
