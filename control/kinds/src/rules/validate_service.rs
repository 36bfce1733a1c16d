//! Validation of Services.

use control_types::value::Value;

use super::{ip, labels, meta, names, ports};
use crate::FieldError;
use crate::error::{Errors, Path, quoted};
use crate::service::{externally_accessible, needs_health_check_port};
use crate::tree::{Read, same};

const SPEC: Path<'static> = Path::new("spec");
const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const MODE: &str = "service.kubernetes.io/topology-mode";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

pub(crate) fn create(object: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    meta::validate(object, Some(true), names::label_name, &mut errors);
    service(object, None, &mut errors);
    errors.into_vec()
}

pub(crate) fn update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    meta::update(new, old, &mut errors);
    address_changes(new.at("spec"), old.at("spec"), &mut errors);
    family_changes(new.at("spec"), old.at("spec"), &mut errors);
    balancer_class(new.at("spec"), Some(old.at("spec")), &mut errors);
    let (after, before) = (new.at("spec"), old.at("spec"));
    if needs_health_check_port(before)
        && needs_health_check_port(after)
        && after.num("healthCheckNodePort") != before.num("healthCheckNodePort")
    {
        errors.forbidden(&SPEC.child("healthCheckNodePort"), "field is immutable");
    }
    service(new, Some(old), &mut errors);
    errors.into_vec()
}

pub(crate) fn status_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    meta::update(new, old, &mut errors);
    let at = Path::new("status.loadBalancer.ingress");
    load_balancer_ingress(
        new.at("status").at("loadBalancer"),
        old.at("status").at("loadBalancer"),
        new.at("spec").text("type") == "LoadBalancer",
        &at,
        &mut errors,
    );
    errors.into_vec()
}

fn load_balancer_ingress(
    new: &Value,
    old: &Value,
    allowed: bool,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    let list = new.items("ingress");
    if !allowed && !list.is_empty() {
        errors.forbidden(at, "may only be used when `spec.type` is 'LoadBalancer'");
        return;
    }
    let known: Vec<&str> = old
        .items("ingress")
        .iter()
        .map(|i| i.text("ip"))
        .filter(|ip| !ip.is_empty())
        .collect();
    for (i, ingress) in list.iter().enumerate() {
        let at = at.index(i);
        let (address, host) = (ingress.text("ip"), ingress.text("hostname"));
        if !address.is_empty() {
            ip::legacy(address, &known, &at.child("ip"), errors);
        }
        let mode = at.child("ipMode");
        match (ingress.has("ipMode"), address.is_empty()) {
            (false, false) => errors.required(&mode, "must be specified when `ip` is set"),
            (true, true) => errors.forbidden(&mode, "may not be specified when `ip` is not set"),
            (true, false) if !matches!(ingress.text("ipMode"), "VIP" | "Proxy") => {
                errors.not_supported(&mode, ingress.text("ipMode"), &["Proxy", "VIP"]);
            }
            _ => {}
        }
        if !host.is_empty() {
            errors.invalid_each(&at.child("hostname"), host, names::dns_subdomain(host));
            if ip::parse_sloppy(host).is_some() {
                errors.invalid(
                    &at.child("hostname"),
                    host,
                    "must be a DNS name, not an IP address",
                );
            }
        }
    }
}

fn is_headless(spec: &Value) -> bool {
    matches!(spec.items("clusterIPs"), [only] if only.as_text() == "None")
}

