//! MetalLB's IPAddressPool, L2Advertisement, BGPPeer, BGPAdvertisement and Community
//! (`metallb.io`, `v1beta1` and `v1beta2`) as IPPool, L2Announcement, BGPPeer and
//! BGPAdvertisement; and the take-over of addresses from it.
//!
//! A list of node or Service selectors means any of them. An advertisement becomes one
//! object for each, since advertisements add up. Pools and peers do not: their selectors
//! are merged into one if that is possible.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control_load_balancer::{AddressRange, PASSWORD_NAMESPACE, PASSWORD_SECRET};
use control_types::label_selector::LabelSelector;
use serde_json::{Map, Value, json};

use self::objects::{BgpSpec, CommunitySpec, L2Spec, PeerSpec, PoolSpec};
use crate::labels::{NAMESPACE_NAME, Requirements, Test};
use crate::{IMPORTED_FROM, MalformedObject, ObjectId, Remark, Report, labels_of, read_spec};

mod objects;
pub mod service;
pub mod takeover;

/// The API group.
pub const GROUP: &str = "metallb.io";

/// Converts MetalLB's configuration. Secrets among the objects are where passwords are read
/// from; others are ignored. Objects that cannot be converted as a whole are left out, unless
/// `lossy`.
///
/// # Errors
/// An object that is not what its kind says.
pub fn convert(objects: &[Value], lossy: bool) -> Result<Report, MalformedObject> {
    let mut conversion = Conversion {
        lossy,
        ..Conversion::default()
    };
    let mut ours = Vec::new();
    for object in objects {
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let id = ObjectId::from_object(object);
        match (api_version.split('/').next(), id.kind.as_str()) {
            (Some(GROUP), "IPAddressPool") => {
                conversion.pools.insert(id.name.clone(), labels_of(object));
            }
            (Some(GROUP), "Community") => {
                let spec: CommunitySpec = read_spec(object)?;
                for alias in spec.communities.into_iter().flatten() {
                    conversion.communities.insert(alias.name, alias.value);
                }
            }
            (Some("v1"), "Secret") => {
                let key = (id.namespace.clone(), id.name.clone());
                conversion.secrets.insert(key, object.clone());
            }
            _ => {}
        }
        if api_version.split('/').next() == Some(GROUP) {
            ours.push((rank(&id.kind), id, object));
        }
    }
    ours.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    for (_, id, object) in ours {
        match id.kind.as_str() {
            "IPAddressPool" => conversion.pool(&id, &read_spec(object)?)?,
            "L2Advertisement" => conversion.l2(&id, read_spec(object)?),
            "BGPPeer" => conversion.peer(&id, read_spec(object)?)?,
            "BGPAdvertisement" => conversion.bgp(&id, read_spec(object)?),
            "AddressPool" => conversion.refuse(
                &id,
                "",
                "is a kind that MetalLB dropped in 0.13: convert it to IPAddressPool with \
                 MetalLB's own tool first",
            ),
            _ => {}
        }
    }
    if !conversion.passwords.is_empty() {
        let data: Map<String, Value> = conversion
            .passwords
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        conversion.objects.insert(
            0,
            json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"namespace": PASSWORD_NAMESPACE, "name": PASSWORD_SECRET},
                "data": data,
            }),
        );
    }
    Ok(Report {
        objects: conversion.objects,
        notes: conversion.notes,
        refused: conversion.refused,
    })
}

/// Pools first: what names them comes after them.
fn rank(kind: &str) -> usize {
    [
        "IPAddressPool",
        "BGPPeer",
        "L2Advertisement",
        "BGPAdvertisement",
    ]
    .iter()
    .position(|it| *it == kind)
    .unwrap_or(usize::MAX)
}

