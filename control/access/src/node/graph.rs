//! Counts which objects a node's pods refer to. Names are interned, however many pods
//! refer to them.

use compact_str::CompactString;
use control_load_balancer::{PASSWORD_NAMESPACE, PASSWORD_SECRET};
use control_types::labels::Selector;
use control_types::meta;
use control_types::value::Value;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::references;

/// Kinds of objects that pods refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum VertexKind {
    Secret,
    ConfigMap,
    Claim,
    ServiceAccount,
    ResourceClaim,
}

/// Kinds of objects that name their node themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum OwnNode {
    Attachment,
    Slice,
}

#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: FxHashMap<CompactString, u32>,
    targets: FxHashMap<Target, u32>,
    /// Slots by the number of a target; one without nodes is free.
    slots: Vec<Slot>,
    free: Vec<u32>,
    pods: FxHashMap<VertexName, Pod>,
    /// Volumes with their owners.
    volumes: FxHashMap<CompactString, Volume>,
    /// Secret → volumes that are mounted with it.
    unlocked: FxHashMap<VertexName, SmallVec<[CompactString; 1]>>,
    /// Objects of kinds that name their node → it.
    owned: FxHashMap<(OwnNode, VertexName), u32>,
    /// BGPPeer → the Secret of its password, and the nodes that speak with it.
    peers: FxHashMap<CompactString, Peer>,
}

/// Namespace and name.
type VertexName = (CompactString, CompactString);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Target {
    kind: VertexKind,
    place: VertexName,
}

#[derive(Debug, Default)]
struct Slot {
    target: Option<Target>,
    /// Nodes, and by how many pods each.
    nodes: SmallVec<[(u32, u32); 1]>,
}

#[derive(Debug)]
struct Pod {
    node: u32,
    targets: Box<[u32]>,
}

#[derive(Debug)]
struct Peer {
    secret: CompactString,
    nodes: Selector,
}

#[derive(Debug)]
struct Volume {
    claim: VertexName,
    secrets: Box<[VertexName]>,
}

fn place(namespace: &str, name: &str) -> VertexName {
    (namespace.into(), name.into())
}

impl Graph {
    /// The number of a node; nodes are never forgotten, there are few.
    fn node(&mut self, name: &str) -> u32 {
        if let Some(known) = self.nodes.get(name) {
            return *known;
        }
        let number = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        self.nodes.insert(name.into(), number);
        number
    }

    /// Takes a pod as it is now. One without a node refers to nothing yet.
    pub fn set_pod(&mut self, pod: &Value) {
        let at = place(meta::namespace(pod), meta::name(pod));
        self.remove_pod_at(&at);
        let Some(node) = pod
            .str_at(&["spec", "nodeName"])
            .filter(|node| !node.is_empty())
        else {
            return;
        };
        let node = self.node(node);
        let mut all = FxHashSet::default();
        references::of_pod(pod, |kind, name| {
            all.insert(Target {
                kind,
                place: (at.0.clone(), name.into()),
            });
        });
        let targets = all.into_iter().map(|target| self.refer(node, target));
        let targets = targets.collect();
        self.pods.insert(at, Pod { node, targets });
    }

    /// Forgets a deleted pod.
    pub fn remove_pod(&mut self, namespace: &str, name: &str) {
        self.remove_pod_at(&place(namespace, name));
    }

    fn remove_pod_at(&mut self, at: &VertexName) {
        let Some(old) = self.pods.remove(at) else {
            return;
        };
        for number in old.targets {
            self.forget(old.node, number);
        }
    }

    fn refer(&mut self, node: u32, target: Target) -> u32 {
        let number = match self.targets.get(&target) {
            Some(known) => *known,
            None => {
                let number = self.free.pop().unwrap_or_else(|| {
                    self.slots.push(Slot::default());
                    u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
                });
                self.slots[number as usize].target = Some(target.clone());
                self.targets.insert(target, number);
                number
            }
        };
        let nodes = &mut self.slots[number as usize].nodes;
        match nodes.iter_mut().find(|(known, _)| *known == node) {
            Some((_, count)) => *count += 1,
            None => nodes.push((node, 1)),
        }
        number
    }

    fn forget(&mut self, node: u32, number: u32) {
        let slot = &mut self.slots[number as usize];
        if let Some(at) = slot.nodes.iter().position(|(known, _)| *known == node) {
            slot.nodes[at].1 -= 1;
            if slot.nodes[at].1 == 0 {
                slot.nodes.swap_remove(at);
            }
        }
        if slot.nodes.is_empty()
            && let Some(target) = slot.target.take()
        {
            self.targets.remove(&target);
            self.free.push(number);
        }
    }

