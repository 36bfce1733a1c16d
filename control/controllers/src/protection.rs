//! Protects volumes, claims and VolumeAttributesClasses in use: their finalizers are
//! removed when nothing uses them any more.

use std::collections::HashSet;
use std::sync::Arc;

use control_client::{Client, Error, Meta, Queue, Resource, Selection, View, resources};
use serde_json::Value;

use crate::Controller;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::{AttributesClass, Claim, Pod, Volume};
use crate::volumes::claim_name;
use crate::work::{self, Outcome};

const CLAIMS: Resource = resources::PERSISTENT_VOLUME_CLAIMS;
const VOLUMES: Resource = resources::PERSISTENT_VOLUMES;
const CLASSES: Resource = resources::VOLUME_ATTRIBUTES_CLASSES;
const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";
const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";
const CLASS_FINALIZER: &str = "kubernetes.io/vac-protection";

/// Claims go when no pod that runs names them.
pub const CLAIM_PROTECTION: Controller = Controller {
    name: "persistentvolumeclaim-protection-controller",
    service_account: "pvc-protection-controller",
    start: |ctx| {
        let (claims, pods) = (ctx.claims(), ctx.pods());
        let users = Arc::clone(&pods);
        let this = Arc::new(Protection {
            client: ctx.client.clone(),
            objects: claims,
            resource: CLAIMS,
            finalizer: CLAIM_FINALIZER,
            is_used: Box::new(move |claim: &Claim| is_claimed(&claim.metadata, &users.all())),
            confirm_with_pods: true,
            queue: work::queue(),
        });
        this.follow();
        let listener = Arc::clone(&this);
        pods.on_change(move |_| listener.waiting());
        let shutdown = ctx.shutdown.clone();
        Box::pin(async move {
            pods.ready().await;
            this.run("pvc-protection", &shutdown).await;
        })
    },
};

/// Volumes go when they are not bound.
pub const VOLUME_PROTECTION: Controller = Controller {
    name: "persistentvolume-protection-controller",
    service_account: "pv-protection-controller",
    start: |ctx| {
        let this = Arc::new(Protection {
            client: ctx.client.clone(),
            objects: ctx.volumes(),
            resource: VOLUMES,
            finalizer: VOLUME_FINALIZER,
            is_used: Box::new(|volume: &Volume| volume.status.phase == "Bound"),
            confirm_with_pods: false,
            queue: work::queue(),
        });
        this.follow();
        let shutdown = ctx.shutdown.clone();
        Box::pin(async move { this.run("pv-protection", &shutdown).await })
    },
};

/// Classes of volumes' attributes go when no claim and no volume names them.
pub const CLASS_PROTECTION: Controller = Controller {
    name: "volumeattributesclass-protection-controller",
    service_account: "volumeattributesclass-protection-controller",
    start: |ctx| {
        let (claims, volumes) = (ctx.claims(), ctx.volumes());
        let (users, named) = (Arc::clone(&claims), Arc::clone(&volumes));
        let this = Arc::new(Protection {
            client: ctx.client.clone(),
            objects: ctx.attributes_classes(),
            resource: CLASSES,
            finalizer: CLASS_FINALIZER,
            is_used: Box::new(move |class: &AttributesClass| {
                let name = &class.metadata.name;
                users.all().iter().any(|claim| claim_names(claim, name))
                    || named.all().iter().any(|volume| volume_names(volume, name))
            }),
            confirm_with_pods: false,
            queue: work::queue(),
        });
        this.follow();
        let listener = Arc::clone(&this);
        claims.on_change(move |_| listener.waiting());
        let listener = Arc::clone(&this);
        volumes.on_change(move |_| listener.waiting());
        let shutdown = ctx.shutdown.clone();
        Box::pin(async move {
            claims.ready().await;
            volumes.ready().await;
            this.run("vac-protection", &shutdown).await;
        })
    },
};

/// Whether a claim names a class of attributes: the wanted, the current or the next one.
fn claim_names(claim: &Claim, class: &str) -> bool {
    let target = claim.status.modify_volume_status.as_ref();
    [
        claim.spec.volume_attributes_class_name.as_ref(),
        claim.status.current_volume_attributes_class_name.as_ref(),
        target.and_then(|target| target.target_volume_attributes_class_name.as_ref()),
    ]
    .into_iter()
    .flatten()
    .any(|name| name == class)
}

