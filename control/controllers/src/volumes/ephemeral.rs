//! Creates the claims of generic ephemeral volumes: one for each such volume of a pod,
//! with the pod as its controller, so that it is deleted with the pod.

use std::sync::Arc;

use control_client::events::{ObjectReference, Recorder};
use control_client::{Client, Error, Metadata, Queue, resources};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::pods::claim_name;
use crate::Controller;
use crate::context::Context;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::{Claim, Pod, Text};
use crate::work::{self, Outcome};

/// Makes the claims of ephemeral volumes.
pub const CONTROLLER: Controller = Controller {
    name: "ephemeral-volume-controller",
    service_account: "ephemeral-volume-controller",
    start,
};

/// The next write for one volume of a pod.
#[derive(Debug, PartialEq, Eq)]
enum EphemeralAction {
    /// The claim of this name is missing.
    Create { volume: Text, claim: String },
    /// A claim of that name exists and belongs to another owner.
    Conflict { volume: Text, message: String },
}

/// Returns the steps for a pod, given the claims of its namespace.
fn decide(pod: &Pod, claim: impl Fn(&str) -> Option<Arc<Claim>>) -> Vec<EphemeralAction> {
    let meta = &pod.metadata;
    if meta.is_terminating() {
        return Vec::new();
    }
    let mut actions = Vec::new();
    for volume in pod.spec.volumes.iter().filter(|volume| volume.ephemeral) {
        let Some(name) = claim_name(pod, volume) else {
            continue;
        };
        let Some(found) = claim(&name) else {
            actions.push(EphemeralAction::Create {
                volume: volume.name.clone(),
                claim: name.into_owned(),
            });
            continue;
        };
        let owner = found.metadata.controller();
        if owner.is_none_or(|owner| owner.uid != meta.uid) {
            actions.push(EphemeralAction::Conflict {
                volume: volume.name.clone(),
                message: format!(
                    "PVC {namespace}/{name} was not created for pod {namespace}/{} (pod is not owner)",
                    meta.name,
                    namespace = meta.namespace,
                ),
            });
            // as upstream: what stands behind a conflict waits
            break;
        }
    }
    actions
}

struct EphemeralClaims {
    client: Client,
    recorder: Recorder,
    pods: Arc<KindCache<Pod>>,
    claims: Arc<KindCache<Claim>>,
    queue: Queue<Key>,
}

fn start(ctx: &Context) -> BoxFuture<'static, ()> {
    let this = Arc::new(EphemeralClaims {
        client: ctx.client.clone(),
        recorder: ctx.recorder("ephemeral_volume"),
        pods: ctx.pods(),
        claims: ctx.claims(),
        queue: work::queue(),
    });
    let queue = this.queue.clone();
    this.pods.on_change(move |change| {
        let is_new = change.previous.is_none();
        if let Some(pod) = change.current.as_ref().filter(|_| is_new)
            && pod.spec.volumes.iter().any(|volume| volume.ephemeral)
        {
            queue.add(Key::from_meta(&pod.metadata));
        }
    });
    let listener = Arc::clone(&this);
    this.claims.on_change(move |change| {
        if change.current.is_none()
            && let Some(gone) = &change.previous
        {
            listener.claim_deleted(gone);
        }
    });
    let (workers, shutdown) = (ctx.config.workers, ctx.shutdown.clone());
    Box::pin(async move {
        this.pods.ready().await;
        this.claims.ready().await;
        let work = work::call(&this, |this, key| async move { this.sync(key).await });
        this.queue
            .run("ephemeral_volume", workers, &shutdown, work)
            .await;
    })
}

impl EphemeralClaims {
    /// A pod whose claim was deleted gets another.
    fn claim_deleted(&self, claim: &Claim) {
        for pod in self.pods.namespace(&claim.metadata.namespace) {
            let mut volumes = pod.spec.volumes.iter().filter(|volume| volume.ephemeral);
            if volumes.any(|volume| {
                claim_name(&pod, volume).is_some_and(|name| name == claim.metadata.name)
            }) {
                self.queue.add(Key::from_meta(&pod.metadata));
            }
        }
    }

    async fn sync(&self, key: Key) -> Outcome {
        let Some(pod) = self.pods.by_key(&key) else {
            return Ok(None);
        };
        let about = ObjectReference::to_object(&resources::PODS, &pod.metadata);
        let mut failure = None;
        for action in decide(&pod, |name| self.claims.get(&key.namespace, name)) {
            match action {
                EphemeralAction::Create { volume, claim } => {
                    if let Err(error) = self.create(&pod, &volume, &claim).await {
                        let message = format!(
                            "ephemeral volume {volume}: create PVC {claim}: {}",
                            error.chain()
                        );
                        self.recorder.warning(&about, "FailedBinding", message);
                        return Err(error);
                    }
                }
                EphemeralAction::Conflict { volume, message } => {
                    let message = format!("ephemeral volume {volume}: {message}");
                    self.recorder.warning(&about, "FailedBinding", message);
                    failure = Some(work::LONGEST_DELAY);
                }
            }
        }
        Ok(failure)
    }