fn service(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = object.at("spec");
    let annotations = object.at("metadata").at("annotations");
    if annotations.has(MODE)
        && annotations.has(HINTS)
        && annotations.text(MODE) != annotations.text(HINTS)
    {
        errors.invalid(
            &Path::new("metadata.annotations").key(MODE),
            annotations.text(MODE),
            format!("must match annotations[{HINTS}] when both are specified"),
        );
    }
    let kind = spec.text("type");
    let headless = is_headless(spec);
    if spec.items("ports").is_empty() && !headless && kind != "ExternalName" {
        errors.required(&SPEC.child("ports"), "");
    }
    match kind {
        "LoadBalancer" | "NodePort" if headless => errors.invalid(
            &SPEC.child("clusterIPs").index(0),
            "None",
            format!("may not be set to 'None' for {kind} services"),
        ),
        "ExternalName" => external_name(spec, errors),
        _ => {}
    }
    service_ports(spec, headless, errors);
    labels::labels(spec.at("selector"), &SPEC.child("selector"), errors);
    session_affinity(spec, errors);
    cluster_ips(object, old, errors);
    external_ips(spec, old, errors);
    if kind.is_empty() {
        errors.required(&SPEC.child("type"), "");
    } else if !TYPES.contains(&kind) {
        errors.not_supported(&SPEC.child("type"), kind, TYPES);
    }
    duplicate_ports(spec, errors);
    source_ranges(object, old, errors);
    if spec.has("allocateLoadBalancerNodePorts") && kind != "LoadBalancer" {
        errors.forbidden(
            &SPEC.child("allocateLoadBalancerNodePorts"),
            "may only be used when `type` is 'LoadBalancer'",
        );
    }
    if kind == "LoadBalancer" && !spec.has("allocateLoadBalancerNodePorts") {
        errors.required(&Path::new("allocateLoadBalancerNodePorts"), "");
    }
    balancer_class(spec, None, errors);
    traffic_policies(spec, errors);
}

fn external_name(spec: &Value, errors: &mut Errors) {
    for field in ["clusterIPs", "ipFamilies"] {
        if !spec.items(field).is_empty() {
            errors.forbidden(
                &SPEC.child(field),
                "may not be set for ExternalName services",
            );
        }
    }
    if spec.has("ipFamilyPolicy") {
        errors.forbidden(
            &SPEC.child("ipFamilyPolicy"),
            "may not be set for ExternalName services",
        );
    }
    let name = spec.text("externalName");
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() {
        errors.required(&SPEC.child("externalName"), "");
    } else {
        errors.invalid_each(
            &SPEC.child("externalName"),
            name,
            names::dns_subdomain(name),
        );
    }
}

fn service_ports(spec: &Value, _headless: bool, errors: &mut Errors) {
    let list = spec.items("ports");
    let all = SPEC.child("ports");
    let mut seen: Vec<&str> = Vec::new();
    for (i, port) in list.iter().enumerate() {
        let at = all.index(i);
        ports::name_among(port, list.len() > 1, &at, errors);
        let name = port.text("name");
        if !name.is_empty() {
            if seen.contains(&name) {
                errors.duplicate(&at.child("name"), name);
            }
            seen.push(name);
        }
        ports::number(port.num("port"), &at.child("port"), errors);
        ports::protocol(port, &at, errors);
        ports::number_or_name(port.at("targetPort"), &at.child("targetPort"), errors);
        ports::app_protocol(port, &at, errors);
    }
}

fn session_affinity(spec: &Value, errors: &mut Errors) {
    let config = spec.at("sessionAffinityConfig");
    let at = SPEC.child("sessionAffinityConfig");
    match spec.text("sessionAffinity") {
        "" => errors.required(&SPEC.child("sessionAffinity"), ""),
        "ClientIP" => {
            if config.is_null() {
                errors.required(&at, "when session affinity type is ClientIP");
            } else if !config.has("clientIP") {
                errors.required(
                    &at.child("clientIP"),
                    "when session affinity type is ClientIP",
                );
            } else {
                let seconds = at.child("clientIP.timeoutSeconds");
                match config.at("clientIP").int("timeoutSeconds") {
                    None => errors.required(&seconds, "when session affinity type is ClientIP"),
                    Some(n) if n <= 0 || n > 86_400 => {
                        errors.invalid(&seconds, n, "must be greater than 0 and less than 86400");
                    }
                    Some(_) => {}
                }
            }
        }
        "None" if !config.is_null() => {
            errors.forbidden(&at, "must not be set when session affinity is None");
        }
        "None" => {}
        other => errors.not_supported(&SPEC.child("sessionAffinity"), other, &["ClientIP", "None"]),
    }
}

