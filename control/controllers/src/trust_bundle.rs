//! The ClusterTrustBundle of the signer `kubernetes.io/kube-apiserver-serving`, by which
//! anybody may know the API server (KEP-3257).

use std::sync::Arc;

use control_client::{
    Client, DeleteOptions, Discard, Error, Meta, Queue, Reflector, Resource, Selection, View,
};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::key::Key;
use crate::views::Text;
use crate::work::{self, Outcome};
use crate::{Controller, optional};

/// ClusterTrustBundle, in the versions that are served behind its gate.
const BUNDLES: Resource = Resource::cluster(
    "certificates.k8s.io",
    "v1beta1",
    "clustertrustbundles",
    "ClusterTrustBundle",
);
const ALPHA_BUNDLES: Resource = Resource::cluster(
    "certificates.k8s.io",
    "v1alpha1",
    "clustertrustbundles",
    "ClusterTrustBundle",
);
const SIGNER: &str = "kubernetes.io/kube-apiserver-serving";

/// Publishes the authority of the API server.
pub const CONTROLLER: Controller = Controller {
    name: "kube-apiserver-serving-clustertrustbundle-publisher-controller",
    service_account: "kube-apiserver-serving-clustertrustbundle-publisher",
    start: |ctx| {
        let (client, reader) = (ctx.client.clone(), ctx.reader().clone());
        let (pem, shutdown) = (ctx.config.root_ca_pem.clone(), ctx.shutdown.clone());
        Box::pin(async move {
            let Some(pem) = pem else {
                return shutdown.cancelled().await;
            };
            let queue: Queue<Key> = work::queue();
            let (changed, stop) = (queue.clone(), shutdown.clone());
            let on_change = move |change: &control_client::Change<Bundle>| {
                if change
                    .latest()
                    .is_some_and(|it| it.spec.signer_name == SIGNER)
                {
                    changed.add(Key::new("", SIGNER));
                }
            };
            let work = move |bundles, resource| async move {
                let this = Arc::new(BundlePublisher {
                    client,
                    bundles,
                    resource,
                    pem,
                });
                queue.add(Key::new("", SIGNER));
                let work = work::call(&this, |this, _| async move { this.sync().await });
                queue.run(QUEUE, 1, &stop, work).await;
            };
            let versions = [BUNDLES, ALPHA_BUNDLES];
            optional::follow(&reader, &versions, &shutdown, on_change, work).await;
        })
    },
};

const QUEUE: &str = "ca_cert_publisher_cluster_trust_bundles";

/// A ClusterTrustBundle.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Bundle {
    metadata: Meta,
    spec: BundleSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BundleSpec {
    signer_name: Text,
    trust_bundle: String,
}

