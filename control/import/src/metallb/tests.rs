use super::*;

#[test]
fn durations_of_go_are_read_as_whole_seconds() {
    for (text, seconds) in [
        ("90s", Some(90)),
        ("1m30s", Some(90)),
        ("1h", Some(3600)),
        ("3000ms", Some(3)),
        ("0", Some(0)),
        ("0s", Some(0)),
        ("1500ms", None),
        ("1.5s", None),
        ("90", None),
        ("", None),
        ("s", None),
        ("99999999999999999999s", None),
    ] {
        assert_eq!(duration_seconds(text), seconds, "{text}");
    }
}

#[test]
fn selectors_of_one_label_are_merged() {
    let selectors = |all: Value| -> Vec<LabelSelector> { serde_json::from_value(all).unwrap() };
    let of_hosts = selectors(json!([
        {"matchLabels": {"kubernetes.io/hostname": "a"}},
        {"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["b", "c"]}]},
    ]));
    let merged_hosts = merged(&of_hosts).unwrap().unwrap();
    assert_eq!(
        merged_hosts["matchExpressions"][0]["values"],
        json!(["a", "b", "c"])
    );
    let everything = selectors(json!([{"matchLabels": {"a": "1"}}, {}]));
    assert_eq!(merged(&everything), Ok(None));
    let apart = selectors(json!([{"matchLabels": {"a": "1"}}, {"matchLabels": {"b": "1"}}]));
    assert_eq!(merged(&apart), Err(()));
}

#[test]
fn inline_passwords_go_into_one_secret() {
    let peer = json!({
        "apiVersion": "metallb.io/v1beta1", "kind": "BGPPeer",
        "metadata": {"name": "r", "namespace": "metallb-system"},
        "spec": {"myASN": 1, "peerASN": 2, "peerAddress": "192.0.2.1", "password": "secret"},
    });
    let report = convert(&[peer], false).unwrap();
    assert_eq!(report.objects[0]["kind"], "Secret");
    assert_eq!(report.objects[0]["data"], json!({"r": "c2VjcmV0"}));
    assert_eq!(
        report.objects[1]["spec"]["passwordSecret"],
        json!({"key": "r"})
    );
}

#[test]
fn fields_of_metallb_0_16_are_converted_or_named() {
    let peer = json!({
        "apiVersion": "metallb.io/v1beta2", "kind": "BGPPeer",
        "metadata": {"name": "r", "namespace": "metallb-system"},
        "spec": {"myASN": 64512, "localASN": 65001, "peerASN": 65100, "peerAddress": "192.0.2.1"},
    });
    let advertisement = |kind: &str, spec: Value| {
        json!({
            "apiVersion": "metallb.io/v1beta1", "kind": kind,
            "metadata": {"name": "a", "namespace": "metallb-system"},
            "spec": spec,
        })
    };
    let objects = [
        peer,
        advertisement(
            "L2Advertisement",
            json!({"preferredNodeSelectors": [
                {"weight": 10, "preference": {"matchLabels": {"rack": "1"}}}]}),
        ),
        advertisement("BGPAdvertisement", json!({"asPathPrepend": 3})),
    ];
    let report = convert(&objects, false).unwrap();
    let places: Vec<&str> = report.refused.iter().map(|it| it.place.as_str()).collect();
    assert_eq!(places, ["preferredNodeSelectors", "asPathPrepend"]);
    assert!(report.refused.iter().all(|it| !it.text.contains("  ")));
    let kinds = |report: &Report| -> Vec<String> {
        let kinds = report.objects.iter().filter_map(|it| it["kind"].as_str());
        kinds.map(str::to_owned).collect()
    };
    assert_eq!(kinds(&report), ["BGPPeer"]);
    assert_eq!(report.objects[0]["spec"]["myASN"], 65001);
    let report = convert(&objects, true).unwrap();
    assert_eq!(
        kinds(&report),
        ["BGPPeer", "L2Announcement", "BGPAdvertisement"]
    );
}