#[derive(Default)]
struct Conversion {
    lossy: bool,
    pools: BTreeMap<String, BTreeMap<String, String>>,
    communities: BTreeMap<String, String>,
    secrets: BTreeMap<(String, String), Value>,
    /// By peers' names, in base64.
    passwords: BTreeMap<String, Value>,
    objects: Vec<Value>,
    notes: Vec<Remark>,
    refused: Vec<Remark>,
}

impl Conversion {
    fn refuse(&mut self, id: &ObjectId, place: &str, text: impl Into<String>) {
        self.refused.push(Remark {
            object: id.clone(),
            place: place.to_owned(),
            text: text.into(),
        });
    }

    fn note(&mut self, id: &ObjectId, place: &str, text: &str) {
        self.notes.push(Remark {
            object: id.clone(),
            place: place.to_owned(),
            text: text.to_owned(),
        });
    }

    fn emit(&mut self, id: &ObjectId, kind: &str, number: usize, spec: Value) {
        let name = if number == 0 {
            id.name.clone()
        } else {
            format!("{}-{}", id.name, number + 1)
        };
        self.objects.push(json!({
            "apiVersion": "orlop.dev/v1alpha1",
            "kind": kind,
            "metadata": {"name": name, "annotations": {IMPORTED_FROM: id.to_string()}},
            "spec": spec,
        }));
    }

    fn pool(&mut self, id: &ObjectId, spec: &PoolSpec) -> Result<(), MalformedObject> {
        for range in &spec.addresses {
            range
                .parse::<AddressRange>()
                .map_err(|error| MalformedObject {
                    object: id.clone(),
                    why: error.to_string(),
                })?;
        }
        let mut whole = true;
        let mut pool = json!({"ranges": spec.addresses});
        if spec.auto_assign == Some(false) {
            pool["autoAssign"] = false.into();
        }
        if spec.avoid_buggy_ips == Some(true) {
            pool["avoidBuggyIPs"] = true.into();
        }
        let allocation = spec.service_allocation.clone().unwrap_or_default();
        if allocation.priority.is_some_and(|it| it != 0) {
            self.refuse(
                id,
                "serviceAllocation.priority",
                "Orlop takes the first pool by name that selects a Service: rename pools, or let \
                 Services name theirs",
            );
            whole = false;
        }
        let mut namespaces = allocation.namespace_selectors.unwrap_or_default();
        if let Some(names) = allocation.namespaces.filter(|it| !it.is_empty()) {
            namespaces.push(by_name(&names));
        }
        for (key, place, selectors) in [
            (
                "namespaceSelector",
                "serviceAllocation.namespaceSelectors",
                namespaces,
            ),
            (
                "serviceSelector",
                "serviceAllocation.serviceSelectors",
                allocation.service_selectors.unwrap_or_default(),
            ),
        ] {
            match merged(&selectors) {
                Ok(Some(selector)) => pool[key] = selector,
                Ok(None) => {}
                Err(()) => {
                    self.refuse(
                        id,
                        place,
                        "an IPPool has one selector, and these cannot be merged into one: give \
                         Services or namespaces a common label",
                    );
                    // Without it the pool would be for more Services.
                    return Ok(());
                }
            }
        }
        if whole || self.lossy {
            self.emit(id, "IPPool", 0, pool);
        }
        Ok(())
    }

    /// The names of the pools that an advertisement is about; none if it is about no pool that
    /// exists, an empty list if about all.
    fn pool_names(
        &mut self,
        id: &ObjectId,
        names: Option<Vec<String>>,
        selectors: Option<Vec<LabelSelector>>,
    ) -> Option<Vec<String>> {
        let names = names.unwrap_or_default();
        let selectors = selectors.unwrap_or_default();
        if names.is_empty() && selectors.is_empty() {
            return Some(Vec::new());
        }
        let mut all: BTreeSet<String> = names.into_iter().collect();
        for (name, labels) in &self.pools {
            let selects =
                |it: &LabelSelector| it.matches(|key| labels.get(key).map(String::as_str));
            if selectors.iter().any(selects) {
                all.insert(name.clone());
            }
        }
        if !selectors.is_empty() {
            self.note(
                id,
                "ipAddressPoolSelectors",
                "now names the pools that it selects; add later ones to ipPools",
            );
        }
        if all.is_empty() {
            self.note(
                id,
                "ipAddressPoolSelectors",
                "selects no pool; it is left out",
            );
            return None;
        }
        Some(all.into_iter().collect())
    }

