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

fn decided(services: &[Arc<Service>], wanted: &[(&str, &[&str])]) -> Vec<Action> {
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
        .map(|s| (Key::of(&s.metadata), s.status.addresses()))
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
            Action::Assign(key("new"), vec![ip("10.0.0.1")]),
            Action::Assign(key("other"), vec![ip("10.0.0.3")]),
            Action::Assign(key("unmarked"), vec![ip("10.0.0.4")]),
            Action::Clear(key("poor")),
            Action::Free(key("left")),
        ]
    );
}
