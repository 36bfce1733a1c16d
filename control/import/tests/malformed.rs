//! Tests that invalid input is refused with the object's name and the way out.

use control_import::policy::Settings;
use control_import::{MalformedObject, calico, cilium, metallb};
use proptest::prelude::*;
use serde_json::{Value, json};

fn error(text: &str) -> String {
    let object: Value = serde_saphyr::from_str(text).unwrap();
    let api = object["apiVersion"].as_str().unwrap().to_owned();
    let objects = [object];
    let settings = Settings::default();
    let result = match api.split('/').next() {
        Some("cilium.io") => cilium::convert(&objects, &settings),
        Some("metallb.io") => metallb::convert(&objects, false),
        _ => calico::convert(&objects, &settings),
    };
    let Err(error @ MalformedObject { .. }) = result else {
        panic!("{text} is converted: {result:?}");
    };
    error.to_string()
}

#[test]
fn malformed_objects_are_named_with_the_way_out() {
    let calico = |spec: &str| {
        error(&format!(
            "{{apiVersion: projectcalico.org/v3, kind: NetworkPolicy, \
             metadata: {{name: x, namespace: shop}}, spec: {spec}}}"
        ))
    };
    for (spec, why) in [
        (
            "{selector: \"a ==\"}",
            "expected a value in quotes at character 5",
        ),
        ("{unknown: 1}", "unknown field `unknown`"),
        ("{tier: none}", "no Tier `none`"),
        ("{types: [Sideways]}", "`Sideways`"),
        ("{namespaceSelector: all()}", "has no namespaceSelector"),
        (
            "{ingress: [{action: Perhaps}]}",
            "ingress[0]: action `Perhaps`",
        ),
        (
            "{ingress: [{action: Allow, source: {nets: [1.2.3]}}]}",
            "`1.2.3` is no range",
        ),
        (
            "{egress: [{action: Allow, destination: {ports: [80]}}]}",
            "ports need a protocol",
        ),
        (
            "{egress: [{action: Allow, protocol: TCP, destination: {ports: ['9:1']}}]}",
            "end before they begin",
        ),
        (
            "{egress: [{action: Allow, protocol: TCP, destination: {ports: [70000]}}]}",
            "70000 is no port",
        ),
        ("[]", "spec is a list"),
        (
            "{ingress: [{action: Allow, source: []}]}",
            "source is a list",
        ),
        ("{ingress: [[]]}", "a list in a list"),
        ("7", "invalid type"),
    ] {
        let text = calico(spec);
        assert!(text.contains(why), "{text}");
        assert!(text.contains("NetworkPolicy shop/x"), "{text}");
        assert!(text.contains("leave it out"), "{text}");
    }
    let cilium = |spec: &str| {
        error(&format!(
            "{{apiVersion: cilium.io/v2, kind: CiliumNetworkPolicy, \
             metadata: {{name: x, namespace: shop}}, spec: {spec}}}"
        ))
    };
    for (spec, why) in [
        ("{}", "exactly one of endpointSelector and nodeSelector"),
        (
            "{endpointSelector: {}, surprise: 1}",
            "unknown field `surprise`",
        ),
        (
            "{endpointSelector: {matchExpressions: [{key: a, operator: Gt, values: ['1']}]}}",
            "operator `Gt`",
        ),
        (
            "{endpointSelector: {}, egress: [{toCIDR: [x]}]}",
            "`x` is no range",
        ),
        (
            "{endpointSelector: {}, egress: [{toPorts: [{ports: [{port: '80', endPort: 70}]}]}]}",
            "end before they begin",
        ),
        (
            "{endpointSelector: {}, egress: [{toPorts: [{ports: [{port: '99999'}]}]}]}",
            "`99999` is no port",
        ),
        (
            "{endpointSelector: {}, egress: [{toCIDRSet: [{}]}]}",
            "exactly one of cidr",
        ),
    ] {
        let text = cilium(spec);
        assert!(text.contains(why), "{text}");
        assert!(text.contains("CiliumNetworkPolicy shop/x"), "{text}");
    }
    let metallb = |kind: &str, spec: &str| {
        error(&format!(
            "{{apiVersion: metallb.io/v1beta2, kind: {kind}, \
             metadata: {{name: x, namespace: shop}}, spec: {spec}}}"
        ))
    };
    for (kind, spec, why) in [
        (
            "IPAddressPool",
            "{addresses: [10.0.0.2-10.0.0.1]}",
            "ends before it begins",
        ),
        (
            "IPAddressPool",
            "{addresses: [127.0.0.1]}",
            "no Service can have",
        ),
        (
            "BGPPeer",
            "{myASN: 1, peerAddress: 1.2.3.4}",
            "peerASN and dynamicASN",
        ),
        (
            "BGPPeer",
            "{myASN: 1, peerASN: 2, peerAddress: 1.2.3.4, holdTime: 1.5s}",
            "holdTime is no duration",
        ),
        (
            "BGPPeer",
            "{myASN: 1, peerASN: 2, peerAddress: 1.2.3.4, holdTime: 2s}",
            "neither 0 nor 3 s",
        ),
        ("L2Advertisement", "{news: 1}", "unknown field `news`"),
    ] {
        let text = metallb(kind, spec);
        assert!(text.contains(why), "{text}");
        assert!(text.contains(&format!("{kind} shop/x")), "{text}");
    }
    let nameless = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNetworkPolicy"});
    let text = cilium::convert(&[nameless], &Settings::default()).unwrap_err();
    assert!(
        text.to_string().contains("namespace does not fit"),
        "{text}"
    );
}

/// Any JSON, with the words of policies here and there.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z0-9=:/ .{}()!&|']{0,12}".prop_map(Value::from),
        prop::sample::select(vec!["Allow", "TCP", "80", "10.0.0.0/8", "all()", "world"])
            .prop_map(Value::from),
    ];
    let keys = prop::sample::select(vec![
        "selector",
        "ingress",
        "egress",
        "action",
        "source",
        "destination",
        "nets",
        "ports",
        "protocol",
        "endpointSelector",
        "matchLabels",
        "fromEndpoints",
        "toCIDRSet",
        "cidr",
        "toPorts",
        "port",
        "addresses",
        "nodeSelectors",
        "specs",
        "spec",
        "types",
    ]);
    leaf.prop_recursive(5, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(keys.clone().prop_map(str::to_owned), inner, 0..5)
                .prop_map(|it| Value::from(it.into_iter().collect::<serde_json::Map<_, _>>())),
        ]
    })
}

proptest! {
    #[test]
    fn no_input_panics(spec in any_value(), specs in any_value()) {
        for (api, kind) in [
            ("projectcalico.org/v3", "NetworkPolicy"),
            ("projectcalico.org/v3", "GlobalNetworkSet"),
            ("cilium.io/v2", "CiliumNetworkPolicy"),
            ("metallb.io/v1beta2", "BGPPeer"),
            ("metallb.io/v1beta1", "IPAddressPool"),
            ("v1", "Node"),
            ("networking.k8s.io/v1", "NetworkPolicy"),
        ] {
            let object = json!({"apiVersion": api, "kind": kind, "spec": spec, "specs": specs,
                "metadata": {"name": "x", "namespace": "y"}, "status": specs});
            let objects = control_import::flatten(vec![object]);
            let settings = Settings { expand_namespaces: true, ..Settings::default() };
            let _ = calico::convert(&objects, &settings);
            let _ = cilium::convert(&objects, &settings);
            let _ = metallb::convert(&objects, true);
        }
    }
}
