//! Tests of flow records.

use super::*;

pub fn party(address: &str, port: u16, pod: Option<&str>) -> FlowEnd {
    FlowEnd {
        address: address.parse().expect("an address"),
        port,
        pod: pod.map(str::to_owned),
        node: None,
    }
}

pub fn flow(second: i64, verdict: FlowVerdict) -> Flow {
    Flow {
        time: Timestamp::from_second(second).expect("a time"),
        node: "n1".to_owned(),
        verdict,
        direction: Some(Direction::Ingress),
        protocol: "TCP".to_owned(),
        source: party("10.0.0.1", 40_000, Some("shop/web")),
        destination: party("10.0.0.2", 5432, Some("shop/db-0")),
        service: None,
        reason: "dropped_policy_ingress".to_owned(),
        policy: None,
        rule: None,
        interface: "orl1".to_owned(),
        weight: 1,
    }
}

#[test]
fn flows_are_told_by_names_and_else_by_addresses() {
    let mut it = flow(0, FlowVerdict::Dropped);
    let text = "dropped TCP shop/web:40000 to shop/db-0:5432: dropped_policy_ingress";
    assert_eq!(it.to_string(), text);
    it.source = party("fd00::1", 7, None);
    it.destination = party("192.0.2.1", 0, None);
    it.service = Some("shop/web".to_owned());
    it.rule = Some("NetworkPolicy shop/p ingress[0]".to_owned());
    let text = "dropped TCP [fd00::1]:7 to 192.0.2.1 of shop/web: NetworkPolicy shop/p ingress[0]";
    assert_eq!(it.to_string(), text);
    it.destination.node = Some("n1".to_owned());
    assert_eq!(it.destination.to_string(), "node/n1");
}

#[test]
fn what_is_sent_is_what_is_read() {
    for verdict in [
        FlowVerdict::Forwarded,
        FlowVerdict::Dropped,
        FlowVerdict::Refused,
    ] {
        let it = Flow {
            direction: None,
            policy: Some("p".to_owned()),
            ..flow(1_700_000_000, verdict)
        };
        let text = serde_json::to_string(&it).expect("JSON");
        assert_eq!(serde_json::from_str::<Flow>(&text).expect("a flow"), it);
        assert!(
            text.contains(&format!("\"verdict\":\"{verdict}\"")),
            "{text}"
        );
        assert!(!text.contains("null"), "{text}");
    }
}

#[test]
fn filters_take_either_end_a_namespace_a_verdict_and_what_is_young() {
    let now = Timestamp::from_second(100).expect("a time");
    let it = flow(90, FlowVerdict::Dropped);
    let with = |pairs: &[(&str, &str)]| {
        let mut filter = FlowFilter::default();
        for (name, value) in pairs {
            assert_eq!(filter.take(name, value), Ok(true), "{name}");
        }
        let mut again = FlowFilter::default();
        for (name, value) in filter.query() {
            assert_eq!(again.take(name, &value), Ok(true));
        }
        assert_eq!(again, filter);
        filter.takes(&it, now)
    };
    assert!(with(&[]));
    assert!(with(&[("pod", "shop/web")]) && with(&[("pod", "shop/db-0")]));
    assert!(with(&[("pod", "shop/")]));
    assert!(!with(&[("pod", "shop/db")]) && !with(&[("pod", "sho")]));
    assert!(with(&[("verdict", "dropped")]) && !with(&[("verdict", "forwarded")]));
    assert!(with(&[("sinceSeconds", "10")]) && !with(&[("sinceSeconds", "9")]));
    let mut filter = FlowFilter::default();
    assert_eq!(filter.take("follow", "true"), Ok(false));
    assert!(filter.take("verdict", "lost").is_err());
    assert!(filter.take("sinceSeconds", "soon").is_err());
}