    fn l2(&mut self, id: &ObjectId, spec: L2Spec) {
        let Some(pools) = self.pool_names(id, spec.pools, spec.pool_selectors) else {
            return;
        };
        if spec
            .preferred_node_selectors
            .is_some_and(|it| !it.is_empty())
        {
            self.refuse(
                id,
                "preferredNodeSelectors",
                "Orlop prefers no node, and a node that answers for an address keeps it: limit \
                 the nodes by nodeSelectors",
            );
            if !self.lossy {
                return;
            }
        }
        let mut base = json!({});
        if !pools.is_empty() {
            base["ipPools"] = pools.into();
        }
        if let Some(interfaces) = spec.interfaces.filter(|it| !it.is_empty()) {
            base["interfaces"] = interfaces.into();
        }
        let all = products(&base, spec.node_selectors, spec.service_selectors);
        for (number, spec) in all.into_iter().enumerate() {
            self.emit(id, "L2Announcement", number, spec);
        }
    }

    fn bgp(&mut self, id: &ObjectId, spec: BgpSpec) {
        let Some(pools) = self.pool_names(id, spec.pools, spec.pool_selectors) else {
            return;
        };
        let mut base = json!({});
        if !pools.is_empty() {
            base["ipPools"] = pools.into();
        }
        for (key, length, default) in [
            ("aggregationLength", spec.aggregation_length, 32),
            ("aggregationLengthV6", spec.aggregation_length_v6, 128),
        ] {
            if let Some(length) = length.filter(|it| *it != default) {
                base[key] = length.into();
            }
        }
        if let Some(preference) = spec.local_pref.filter(|it| *it != 0) {
            base["localPref"] = preference.into();
        }
        if let Some(peers) = spec.peers.filter(|it| !it.is_empty()) {
            base["peers"] = peers.into();
        }
        let mut communities = Vec::new();
        let mut whole = true;
        if spec.as_path_prepend.is_some_and(|it| it != 0) {
            self.refuse(
                id,
                "asPathPrepend",
                "Orlop does not lengthen the AS path: prepend it at the router, or use \
                 communities",
            );
            whole = false;
        }
        for text in spec.communities.into_iter().flatten() {
            let value = self.communities.get(&text).unwrap_or(&text);
            let value = value.strip_prefix("large:").unwrap_or(value);
            if is_community(value) {
                communities.push(value.to_owned());
            } else {
                let text = format!(
                    "`{text}` is no community, and no Community object in the input has this name"
                );
                self.refuse(id, "communities", text);
                whole = false;
            }
        }
        if !communities.is_empty() {
            base["communities"] = communities.into();
        }
        if !whole && !self.lossy {
            return;
        }
        let all = products(&base, spec.node_selectors, spec.service_selectors);
        for (number, spec) in all.into_iter().enumerate() {
            self.emit(id, "BGPAdvertisement", number, spec);
        }
    }