fn volume_names(volume: &Volume, class: &str) -> bool {
    volume.spec.volume_attributes_class_name.as_deref() == Some(class)
}

/// Whether a pod that is on a node and has not ended uses a claim.
fn is_claimed(claim: &Meta, pods: &[Arc<Pod>]) -> bool {
    pods.iter().any(|pod| {
        pod.metadata.namespace == claim.namespace
            && !pod.spec.node_name.is_empty()
            && !pod.is_terminal()
            && pod.spec.volumes.iter().any(|volume| {
                claim_name(pod, volume).is_some_and(|name| name == claim.name)
                    && (!volume.ephemeral || keeps_own_claim(pod, claim))
            })
    })
}

/// Returns whether a pod still needs the claim that was created for it. A pod that its
/// node has shut down does not: its deletion may wait for the claim's.
fn keeps_own_claim(pod: &Pod, claim: &Meta) -> bool {
    let meta = &pod.metadata;
    let is_shut_down = meta.is_terminating() && meta.deletion_grace_period_seconds == Some(0);
    let owner = claim.controller();
    !is_shut_down && owner.is_some_and(|owner| owner.uid == meta.uid)
}

struct Protection<K: View> {
    client: Client,
    objects: Arc<KindCache<K>>,
    resource: Resource,
    finalizer: &'static str,
    is_used: Box<dyn Fn(&K) -> bool + Send + Sync>,
    /// Whether to list pods from the server before the finalizer is removed: the cache
    /// may not show a pod that was just bound.
    confirm_with_pods: bool,
    queue: Queue<Key>,
}

impl<K: View> Protection<K> {
    /// Looks at every object that waits to go.
    fn follow(self: &Arc<Self>) {
        let listener = Arc::clone(self);
        self.objects.on_change(move |_| listener.waiting());
    }

    fn waiting(&self) {
        for object in self.objects.all() {
            if self.waits(object.meta()) {
                self.queue.add(Key::from_meta(object.meta()));
            }
        }
    }

    fn waits(&self, meta: &Meta) -> bool {
        meta.is_terminating() && meta.finalizers.iter().any(|name| name == self.finalizer)
    }

    async fn run(
        self: &Arc<Self>,
        name: &'static str,
        shutdown: &tokio_util::sync::CancellationToken,
    ) {
        self.objects.ready().await;
        let work = work::call(self, |this, key| async move { this.sync(key).await });
        self.queue.run(name, 1, shutdown, work).await;
    }

    async fn sync(&self, key: Key) -> Outcome {
        let Some(object) = self.objects.by_key(&key) else {
            return Ok(None);
        };
        if !self.waits(object.meta()) || (self.is_used)(&object) {
            return Ok(None);
        }
        if self.confirm_with_pods {
            let selection = Selection::all().namespace(key.namespace.as_str());
            let pods = self
                .client
                .list::<Arc<Pod>>(&resources::PODS, &selection)
                .await?;
            if is_claimed(object.meta(), &pods.items) {
                // the pod's event is on the way
                return Ok(None);
            }
        }
        // The whole object is replaced, since the role grants that alone.
        let fresh = self
            .client
            .get::<Value>(&self.resource, &key.namespace, &key.name)
            .await;
        let mut fresh = match fresh {
            Err(error) if error.is_not_found() => return Ok(None),
            other => other?,
        };
        if !release(&mut fresh, self.finalizer) {
            return Ok(None);
        }
        let done: Result<Value, Error> = self
            .client
            .update(&self.resource, &key.namespace, &key.name, &fresh)
            .await;
        match done {
            Err(error) if error.is_not_found() => Ok(None),
            other => other.map(|_| None),
        }
    }
}

