//! Services: which addresses and ports must be allocated, as data.
//!
//! The API server calls [`prepare`] before it allocates, fills what [`needs`]
//! names from its allocators, and releases what [`released`] names when the
//! write has succeeded.

use std::net::IpAddr;

use control_types::value::Value;

use crate::error::{Errors, FieldError, Path};
use crate::rules::ip;
use crate::rules::validate_service::cluster_ips;
use crate::tree::{Read, Write, same};

/// An IP family as a Service names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// `IPv4`
    V4,
    /// `IPv6`
    V6,
}

impl Family {
    /// The name in `spec.ipFamilies`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    /// The other family.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::V4 => Self::V6,
            Self::V6 => Self::V4,
        }
    }

    fn parse(name: &str) -> Option<Self> {
        match name {
            "IPv4" => Some(Self::V4),
            "IPv6" => Some(Self::V6),
            _ => None,
        }
    }

    fn of(address: &str) -> Self {
        match ip::parse_sloppy(address) {
            Some(IpAddr::V6(_)) => Self::V6,
            _ => Self::V4,
        }
    }
}

/// A cluster IP to allocate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressNeed {
    /// Position in `spec.clusterIPs`.
    pub index: usize,
    /// Family to allocate from.
    pub family: Family,
    /// The very address that the object asks for; any when absent.
    pub address: Option<String>,
}

/// A node port to allocate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortNeed {
    /// Position in `spec.ports`; `None` is `spec.healthCheckNodePort`.
    pub index: Option<usize>,
    /// Protocol of the port (`TCP`, `UDP`, `SCTP`): one number serves several protocols.
    pub protocol: String,
    /// The very number that the object asks for; any when absent.
    pub port: Option<u16>,
}

/// The allocations that a write needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Cluster IPs.
    pub addresses: Vec<AddressNeed>,
    /// Node ports.
    pub ports: Vec<PortNeed>,
}

/// Addresses and ports that a write releases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReleasedResources {
    /// Cluster IPs.
    pub addresses: Vec<String>,
    /// Node ports with their protocol.
    pub ports: Vec<(u16, String)>,
}

/// Returns whether the service has its own address for external traffic.
pub(crate) fn externally_accessible(spec: &Value) -> bool {
    match spec.text("type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !spec.items("externalIPs").is_empty(),
        _ => false,
    }
}

pub(crate) fn needs_cluster_ip(spec: &Value) -> bool {
    spec.text("type") != "ExternalName"
}

pub(crate) fn needs_node_port(spec: &Value) -> bool {
    matches!(spec.text("type"), "NodePort" | "LoadBalancer")
}

pub(crate) fn needs_health_check_port(spec: &Value) -> bool {
    spec.text("type") == "LoadBalancer" && spec.text("externalTrafficPolicy") == "Local"
}

/// Drops fields of an update that only the former type had, unless the client changed them.
pub(crate) fn drop_what_the_type_lacks(new: &mut Value, old: &Value) {
    let before = old.at("spec");
    let after = new.at("spec").clone();
    let same_field = |field: &str| same(after.at(field), before.at(field));
    let spec = new.make("spec");
    if needs_cluster_ip(before) && !needs_cluster_ip(&after) {
        if same_field("clusterIP") && same_field("clusterIPs") {
            spec.drop_field("clusterIP");
            spec.drop_field("clusterIPs");
        }
        for field in ["ipFamilies", "ipFamilyPolicy"] {
            if same_field(field) {
                spec.drop_field(field);
            }
        }
    }
    let node_ports = |spec: &Value| -> Vec<i64> {
        spec.items("ports")
            .iter()
            .map(|p| p.num("nodePort"))
            .filter(|n| *n != 0)
            .collect()
    };
    if before.text("type") != "ExternalName"
        && after.text("type") == "ExternalName"
        && same_field("internalTrafficPolicy")
    {
        spec.drop_field("internalTrafficPolicy");
    }
    if needs_node_port(before) && !needs_node_port(&after) {
        let known = node_ports(before);
        if node_ports(&after).iter().all(|n| known.contains(n)) {
            for port in spec.items_mut("ports") {
                port.drop_field("nodePort");
            }
        }
    }
    if needs_health_check_port(before)
        && !needs_health_check_port(&after)
        && same_field("healthCheckNodePort")
    {
        spec.drop_field("healthCheckNodePort");
    }
    if before.text("type") == "LoadBalancer" && after.text("type") != "LoadBalancer" {
        if after.has("allocateLoadBalancerNodePorts") && same_field("allocateLoadBalancerNodePorts")
        {
            spec.drop_field("allocateLoadBalancerNodePorts");
        }
        if same_field("loadBalancerClass") {
            spec.drop_field("loadBalancerClass");
        }
    }
    if externally_accessible(before)
        && !externally_accessible(&after)
        && same_field("externalTrafficPolicy")
    {
        spec.drop_field("externalTrafficPolicy");
    }
    if after.text("type") != "LoadBalancer"
        && let Some(status) = new.there("status")
    {
        status.put("loadBalancer", Value::object());
    }
}

