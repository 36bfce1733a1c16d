//! The `kube-root-ca.crt` config map of every namespace, by which pods know
//! the API server (KEP-1205).

use std::sync::Arc;

use control_client::{Client, Discard, Patch, Queue, resources};
use serde_json::{Value, json};

use crate::Controller;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::{ConfigMap, Namespace};
use crate::work::{self, Outcome};

/// The config map's name.
const NAME: &str = "kube-root-ca.crt";
/// Its one key.
const ENTRY: &str = "ca.crt";

/// Keeps the certificate in every namespace.
pub const CONTROLLER: Controller = Controller {
    name: "root-ca-certificate-publisher-controller",
    service_account: "root-ca-cert-publisher",
    start: |ctx| {
        let Some(certificate) = ctx.config.root_ca_pem.clone() else {
            let shutdown = ctx.shutdown.clone();
            return Box::pin(async move { shutdown.cancelled().await });
        };
        let this = Arc::new(RootCaPublisher {
            client: ctx.client.clone(),
            certificate,
            namespaces: ctx.namespaces(),
            maps: ctx.root_ca_maps(),
            queue: work::queue(),
        });
        this.namespaces.queue_present(&this.queue);
        let listener = Arc::clone(&this);
        this.maps.on_change(move |change| {
            if let Some(map) = change.latest() {
                listener
                    .queue
                    .add(Key::new("", map.metadata.namespace.clone()));
            }
        });
        let shutdown = ctx.shutdown.clone();
        Box::pin(async move {
            this.namespaces.ready().await;
            this.maps.ready().await;
            let work = work::call(&this, |this, key| async move { this.sync(key).await });
            this.queue.run("root-ca", 2, &shutdown, work).await;
        })
    },
};

struct RootCaPublisher {
    client: Client,
    certificate: String,
    namespaces: Arc<KindCache<Namespace>>,
    maps: Arc<KindCache<ConfigMap>>,
    queue: Queue<Key>,
}

/// The action for one namespace.
#[derive(Debug, PartialEq, Eq)]
enum ConfigMapAction {
    Create,
    Update,
}

fn decide(
    namespace: Option<&Namespace>,
    map: Option<&ConfigMap>,
    certificate: &str,
) -> Option<ConfigMapAction> {
    let namespace = namespace?;
    if namespace.metadata.is_terminating() || namespace.status.phase == "Terminating" {
        return None;
    }
    match map {
        None => Some(ConfigMapAction::Create),
        Some(map)
            if map.data.len() == 1 && map.data.get(ENTRY).is_some_and(|c| c == certificate) =>
        {
            None
        }
        Some(_) => Some(ConfigMapAction::Update),
    }
}

impl RootCaPublisher {
    async fn sync(&self, key: Key) -> Outcome {
        let namespace = self.namespaces.by_key(&key);
        let map = self.maps.get(&key.name, NAME);
        let resource = &resources::CONFIG_MAPS;
        let result = match decide(namespace.as_deref(), map.as_deref(), &self.certificate) {
            None => return Ok(None),
            Some(ConfigMapAction::Create) => {
                let body = json!({
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {
                        "name": NAME,
                        "namespace": key.name,
                        "annotations": {"kubernetes.io/description":
                            "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."},
                    },
                    "data": {ENTRY: self.certificate},
                });
                self.client
                    .create::<Discard>(resource, &key.name, &body)
                    .await
            }
            Some(ConfigMapAction::Update) => {
                let mut data: serde_json::Map<String, Value> = map
                    .iter()
                    .flat_map(|map| map.data.keys())
                    .map(|key| (key.clone(), Value::Null))
                    .collect();
                data.insert(ENTRY.into(), self.certificate.as_str().into());
                let patch = json!({"data": data});
                self.client
                    .patch::<Discard>(resource, &key.name, NAME, "", Patch::Merge(&patch))
                    .await
            }
        };
        work::unless_overtaken(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn map_is_made_and_kept_as_it_should_be() {
        let active = Namespace::default();
        let map = |data: Value| ConfigMap {
            data: serde_json::from_value(data).unwrap(),
            ..ConfigMap::default()
        };
        let run = |m: Option<&ConfigMap>| decide(Some(&active), m, "pem");
        assert_eq!(run(None), Some(ConfigMapAction::Create));
        assert_eq!(run(Some(&map(json!({"ca.crt":"pem"})))), None);
        assert_eq!(
            run(Some(&map(json!({"ca.crt":"old"})))),
            Some(ConfigMapAction::Update)
        );
        assert_eq!(
            run(Some(&map(json!({"ca.crt":"pem","x":"y"})))),
            Some(ConfigMapAction::Update)
        );
    }
}
