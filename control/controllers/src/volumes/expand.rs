//! Announces that a claim waits to be expanded. The work is up to the resizer beside the
//! volume's CSI driver; only volumes of former in-tree plug-ins have to be handed to one.

use std::sync::Arc;

use control_client::events::{ObjectReference, Recorder};
use control_client::{Client, Meta, Queue, resources};
use control_types::quantity::Quantity;
use futures::future::BoxFuture;
use serde_json::json;

use super::plugins;
use crate::Controller;
use crate::context::Context;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::{Claim, Text, Volume};
use crate::work::{self, Outcome};

/// Announces expansions.
pub const CONTROLLER: Controller = Controller {
    name: "persistentvolume-expander-controller",
    service_account: "expand-controller",
    start,
};

/// The driver whose resizer is to expand a volume of an in-tree plug-in.
const RESIZER: &str = "volume.kubernetes.io/storage-resizer";
/// The size before an expansion whose file system was not expanded yet.
const PRE_RESIZE_CAPACITY: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";
/// The reason of all events.
const REASON: &str = "ExternalExpanding";

/// The event and the writes for a claim that grows.
#[derive(Debug, Default, PartialEq, Eq)]
struct ExpandDecision {
    /// The message of the event.
    message: Option<String>,
    /// The driver to hand it to.
    resizer: Option<&'static str>,
}

fn quantity(text: Option<&Text>) -> Quantity {
    text.and_then(|text| Quantity::parse(text).ok())
        .unwrap_or(Quantity::ZERO)
}

fn requested(claim: &Claim) -> Quantity {
    quantity(claim.spec.resources.requests.storage.as_ref())
}

fn given(claim: &Claim) -> Quantity {
    let capacity = claim.status.capacity.as_ref();
    quantity(capacity.and_then(|capacity| capacity.storage.as_ref()))
}

fn is_owner(volume: &Volume, claim: &Meta) -> bool {
    let reference = volume.spec.claim_ref.as_ref();
    reference.is_some_and(|reference| {
        reference.namespace == claim.namespace && reference.uid == claim.uid
    })
}

/// Decides whether a claim and its volume grow.
fn decide(claim: &Claim, volume: &Volume) -> ExpandDecision {
    let grows = requested(claim) > given(claim) || volume.has(PRE_RESIZE_CAPACITY);
    if claim.status.phase != "Bound" || !is_owner(volume, &claim.metadata) || !grows {
        return ExpandDecision::default();
    }
    let Some(plugin) = plugins::migrated_plugin(volume) else {
        return ExpandDecision {
            message: Some("waiting for an external controller to expand this PVC".to_owned()),
            resizer: None,
        };
    };
    let driver = plugins::migrated_driver(plugin);
    ExpandDecision {
        message: Some(format!(
            "CSI migration enabled for {plugin}; waiting for external resizer to expand the pvc"
        )),
        resizer: driver.filter(|driver| claim.metadata.annotations.get(RESIZER) != Some(driver)),
    }
}

struct Expander {
    client: Client,
    recorder: Recorder,
    claims: Arc<KindCache<Claim>>,
    volumes: Arc<KindCache<Volume>>,
    queue: Queue<Key>,
}

fn start(ctx: &Context) -> BoxFuture<'static, ()> {
    let this = Arc::new(Expander {
        client: ctx.client.clone(),
        recorder: ctx.recorder("volume_expand"),
        claims: ctx.claims(),
        volumes: ctx.volumes(),
        queue: work::queue(),
    });
    let queue = this.queue.clone();
    this.claims.on_change(move |change| {
        let Some(claim) = &change.current else { return };
        let has_grown = change.previous.as_ref().is_none_or(|previous| {
            requested(claim) > requested(previous) || given(claim) > given(previous)
        });
        if has_grown && claim.status.phase == "Bound" {
            queue.add(Key::from_meta(&claim.metadata));
        }
    });
    let shutdown = ctx.shutdown.clone();
    Box::pin(async move {
        this.claims.ready().await;
        this.volumes.ready().await;
        let work = work::call(&this, |this, key| async move { this.sync(key).await });
        this.queue.run("volume_expand", 1, &shutdown, work).await;
    })
}

impl Expander {
    async fn sync(&self, key: Key) -> Outcome {
        let Some(claim) = self.claims.by_key(&key) else {
            return Ok(None);
        };
        let Some(volume) = self.volumes.get("", &claim.spec.volume_name) else {
            return Ok(None);
        };
        let decision = decide(&claim, &volume);
        let resource = &resources::PERSISTENT_VOLUME_CLAIMS;
        if let Some(message) = decision.message {
            let about = ObjectReference::to_object(resource, &claim.metadata);
            self.recorder.normal(&about, REASON, message);
        }
        if let Some(resizer) = decision.resizer {
            let patch = json!({"metadata": {"uid": claim.metadata.uid,
                "annotations": {RESIZER: resizer}}});
            work::merge(&self.client, resource, &claim.metadata, "status", &patch).await?;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn claim(request: &str, capacity: &str, phase: &str) -> Claim {
        serde_json::from_value(
            json!({"metadata": {"namespace": "n", "name": "c", "uid": "1"},
            "spec": {"volumeName": "v", "resources": {"requests": {"storage": request}}},
            "status": {"phase": phase, "capacity": {"storage": capacity}}}),
        )
        .unwrap()
    }

    fn volume(source: &str, uid: &str, annotations: Value) -> Volume {
        serde_json::from_value(
            json!({"metadata": {"name": "v", "annotations": annotations},
            "spec": {source: {"driver": "d"},
                "claimRef": {"namespace": "n", "name": "c", "uid": uid}}}),
        )
        .unwrap()
    }

    #[test]
    fn growing_claim_waits_for_the_resizer_of_its_driver() {
        let bound = volume("csi", "1", json!({}));
        let waits = Some("waiting for an external controller to expand this PVC".to_owned());
        for (claim, volume, message) in [
            (claim("2Gi", "1Gi", "Bound"), &bound, &waits),
            (claim("1Gi", "1Gi", "Bound"), &bound, &None),
            (claim("2Gi", "1Gi", "Pending"), &bound, &None),
            (
                claim("2Gi", "1Gi", "Bound"),
                &volume("csi", "2", json!({})),
                &None,
            ),
            (
                claim("1Gi", "1Gi", "Bound"),
                &volume("csi", "1", json!({PRE_RESIZE_CAPACITY: "1Gi"})),
                &waits,
            ),
        ] {
            let decision = decide(&claim, volume);
            assert_eq!((&decision.message, decision.resizer), (message, None));
        }
        let decision = decide(
            &claim("2Gi", "1Gi", "Bound"),
            &volume("awsElasticBlockStore", "1", json!({})),
        );
        assert_eq!(
            decision,
            ExpandDecision {
                message: Some("CSI migration enabled for kubernetes.io/aws-ebs; waiting for external resizer to expand the pvc".into()),
                resizer: Some("ebs.csi.aws.com"),
            }
        );
    }
}
