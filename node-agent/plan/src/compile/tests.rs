use super::*;

/// Objects as the API writes them; what comes out, in words.
fn compiled(service: &str, slices: &[&str]) -> String {
    let service: Service = serde_json::from_str(service).unwrap();
    let slices: Vec<EndpointSlice> = slices
        .iter()
        .map(|slice| serde_json::from_str(slice).unwrap())
        .collect();
    let sets = compile("node-1", None, &service, &slices);
    assert_eq!(
        sets,
        compile("node-1", None, &service, slices.iter().rev()),
        "order matters not"
    );
    let mut words = String::new();
    for set in sets {
        words += &format!("{} flags {}", set.name, set.flags.0);
        if set.affinity_seconds > 0 {
            words += &format!(" {} s", set.affinity_seconds);
        }
        for key in set.keys {
            let scope = ["", " outside"][usize::from(key.key.scope.0)];
            let (address, port) = (key.key.address, key.key.port.get());
            words += &format!(" | {address} {port} flags {}{scope}", key.flags.0);
        }
        for backend in set.backends {
            let (address, port, flags) = (backend.address, backend.port.get(), backend.flags.0);
            words += &format!(" > {address} {port} {flags}");
        }
        words += "\n";
    }
    words
}

const WEB: &str = r#"{"metadata": {"name": "web", "namespace": "shop"}, "spec": {
    "clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7", "fd00:96::7"],
    "ports": [{"name": "http", "protocol": "TCP", "port": 80}, {"name": "quic", "protocol": "UDP", "port": 443}]}}"#;

fn slice(kind: &str, endpoints: &str) -> String {
    format!(
        r#"{{"addressType": "{kind}", "endpoints": [{endpoints}], "ports": [
            {{"name": "http", "protocol": "TCP", "port": 8080}}, {{"name": "quic", "protocol": "UDP", "port": 8443}}]}}"#
    )
}

fn endpoint(address: &str, conditions: &str, node: &str) -> String {
    format!(
        r#"{{"addresses": ["{address}"], "conditions": {{{conditions}}}, "nodeName": "{node}"}}"#
    )
}

const READY: &str = r#""ready": true, "serving": true, "terminating": false"#;
const ENDING: &str = r#""ready": false, "serving": true, "terminating": true"#;
const UNREADY: &str = r#""ready": false, "serving": false, "terminating": false"#;

#[test]
fn each_port_and_family_is_a_set_of_its_own() {
    let v4 = slice(
        "IPv4",
        &[
            endpoint("10.244.1.5", READY, "node-2"),
            endpoint("10.244.0.9", READY, "node-1"),
        ]
        .join(","),
    );
    let v6 = slice("IPv6", &endpoint("fd00:244::5", READY, "node-2"));
    assert_eq!(
        compiled(WEB, &[&v4, &v6]),
        "shop/web:http TCP IPv4 flags 0 | 10.96.0.7 80 flags 256 > 10.244.0.9 8080 1 > 10.244.1.5 8080 0\n\
         shop/web:http TCP IPv6 flags 0 | fd00:96::7 80 flags 256 > fd00:244::5 8080 0\n\
         shop/web:quic UDP IPv4 flags 0 | 10.96.0.7 443 flags 256 > 10.244.0.9 8443 1 > 10.244.1.5 8443 0\n\
         shop/web:quic UDP IPv6 flags 0 | fd00:96::7 443 flags 256 > fd00:244::5 8443 0\n"
    );
}

const ONE: &str = r#"{"metadata": {"name": "one", "namespace": "shop"}, "spec": {
    "clusterIP": "10.96.0.8", "ports": [{"port": 80}]POLICY}}"#;

fn one(policy: &str, endpoints: &[String]) -> String {
    let service = ONE.replace("POLICY", policy);
    let slice = format!(
        r#"{{"addressType": "IPv4", "endpoints": [{}], "ports": [{{"port": 8080}}]}}"#,
        endpoints.join(",")
    );
    compiled(&service, &[&slice])
}

#[test]
fn endpoints_that_end_serve_only_while_none_is_ready() {
    let (ready, ending, unready) = (
        endpoint("10.244.0.1", READY, ""),
        endpoint("10.244.0.2", ENDING, ""),
        endpoint("10.244.0.3", UNREADY, ""),
    );
    assert_eq!(
        one("", &[ready, ending.clone(), unready.clone()]),
        "shop/one TCP IPv4 flags 0 | 10.96.0.8 80 flags 256 > 10.244.0.1 8080 0\n"
    );
    assert_eq!(
        one("", &[ending, unready.clone()]),
        "shop/one TCP IPv4 flags 0 | 10.96.0.8 80 flags 256 > 10.244.0.2 8080 2\n"
    );
    assert_eq!(
        one("", &[unready]),
        "shop/one TCP IPv4 flags 0 | 10.96.0.8 80 flags 256\n"
    );
}

