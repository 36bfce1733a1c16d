use serde_json::Value;

#[test]
fn the_schema_knows_what_the_lean_view_reads_and_nothing_that_is_ignored() {
    let definition: Value = serde_saphyr::from_str(super::CLUSTER_NETWORK_POLICY).unwrap();
    let version = &definition["spec"]["versions"][0];
    assert_eq!(version["name"], "v1alpha2");
    assert!(version["subresources"]["status"].is_object());
    let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    let keys = |value: &Value| {
        let mut keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys
    };
    assert_eq!(
        keys(spec),
        ["egress", "ingress", "priority", "subject", "tier"]
    );
    let egress = &spec["egress"]["items"]["properties"];
    assert_eq!(keys(egress), ["action", "name", "protocols", "to"]);
    let peer = &egress["to"]["items"]["properties"];
    assert_eq!(keys(peer), ["namespaces", "networks", "nodes", "pods"]);
    assert_eq!(egress["to"]["items"]["minProperties"], 1);
    let from = &spec["ingress"]["items"]["properties"]["from"]["items"]["properties"];
    assert_eq!(keys(from), ["namespaces", "pods"]);
    let protocol = &egress["protocols"]["items"]["properties"];
    assert_eq!(
        keys(protocol),
        ["destinationNamedPort", "sctp", "tcp", "udp"]
    );
    assert!(!super::CLUSTER_NETWORK_POLICY.contains("domainNames"));
}