/// Addresses, families and policy of a service, against each other.
pub(crate) fn cluster_ips(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = object.at("spec");
    if spec.text("type") == "ExternalName" {
        return;
    }
    let (single, all) = (spec.text("clusterIP"), spec.items("clusterIPs"));
    let at = SPEC.child("clusterIPs");
    let whole = || Value::Array(all.to_vec());
    match (single.is_empty(), all.first()) {
        (false, None) => errors.required(&at, ""),
        (false, Some(first)) if first.as_text() != single => {
            errors.invalid(&at, whole(), "first value must match `clusterIP`");
        }
        (true, Some(_)) => errors.invalid(
            &at,
            whole(),
            "must be empty when `clusterIP` is not specified",
        ),
        _ => {}
    }
    let families = spec.items("ipFamilies");
    let at_families = SPEC.child("ipFamilies");
    for (i, family) in families.iter().enumerate() {
        let at = at_families.index(i);
        if !matches!(family.as_text(), "IPv4" | "IPv6") {
            errors.not_supported(&at, family.as_text(), &["IPv4", "IPv6"]);
        }
        if families.iter().take(i).any(|f| f == family) {
            errors.duplicate(&at, family.as_text());
        }
    }
    if spec.has("ipFamilyPolicy") {
        let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        if !policies.contains(&spec.text("ipFamilyPolicy")) {
            errors.not_supported(
                &SPEC.child("ipFamilyPolicy"),
                spec.text("ipFamilyPolicy"),
                &policies,
            );
        }
    }
    let known: Vec<&str> = old
        .map(|o| {
            o.at("spec")
                .items("clusterIPs")
                .iter()
                .map(Read::as_text)
                .collect()
        })
        .unwrap_or_default();
    let mut broken = false;
    for (i, address) in all.iter().map(Read::as_text).enumerate() {
        if i == 0 && address == "None" {
            if all.len() > 1 {
                broken = true;
                errors.invalid(&at, whole(), "'None' must be the first and only value");
            }
            continue;
        }
        broken |= !ip::legacy(address, &known, &at.index(i), errors);
    }
    if all.len() > 2 {
        errors.invalid(&at, whole(), "may only hold up to 2 values");
    }
    if broken {
        return;
    }
    let is_v6 = |a: &Value| ip::parse_sloppy(a.as_text()).is_some_and(|a| a.is_ipv6());
    if all.len() > 1 && !(all.iter().any(is_v6) && all.iter().any(|a| !is_v6(a))) {
        errors.invalid(
            &at,
            whole(),
            "may specify no more than one IP for each IP family",
        );
    }
    if is_headless(spec) {
        return;
    }
    for (i, (address, family)) in all.iter().zip(families).enumerate() {
        let wrong = match family.as_text() {
            "IPv4" => is_v6(address),
            "IPv6" => !is_v6(address),
            _ => false,
        };
        if wrong {
            errors.invalid(
                &at.index(i),
                address.as_text(),
                format!(
                    "expected an {} value as indicated by `ipFamilies[{i}]`",
                    family.as_text()
                ),
            );
        }
    }
}

fn external_ips(spec: &Value, old: Option<&Value>, errors: &mut Errors) {
    let known: Vec<&str> = old
        .map(|o| {
            o.at("spec")
                .items("externalIPs")
                .iter()
                .map(Read::as_text)
                .collect()
        })
        .unwrap_or_default();
    let at = SPEC.child("externalIPs");
    for (i, address) in spec
        .items("externalIPs")
        .iter()
        .map(Read::as_text)
        .enumerate()
    {
        if ip::legacy(address, &known, &at.index(i), errors) {
            ip::endpoint(address, &at.index(i), errors);
        }
    }
}

fn duplicate_ports(spec: &Value, errors: &mut Errors) {
    let list = spec.items("ports");
    let all = SPEC.child("ports");
    if spec.text("type") == "ClusterIP" {
        for (i, _) in list
            .iter()
            .enumerate()
            .filter(|(_, p)| p.num("nodePort") != 0)
        {
            errors.forbidden(
                &all.index(i).child("nodePort"),
                "may not be used when `type` is 'ClusterIP'",
            );
        }
    }
    for (i, port) in list.iter().enumerate() {
        let same_as = |field: &str| {
            list.iter().take(i).any(|p| {
                p.num(field) == port.num(field) && p.text("protocol") == port.text("protocol")
            })
        };
        if port.num("nodePort") != 0 && same_as("nodePort") {
            errors.duplicate(&all.index(i).child("nodePort"), port.num("nodePort"));
        }
    }
    for (i, port) in list.iter().enumerate() {
        let again = list.iter().take(i).any(|p| {
            p.num("port") == port.num("port") && p.text("protocol") == port.text("protocol")
        });
        if again {
            // the API shows its own structure here, with all fields
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
                quoted(port.text("protocol")),
                port.num("port")
            );
            let value = Value::from_slice(shown.as_bytes()).unwrap_or(Value::Null);
            errors.duplicate(&all.index(i), value);
        }
    }
}