    async fn create(&self, pod: &Pod, volume: &str, claim: &str) -> Result<(), Error> {
        let meta = &pod.metadata;
        let (resource, namespace) = (&resources::PODS, &meta.namespace);
        // The template is only needed once, so the cache does not keep it.
        let fresh = self.client.get::<Value>(resource, namespace, &meta.name);
        let fresh = match fresh.await {
            Err(error) if error.is_not_found() => return Ok(()),
            other => other?,
        };
        if fresh["metadata"]["uid"] != meta.uid.as_str()
            || !fresh["metadata"]["deletionTimestamp"].is_null()
        {
            return Ok(());
        }
        let volumes = fresh["spec"]["volumes"].as_array();
        let mut volumes = volumes.into_iter().flatten();
        let Some(found) = volumes.find(|one| one["name"] == volume) else {
            return Ok(());
        };
        let body = claim_from_template(&found["ephemeral"]["volumeClaimTemplate"], pod, claim);
        let resource = &resources::PERSISTENT_VOLUME_CLAIMS;
        match self
            .client
            .create::<Metadata>(resource, namespace, &body)
            .await
        {
            // the cache will show whose it is
            Err(error) if error.is_already_exists() => {
                self.queue
                    .add_after(Key::from_meta(meta), work::CACHE_BEHIND);
                Ok(())
            }
            Err(error) if error.is_namespace_terminating() => Ok(()),
            other => other.map(drop),
        }
    }
}

fn claim_from_template(template: &Value, pod: &Pod, name: &str) -> Value {
    let mut metadata = json!({"name": name, "namespace": pod.metadata.namespace,
        "ownerReferences": [work::reference_to(&resources::PODS, &pod.metadata)]});
    for field in ["annotations", "labels"] {
        if let Some(part) = template["metadata"].get(field) {
            metadata[field] = part.clone();
        }
    }
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata,
        "spec": template["spec"]})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_api::FakeApi;

    fn pod(deleted: bool) -> Pod {
        let mut pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": "1"},
            "spec": {"volumes": [{"name": "plain", "emptyDir": {}}, {"name": "a", "ephemeral": {}},
                {"name": "b", "ephemeral": {}}]}});
        if deleted {
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        serde_json::from_value(pod).unwrap()
    }

    fn claim(owner: &str) -> Arc<Claim> {
        let owners = json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner,
            "controller": true}]);
        let claim = json!({"metadata": {"name": "p-a", "ownerReferences": owners}});
        Arc::new(serde_json::from_value(claim).unwrap())
    }

    #[test]
    fn each_ephemeral_volume_gets_a_claim_of_the_pod() {
        let create = |volume: &str| EphemeralAction::Create {
            volume: volume.into(),
            claim: format!("p-{volume}"),
        };
        assert_eq!(decide(&pod(false), |_| None), [create("a"), create("b")]);
        let own = |name: &str| (name == "p-a").then(|| claim("1"));
        assert_eq!(decide(&pod(false), own), [create("b")]);
        assert_eq!(decide(&pod(true), |_| None), []);
        let foreign = |name: &str| (name == "p-a").then(|| claim("2"));
        assert_eq!(
            decide(&pod(false), foreign),
            [EphemeralAction::Conflict {
                volume: "a".into(),
                message: "PVC n/p-a was not created for pod n/p (pod is not owner)".into(),
            }]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn claim_is_made_from_the_template_and_again_when_it_is_deleted() {
        const CLAIM: &str = "/api/v1/namespaces/n/persistentvolumeclaims/p-data";
        let api = FakeApi::new();
        let template = json!({"metadata": {"labels": {"a": "b"}},
            "spec": {"accessModes": ["ReadWriteOnce"]}});
        let volumes = json!([{"name": "data", "ephemeral": {"volumeClaimTemplate": template}}]);
        api.put(
            "/api/v1/namespaces/n/pods/p",
            json!({"metadata": {"uid": "1"}, "spec": {"volumes": volumes}}),
        );
        let _running = api.run(&CONTROLLER, crate::Config::default());
        let second = std::time::Duration::from_secs(1);
        tokio::time::sleep(second).await;
        let claim = api.object(CLAIM).unwrap();
        assert_eq!(claim["spec"], template["spec"]);
        assert_eq!(claim["metadata"]["labels"], json!({"a": "b"}));
        assert_eq!(
            claim["metadata"]["ownerReferences"],
            json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1",
                "controller": true, "blockOwnerDeletion": true}])
        );
        api.remove(CLAIM);
        tokio::time::sleep(second).await;
        assert!(api.object(CLAIM).is_some());
    }
}
