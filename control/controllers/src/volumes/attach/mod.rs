//! The attach-detach controller: attaches the volumes of CSI drivers to the nodes whose
//! pods use them, through VolumeAttachments that the drivers carry out, and lists in the
//! nodes' status what may be mounted.
//!
//! A volume that only one node may have is attached to a second node when the first
//! attachment is deleted. One worker decides for all nodes. Created attachments count
//! from the request on, until the cache shows them or the server denies them.

mod decide;
mod index;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use control_client::events::{ObjectReference, Recorder};
use control_client::{Client, DeleteOptions, Error, Metadata, Patch, Queue, resources};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::time::Instant;

use self::decide::{
    AttachAction, AttachSnapshot, HeldAttachment, UNMOUNT_WAIT, WantedVolume, attachment_name,
    decide, is_own, multi_attach_message, needs_attach, unique_name,
};
use self::index::{Index, claims_of};
use super::pods::is_terminated;
use crate::Controller;
use crate::context::Context;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::{Claim, CsiDriver, Node, Pod, Text, Volume, VolumeAttachment};
use crate::work::{self, Outcome};
use crate::written::OwnWrites;

/// Attaches and detaches volumes.
pub const CONTROLLER: Controller = Controller {
    name: "persistentvolume-attach-detach-controller",
    service_account: "attachdetach-controller",
    start,
};

/// After this time the server is asked for an attachment that the cache does not show.
const SHOWN_AFTER: Duration = Duration::from_secs(5);
const FAILED: &str = "FailedAttachVolume";

/// State of one node that is kept between two reconciliations.
#[derive(Debug, Default)]
struct NodeMemory {
    /// Attachments that were created, or may have been, and are not in the cache.
    pending: HashMap<Text, PendingReconciles>,
    /// Since when attachments wait for their volume to be unmounted.
    waiting: HashMap<Text, Instant>,
    /// The last reported message of a volume, by node and volume.
    reported: HashMap<(Text, Text), String>,
    /// Nodes that wait for a volume that another has.
    blocked: HashMap<Text, BTreeSet<Text>>,
}

#[derive(Debug, Clone)]
struct PendingReconciles {
    volume: Text,
    node: Text,
    since: Instant,
}

struct Attacher {
    client: Client,
    recorder: Recorder,
    nodes: Arc<KindCache<Node>>,
    pods: Arc<KindCache<Pod>>,
    claims: Arc<KindCache<Claim>>,
    volumes: Arc<KindCache<Volume>>,
    drivers: Arc<KindCache<CsiDriver>>,
    attachments: Arc<KindCache<VolumeAttachment>>,
    index: Mutex<Index>,
    memory: Mutex<NodeMemory>,
    written: OwnWrites,
    /// Names of nodes.
    queue: Queue<Key>,
}

fn start(ctx: &Context) -> BoxFuture<'static, ()> {
    let this = Arc::new(Attacher {
        client: ctx.client.clone(),
        recorder: ctx.recorder("attachdetach-controller"),
        nodes: ctx.nodes(),
        pods: ctx.pods(),
        claims: ctx.claims(),
        volumes: ctx.volumes(),
        drivers: ctx.csi_drivers(),
        attachments: ctx.attachments(),
        index: Mutex::default(),
        memory: Mutex::default(),
        written: OwnWrites::default(),
        queue: work::queue(),
    });
    this.listen();
    let shutdown = ctx.shutdown.clone();
    Box::pin(async move {
        this.nodes.ready().await;
        this.pods.ready().await;
        this.claims.ready().await;
        this.volumes.ready().await;
        this.drivers.ready().await;
        this.attachments.ready().await;
        let work = work::call(&this, |this, key| async move { this.sync(key).await });
        this.queue.run("attachdetach", 1, &shutdown, work).await;
    })
}

