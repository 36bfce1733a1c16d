//! Mirrors Endpoints that others write to EndpointSlices, for Services without a selector
//! (KEP-0752).

use std::collections::BTreeMap;
use std::sync::Arc;

use control_client::{Error, Queue, View};
use serde_json::{Value, json};

use super::canonical;
use super::reconciler::SliceReconciler;
use super::slices::decide::{MANAGED_BY, SERVICE_NAME};
use crate::Controller;
use crate::context::Context;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::{
    ConditionsOfEndpoint, Endpoint, EndpointAddress, EndpointPort, EndpointSlice, EndpointSubset,
    Endpoints, Service, Text,
};
use crate::work::{self, Outcome};

/// The value of the managed-by label, as upstream's.
const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
/// Endpoints with this label are not mirrored.
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Endpoints that were used for leader election are not mirrored either.
const ELECTION: &str = "control-plane.alpha.kubernetes.io/leader";
/// Addresses that are mirrored of one subset; there is one slice for each
/// family of a subset.
const MAX_PER_SUBSET: usize = 1000;

/// Mirrors Endpoints into slices.
pub const CONTROLLER: Controller = Controller {
    name: "endpointslice-mirroring-controller",
    service_account: "endpointslicemirroring-controller",
    start: |ctx| {
        let this = Arc::new(Mirror::new(ctx));
        this.listen();
        let shutdown = ctx.shutdown.clone();
        Box::pin(async move {
            this.services.ready().await;
            this.endpoints.ready().await;
            this.keeper.slices.ready().await;
            let work = work::call(&this, |this, key| async move { this.sync(key).await });
            this.queue.run("mirroring", 2, &shutdown, work).await;
        })
    },
};

struct Mirror {
    services: Arc<KindCache<Service>>,
    endpoints: Arc<KindCache<Endpoints>>,
    keeper: SliceReconciler,
    queue: Queue<Key>,
}

/// The content of a mirrored slice.
#[derive(Debug, Clone, Default, PartialEq)]
struct MirrorContent {
    address_type: Text,
    endpoints: Vec<Endpoint>,
    ports: Vec<EndpointPort>,
}

/// One write.
#[derive(Debug)]
enum MirrorAction {
    Create(MirrorContent),
    Update(Arc<EndpointSlice>, MirrorContent),
    Delete(Arc<EndpointSlice>),
}

/// Whether these Endpoints are to be mirrored for this Service: also those that the endpoints
/// controller left when the Service lost its selector, as upstream.
fn is_mirrored(endpoints: &Endpoints, service: &Service) -> bool {
    let meta = &endpoints.metadata;
    service.spec.selector.is_none()
        && meta.labels.get(SKIP) != Some("true")
        && !meta.annotations.contains_key(ELECTION)
}

