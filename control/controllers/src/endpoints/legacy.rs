//! Legacy Endpoints: one object per Service that has a selector.

use std::collections::BTreeMap;
use std::sync::Arc;

use control_client::events::{ObjectReference, Recorder};
use control_client::{Client, DeleteOptions, Error, Metadata, Patch, Queue, View};
use serde_json::{Value, json};

use super::slices::decide::HEADLESS;
use super::slices::services_of;
use super::trigger_time::{ANNOTATION, TriggerTimes};
use super::{canonical, pods};
use crate::Controller;
use crate::context::Context;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::{EndpointAddress, EndpointSubset, Endpoints, Pod, Service, TargetRef, Text};
use crate::work::{self, Outcome};
use crate::written::OwnWrites;

/// Addresses that one object may hold; the rest is cut off and said so.
const CAPACITY: usize = 1000;
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// The manager of the object: mirroring ignores ours.
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";

/// Keeps Endpoints of Services.
pub const CONTROLLER: Controller = Controller {
    name: "endpoints-controller",
    service_account: "endpoint-controller",
    start: |ctx| {
        let this = Arc::new(EndpointsController::new(ctx));
        this.listen();
        let (workers, shutdown) = (ctx.config.workers, ctx.shutdown.clone());
        Box::pin(async move {
            this.services.ready().await;
            this.pods.ready().await;
            this.endpoints.ready().await;
            let work = work::call(&this, |this, key| async move { this.sync(key).await });
            this.queue.run("endpoints", workers, &shutdown, work).await;
        })
    },
};

struct EndpointsController {
    client: Client,
    recorder: Recorder,
    services: Arc<KindCache<Service>>,
    pods: Arc<KindCache<Pod>>,
    endpoints: Arc<KindCache<Endpoints>>,
    written: OwnWrites,
    triggers: TriggerTimes,
    queue: Queue<Key>,
}

/// The desired content of the Endpoints object.
#[derive(Debug, PartialEq)]
struct EndpointsContent {
    subsets: Vec<EndpointSubset>,
    labels: BTreeMap<Text, Text>,
    truncated: bool,
}

/// One write.
#[derive(Debug, PartialEq)]
enum EndpointsAction {
    Create(EndpointsContent),
    Update(EndpointsContent),
}

/// Decides what the Endpoints of a Service with a selector need.
fn decide(
    service: &Service,
    selected: &[Arc<Pod>],
    current: Option<&Endpoints>,
) -> Option<EndpointsAction> {
    let (subsets, truncated) = subsets(service, selected);
    let mut labels: BTreeMap<Text, Text> = service
        .metadata
        .labels
        .iter()
        .map(|(key, value)| (key.into(), value.into()))
        .collect();
    labels.remove(HEADLESS);
    if service.is_headless() {
        labels.insert(HEADLESS.into(), Text::default());
    }
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    let content = EndpointsContent {
        subsets,
        labels,
        truncated,
    };
    let Some(current) = current else {
        return Some(EndpointsAction::Create(content));
    };
    let have = &current.metadata;
    let same_labels = have.labels.len() == content.labels.len()
        && content
            .labels
            .iter()
            .all(|(k, v)| have.labels.get(k) == Some(v));
    // Objects that are packed in another order are not written again for that alone.
    let same_subsets = current.subsets == content.subsets
        || canonical::repack(current.subsets.clone()) == content.subsets;
    let same =
        same_subsets && same_labels && have.annotations.contains_key(OVER_CAPACITY) == truncated;
    (!same).then_some(EndpointsAction::Update(content))
}

/// Addresses grouped by the ports they have, as [`canonical::repack`] packs them.
fn subsets(service: &Service, selected: &[Arc<Pod>]) -> (Vec<EndpointSubset>, bool) {
    let ipv6 = match service.spec.ip_families.first() {
        Some(family) => family == "IPv6",
        None => service.spec.cluster_ip.contains(':'),
    };
    let publish = service.spec.publish_not_ready_addresses;
    let without_ports = service.spec.ports.is_empty();
    let mut subsets = Vec::new();
    for pod in selected.iter().filter(|pod| pods::may_serve(pod, publish)) {
        let Some(ip) = pods::addresses(pod, ipv6).into_iter().next() else {
            continue;
        };
        let mut ports = pods::ports(service, pod);
        if ports.is_empty() && !(without_ports && service.is_headless()) {
            continue;
        }
        for port in &mut ports {
            // unlike slices, this kind leaves an empty name out
            port.name = port.name.take().filter(|name| !name.is_empty());
        }
        let address = EndpointAddress {
            ip,
            hostname: pods::hostname(pod, service).unwrap_or_default(),
            node_name: Some(pod.spec.node_name.clone()).filter(|name| !name.is_empty()),
            target_ref: Some(TargetRef {
                kind: "Pod".into(),
                namespace: pod.metadata.namespace.clone(),
                name: pod.metadata.name.clone(),
                uid: pod.metadata.uid.clone(),
            }),
        };
        let (ready, unready) = if publish || pod.is_ready() {
            (vec![address], Vec::new())
        } else {
            (Vec::new(), vec![address])
        };
        subsets.push(EndpointSubset {
            addresses: ready,
            not_ready_addresses: unready,
            ports,
        });
    }
    let mut subsets = canonical::repack(subsets);
    let is_truncated = truncate(&mut subsets);
    (subsets, is_truncated)
}