    fn peer(&mut self, id: &ObjectId, spec: PeerSpec) -> Result<(), MalformedObject> {
        let malformed = |why: &str| MalformedObject {
            object: id.clone(),
            why: why.to_owned(),
        };
        let seconds = |place: &str, text: Option<&str>| match text.map(duration_seconds) {
            None => Ok(None),
            Some(Some(seconds)) => Ok(Some(seconds)),
            Some(None) => Err(malformed(&format!(
                "{place} is no duration of whole seconds"
            ))),
        };
        let is_set = |it: &Option<String>| it.as_deref().is_some_and(|it| !it.is_empty());
        let mut lost: Vec<(&str, &str)> = Vec::new();
        // Without these there is no corresponding session.
        let mut impossible: Vec<(&str, &str)> = Vec::new();
        // MetalLB presents localASN to the router in place of myASN. Orlop has one number for both.
        let own_asn = spec.local_asn.filter(|it| *it != 0).unwrap_or(spec.my_asn);
        let asn = match (
            spec.peer_asn.filter(|it| *it != 0),
            spec.dynamic_asn.as_deref(),
        ) {
            (Some(asn), None | Some("")) => Some(asn),
            (None, Some("internal")) => Some(own_asn),
            (None, Some("external")) => {
                impossible.push(("dynamicASN", "Orlop needs the router's number: set peerASN"));
                None
            }
            _ => return Err(malformed("exactly one of peerASN and dynamicASN is needed")),
        };
        if is_set(&spec.interface) || !is_set(&spec.peer_address) {
            impossible.push((
                "interface",
                "Orlop needs the router's address: set peerAddress",
            ));
        }
        if is_set(&spec.vrf) {
            impossible.push((
                "vrf",
                "Orlop speaks BGP in the node's main routing table only",
            ));
        }
        if is_set(&spec.bfd_profile) {
            lost.push((
                "bfdProfile",
                "BFD is not implemented: set holdTimeSeconds to 3, so that the router notices a \
                 node's failure in 3 s",
            ));
        }
        let mut peer = json!({
            "myASN": own_asn,
            "peerASN": asn,
            "peerAddress": spec.peer_address,
        });
        if let Some(port) = spec.peer_port.filter(|it| *it != 179) {
            peer["peerPort"] = port.into();
        }
        if let Some(source) = spec.source_address.filter(|it| !it.is_empty()) {
            peer["sourceAddress"] = source.into();
        }
        if let Some(router_id) = spec.router_id.filter(|it| !it.is_empty()) {
            peer["routerID"] = router_id.into();
        }
        if spec.ebgp_multi_hop == Some(true) {
            peer["ebgpMultiHop"] = true.into();
        }
        if let Some(hold) = seconds("holdTime", spec.hold_time.as_deref())?.filter(|it| *it != 90) {
            if hold > u64::from(u16::MAX) || (hold != 0 && hold < 3) {
                return Err(malformed("holdTime is neither 0 nor 3 s to 65535 s"));
            }
            peer["holdTimeSeconds"] = hold.into();
        }
        if let Some(retry) = seconds("connectTime", spec.connect_time.as_deref())? {
            peer["connectRetrySeconds"] = retry.clamp(1, 3600).into();
        }
        if is_set(&spec.keepalive_time) {
            self.note(
                id,
                "keepaliveTime",
                "Orlop sends a keepalive every third of the hold time",
            );
        }
        match merged(&spec.node_selectors.unwrap_or_default()) {
            Ok(Some(selector)) => peer["nodeSelector"] = selector,
            Ok(None) => {}
            Err(()) => impossible.push((
                "nodeSelectors",
                "a BGPPeer has one selector, and these cannot be merged into one: give the nodes \
                 a common label",
            )),
        }
        let reference = spec.password_secret.unwrap_or_default();
        let secret_name = reference.name.filter(|it| !it.is_empty());
        let password = if let Some(name) = &secret_name {
            let namespace = reference.namespace.unwrap_or_else(|| id.namespace.clone());
            let secret = self.secrets.get(&(namespace, name.clone()));
            let data = secret
                .map(|it| &it["data"]["password"])
                .filter(|it| it.is_string());
            if data.is_none() {
                impossible.push((
                    "passwordSecret",
                    "the Secret, or its key password, is not in the input",
                ));
            }
            data.cloned()
        } else {
            let password = spec.password.filter(|it| !it.is_empty());
            password.map(|it| STANDARD.encode(it).into())
        };
        for (place, text) in impossible.iter().chain(&lost) {
            self.refuse(id, place, *text);
        }
        if !impossible.is_empty() || (!lost.is_empty() && !self.lossy) {
            return Ok(());
        }
        if let Some(password) = password {
            peer["passwordSecret"] = json!({"key": id.name});
            self.passwords.insert(id.name.clone(), password);
        }
        self.emit(id, "BGPPeer", 0, peer);
        Ok(())
    }
}