/// An update that leaves allocated values out keeps them.
fn keep_allocated(new: &mut Value, old: &Value) {
    let before = old.at("spec");
    let spec = new.make("spec");
    if needs_cluster_ip(before) && needs_cluster_ip(spec) {
        if spec.text("clusterIP").is_empty() {
            spec.take_from(before, "clusterIP");
        }
        if spec.items("clusterIPs").is_empty() && !before.items("clusterIPs").is_empty() {
            spec.take_from(before, "clusterIPs");
        }
    }
    let allocates = |spec: &Value| {
        needs_node_port(spec)
            && (spec.text("type") == "NodePort"
                || spec.truth("allocateLoadBalancerNodePorts") != Some(false))
    };
    if allocates(before) && allocates(spec) {
        let numbers = |spec: &Value| -> Vec<i64> {
            spec.items("ports")
                .iter()
                .map(|p| p.num("nodePort"))
                .filter(|n| *n != 0)
                .collect()
        };
        let (then, now) = (numbers(before), numbers(spec));
        for port in spec.items_mut("ports") {
            if port.num("nodePort") != 0 {
                continue;
            }
            // a port is known by its name; of several with one name the last counts
            let known = before
                .items("ports")
                .iter()
                .rev()
                .find(|p| p.text("name") == port.text("name"));
            let number = known.map_or(0, |p| p.num("nodePort"));
            if number != 0 && !(then.contains(&number) && now.contains(&number)) {
                port.put("nodePort", number);
            }
        }
    }
    if needs_health_check_port(before)
        && needs_health_check_port(spec)
        && spec.num("healthCheckNodePort") == 0
    {
        spec.take_from(before, "healthCheckNodePort");
    }
}

/// `clusterIP` and `clusterIPs[0]` say the same: the one that was changed wins.
fn normalize_addresses(new: &mut Value, old: Option<&Value>) {
    let spec = new.make("spec");
    let single = spec.text("clusterIP").to_owned();
    let Some(old) = old else {
        if !single.is_empty() && spec.items("clusterIPs").is_empty() {
            spec.put("clusterIPs", Value::Array(vec![single.into()]));
        }
        return;
    };
    let before = old.at("spec");
    let single_before = before.text("clusterIP");
    if single.is_empty()
        && !single_before.is_empty()
        && same(spec.at("clusterIPs"), before.at("clusterIPs"))
    {
        spec.drop_field("clusterIPs");
    } else if single != single_before && same(spec.at("clusterIPs"), before.at("clusterIPs")) {
        spec.put("clusterIPs", Value::Array(vec![single.into()]));
    }
}