fn source_ranges(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = object.at("spec");
    let ranges = spec.items("loadBalancerSourceRanges");
    let balancer = spec.text("type") == "LoadBalancer";
    let message = "may only be used when `type` is 'LoadBalancer'";
    if !ranges.is_empty() {
        // the API spells this one with a capital
        let at = SPEC.child("LoadBalancerSourceRanges");
        if !balancer {
            errors.forbidden(&at, message);
        }
        let known: Vec<&str> = old
            .map(|o| {
                o.at("spec")
                    .items("loadBalancerSourceRanges")
                    .iter()
                    .map(|r| r.as_text().trim())
                    .collect()
            })
            .unwrap_or_default();
        for (i, range) in ranges.iter().enumerate() {
            ip::legacy_cidr(range.as_text().trim(), &known, &at.index(i), errors);
        }
        return;
    }
    let annotations = object.at("metadata").at("annotations");
    if !annotations.has(SOURCE_RANGES) {
        return;
    }
    let all = Path::new("metadata.annotations");
    let at = all.key(SOURCE_RANGES);
    if !balancer {
        errors.forbidden(&at, message);
    }
    let value = annotations.text(SOURCE_RANGES);
    let unchanged =
        old.is_some_and(|o| o.at("metadata").at("annotations").text(SOURCE_RANGES) == value);
    if !unchanged && !value.trim().is_empty() {
        for range in value.split(',') {
            ip::legacy_cidr(range.trim(), &[], &at, errors);
        }
    }
}

fn balancer_class(spec: &Value, old: Option<&Value>, errors: &mut Errors) {
    let at = SPEC.child("loadBalancerClass");
    let balancer = |s: &Value| s.text("type") == "LoadBalancer";
    if let Some(old) = old
        && balancer(old)
        && balancer(spec)
        && !same(old.at("loadBalancerClass"), spec.at("loadBalancerClass"))
    {
        errors.invalid(
            &at,
            spec.at("loadBalancerClass").clone(),
            "may not change once set",
        );
    }
    if !spec.has("loadBalancerClass") {
        return;
    }
    if balancer(spec) {
        let class = spec.text("loadBalancerClass");
        errors.invalid_each(&at, class, names::qualified(class));
    } else {
        errors.forbidden(&at, "may only be used when `type` is 'LoadBalancer'");
    }
}

fn traffic_policies(spec: &Value, errors: &mut Errors) {
    let at = SPEC.child("externalTrafficPolicy");
    let policy = spec.text("externalTrafficPolicy");
    if externally_accessible(spec) {
        match policy {
            "" => errors.required(&at, ""),
            "Cluster" | "Local" => {}
            other => errors.not_supported(&at, other, &["Cluster", "Local"]),
        }
    } else if !policy.is_empty() {
        errors.invalid(
            &at,
            policy,
            "may only be set for externally-accessible services",
        );
    }
    let at = SPEC.child("healthCheckNodePort");
    let port = spec.num("healthCheckNodePort");
    if needs_health_check_port(spec) {
        if port == 0 {
            errors.required(&at, "");
        } else {
            ports::number(port, &at, errors);
        }
    } else if port != 0 {
        errors.invalid(
            &at,
            port,
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
        );
    }
    let at = SPEC.child("internalTrafficPolicy");
    if spec.has("internalTrafficPolicy") {
        if !matches!(spec.text("internalTrafficPolicy"), "Cluster" | "Local") {
            errors.not_supported(
                &at,
                spec.text("internalTrafficPolicy"),
                &["Cluster", "Local"],
            );
        }
    } else if matches!(spec.text("type"), "NodePort" | "LoadBalancer" | "ClusterIP") {
        errors.required(&at, "");
    }
    if spec.has("trafficDistribution") {
        let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
        if !known.contains(&spec.text("trafficDistribution")) {
            errors.not_supported(
                &SPEC.child("trafficDistribution"),
                spec.text("trafficDistribution"),
                &known,
            );
        }
    }
}