/// Whether a change of a node affects its volumes.
fn concerns(before: &Node, after: &Node) -> bool {
    let ready = |node: &Node| {
        let mut conditions = node.status.conditions.iter();
        conditions.any(|c| c.r#type == "Ready" && c.status == "True")
    };
    before.metadata.uid != after.metadata.uid
        || before.metadata.annotations != after.metadata.annotations
        || before.spec.taints != after.spec.taints
        || before.status.volumes_in_use != after.status.volumes_in_use
        || before.status.volumes_attached != after.status.volumes_attached
        || ready(before) != ready(after)
}

impl Attacher {
    fn listen(self: &Arc<Self>) {
        let this = Arc::clone(self);
        self.pods.on_change(move |change| {
            let (previous, current) = (change.previous.as_deref(), change.current.as_deref());
            let uses_claims = |pod: &&Pod| claims_of(pod).next().is_some();
            if !previous
                .into_iter()
                .chain(current)
                .any(|pod| uses_claims(&pod))
            {
                return;
            }
            this.index().pod_changed(previous, current);
            for pod in previous.into_iter().chain(current) {
                this.queue_node(&pod.spec.node_name);
            }
        });
        let this = Arc::clone(self);
        self.claims.on_change(move |change| {
            let state =
                |claim: &Arc<Claim>| (claim.spec.volume_name.clone(), claim.status.phase.clone());
            if change.previous.as_ref().map(state) != change.current.as_ref().map(state)
                && let Some(claim) = change.latest()
            {
                this.queue_users(&Key::from_meta(&claim.metadata));
            }
        });
        let this = Arc::clone(self);
        self.volumes.on_change(move |change| {
            let state =
                |volume: &Arc<Volume>| (volume.spec.claim_ref.clone(), volume.spec.csi.clone());
            if change.previous.as_ref().map(state) != change.current.as_ref().map(state)
                && let Some(volume) = change.latest()
                && let Some(claim) = &volume.spec.claim_ref
            {
                this.queue_users(&Key::new(claim.namespace.clone(), claim.name.clone()));
            }
        });
        let this = Arc::clone(self);
        self.nodes.on_change(move |change| {
            let same = matches!((&change.previous, &change.current),
                (Some(before), Some(after)) if !concerns(before, after));
            if let Some(node) = change.latest().filter(|_| !same) {
                this.queue_node(&node.metadata.name);
            }
        });
        let this = Arc::clone(self);
        self.drivers.on_change(move |_| {
            for node in this.nodes.all() {
                this.queue_node(&node.metadata.name);
            }
        });
        let this = Arc::clone(self);
        self.attachments.on_change(move |change| {
            this.attachment_changed(change.previous.as_deref(), change.current.as_deref());
        });
    }

    fn attachment_changed(
        &self,
        previous: Option<&VolumeAttachment>,
        current: Option<&VolumeAttachment>,
    ) {
        self.index().attachment_changed(previous, current);
        let Some(latest) = current.or(previous) else {
            return;
        };
        let mut memory = self.memory();
        memory.pending.remove(&latest.metadata.name);
        self.queue_node(&latest.spec.node_name);
        if current.is_none() {
            memory.waiting.remove(&latest.metadata.name);
            let volume = latest.spec.source.persistent_volume_name.as_ref();
            let blocked = volume.and_then(|volume| memory.blocked.remove(volume));
            for node in blocked.into_iter().flatten() {
                self.queue_node(&node);
            }
        }
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn memory(&self) -> MutexGuard<'_, NodeMemory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue_node(&self, name: &Text) {
        if !name.is_empty() {
            self.queue.add(Key::new("", name.clone()));
        }
    }

    fn queue_users(&self, claim: &Key) {
        for (_, node) in self.index().users(claim) {
            self.queue_node(&node);
        }
    }

    /// The attachable volumes that pods of the node use.
    fn wanted(&self, node: &str) -> Vec<WantedVolume> {
        let mut wanted: BTreeMap<Text, WantedVolume> = BTreeMap::new();
        let keys = self.index().pods(node);
        for pod in keys.iter().filter_map(|key| self.pods.by_key(key)) {
            if pod.spec.node_name != node || is_terminated(&pod) {
                continue;
            }
            for volume in claims_of(&pod).filter_map(|claim| self.volume_of(&claim)) {
                let csi = volume.spec.csi.as_ref();
                let driver = csi.and_then(|csi| self.drivers.get("", &csi.driver));
                if csi.is_some() && needs_attach(driver.as_deref()) {
                    let name = volume.metadata.name.clone();
                    let entry = wanted.entry(name).or_insert_with(|| WantedVolume {
                        volume,
                        pods: Vec::new(),
                    });
                    entry.pods.push(Arc::clone(&pod));
                }
            }
        }
        wanted.into_values().collect()
    }

    /// The volume that a claim is bound to.
    fn volume_of(&self, claim: &Key) -> Option<Arc<Volume>> {
        let claim = self.claims.by_key(claim)?;
        if claim.status.phase != "Bound" {
            return None;
        }
        let volume = self.volumes.get("", &claim.spec.volume_name)?;
        let reference = volume.spec.claim_ref.as_ref();
        reference
            .is_some_and(|reference| reference.uid == claim.metadata.uid)
            .then_some(volume)
    }

    fn volume_of_attachment(&self, attachment: &VolumeAttachment) -> Option<Arc<Volume>> {
        let name = attachment.spec.source.persistent_volume_name.as_ref()?;
        self.volumes.get("", name)
    }

    fn held(&self, node: &str, now: Instant) -> Vec<HeldAttachment> {
        let names = self.index().attachments(node);
        let attachments = names
            .iter()
            .filter_map(|name| self.attachments.get("", name));
        let held = attachments.map(|attachment| {
            let waiting = self
                .memory()
                .waiting
                .get(&attachment.metadata.name)
                .copied();
            HeldAttachment {
                volume: self.volume_of_attachment(&attachment),
                waited: waiting.map(|since| now.saturating_duration_since(since)),
                attachment,
            }
        });
        held.filter(|held| is_own(&held.attachment, held.volume.as_deref()))
            .collect()
    }

    /// Whether a volume is, or may be, attached to another node than this.
    fn is_elsewhere(&self, volume: &Volume, node: &str) -> bool {
        let name = &volume.metadata.name;
        let shown = self.index().nodes(name).any(|(attachment, other)| {
            let expected = attachment_name(volume, other);
            other != node && expected.as_deref() == Some(attachment.as_str())
        });
        let pending = &self.memory().pending;
        let mut pending = pending.values();
        shown || pending.any(|one| one.volume == *name && one.node != node)
    }

    async fn sync(&self, key: Key) -> Outcome {
        self.confirm_pending().await?;
        let (name, now) = (&key.name, Instant::now());
        let node = self.nodes.get("", name);
        if let Some(left) = self
            .written
            .behind(&key, node.as_ref().map(|node| &node.metadata))
        {
            return Ok(Some(left));
        }
        let mut wanted = self.wanted(name);
        let held = self.held(name, now);
        let is_pending = |volume: &Volume| {
            let memory = self.memory();
            let mut pending = memory.pending.values();
            pending.any(|one| one.volume == volume.metadata.name && one.node == *name)
        };
        let before = wanted.len();
        wanted.retain(|want| !is_pending(&want.volume));
        let mut wake = (wanted.len() < before).then_some(SHOWN_AFTER);
        self.forget(name, &wanted, &held);
        let actions = decide(&AttachSnapshot {
            node: node.as_deref(),
            wanted: &wanted,
            held: &held,
            is_elsewhere: &|volume| self.is_elsewhere(volume, name),
        });
        let left = held
            .iter()
            .filter_map(|held| UNMOUNT_WAIT.checked_sub(held.waited?));
        wake = wake
            .into_iter()
            .chain(left.filter(|left| !left.is_zero()))
            .min();
        let mut answer: Option<Node> = None;
        for action in actions {
            match action {
                AttachAction::Status(volumes) => answer = self.write_status(name, &volumes).await?,
                AttachAction::ReportAttached(want) => {
                    let volume = wanted[want].volume.metadata.name.as_str();
                    let message = format!("AttachVolume.Attach succeeded for volume {volume:?} ");
                    for pod in &wanted[want].pods {
                        let about = ObjectReference::to_object(&resources::PODS, &pod.metadata);
                        self.recorder
                            .normal(&about, "SuccessfulAttachVolume", message.clone());
                    }
                }
                AttachAction::ReportFailure(want, why) => {
                    let volume = wanted[want].volume.metadata.name.as_str();
                    let message =
                        format!("AttachVolume.Attach failed for volume {volume:?} : {why}");
                    self.report(name, &wanted[want], &why, |_| message.clone());
                }
                AttachAction::ReportBlocked(want) => self.report_blocked(name, &wanted[want]),
                AttachAction::Attach(want) => self.attach(name, &wanted[want]).await?,
                AttachAction::AwaitUnmount(index) => {
                    let attachment = held[index].attachment.metadata.name.clone();
                    self.memory().waiting.insert(attachment, now);
                    wake = Some(wake.map_or(UNMOUNT_WAIT, |wake| wake.min(UNMOUNT_WAIT)));
                }
                AttachAction::Detach { held: index, force } => {
                    if !force && !self.is_safe(name, &held[index], &mut answer).await? {
                        // The node's event brings it back.
                        return Ok(Some(work::CACHE_BEHIND));
                    }
                    self.detach(&held[index]).await?;
                }
            }
        }
        Ok(wake)
    }

    /// Asks the server for attachments that the cache should show by now.
    async fn confirm_pending(&self) -> Result<(), Error> {
        let late: Vec<Text> = {
            let memory = self.memory();
            let late = memory.pending.iter();
            let late = late.filter(|(_, pending)| pending.since.elapsed() >= SHOWN_AFTER);
            late.map(|(name, _)| name.clone()).collect()
        };
        for name in late {
            let found = self
                .client
                .get::<Metadata>(&resources::VOLUME_ATTACHMENTS, "", &name)
                .await;
            match found {
                Err(error) if error.is_not_found() => {
                    let gone = self.memory().pending.remove(&name);
                    let volume = gone.map(|gone| gone.volume).unwrap_or_default();
                    let blocked = self.memory().blocked.remove(&volume);
                    for node in blocked.into_iter().flatten() {
                        self.queue_node(&node);
                    }
                }
                other => {
                    other?;
                    if let Some(pending) = self.memory().pending.get_mut(&name) {
                        pending.since = Instant::now();
                    }
                }
            }
        }
        Ok(())
    }

    /// Forgets volumes that are wanted again, or no longer held.
    fn forget(&self, node: &Text, wanted: &[WantedVolume], held: &[HeldAttachment]) {
        let is_wanted = |volume: &str| {
            let mut wanted = wanted.iter();
            wanted.any(|want| want.volume.metadata.name == volume)
        };
        let mut memory = self.memory();
        for held in held {
            let source = &held.attachment.spec.source.persistent_volume_name;
            if source.as_deref().is_some_and(is_wanted) {
                memory.waiting.remove(&held.attachment.metadata.name);
            }
        }
        memory
            .reported
            .retain(|(of, volume), _| of != node || is_wanted(volume));
    }

    /// Records one event on each pod of a volume about a problem.
    fn report(
        &self,
        node: &Text,
        want: &WantedVolume,
        why: &str,
        message: impl Fn(&Pod) -> String,
    ) {
        let key = (node.clone(), want.volume.metadata.name.clone());
        let before = self.memory().reported.insert(key, why.to_owned());
        if before.as_deref() == Some(why) {
            return;
        }
        for pod in &want.pods {
            let about = ObjectReference::to_object(&resources::PODS, &pod.metadata);
            self.recorder.warning(&about, FAILED, message(pod));
        }
    }

    fn report_blocked(&self, node: &Text, want: &WantedVolume) {
        let volume = &want.volume.metadata.name;
        {
            let mut memory = self.memory();
            let blocked = memory.blocked.entry(volume.clone()).or_default();
            blocked.insert(node.clone());
        }
        let mut others: Vec<(Text, Text)> = Vec::new();
        if let Some(claim) = &want.volume.spec.claim_ref {
            let claim = Key::new(claim.namespace.clone(), claim.name.clone());
            let users = self.index().users(&claim);
            let users = users.into_iter().filter(|(_, other)| other != node);
            others.extend(users.map(|(pod, _)| (pod.namespace, pod.name)));
        }
        self.report(node, want, "Multi-Attach", |pod| {
            multi_attach_message(volume, &pod.metadata.namespace, &others)
        });
    }

    async fn attach(&self, node: &Text, want: &WantedVolume) -> Result<(), Error> {
        let volume = &want.volume;
        let (Some(name), Some(csi)) = (attachment_name(volume, node), &volume.spec.csi) else {
            return Ok(());
        };
        let body = json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
            "metadata": {"name": name}, "spec": {"attacher": csi.driver, "nodeName": node,
                "source": {"persistentVolumeName": volume.metadata.name}}});
        let pending = PendingReconciles {
            volume: volume.metadata.name.clone(),
            node: node.clone(),
            since: Instant::now(),
        };
        self.memory().pending.insert(name.as_str().into(), pending);
        let resource = &resources::VOLUME_ATTACHMENTS;
        let created = self.client.create::<Metadata>(resource, "", &body).await;
        match created {
            Err(error) if !error.is_already_exists() => {
                let code = error.status().map(|status| status.code);
                if code.is_some_and(|code| (400..500).contains(&code)) {
                    self.memory().pending.remove(name.as_str());
                }
                let (why, volume) = (error.chain(), volume.metadata.name.as_str());
                let message = format!("AttachVolume.Attach failed for volume {volume:?} : {why}");
                self.report(node, want, &why, |_| message.clone());
                Err(error)
            }
            _ => {
                // The cache may have shown it already, before this answer.
                if self.attachments.get("", &name).is_some() {
                    self.memory().pending.remove(name.as_str());
                }
                self.queue
                    .add_after(Key::new("", node.clone()), SHOWN_AFTER);
                Ok(())
            }
        }
    }

    async fn write_status(&self, node: &Text, volumes: &[Text]) -> Result<Option<Node>, Error> {
        let volumes: Vec<Value> = volumes
            .iter()
            .map(|name| json!({"name": name, "devicePath": ""}))
            .collect();
        let patch = json!({"status": {"volumesAttached": volumes}});
        let patch = Patch::Merge(&patch);
        let written = self
            .client
            .patch_status::<Node>(&resources::NODES, "", node, patch)
            .await;
        match written {
            Ok(node) => {
                self.written.note(&node.metadata);
                Ok(Some(node))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns whether the current Node object does not use a volume. A node marks a
    /// volume as in use before it checks whether the volume is attached.
    async fn is_safe(
        &self,
        node: &Text,
        held: &HeldAttachment,
        answer: &mut Option<Node>,
    ) -> Result<bool, Error> {
        if answer.is_none() {
            let found = self.client.get::<Node>(&resources::NODES, "", node).await;
            match found {
                Ok(found) => *answer = Some(found),
                Err(error) if error.is_not_found() => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        let name = held.volume.as_deref().and_then(unique_name);
        let in_use = answer.iter().flat_map(|node| &node.status.volumes_in_use);
        Ok(name.is_none_or(|name| !in_use.into_iter().any(|used| *used == name)))
    }

    async fn detach(&self, held: &HeldAttachment) -> Result<(), Error> {
        let meta = &held.attachment.metadata;
        let options = DeleteOptions::of_uid(meta.uid.as_str());
        let resource = &resources::VOLUME_ATTACHMENTS;
        let deleted = self.client.delete(resource, "", &meta.name, &options).await;
        work::unless_gone(deleted)
    }
}