#[test]
fn absent_conditions_mean_ready() {
    assert_eq!(
        one("", &[r#"{"addresses": ["10.244.0.1"]}"#.into()]),
        "shop/one TCP IPv4 flags 0 | 10.96.0.8 80 flags 256 > 10.244.0.1 8080 0\n"
    );
}

#[test]
fn local_policy_keeps_to_this_node() {
    let policy = r#", "internalTrafficPolicy": "Local""#;
    let (here, there) = (
        endpoint("10.244.0.1", ENDING, "node-1"),
        endpoint("10.244.1.1", READY, "node-2"),
    );
    assert_eq!(
        one(policy, &[here, there.clone()]),
        "shop/one TCP IPv4 local flags 2 | 10.96.0.8 80 flags 256 > 10.244.0.1 8080 3\n"
    );
    assert_eq!(
        one(policy, &[there]),
        "shop/one TCP IPv4 local flags 66 | 10.96.0.8 80 flags 256\n"
    );
}

#[test]
fn affinity_lasts_as_long_as_the_service_says() {
    let with = |config: &str| one(&format!(r#", "sessionAffinity": "ClientIP"{config}"#), &[]);
    assert_eq!(
        with(""),
        "shop/one TCP IPv4 flags 1 10800 s | 10.96.0.8 80 flags 256\n"
    );
    let config = r#", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 30}}"#;
    assert_eq!(
        with(config),
        "shop/one TCP IPv4 flags 1 30 s | 10.96.0.8 80 flags 256\n"
    );
    let config = r#", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": -5}}"#;
    assert_eq!(
        with(config),
        "shop/one TCP IPv4 flags 1 1 s | 10.96.0.8 80 flags 256\n"
    );
}

#[test]
fn what_has_no_datapath_makes_no_set() {
    let headless =
        r#"{"spec": {"clusterIP": "None", "clusterIPs": ["None"], "ports": [{"port": 80}]}}"#;
    let external =
        r#"{"spec": {"type": "ExternalName", "clusterIP": "10.96.0.8", "ports": [{"port": 80}]}}"#;
    let elsewhere = r#"{"metadata": {"labels": {"service.kubernetes.io/service-proxy-name": "x"}},
        "spec": {"clusterIP": "10.96.0.8", "ports": [{"port": 80}]}}"#;
    for service in [headless, external, elsewhere] {
        assert_eq!(compiled(service, &[]), "");
    }
}

#[test]
fn senseless_addresses_and_ports_are_left_out() {
    let endpoints = [
        endpoint("127.0.0.1", READY, ""),
        endpoint("169.254.1.1", READY, ""),
        endpoint("224.0.0.1", READY, ""),
        endpoint("0.0.0.0", READY, ""),
        endpoint("fd00::1", READY, ""),
        endpoint("nonsense", READY, ""),
        r#"{"addresses": []}"#.to_owned(),
        endpoint("10.244.0.1", READY, ""),
    ];
    assert_eq!(
        one("", &endpoints),
        "shop/one TCP IPv4 flags 0 | 10.96.0.8 80 flags 256 > 10.244.0.1 8080 0\n"
    );
    let service = r#"{"metadata": {"name": "odd", "namespace": "shop"}, "spec": {
        "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9", "127.0.0.1", "x"],
        "ports": [{"name": "a", "port": 0}, {"name": "b", "port": 70000}, {"name": "c", "port": -1},
                  {"name": "d", "port": 80, "protocol": "GRE"}, {"name": "e", "port": 81}, {"name": "e", "port": 82}]}}"#;
    assert_eq!(
        compiled(service, &[]),
        "shop/odd:e TCP IPv4 flags 0 | 10.96.0.9 81 flags 256\n"
    );
}

#[test]
fn endpoint_in_two_slices_counts_once_as_its_better_slice_says() {
    let (ready, ending) = (
        endpoint("10.244.0.1", READY, ""),
        endpoint("10.244.0.1", ENDING, "node-1"),
    );
    assert_eq!(
        one("", &[ending, ready]),
        "shop/one TCP IPv4 flags 0 | 10.96.0.8 80 flags 256 > 10.244.0.1 8080 0\n"
    );
}