/// Takes a finalizer off; `false` if it is not there.
fn release(object: &mut Value, finalizer: &str) -> bool {
    let Some(list) = object
        .pointer_mut("/metadata/finalizers")
        .and_then(Value::as_array_mut)
    else {
        return false;
    };
    let before = list.len();
    let keep: HashSet<_> = list
        .iter()
        .filter(|name| name.as_str() != Some(finalizer))
        .cloned()
        .collect();
    list.retain(|name| keep.contains(name));
    list.len() < before
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use serde_json::json;

    use super::*;
    use crate::fake_api::FakeApi;

    fn pod(claim: &str, node: &str, phase: &str) -> Arc<Pod> {
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": "p", "namespace": "n"},
                "spec": {
                    "nodeName": node,
                    "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
                },
                "status": {"phase": phase}
            }))
            .expect("a pod"),
        )
    }

    #[test]
    fn a_claim_is_used_by_pods_that_run() {
        let claim = Meta {
            name: "c".into(),
            namespace: "n".into(),
            ..Meta::default()
        };
        assert!(is_claimed(&claim, &[pod("c", "node", "Running")]));
        assert!(!is_claimed(&claim, &[pod("d", "node", "Running")]));
        assert!(!is_claimed(&claim, &[pod("c", "", "Pending")]));
        assert!(!is_claimed(&claim, &[pod("c", "node", "Succeeded")]));
    }

    #[test]
    fn claim_of_an_ephemeral_volume_is_used_by_its_pod_until_that_is_shut_down() {
        let owned = |uid: &str| -> Meta {
            let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid,
                "controller": true});
            let claim = json!({"name": "p-v", "namespace": "n", "ownerReferences": [owner]});
            serde_json::from_value(claim).unwrap()
        };
        let pod = |grace: Option<i64>| -> Arc<Pod> {
            let deleted = grace.map(|_| "2026-01-01T00:00:00Z");
            let pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": "1",
                "deletionTimestamp": deleted, "deletionGracePeriodSeconds": grace},
                "spec": {"nodeName": "a", "volumes": [{"name": "v", "ephemeral": {}}]},
                "status": {"phase": "Running"}});
            Arc::new(serde_json::from_value(pod).unwrap())
        };
        assert!(is_claimed(&owned("1"), &[pod(None)]));
        assert!(is_claimed(&owned("1"), &[pod(Some(30))]));
        assert!(!is_claimed(&owned("1"), &[pod(Some(0))]));
        assert!(!is_claimed(&owned("2"), &[pod(None)]));
    }

    #[test]
    fn one_finalizer_is_taken_off_and_others_stay() {
        let mut object = json!({"metadata": {"finalizers": ["a", CLAIM_FINALIZER]}});
        assert!(release(&mut object, CLAIM_FINALIZER));
        assert_eq!(object, json!({"metadata": {"finalizers": ["a"]}}));
        assert!(!release(&mut object, CLAIM_FINALIZER));
    }

    #[tokio::test(start_paused = true)]
    async fn claim_stays_for_a_pod_that_the_cache_does_not_show_yet() {
        const CLAIM: &str = "/api/v1/namespaces/n/persistentvolumeclaims/c";
        let api = FakeApi::new();
        api.put(
            CLAIM,
            json!({"metadata": {"finalizers": [CLAIM_FINALIZER],
                "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        );
        let bound = Arc::new(AtomicBool::new(true));
        let is_bound = Arc::clone(&bound);
        api.answer_with(move |request| {
            let live = request.path == "/api/v1/namespaces/n/pods"
                && !request.query.contains("watch=")
                && is_bound.load(Ordering::SeqCst);
            let claimed = json!({"persistentVolumeClaim": {"claimName": "c"}});
            let pod = json!({"metadata": {"name": "p", "namespace": "n"},
                "spec": {"nodeName": "a", "volumes": [claimed]}});
            live.then(|| (200, json!({"items": [pod]})))
        });
        let _running = api.run(&CLAIM_PROTECTION, crate::Config::default());
        let second = std::time::Duration::from_secs(1);
        tokio::time::sleep(second).await;
        assert!(api.object(CLAIM).is_some());
        // its event comes, and it ends
        bound.store(false, Ordering::SeqCst);
        api.put(
            "/api/v1/namespaces/n/pods/p",
            json!({"status": {"phase": "Succeeded"}}),
        );
        tokio::time::sleep(second).await;
        assert_eq!(api.object(CLAIM), None);
    }
}