/// Determines the IP families and the policy of a service that is about to be written,
/// from its spec, its former state, and the cluster's families (the first is the
/// default). Must be called before [`needs`].
///
/// # Errors
/// The field errors if the request cannot be met.
pub fn prepare(
    new: &mut Value,
    old: Option<&Value>,
    families: &[Family],
) -> Result<(), Vec<FieldError>> {
    if let Some(old) = old {
        keep_allocated(new, old);
    }
    normalize_addresses(new, old);
    if !needs_cluster_ip(new.at("spec")) {
        return Ok(());
    }
    let default_family = families.first().copied().unwrap_or(Family::V4);
    let spec = new.at("spec");
    let headless_without_selector = spec.text("clusterIP") == "None" && spec.size("selector") == 0;
    if let Some(old) = old {
        let before = old.at("spec");
        let unchanged = ["type", "ipFamilyPolicy", "clusterIPs", "ipFamilies"]
            .iter()
            .all(|f| same(spec.at(f), before.at(f)));
        // addresses did not change: a preference stays as it was resolved
        if spec.text("ipFamilyPolicy") == "PreferDualStack" && unchanged {
            return Ok(());
        }
    }
    if !spec.has("ipFamilyPolicy") {
        let policy = match old {
            Some(old) if old.at("spec").has("ipFamilyPolicy") => {
                old.at("spec").text("ipFamilyPolicy").to_owned()
            }
            _ if headless_without_selector => "RequireDualStack".into(),
            _ => "SingleStack".into(),
        };
        new.make("spec").put("ipFamilyPolicy", policy);
    }
    let mut errors = Errors::new();
    cluster_ips(new, old, &mut errors);
    if !errors.is_empty() {
        return Err(errors.into_vec());
    }
    let policy = new.at("spec").text("ipFamilyPolicy").to_owned();
    let at_policy = Path::new("spec.ipFamilyPolicy");
    if let Some(old) = old {
        let before = old.at("spec");
        let spec = new.make("spec");
        for (field, what) in [
            ("clusterIPs", "secondary cluster IP"),
            ("ipFamilies", "secondary IP family"),
        ] {
            let (now, then) = (spec.items(field).to_vec(), before.items(field));
            if policy == "SingleStack" {
                if same(spec.at(field), before.at(field)) && now.len() > 1 {
                    spec.put(field, Value::Array(now.into_iter().take(1).collect()));
                }
            } else if now.len() == 1 && then.len() > 1 && now.first() == then.first() {
                errors.invalid(
                    &at_policy,
                    policy.as_str(),
                    format!("must be 'SingleStack' to release the {what}"),
                );
            }
        }
    }
    let spec = new.make("spec");
    if policy == "SingleStack" {
        for (field, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
            if spec.items(field).len() == 2 {
                errors.invalid(
                    &at_policy,
                    policy.as_str(),
                    format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"),
                );
            }
        }
    }
    let mut chosen: Vec<Value> = spec.items("ipFamilies").to_vec();
    let addresses = spec.items("clusterIPs").to_vec();
    let at_addresses = Path::new("spec.clusterIPs");
    for (i, address) in addresses.iter().map(Read::as_text).enumerate() {
        if address == "None" {
            break;
        }
        let family = Family::of(address);
        if i >= chosen.len() {
            if families.contains(&family) {
                chosen.push(family.name().into());
            } else {
                errors.invalid(
                    &at_addresses.index(i),
                    Value::Array(addresses.clone()),
                    format!("{} is not configured on this cluster", family.name()),
                );
            }
        }
    }
    if !errors.is_empty() {
        return Err(errors.into_vec());
    }
    let second = |chosen: &mut Vec<Value>| {
        if let Some(first) = chosen.first().and_then(|f| Family::parse(f.as_text())) {
            chosen.push(first.other().name().into());
        }
    };
    if headless_without_selector {
        if chosen.is_empty() {
            chosen.push(default_family.name().into());
        }
        if chosen.len() < 2 && policy != "SingleStack" {
            second(&mut chosen);
        }
        spec.put("ipFamilies", Value::Array(chosen));
        return Ok(());
    }
    if policy == "RequireDualStack" && families.len() < 2 {
        errors.invalid(
            &at_policy,
            policy.as_str(),
            "this cluster is not configured for dual-stack services",
        );
    }
    let at_families = Path::new("spec.ipFamilies");
    for (i, family) in chosen.iter().map(Read::as_text).enumerate() {
        if !Family::parse(family).is_some_and(|f| families.contains(&f)) {
            errors.invalid(
                &at_families.index(i),
                family,
                "not configured on this cluster",
            );
        }
    }
    if !errors.is_empty() {
        return Err(errors.into_vec());
    }
    if chosen.is_empty() {
        chosen.push(default_family.name().into());
    }
    if policy != "SingleStack" && chosen.len() == 1 && families.len() == 2 {
        second(&mut chosen);
    }
    spec.put("ipFamilies", Value::Array(chosen));
    Ok(())
}