/// A selector for namespaces of these names.
fn by_name(names: &[String]) -> LabelSelector {
    let expression = json!({"key": NAMESPACE_NAME, "operator": "In", "values": names});
    serde_json::from_value(json!({"matchExpressions": [expression]})).unwrap_or_default()
}

/// One selector for what any of some selects; `None` for everything.
///
/// # Errors
/// There is no such selector.
fn merged(selectors: &[LabelSelector]) -> Result<Option<Value>, ()> {
    match selectors {
        [] => return Ok(None),
        [only] if only.is_empty() => return Ok(None),
        [only] => return serde_json::to_value(only).map(Some).map_err(|_| ()),
        _ => {}
    }
    // Values of one label add up.
    let mut common: Option<(String, BTreeSet<String>)> = None;
    for selector in selectors {
        let tests = Requirements::of_selector(selector).map_err(|_| ())?;
        let [(key, Test::In(values))] = tests.as_slice() else {
            return if tests.is_empty() { Ok(None) } else { Err(()) };
        };
        match &mut common {
            None => common = Some((key.clone(), values.clone())),
            Some((known, all)) if known == key => all.extend(values.iter().cloned()),
            Some(_) => return Err(()),
        }
    }
    Ok(common.map(|(key, values)| Requirements::one(&key, Test::In(values)).selector()))
}

/// The spec once for each pair of a node selector and a Service selector.
fn products(
    base: &Value,
    nodes: Option<Vec<LabelSelector>>,
    services: Option<Vec<LabelSelector>>,
) -> Vec<Value> {
    let options = |list: Option<Vec<LabelSelector>>| -> Vec<Option<Value>> {
        let list = list.unwrap_or_default();
        match merged(&list) {
            Ok(one) => vec![one],
            Err(()) => list
                .iter()
                .map(|it| serde_json::to_value(it).ok())
                .collect(),
        }
    };
    let services = options(services);
    let mut all = Vec::new();
    for node in options(nodes) {
        for service in &services {
            let mut spec = base.clone();
            if let Some(node) = &node {
                spec["nodeSelector"] = node.clone();
            }
            if let Some(service) = service {
                spec["serviceSelector"] = service.clone();
            }
            all.push(spec);
        }
    }
    all
}

/// Whether a text is a community as BGPAdvertisement has them.
fn is_community(text: &str) -> bool {
    if ["no-export", "no-advertise", "local-as", "no-peer"].contains(&text) {
        return true;
    }
    let parts: Option<Vec<u32>> = text.split(':').map(|it| it.parse().ok()).collect();
    match parts.as_deref() {
        Some([high, low]) => *high <= 0xffff && *low <= 0xffff,
        Some([_, _, _]) => true,
        _ => false,
    }
}

/// The seconds of a Go duration such as `1m30s`; `None` if it is none, or has a fraction.
fn duration_seconds(text: &str) -> Option<u64> {
    let mut millis: u64 = 0;
    let mut rest = text;
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|it: char| !it.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit = rest
            .find(|it: char| it.is_ascii_digit())
            .unwrap_or(rest.len());
        let factor = match &rest[..unit] {
            "h" => 3_600_000,
            "m" => 60_000,
            "s" => 1000,
            "ms" => 1,
            _ => return None,
        };
        millis = millis.checked_add(number.checked_mul(factor)?)?;
        rest = &rest[unit..];
    }
    millis.is_multiple_of(1000).then_some(millis / 1000)
}

#[cfg(test)]
mod tests;
