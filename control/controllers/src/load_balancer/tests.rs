use super::*;

fn service(name: &str, spec: Value, marked: bool, ips: &[&str]) -> Arc<Service> {
    let ingress: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
    let mut metadata = json!({"name": name, "namespace": "d", "uid": name});
    if marked {
        metadata["finalizers"] = json!([FINALIZER]);
        metadata["annotations"] = json!({ASSIGNED: "true"});
    }
    let object = json!({"metadata": metadata, "spec": spec,
        "status": {"loadBalancer": {"ingress": ingress}}});
    Arc::new(serde_json::from_value(object).unwrap())
}

fn decided(services: &[Arc<Service>], wanted: &[(&str, &[&str])]) -> Vec<ServiceAction> {
    let wanted: Vec<Assignment> = wanted
        .iter()
        .map(|(name, ips)| Assignment {
            key: Key::new("d", *name),
            addresses: ips.iter().map(|ip| ip.parse().unwrap()).collect(),
            problem: None,
        })
        .collect();
    let current = services
        .iter()
        .map(|s| (Key::from_meta(&s.metadata), s.status.addresses()))
        .collect();
    diff(services, &wanted, &current)
}

#[test]
fn only_differences_are_written() {
    let lb = || json!({"type": "LoadBalancer"});
    let key = |name: &str| Key::new("d", name);
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    let services = [
        service("new", lb(), false, &[]),
        service("same", lb(), true, &["10.0.0.2"]),
        service("other", lb(), true, &["10.0.0.9"]),
        service("unmarked", lb(), false, &["10.0.0.4"]),
        service("poor", lb(), true, &["10.0.0.5"]),
        service("poor-foreign", lb(), false, &["192.0.2.1"]),
        service("left", json!({"type": "ClusterIP"}), true, &["10.0.0.6"]),
        service(
            "foreign",
            json!({"type": "LoadBalancer", "loadBalancerClass": "x"}),
            false,
            &["192.0.2.2"],
        ),
    ];
    let actions = decided(
        &services,
        &[
            ("new", &["10.0.0.1"]),
            ("same", &["10.0.0.2"]),
            ("other", &["10.0.0.3"]),
            ("unmarked", &["10.0.0.4"]),
            ("poor", &[]),
            ("poor-foreign", &[]),
        ],
    );
    assert_eq!(
        actions,
        [
            ServiceAction::Assign(key("new"), vec![ip("10.0.0.1")]),
            ServiceAction::Assign(key("other"), vec![ip("10.0.0.3")]),
            ServiceAction::Assign(key("unmarked"), vec![ip("10.0.0.4")]),
            ServiceAction::Clear(key("poor")),
            ServiceAction::Free(key("left")),
        ]
    );
}