/// Returns the allocations for a service after [`prepare`].
#[must_use]
pub fn needs(new: &Value, old: Option<&Value>) -> Needs {
    let mut needs = Needs::default();
    let spec = new.at("spec");
    let before = old.map(|o| o.at("spec"));
    if needs_cluster_ip(spec) && spec.text("clusterIP") != "None" {
        let known: Vec<&str> = before
            .filter(|b| needs_cluster_ip(b) && b.text("clusterIP") != "None")
            .map(|b| b.items("clusterIPs").iter().map(Read::as_text).collect())
            .unwrap_or_default();
        let asked = spec.items("clusterIPs");
        for (index, family) in spec.items("ipFamilies").iter().enumerate() {
            let address = asked
                .get(index)
                .map(Read::as_text)
                .filter(|a| !a.is_empty());
            let Some(family) = Family::parse(family.as_text()) else {
                continue;
            };
            if !address.is_some_and(|a| known.contains(&a)) {
                needs.addresses.push(AddressNeed {
                    index,
                    family,
                    address: address.map(str::to_owned),
                });
            }
        }
    }
    let known = before.map(held_ports).unwrap_or_default();
    let wanted = spec.truth("allocateLoadBalancerNodePorts") != Some(false);
    if needs_node_port(spec) {
        for (index, port) in spec.items("ports").iter().enumerate() {
            let number = u16::try_from(port.num("nodePort")).ok().filter(|n| *n != 0);
            let protocol = port.text("protocol").to_owned();
            let held = number.is_some_and(|n| known.contains(&(n, protocol.clone())));
            let required = spec.text("type") == "NodePort" || wanted;
            if !held && (number.is_some() || required) {
                needs.ports.push(PortNeed {
                    index: Some(index),
                    protocol,
                    port: number,
                });
            }
        }
    }
    if needs_health_check_port(spec) {
        let number = u16::try_from(spec.num("healthCheckNodePort"))
            .ok()
            .filter(|n| *n != 0);
        let held = before.is_some_and(|b| {
            needs_health_check_port(b)
                && b.num("healthCheckNodePort") == spec.num("healthCheckNodePort")
        });
        if !(held && number.is_some()) {
            needs.ports.push(PortNeed {
                index: None,
                protocol: "TCP".into(),
                port: number,
            });
        }
    }
    needs
}

fn held_ports(spec: &Value) -> Vec<(u16, String)> {
    if !needs_node_port(spec) {
        return Vec::new();
    }
    spec.items("ports")
        .iter()
        .filter_map(|p| {
            let number = u16::try_from(p.num("nodePort")).ok().filter(|n| *n != 0)?;
            Some((number, p.text("protocol").to_owned()))
        })
        .collect()
}

/// Everything that a stored service holds; `None` for no service.
#[must_use]
pub fn held(service: Option<&Value>) -> ReleasedResources {
    let Some(spec) = service.map(|s| s.at("spec")) else {
        return ReleasedResources::default();
    };
    let mut held = ReleasedResources {
        addresses: Vec::new(),
        ports: held_ports(spec),
    };
    if needs_cluster_ip(spec) && spec.text("clusterIP") != "None" {
        held.addresses = spec
            .items("clusterIPs")
            .iter()
            .map(Read::as_text)
            .filter(|a| !a.is_empty())
            .map(str::to_owned)
            .collect();
    }
    if needs_health_check_port(spec)
        && let Some(port) = u16::try_from(spec.num("healthCheckNodePort"))
            .ok()
            .filter(|n| *n != 0)
    {
        held.ports.push((port, "TCP".into()));
    }
    held
}