fn address_changes(new: &Value, old: &Value, errors: &mut Errors) {
    if new.text("type") == "ExternalName"
        || old.text("type") == "ExternalName"
        || (is_headless(new) && is_headless(old))
    {
        return;
    }
    let (now, then) = (new.items("clusterIPs"), old.items("clusterIPs"));
    let at = SPEC.child("clusterIPs");
    let fixed = |i: usize, errors: &mut Errors| {
        errors.invalid(
            &at.index(i),
            Value::Array(now.to_vec()),
            "may not change once set",
        );
    };
    if now.len() == then.len() {
        for (i, _) in then
            .iter()
            .zip(now)
            .enumerate()
            .filter(|(_, (a, b))| a != b)
        {
            fixed(i, errors);
        }
        return;
    }
    if now.is_empty() {
        errors.invalid(
            &at.index(0),
            Value::Array(Vec::new()),
            "primary clusterIP can not be unset",
        );
    } else if !then.is_empty() && now.first() != then.first() {
        fixed(0, errors);
    }
    if now.len() == 1 && then.len() > 1 && new.text("ipFamilyPolicy") != "SingleStack" {
        errors.invalid(
            &SPEC.child("ipFamilyPolicy"),
            new.at("ipFamilyPolicy").clone(),
            "must be set to 'SingleStack' when releasing the secondary clusterIP",
        );
    }
}

fn family_changes(new: &Value, old: &Value, errors: &mut Errors) {
    if new.text("type") == "ExternalName"
        || old.text("type") == "ExternalName"
        || is_headless(new)
        || is_headless(old)
    {
        return;
    }
    let (now, then) = (new.items("ipFamilies"), old.items("ipFamilies"));
    let at = SPEC.child("ipFamilies").to_string();
    let at = Path::new(&at);
    let first = at.index(0);
    if now.len() == then.len() {
        for _ in then.iter().zip(now).filter(|(a, b)| a != b) {
            errors.invalid(
                &first,
                Value::Array(now.to_vec()),
                "may not change once set",
            );
        }
        return;
    }
    let addresses = || Value::Array(new.items("clusterIPs").to_vec());
    if !now.is_empty() && !then.is_empty() && now.first() != then.first() {
        errors.invalid(&first, addresses(), "may not change once set");
    }
    if now.len() == 1 && then.len() > 1 && new.text("ipFamilyPolicy") != "SingleStack" {
        errors.invalid(
            &SPEC.child("ipFamilyPolicy"),
            new.at("ipFamilyPolicy").clone(),
            "must be set to 'SingleStack' when releasing the secondary ipFamily",
        );
    }
}

pub(crate) fn warnings(object: &Value, _old: Option<&Value>) -> Vec<String> {
    let spec = object.at("spec");
    let mut out = Vec::new();
    if object.at("metadata").at("annotations").has(HINTS) {
        out.push(format!(
            "annotation {HINTS} is deprecated, please use {MODE} instead"
        ));
    }
    let warn_all = |field: &'static str, out: &mut Vec<String>| {
        let at = SPEC.child(field);
        for (i, address) in spec.items(field).iter().enumerate() {
            out.extend(ip::warning(&at.index(i), address.as_text()));
        }
    };
    let headless = spec.text("type") == "ClusterIP" && spec.text("clusterIP") == "None";
    if !headless && !spec.text("clusterIP").is_empty() && spec.text("type") != "ExternalName" {
        warn_all("clusterIPs", &mut out);
    }
    let external = !spec.items("externalIPs").is_empty();
    if headless {
        if !spec.text("loadBalancerIP").is_empty() {
            out.push("spec.loadBalancerIP is ignored for headless services".into());
        }
        if external {
            out.push("spec.externalIPs is ignored for headless services".into());
        }
        if spec.text("sessionAffinity") != "None" {
            out.push("spec.SessionAffinity is ignored for headless services".into());
        }
    }
    warn_all("externalIPs", &mut out);
    let named = spec.text("type") == "ExternalName";
    if external && !named {
        out.push(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
                .into(),
        );
    }
    if !spec.text("loadBalancerIP").is_empty() {
        out.extend(ip::warning(
            &SPEC.child("loadBalancerIP"),
            spec.text("loadBalancerIP"),
        ));
    }
    if named && external {
        out.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".into());
    }
    if !named && !spec.text("externalName").is_empty() {
        out.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".into());
    }
    if spec.text("trafficDistribution") == "PreferClose" {
        out.push(
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\""
                .into(),
        );
    }
    out
}