    /// Takes a persistent volume as it is now.
    pub fn set_volume(&mut self, volume: &Value) {
        let name = meta::name(volume);
        self.remove_volume(name);
        let claim = |field| volume.str_at(&["spec", "claimRef", field]);
        let Some(of) = claim("name") else { return };
        let claim = place(claim("namespace").unwrap_or_default(), of);
        let mut secrets = Vec::new();
        references::secrets_of_volume(volume, |namespace, secret| {
            secrets.push(place(namespace, secret));
        });
        for secret in &secrets {
            let volumes = self.unlocked.entry(secret.clone()).or_default();
            volumes.push(name.into());
        }
        let secrets = secrets.into();
        self.volumes.insert(name.into(), Volume { claim, secrets });
    }

    /// Forgets a deleted persistent volume.
    pub fn remove_volume(&mut self, name: &str) {
        let Some(old) = self.volumes.remove(name) else {
            return;
        };
        for secret in old.secrets {
            if let Some(volumes) = self.unlocked.get_mut(&secret) {
                volumes.retain(|volume| volume != name);
                if volumes.is_empty() {
                    self.unlocked.remove(&secret);
                }
            }
        }
    }

    /// Takes a BGPPeer as it is now. A peer without a password refers to no Secret, and a
    /// peer whose selector cannot be parsed selects no node.
    pub fn set_peer(&mut self, peer: &Value) {
        let name = meta::name(peer);
        self.peers.remove(name);
        let password = peer.path(&["spec", "passwordSecret"]);
        let Some(password) = password.filter(|password| !password.is_null()) else {
            return;
        };
        let selector = peer.path(&["spec", "nodeSelector"]);
        let nodes = match selector.filter(|selector| !selector.is_null()) {
            None => Selector::everything(),
            selector => match Selector::from_object(selector) {
                Ok(nodes) => nodes,
                Err(_) => return,
            },
        };
        let secret = password.str_at(&["name"]).unwrap_or(PASSWORD_SECRET).into();
        self.peers.insert(name.into(), Peer { secret, nodes });
    }

    /// Forgets a deleted BGPPeer.
    pub fn remove_peer(&mut self, name: &str) {
        self.peers.remove(name);
    }

    /// Whether the object is the Secret of a BGP peer of which the nodes pass `selected`.
    pub fn is_password(
        &self,
        kind: VertexKind,
        namespace: &str,
        name: &str,
        selected: impl Fn(&Selector) -> bool,
    ) -> bool {
        let mut peers = self.peers.values();
        kind == VertexKind::Secret
            && namespace == PASSWORD_NAMESPACE
            && peers.any(|peer| peer.secret == name && selected(&peer.nodes))
    }

    /// Takes an object that names its node; an empty node is none.
    pub fn set_owned(&mut self, kind: OwnNode, namespace: &str, name: &str, node: &str) {
        if node.is_empty() {
            self.remove_owned(kind, namespace, name);
            return;
        }
        let node = self.node(node);
        self.owned.insert((kind, place(namespace, name)), node);
    }

    /// Forgets it.
    pub fn remove_owned(&mut self, kind: OwnNode, namespace: &str, name: &str) {
        self.owned.remove(&(kind, place(namespace, name)));
    }

    /// Whether a pod of the node refers to the object, itself or by a volume.
    pub fn refers(&self, node: &str, kind: VertexKind, namespace: &str, name: &str) -> bool {
        let Some(node) = self.nodes.get(node) else {
            return false;
        };
        let at = place(namespace, name);
        let by_volume = |at: &VertexName| {
            kind == VertexKind::Secret
                && self.unlocked.get(at).is_some_and(|volumes| {
                    let mut claims = volumes.iter().filter_map(|name| self.volumes.get(name));
                    claims
                        .any(|volume| self.has_pod(*node, VertexKind::Claim, volume.claim.clone()))
                })
        };
        by_volume(&at) || self.has_pod(*node, kind, at)
    }

    fn has_pod(&self, node: u32, kind: VertexKind, place: VertexName) -> bool {
        let target = self.targets.get(&Target { kind, place });
        target.is_some_and(|number| {
            let nodes = &self.slots[*number as usize].nodes;
            nodes.iter().any(|(known, _)| *known == node)
        })
    }

    /// Whether a pod of the node mounts the persistent volume.
    pub fn mounts(&self, node: &str, volume: &str) -> bool {
        let found = self.nodes.get(node).zip(self.volumes.get(volume));
        found.is_some_and(|(node, volume)| {
            self.has_pod(*node, VertexKind::Claim, volume.claim.clone())
        })
    }

    /// Whether the object names the node.
    pub fn owns(&self, node: &str, kind: OwnNode, namespace: &str, name: &str) -> bool {
        let of = self.owned.get(&(kind, place(namespace, name)));
        of.is_some() && of == self.nodes.get(node)
    }

    /// Whether the pod is bound to the node.
    pub fn runs(&self, node: &str, namespace: &str, name: &str) -> bool {
        let of = self.pods.get(&place(namespace, name)).map(|pod| &pod.node);
        of.is_some() && of == self.nodes.get(node)
    }

    /// How many objects pods refer to.
    #[cfg(test)]
    pub fn targets(&self) -> usize {
        self.targets.len()
    }
}