/// Returns what the service held before and no longer does.
#[must_use]
pub fn released(new: Option<&Value>, old: &Value) -> ReleasedResources {
    let (now, mut then) = (held(new), held(Some(old)));
    then.addresses.retain(|a| !now.addresses.contains(a));
    then.ports.retain(|p| !now.ports.contains(p));
    then
}

/// Writes an allocated address into the service.
pub fn set_address(service: &mut Value, index: usize, address: &str) {
    let spec = service.make("spec");
    let mut all = spec.items("clusterIPs").to_vec();
    while all.len() <= index {
        all.push("".into());
    }
    if let Some(slot) = all.get_mut(index) {
        *slot = address.into();
    }
    spec.put("clusterIPs", Value::Array(all));
    if index == 0 {
        spec.put("clusterIP", address);
    }
}

/// Writes an allocated port into the service.
pub fn set_port(service: &mut Value, index: Option<usize>, port: u16) {
    let spec = service.make("spec");
    match index {
        Some(index) => {
            if let Some(slot) = spec.items_mut("ports").get_mut(index) {
                slot.put("nodePort", i64::from(port));
            }
        }
        None => spec.put("healthCheckNodePort", i64::from(port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(text: &str) -> Value {
        Value::from_slice(text.as_bytes()).expect("test object")
    }

    #[test]
    fn a_plain_service_needs_one_address_of_the_clusters_family() {
        let mut new =
            service(r#"{"spec":{"type":"ClusterIP","ports":[{"port":80,"protocol":"TCP"}]}}"#);
        prepare(&mut new, None, &[Family::V4]).expect("valid");
        assert_eq!(new.at("spec").text("ipFamilyPolicy"), "SingleStack");
        let needs = needs(&new, None);
        assert_eq!(
            needs.addresses,
            [AddressNeed {
                index: 0,
                family: Family::V4,
                address: None
            }]
        );
        assert!(needs.ports.is_empty());
    }

    #[test]
    fn a_headless_service_needs_nothing() {
        let mut new =
            service(r#"{"spec":{"type":"ClusterIP","clusterIP":"None","selector":{"a":"b"}}}"#);
        prepare(&mut new, None, &[Family::V4]).expect("valid");
        assert_eq!(needs(&new, None), Needs::default());
        assert_eq!(new.at("spec").items("clusterIPs").len(), 1);
    }

    #[test]
    fn an_update_keeps_what_it_leaves_out() {
        let old = service(
            r#"{"spec":{"type":"NodePort","clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"],
            "ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack",
            "ports":[{"port":80,"protocol":"TCP","nodePort":30000}]}}"#,
        );
        let mut new =
            service(r#"{"spec":{"type":"NodePort","ports":[{"port":80,"protocol":"TCP"}]}}"#);
        prepare(&mut new, Some(&old), &[Family::V4]).expect("valid");
        assert_eq!(new.at("spec").text("clusterIP"), "10.0.0.1");
        assert_eq!(needs(&new, Some(&old)), Needs::default());
        assert_eq!(released(Some(&new), &old), ReleasedResources::default());
        assert_eq!(released(None, &old).addresses, ["10.0.0.1"]);
    }

    #[test]
    fn two_families_on_a_cluster_of_one_are_refused() {
        let mut new = service(
            r#"{"spec":{"type":"ClusterIP","ipFamilyPolicy":"RequireDualStack","ports":[{"port":80}]}}"#,
        );
        let errors = prepare(&mut new, None, &[Family::V4]).expect_err("refused");
        assert!(
            errors[0]
                .to_string()
                .contains("not configured for dual-stack"),
            "{errors:?}"
        );
    }
}