impl View for Bundle {
    const RESOURCE: Resource = BUNDLES;
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// The action to take on the signer's bundles.
#[derive(Debug, PartialEq, Eq)]
enum BundleAction {
    Create,
    Update(Text),
    Delete(Text),
}

/// The name of the bundle with this content.
fn bundle_name(pem: &str) -> String {
    let digest = Sha256::digest(pem.as_bytes());
    let hash: String = digest.iter().take(12).map(|b| format!("{b:02x}")).collect();
    format!("{}:{hash}", SIGNER.replace('/', ":"))
}

/// One bundle with the content, and no other of the signer. The new one is there before
/// old ones go.
fn decide(bundles: &[Arc<Bundle>], pem: &str) -> Vec<BundleAction> {
    let name = bundle_name(pem);
    let mut actions = Vec::new();
    match bundles.iter().find(|it| it.metadata.name == name) {
        None => actions.push(BundleAction::Create),
        Some(found) if found.spec.trust_bundle != pem => {
            actions.push(BundleAction::Update(found.metadata.name.clone()));
        }
        Some(_) => {}
    }
    let others = bundles
        .iter()
        .filter(|it| it.spec.signer_name == SIGNER && it.metadata.name != name);
    actions.extend(others.map(|it| BundleAction::Delete(it.metadata.name.clone())));
    actions
}

struct BundlePublisher {
    client: Client,
    bundles: Reflector<Bundle>,
    resource: Resource,
    pem: String,
}

impl BundlePublisher {
    async fn sync(&self) -> Outcome {
        let snapshot = self.bundles.cache().snapshot();
        let bundles: Vec<Arc<Bundle>> = snapshot.iter().cloned().collect();
        let mut failure = None;
        for action in decide(&bundles, &self.pem) {
            match self.perform(&action).await {
                Ok(()) => {}
                // An old bundle stays at least until the new one is there.
                Err(error) if !matches!(action, BundleAction::Delete(_)) => return Err(error),
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(None), Err)
    }

    async fn perform(&self, action: &BundleAction) -> Result<(), Error> {
        match action {
            BundleAction::Create => {
                let body = json!({
                    "apiVersion": self.resource.api_version(),
                    "kind": self.resource.kind,
                    "metadata": {"name": bundle_name(&self.pem)},
                    "spec": {"signerName": SIGNER, "trustBundle": self.pem},
                });
                let made = self
                    .client
                    .create::<Discard>(&self.resource, "", &body)
                    .await;
                match made {
                    Err(error) if !error.is_already_exists() => Err(error),
                    _ => Ok(()),
                }
            }
            BundleAction::Update(name) => {
                // The role grants `list` and `update`, and no `get`.
                let selection = Selection::all().fields(format!("metadata.name={name}"));
                let found = self
                    .client
                    .list::<Value>(&self.resource, &selection)
                    .await?;
                let Some(mut object) = found.items.into_iter().next() else {
                    return Ok(());
                };
                object["apiVersion"] = self.resource.api_version().into();
                object["kind"] = self.resource.kind.as_ref().into();
                object["spec"]["trustBundle"] = self.pem.as_str().into();
                let written = self
                    .client
                    .update::<Discard>(&self.resource, "", name, &object)
                    .await;
                work::unless_gone(written)
            }
            BundleAction::Delete(name) => {
                let options = DeleteOptions::default();
                let deleted = self.client.delete(&self.resource, "", name, &options).await;
                work::unless_gone(deleted)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fake_api::FakeApi;

    fn bundle(name: &str, signer: &str, pem: &str) -> Arc<Bundle> {
        let bundle = json!({"metadata": {"name": name},
            "spec": {"signerName": signer, "trustBundle": pem}});
        Arc::new(serde_json::from_value(bundle).unwrap())
    }

    #[test]
    fn signer_has_one_bundle_named_after_its_content() {
        let name = bundle_name("pem");
        assert!(name.starts_with("kubernetes.io:kube-apiserver-serving:"));
        assert_eq!(
            name.len(),
            "kubernetes.io:kube-apiserver-serving:".len() + 24
        );
        assert_eq!(decide(&[], "pem"), [BundleAction::Create]);
        let (good, spoilt) = (bundle(&name, SIGNER, "pem"), bundle(&name, SIGNER, "x"));
        assert_eq!(decide(&[Arc::clone(&good)], "pem"), []);
        assert_eq!(
            decide(&[spoilt], "pem"),
            [BundleAction::Update(name.into())]
        );
        let (old, other) = (bundle("old", SIGNER, "y"), bundle("other", "else", "y"));
        assert_eq!(
            decide(&[old, good, other], "pem"),
            [BundleAction::Delete("old".into())]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn bundle_is_published_in_the_version_that_is_served() {
        let api = FakeApi::new();
        api.answer_with(|request| {
            (request.path == "/apis/certificates.k8s.io/v1alpha1")
                .then(|| (200, json!({"resources": [{"name": "clustertrustbundles"}]})))
        });
        let root = "/apis/certificates.k8s.io/v1alpha1/clustertrustbundles";
        api.put(
            &format!("{root}/old"),
            json!({"spec": {"signerName": SIGNER, "trustBundle": "old"}}),
        );
        let config = crate::Config {
            root_ca_pem: Some("pem".to_owned()),
            ..crate::Config::default()
        };
        let _running = api.run(&CONTROLLER, config);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let path = format!("{root}/{}", bundle_name("pem"));
        let made = api.object(&path).unwrap();
        assert_eq!(made["spec"]["trustBundle"], "pem");
        assert!(api.object(&format!("{root}/old")).is_none());
        api.put(
            &path,
            json!({"spec": {"signerName": SIGNER, "trustBundle": "x"}}),
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(api.object(&path).unwrap()["spec"]["trustBundle"], "pem");
    }
}