/// Cuts addresses off that are over the capacity, the unready first, from each subset by
/// its part of all; returns whether any were.
fn truncate(subsets: &mut Vec<EndpointSubset>) -> bool {
    let sum = |of: fn(&EndpointSubset) -> usize| subsets.iter().map(of).sum::<usize>();
    let ready = sum(|subset| subset.addresses.len());
    let unready = sum(|subset| subset.not_ready_addresses.len());
    if ready + unready <= CAPACITY {
        return false;
    }
    let cuts_ready = ready > CAPACITY;
    let (all, most) = if cuts_ready {
        (ready, CAPACITY)
    } else {
        (unready, CAPACITY - ready)
    };
    let mut left = most;
    for subset in subsets.iter_mut() {
        let addresses = if cuts_ready {
            subset.not_ready_addresses.clear();
            &mut subset.addresses
        } else {
            &mut subset.not_ready_addresses
        };
        let part = (addresses.len() * most).div_ceil(all).min(left);
        addresses.truncate(part);
        left -= addresses.len();
    }
    // A subset without addresses would be refused.
    subsets.retain(|it| !it.addresses.is_empty() || !it.not_ready_addresses.is_empty());
    true
}

impl EndpointsController {
    fn new(ctx: &Context) -> Self {
        Self {
            client: ctx.client.clone(),
            recorder: ctx.recorder("endpoint-controller"),
            services: ctx.services(),
            pods: ctx.pods(),
            endpoints: ctx.endpoints(),
            written: OwnWrites::default(),
            triggers: TriggerTimes::default(),
            queue: work::queue(),
        }
    }

    fn listen(self: &Arc<Self>) {
        self.services.queue_changes(&self.queue);
        let this = Arc::clone(self);
        self.pods.on_change(move |change| {
            let (previous, current) = (change.previous.as_deref(), change.current.as_deref());
            for key in services_of(&this.services, previous, current) {
                this.queue.add(key);
            }
        });
        self.endpoints.queue_changes(&self.queue);
    }