/// The slices that Endpoints become: one for each set of ports and family.
fn desired(subsets: &[EndpointSubset]) -> Vec<MirrorContent> {
    let mut groups: BTreeMap<(Vec<EndpointPort>, &'static str), Vec<Endpoint>> = BTreeMap::new();
    for subset in subsets {
        let mut ports = subset.ports.clone();
        for port in &mut ports {
            // slices name every port, if only with nothing
            port.name.get_or_insert_default();
            port.protocol.get_or_insert_with(|| "TCP".into());
        }
        ports.sort();
        let ready = subset.addresses.iter().map(|address| (address, true));
        let unready = subset
            .not_ready_addresses
            .iter()
            .map(|address| (address, false));
        for (address, ready) in ready.chain(unready).take(MAX_PER_SUBSET) {
            let family = match address.ip.parse::<std::net::IpAddr>() {
                Ok(ip) if ip.is_ipv6() => "IPv6",
                Ok(_) => "IPv4",
                Err(_) => continue,
            };
            groups
                .entry((ports.clone(), family))
                .or_default()
                .push(endpoint(address, ready));
        }
    }
    groups
        .into_iter()
        .map(|((mut ports, family), endpoints)| {
            canonical::order_slice_ports(&mut ports);
            MirrorContent {
                address_type: family.into(),
                endpoints,
                ports,
            }
        })
        .collect()
}

fn endpoint(address: &EndpointAddress, ready: bool) -> Endpoint {
    Endpoint {
        addresses: vec![address.ip.clone()],
        conditions: ConditionsOfEndpoint {
            ready: Some(ready),
            ..ConditionsOfEndpoint::default()
        },
        hostname: Some(address.hostname.clone()).filter(|name| !name.is_empty()),
        target_ref: address.target_ref.clone(),
        node_name: address.node_name.clone(),
        ..Endpoint::default()
    }
}

fn decide(subsets: &[EndpointSubset], slices: &[Arc<EndpointSlice>]) -> Vec<MirrorAction> {
    let mut left: Vec<Arc<EndpointSlice>> = slices.to_vec();
    let mut actions = Vec::new();
    for content in desired(subsets) {
        let sorted = |ports: &[EndpointPort]| {
            let mut ports = ports.to_vec();
            ports.sort();
            ports
        };
        let wanted = sorted(&content.ports);
        let fits = |slice: &EndpointSlice| slice.address_type == content.address_type;
        let at = left
            .iter()
            .position(|slice| fits(slice) && sorted(&slice.ports) == wanted)
            .or_else(|| left.iter().position(|slice| fits(slice)));
        match at.map(|at| left.remove(at)) {
            None => actions.push(MirrorAction::Create(content)),
            Some(slice)
                if slice.endpoints == content.endpoints && sorted(&slice.ports) == wanted => {}
            Some(slice) => actions.push(MirrorAction::Update(slice, content)),
        }
    }
    actions.extend(left.into_iter().map(MirrorAction::Delete));
    actions
}

impl Mirror {
    fn new(ctx: &Context) -> Self {
        Self {
            services: ctx.services(),
            endpoints: ctx.endpoints(),
            keeper: SliceReconciler::new(ctx, MANAGER),
            queue: work::queue(),
        }
    }

    fn listen(self: &Arc<Self>) {
        self.services.queue_changes(&self.queue);
        self.endpoints.queue_changes(&self.queue);
        let this = Arc::clone(self);
        self.keeper.slices.on_change(move |change| {
            // The Endpoints that it was made from are named like their Service.
            let slice = change.latest();
            let Some(key) = slice.and_then(|slice| this.keeper.service_of(slice)) else {
                return;
            };
            if change.previous.is_none() {
                this.keeper.expectations.created(&key);
            }
            this.queue.add(key);
        });
    }

    async fn sync(&self, key: Key) -> Outcome {
        let slices = match self.keeper.current(&key) {
            Ok(slices) => slices,
            Err(wait) => return Ok(Some(wait)),
        };
        let endpoints = self.endpoints.by_key(&key);
        let service = self.services.by_key(&key);
        let source = match (&endpoints, &service) {
            (Some(endpoints), Some(service)) if is_mirrored(endpoints, service) => Some(endpoints),
            _ => None,
        };
        let subsets = source
            .map(|endpoints| endpoints.subsets.as_slice())
            .unwrap_or_default();
        for action in decide(subsets, &slices) {
            self.apply(&key, source, action).await?;
        }
        Ok(None)
    }

    async fn apply(
        &self,
        key: &Key,
        source: Option<&Arc<Endpoints>>,
        action: MirrorAction,
    ) -> Result<(), Error> {
        match action {
            MirrorAction::Create(content) => {
                let Some(source) = source else { return Ok(()) };
                let mut labels: serde_json::Map<String, Value> = source
                    .metadata
                    .labels
                    .iter()
                    .map(|(k, v)| (k.to_owned(), v.into()))
                    .collect();
                labels.insert(SERVICE_NAME.into(), key.name.as_str().into());
                labels.insert(MANAGED_BY.into(), MANAGER.into());
                let body = json!({
                    "apiVersion": "discovery.k8s.io/v1",
                    "kind": "EndpointSlice",
                    "metadata": {
                        "generateName": work::name_prefix(&key.name),
                        "namespace": key.namespace,
                        "labels": labels,
                        "ownerReferences":
                            [work::reference_to(&Endpoints::RESOURCE, &source.metadata)],
                    },
                    "addressType": content.address_type,
                    "endpoints": content.endpoints,
                    "ports": content.ports,
                });
                self.keeper.create(key, &body).await
            }
            MirrorAction::Update(slice, content) => {
                let meta = &slice.metadata;
                let patch = json!({
                    "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
                    "endpoints": content.endpoints,
                    "ports": content.ports,
                });
                self.keeper.patch(key, &meta.name, &patch).await
            }
            MirrorAction::Delete(slice) => {
                let meta = &slice.metadata;
                self.keeper.delete(key, &meta.name, &meta.uid).await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subsets(value: Value) -> Vec<EndpointSubset> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn subset_becomes_a_slice_for_each_family() {
        let s = subsets(
            json!([{"addresses":[{"ip":"192.0.2.1"},{"ip":"2001:db8::1"}],
            "notReadyAddresses":[{"ip":"192.0.2.2","hostname":"h"}],"ports":[{"port":80}]}]),
        );
        let contents = desired(&s);
        assert_eq!(contents.len(), 2);
        assert_eq!(
            serde_json::to_value(&contents[0].endpoints).unwrap(),
            json!([{"addresses":["192.0.2.1"],"conditions":{"ready":true}},
                {"addresses":["192.0.2.2"],"conditions":{"ready":false},"hostname":"h"}])
        );
        assert_eq!(
            serde_json::to_value(&contents[0].ports).unwrap(),
            json!([{"name":"","port":80,"protocol":"TCP"}])
        );
    }

    #[test]
    fn mirrored_slice_is_kept_changed_and_removed() {
        let s = subsets(json!([{"addresses":[{"ip":"192.0.2.1"}],"ports":[{"port":80}]}]));
        let MirrorAction::Create(content) = &decide(&s, &[])[0] else {
            panic!("nothing created")
        };
        let slice = Arc::new(EndpointSlice {
            address_type: content.address_type.clone(),
            endpoints: content.endpoints.clone(),
            ports: content.ports.clone(),
            ..EndpointSlice::default()
        });
        assert!(decide(&s, std::slice::from_ref(&slice)).is_empty());
        let other = subsets(json!([{"addresses":[{"ip":"192.0.2.9"}],"ports":[{"port":80}]}]));
        assert!(matches!(
            decide(&other, std::slice::from_ref(&slice))[..],
            [MirrorAction::Update(..)]
        ));
        assert!(matches!(
            decide(&[], &[slice])[..],
            [MirrorAction::Delete(_)]
        ));
    }

    #[test]
    fn endpoints_of_services_without_a_selector_are_mirrored() {
        let service: Service = serde_json::from_value(json!({"spec":{}})).unwrap();
        let with = |labels: Value| -> Endpoints {
            serde_json::from_value(json!({"metadata":{"labels":labels}})).unwrap()
        };
        assert!(is_mirrored(&with(json!({})), &service));
        assert!(!is_mirrored(&with(json!({SKIP:"true"})), &service));
        let left = with(json!({"endpoints.kubernetes.io/managed-by":"endpoint-controller"}));
        assert!(is_mirrored(&left, &service));
        let selecting: Service =
            serde_json::from_value(json!({"spec":{"selector":{"a":"b"}}})).unwrap();
        assert!(!is_mirrored(&with(json!({})), &selecting));
    }
}
