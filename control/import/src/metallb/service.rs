//! Services with addresses of MetalLB: the changes with which they keep them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use control_load_balancer::{CLASS, IpPoolSpec, Pool, SHARING_KEY, WANTED_ADDRESSES, WANTED_POOL};
use serde_json::{Map, Value, json};

use crate::{MalformedObject, ObjectId, Remark, labels_of};

/// MetalLB's annotations, without their prefix, and Orlop's.
const ANNOTATIONS: [(&str, &str); 3] = [
    ("loadBalancerIPs", WANTED_ADDRESSES),
    ("address-pool", WANTED_POOL),
    ("allow-shared-ip", SHARING_KEY),
];
/// The prefix of MetalLB's annotations, and its former one.
const PREFIXES: [&str; 2] = ["metallb.io", "metallb.universe.tf"];

/// A Service with addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedService {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// The names of the pools that they are in.
    pub pools: Vec<String>,
    /// Annotations that it lacks.
    pub annotations: BTreeMap<String, String>,
    /// Its TCP ports, for probing.
    pub ports: Vec<u16>,
    /// `externalTrafficPolicy: Local`: only nodes with an endpoint announce it.
    pub is_local: bool,
}

impl ServedService {
    /// A merge patch that adds annotations; `None` if none are lacking. That of the pool is only
    /// of use once the pool is there: without it the Service would lose its address.
    #[must_use]
    pub fn patch(&self, pool: bool) -> Option<Value> {
        let missing: Map<String, Value> = self
            .annotations
            .iter()
            .filter(|(key, _)| (*key == WANTED_POOL) == pool)
            .map(|(key, value)| (key.clone(), value.clone().into()))
            .collect();
        (!missing.is_empty()).then(|| json!({"metadata": {"annotations": missing}}))
    }
}

/// Returns the pools among converted objects.
///
/// # Errors
/// An invalid IPPool.
pub fn pools(objects: &[Value]) -> Result<Vec<Pool>, MalformedObject> {
    let mut all = Vec::new();
    for object in objects.iter().filter(|it| it["kind"] == "IPPool") {
        let spec: IpPoolSpec = crate::read_spec(object)?;
        all.push(Pool::from_spec(&ObjectId::from_object(object).name, &spec).0);
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// Services of type LoadBalancer with addresses, and what keeps some from keeping theirs.
#[must_use]
pub fn served(
    services: &[Value],
    namespaces: &[Value],
    pools: &[Pool],
) -> (Vec<ServedService>, Vec<Remark>) {
    let namespaces: BTreeMap<String, BTreeMap<String, String>> = namespaces
        .iter()
        .map(|it| (ObjectId::from_object(it).name, labels_of(it)))
        .collect();
    let (mut all, mut refused) = (Vec::new(), Vec::new());
    for service in services {
        let mut id = ObjectId::from_object(service);
        id.kind = "Service".to_owned();
        if service.pointer("/spec/type").and_then(Value::as_str) != Some("LoadBalancer") {
            continue;
        }
        let ingress = service.pointer("/status/loadBalancer/ingress");
        let ingress = ingress.and_then(Value::as_array).into_iter().flatten();
        let addresses: Vec<IpAddr> = ingress
            .filter_map(|it| it["ip"].as_str()?.parse().ok())
            .collect();
        if addresses.is_empty() {
            continue;
        }
        let mut refuse = |place: &str, text: String| {
            refused.push(Remark {
                object: id.clone(),
                place: place.to_owned(),
                text,
            });
        };
        let class = service
            .pointer("/spec/loadBalancerClass")
            .and_then(Value::as_str);
        if let Some(class) = class.filter(|it| *it != CLASS) {
            refuse(
                "spec.loadBalancerClass",
                format!(
                    "`{class}` cannot be changed, and Orlop serves Services without a class and \
                     of class {CLASS}: create it again without"
                ),
            );
            continue;
        }
        let found = service.pointer("/metadata/annotations");
        let get = |key: &str| found.and_then(|it| it.get(key)).and_then(Value::as_str);
        let mut annotations = BTreeMap::new();
        for (theirs, ours) in ANNOTATIONS {
            let value = PREFIXES
                .iter()
                .find_map(|prefix| get(&format!("{prefix}/{theirs}")));
            match (value.filter(|it| !it.is_empty()), get(ours)) {
                (Some(value), None) => {
                    annotations.insert(ours.to_owned(), value.to_owned());
                }
                (Some(value), Some(other)) if value != other => refuse(
                    ours,
                    format!("`{other}` contradicts MetalLB's {theirs} `{value}`: remove one"),
                ),
                _ => {}
            }
        }
        let wanted_pool = annotations
            .get(WANTED_POOL)
            .map(String::as_str)
            .or_else(|| get(WANTED_POOL));
        let labels = labels_of(service);
        let empty = BTreeMap::new();
        let of_namespace = namespaces.get(&id.namespace).unwrap_or(&empty);
        let may_serve = |pool: &&Pool| {
            wanted_pool.is_none_or(|it| it == pool.name)
                && pool.service_selector.as_ref().is_none_or(|selector| {
                    selector.matches(|key| labels.get(key).map(String::as_str))
                })
                && pool.namespace_selector.as_ref().is_none_or(|selector| {
                    selector.matches(|key| of_namespace.get(key).map(String::as_str))
                })
        };
        let mut in_pools = Vec::new();
        for address in &addresses {
            let pool = pools
                .iter()
                .filter(may_serve)
                .find(|it| it.contains(*address));
            match pool {
                Some(pool) => in_pools.push(pool.name.clone()),
                None => refuse(
                    "status",
                    format!(
                        "no converted pool that selects it has {address}: Orlop would replace \
                         it. Add the address to a pool"
                    ),
                ),
            }
        }
        let ports = service.pointer("/spec/ports").and_then(Value::as_array);
        let ports = ports.into_iter().flatten().filter_map(|port| {
            let is_tcp = port["protocol"].as_str().unwrap_or("TCP") == "TCP";
            let number = u16::try_from(port["port"].as_u64()?).ok()?;
            is_tcp.then_some(number)
        });
        let policy = service.pointer("/spec/externalTrafficPolicy");
        all.push(ServedService {
            namespace: id.namespace.clone(),
            name: id.name.clone(),
            addresses,
            pools: in_pools,
            annotations,
            ports: ports.collect(),
            is_local: policy.and_then(Value::as_str) == Some("Local"),
        });
    }
    (all, refused)
}