    async fn sync(&self, key: Key) -> Outcome {
        let current = self.endpoints.by_key(&key);
        let resource = &Endpoints::RESOURCE;
        let Some(service) = self.services.by_key(&key) else {
            self.written.forget(&key);
            self.triggers.forget(&key);
            // only objects that we created: others keep theirs without a Service
            let ours = current.filter(|e| e.metadata.labels.get(MANAGED_BY) == Some(MANAGER));
            let Some(endpoints) = ours else {
                return Ok(None);
            };
            let options = DeleteOptions::of_uid(endpoints.metadata.uid.as_str());
            let deleted = self
                .client
                .delete(resource, &key.namespace, &key.name, &options)
                .await;
            return work::unless_gone(deleted).map(|()| None);
        };
        if service.spec.r#type == "ExternalName" || service.spec.selector.is_none() {
            return Ok(None);
        }
        let shown = current.as_deref().map(|endpoints| &endpoints.metadata);
        if let Some(wait) = self.written.behind(&key, shown) {
            return Ok(Some(wait));
        }
        let selected: Vec<_> = self
            .pods
            .namespace(&key.namespace)
            .into_iter()
            .filter(|pod| service.selects(&pod.metadata))
            .collect();
        let trigger = self.triggers.next(&key, &service, &selected);
        let Some(action) = decide(&service, &selected, current.as_deref()) else {
            return Ok(None);
        };
        let creating = matches!(action, EndpointsAction::Create(_));
        let applied = self.apply(&service, action, current.as_deref(), &trigger);
        match applied.await {
            Ok(written) => {
                self.written.note(&written.metadata);
                Ok(None)
            }
            Err(error) if error.is_namespace_terminating() => Ok(None),
            Err(error) => {
                if !error.is_conflict() && !error.is_already_exists() {
                    let about = ObjectReference::to_object(&Service::RESOURCE, &service.metadata);
                    let (reason, verb) = if creating {
                        ("FailedToCreateEndpoint", "create endpoint for service")
                    } else {
                        ("FailedToUpdateEndpoint", "update endpoint")
                    };
                    let message = format!("Failed to {verb} {key}: {}", error.chain());
                    self.recorder.warning(&about, reason, message);
                }
                Err(error)
            }
        }
    }

    async fn apply(
        &self,
        service: &Service,
        action: EndpointsAction,
        current: Option<&Endpoints>,
        trigger: &Value,
    ) -> Result<Metadata, Error> {
        let meta = &service.metadata;
        let resource = &Endpoints::RESOURCE;
        let over = |truncated: bool| truncated.then_some("truncated");
        match action {
            EndpointsAction::Create(content) => {
                let mut body = json!({
                    "apiVersion": "v1",
                    "kind": "Endpoints",
                    "metadata": {
                        "name": meta.name,
                        "namespace": meta.namespace,
                        "labels": content.labels,
                    },
                    "subsets": content.subsets,
                });
                if let Some(word) = over(content.truncated) {
                    body["metadata"]["annotations"] = Value::from_iter([(OVER_CAPACITY, word)]);
                }
                if !trigger.is_null() {
                    body["metadata"]["annotations"][ANNOTATION] = trigger.clone();
                }
                self.client.create(resource, &meta.namespace, &body).await
            }
            EndpointsAction::Update(content) => {
                let have = current
                    .map(|endpoints| endpoints.metadata.clone())
                    .unwrap_or_default();
                let mut labels: serde_json::Map<String, Value> = have
                    .labels
                    .iter()
                    .map(|(k, _)| (k.to_owned(), Value::Null))
                    .collect();
                for (key, value) in &content.labels {
                    labels.insert(key.to_string(), value.as_str().into());
                }
                let patch = json!({
                    "metadata": {
                        "uid": have.uid,
                        "resourceVersion": have.resource_version,
                        "labels": labels,
                        "annotations": {
                            OVER_CAPACITY: over(content.truncated),
                            ANNOTATION: trigger,
                        },
                    },
                    "subsets": content.subsets,
                });
                self.client
                    .patch(
                        resource,
                        &meta.namespace,
                        &meta.name,
                        "",
                        Patch::Merge(&patch),
                    )
                    .await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::ServicePort;

    fn service() -> Service {
        serde_json::from_value(json!({"metadata":{"name":"web","namespace":"d"},
            "spec":{"clusterIP":"10.96.0.9","selector":{"a":"b"},
                "ports":[{"port":80,"targetPort":8080,"protocol":"TCP"}]}}))
        .unwrap()
    }

    fn pod(number: usize, ready: bool) -> Arc<Pod> {
        let ip = format!("10.0.{}.{}", number / 256, number % 256);
        Arc::new(
            serde_json::from_value(json!({"metadata":{"name":format!("p{number}"),"namespace":"d","uid":format!("u{number}")},
                "spec":{"nodeName":"n"},
                "status":{"podIP":ip,"conditions":[{"type":"Ready","status":if ready {"True"} else {"False"}}]}}))
            .unwrap(),
        )
    }

    #[test]
    fn ready_and_unready_pods_share_a_subset() {
        let (subsets, truncated) = subsets(&service(), &[pod(2, false), pod(1, true)]);
        assert!(!truncated);
        assert_eq!(
            serde_json::to_value(&subsets).unwrap(),
            json!([{
                "addresses":[{"ip":"10.0.0.1","nodeName":"n","targetRef":{"kind":"Pod","namespace":"d","name":"p1","uid":"u1"}}],
                "notReadyAddresses":[{"ip":"10.0.0.2","nodeName":"n","targetRef":{"kind":"Pod","namespace":"d","name":"p2","uid":"u2"}}],
                "ports":[{"port":8080,"protocol":"TCP"}]}])
        );
    }

    #[test]
    fn what_is_as_it_should_be_is_not_written() {
        let s = service();
        let pods = [pod(1, true)];
        let Some(EndpointsAction::Create(content)) = decide(&s, &pods, None) else {
            panic!("nothing created")
        };
        let mut current = Endpoints {
            subsets: content.subsets,
            ..Endpoints::default()
        };
        current.metadata.labels = content.labels.into_iter().collect();
        assert_eq!(decide(&s, &pods, Some(&current)), None);
        let mut s = s;
        s.spec.ports.push(ServicePort {
            name: "b".into(),
            port: 443,
            ..ServicePort::default()
        });
        s.spec.ports[0].name = "a".into();
        current.subsets = subsets(&s, &pods).0;
        current.subsets[0].ports.reverse();
        assert_eq!(decide(&s, &pods, Some(&current)), None);
        assert!(matches!(
            decide(&s, &[], Some(&current)),
            Some(EndpointsAction::Update(_))
        ));
    }

    #[test]
    fn too_many_addresses_are_cut_off_the_unready_first() {
        let all: Vec<_> = (0..1100).map(|n| pod(n, n >= 200)).collect();
        let (subsets, truncated) = subsets(&service(), &all);
        assert!(truncated);
        assert_eq!(subsets[0].addresses.len(), 900);
        assert_eq!(subsets[0].not_ready_addresses.len(), 100);
    }
}
