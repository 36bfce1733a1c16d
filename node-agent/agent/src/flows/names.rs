//! Records of programs with the names of those that they are about.

use std::{collections::HashMap, net::IpAddr};

use ebpf_abi::{Counter, FlowRecord, policy::Direction as Way};
use jiff::{SignedDuration, Timestamp};
use node_agent_policy::{Compiler, End, Reason, UNKNOWN_POD};

use super::flow::{Direction, Flow, FlowEnd, FlowVerdict};

/// Names that network policy knows for a record's numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyNames {
    /// Who began it.
    pub source: Option<End>,
    /// Who was to get it, behind translation.
    pub destination: Option<End>,
    /// The object that decided.
    pub policy: Option<String>,
    /// Its rule.
    pub rule: Option<String>,
}

/// The monotonic and the real-time clock read at one moment.
#[derive(Clone, Copy, Debug)]
pub struct ClockPair {
    /// Nanoseconds of the monotonic clock.
    pub monotonic: u64,
    /// The time.
    pub now: Timestamp,
}

/// Both ends of a record, as policy sees them: who began, and who was to get it,
/// behind translation.
pub fn ends(record: &FlowRecord) -> [(IpAddr, u16); 2] {
    let tuple = &record.tuple;
    let peer = (record.peer.into(), record.peer_port.get());
    let source = (tuple.source.into(), tuple.source_port.get());
    let destination = (tuple.destination.into(), tuple.destination_port.get());
    if record.has(FlowRecord::INGRESS) {
        [peer, destination]
    } else {
        [source, peer]
    }
}

/// What a compiler knows of a record. Cookies of another epoch are a former
/// agent's: what they meant is not known any more.
pub fn known(compiler: &Compiler, record: &FlowRecord) -> PolicyNames {
    let end = |address| match compiler.end(address) {
        End::Outside(_) => None,
        end => Some(end),
    };
    let way = if record.has(FlowRecord::INGRESS) {
        Way::INGRESS
    } else {
        Way::EGRESS
    };
    let is_drop = Counter::of_index(record.reason).is_some_and(Counter::is_drop);
    let [source, destination] = ends(record).map(|(address, _)| end(address));
    let other = if way == Way::INGRESS {
        &source
    } else {
        &destination
    };
    let note = if !is_drop {
        None
    } else if matches!(other, Some(End::UnknownPod(_))) {
        Some(UNKNOWN_POD)
    } else {
        is_allowed_by_now(compiler, record, way).then_some(ALLOWED_BY_NOW)
    };
    let current = record.epoch != 0 && record.epoch == compiler.root().epoch;
    let reason = current.then(|| compiler.reason(record.cookie)).flatten();
    let object = reason.as_ref().and_then(|it| it.object());
    PolicyNames {
        source,
        destination,
        policy: object.map(ToString::to_string),
        rule: object.and(reason.as_ref()).map(|it| {
            let words = it.words(way);
            note.map_or_else(|| words.clone(), |note| format!("{words}; {note}"))
        }),
    }
}

/// What to say of a drop whose flow rules allow since: a pod became known, or a policy
/// changed.
const ALLOWED_BY_NOW: &str = "by now it is allowed";

fn is_allowed_by_now(compiler: &Compiler, record: &FlowRecord, way: Way) -> bool {
    let [(source, _), (destination, port)] = ends(record);
    let explained = compiler.explain(source, destination, record.tuple.protocol, port);
    let side = if way == Way::INGRESS {
        explained.ingress
    } else {
        explained.egress
    };
    // What only came through the node is not the node's own.
    side.is_some_and(|it| it.decided.allow && it.decided.reason != Reason::Node)
}

/// A flow out of a record; none: it is another version's. `services` has names
/// of what was asked for, `devices` those of devices.
pub fn flow(
    record: &FlowRecord,
    known: PolicyNames,
    node: &str,
    clocks: ClockPair,
    service: Option<String>,
    devices: &HashMap<u32, String>,
) -> Option<Flow> {
    let reason = Counter::of_index(record.reason)?;
    let verdict = if reason.is_drop() {
        FlowVerdict::Dropped
    } else if reason.is_refusal() {
        FlowVerdict::Refused
    } else {
        FlowVerdict::Forwarded
    };
    let direction = if record.has(FlowRecord::INGRESS) {
        Some(Direction::Ingress)
    } else if record.has(FlowRecord::EGRESS) {
        Some(Direction::Egress)
    } else {
        None
    };
    let [source, destination] = ends(record);
    Some(Flow {
        time: clocks.at(record.time),
        node: node.to_owned(),
        verdict,
        direction,
        protocol: protocol(record),
        source: party(source, known.source),
        destination: party(destination, known.destination),
        service: service.or_else(|| asked(record).map(|(at, port)| format!("{at} port {port}"))),
        reason: reason.label().to_owned(),
        policy: known.policy,
        rule: known.rule,
        interface: devices
            .get(&record.device)
            .cloned()
            .unwrap_or_else(|| record.device.to_string()),
        weight: record.weight.max(1),
    })
}

/// What was asked for, where it may be a service: at a device that is no pod's
/// whatever the packet was for, else what translation replaced.
pub fn asked(record: &FlowRecord) -> Option<(IpAddr, u16)> {
    let tuple = &record.tuple;
    let seen = (
        IpAddr::from(tuple.destination),
        tuple.destination_port.get(),
    );
    let [_, (address, port)] = ends(record);
    ((address, port) != seen).then_some(seen)
}

// === impl Clocks ===

impl ClockPair {
    fn at(self, monotonic: u64) -> Timestamp {
        let ago = self.monotonic.saturating_sub(monotonic);
        let ago = SignedDuration::from_nanos(i64::try_from(ago).unwrap_or(i64::MAX));
        self.now.checked_sub(ago).unwrap_or(self.now)
    }
}

fn protocol(record: &FlowRecord) -> String {
    match record.tuple.protocol.0 {
        1 => "ICMP".to_owned(),
        58 => "ICMPv6".to_owned(),
        _ => record.tuple.protocol.to_string(),
    }
}

fn party((address, port): (IpAddr, u16), end: Option<End>) -> FlowEnd {
    let (pod, node) = match end {
        Some(End::Pod { namespace, name }) => (Some(format!("{namespace}/{name}")), None),
        Some(End::Node(name)) => (None, Some(name)),
        Some(End::UnknownPod(_) | End::Outside(_)) | None => (None, None),
    };
    FlowEnd {
        address,
        port,
        pod,
        node,
    }
}

#[cfg(test)]
mod tests {
    use ebpf_abi::{Port, Protocol, Tuple};
    use node_agent_policy::Config;
    use serde_json::json;

    use super::*;

    fn compiler() -> Compiler {
        let mut compiler = Compiler::new(Config {
            node: Some("n1".to_owned()),
            ..Config::default()
        });
        let of = |value| serde_json::from_value(value).expect("an object");
        compiler.namespace("x", Some(&of(json!({"metadata": {"name": "x"}}))));
        for (name, address) in [("a", "10.0.0.1"), ("b", "10.0.0.2")] {
            let pod = json!({
                "metadata": {"name": name, "namespace": "x"},
                "spec": {"nodeName": "n1"},
                "status": {"podIP": address},
            });
            let pod = serde_json::from_value(pod).expect("a pod");
            compiler.pod("x", name, Some(&pod));
        }
        let policy = json!({
            "metadata": {"name": "p", "namespace": "x"},
            "spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]},
        });
        let policy = serde_json::from_value(policy).expect("a policy");
        compiler.network_policy("x", "p", Some(&policy));
        compiler.sync();
        compiler
    }

    fn record(flags: u16, reason: Counter, seen: &str, peer: &str) -> FlowRecord {
        let address = |text: &str| text.parse::<IpAddr>().expect("an address").into();
        FlowRecord {
            tuple: Tuple::new(
                address("10.0.0.1"),
                Port::new(4_000),
                address(seen),
                Port::new(80),
                Protocol::TCP,
            ),
            peer: address(peer),
            peer_port: Port::new(if flags == FlowRecord::INGRESS {
                4_000
            } else {
                8_080
            }),
            reason: reason.index(),
            flags,
            device: 7,
            time: 1_000,
            ..FlowRecord::NOTHING
        }
    }

    const CLOCKS: ClockPair = ClockPair {
        monotonic: 2_000_001_000,
        now: Timestamp::UNIX_EPOCH,
    };

    fn told(record: &FlowRecord, compiler: &Compiler) -> Flow {
        let devices = HashMap::from([(7, "orl7".to_owned())]);
        let known = known(compiler, record);
        flow(record, known, "n1", CLOCKS, None, &devices).expect("a flow")
    }

    #[test]
    fn pods_policies_and_rules_get_their_names() {
        let compiler = compiler();
        let cookie = compiler
            .explain(
                "10.0.0.1".parse().expect("an address"),
                "10.0.0.2".parse().expect("an address"),
                Protocol::TCP,
                81,
            )
            .ingress
            .expect("a side")
            .decided
            .cookie;
        let mut it = record(
            FlowRecord::INGRESS,
            Counter::DroppedIngress,
            "10.0.0.2",
            "10.0.0.1",
        );
        it.tuple.destination_port = Port::new(81);
        it.cookie = cookie;
        it.epoch = compiler.root().epoch;
        let flow = told(&it, &compiler);
        assert_eq!(flow.source.pod.as_deref(), Some("x/a"));
        assert_eq!(flow.destination.pod.as_deref(), Some("x/b"));
        assert_eq!(flow.policy.as_deref(), Some("NetworkPolicy x/p"));
        let rule = "no ingress rule allows it; selected by NetworkPolicy x/p";
        assert_eq!(flow.rule.as_deref(), Some(rule));
        assert_eq!(flow.verdict, FlowVerdict::Dropped);
        assert_eq!(flow.direction, Some(Direction::Ingress));
        assert_eq!(flow.interface, "orl7");
        assert_eq!(flow.time.as_second(), -2, "two seconds before now");
        assert_eq!(flow.service, None);
        // A former agent's cookie is nobody's.
        it.epoch += 1;
        assert_eq!(told(&it, &compiler).policy, None);
    }

    #[test]
    fn drops_of_pods_that_are_not_known_yet_say_so() {
        let mut compiler = compiler();
        let of = |value| serde_json::from_value(value).expect("an object");
        let node = json!({"metadata": {"name": "n2"}, "spec": {"podCIDR": "10.0.1.0/24"}});
        compiler.node("n2", Some(&serde_json::from_value(node).expect("a node")));
        let policy = json!({
            "metadata": {"name": "q", "namespace": "x"},
            "spec": {"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}]},
        });
        compiler.network_policy("x", "q", Some(&of(policy)));
        compiler.sync();
        let recorded = |compiler: &Compiler, peer: &str| {
            let to = "10.0.0.2".parse().expect("an address");
            let from = peer.parse().expect("an address");
            let side = compiler.explain(from, to, Protocol::TCP, 81).ingress;
            let mut it = record(
                FlowRecord::INGRESS,
                Counter::DroppedIngress,
                "10.0.0.2",
                peer,
            );
            it.tuple.destination_port = Port::new(81);
            it.cookie = side.expect("a side").decided.cookie;
            it.epoch = compiler.root().epoch;
            it
        };
        let rule = "no ingress rule allows it; selected by NetworkPolicy x/p";
        let outside = recorded(&compiler, "192.0.2.1");
        assert_eq!(told(&outside, &compiler).rule.as_deref(), Some(rule));
        let early = recorded(&compiler, "10.0.1.9");
        let flow = told(&early, &compiler);
        assert_eq!(flow.rule, Some(format!("{rule}; {UNKNOWN_POD}")));
        assert_eq!((flow.source.pod, flow.source.node), (None, None));
        let pod = json!({
            "metadata": {"name": "c", "namespace": "x"},
            "spec": {"nodeName": "n2"},
            "status": {"podIP": "10.0.1.9"},
        });
        let pod = serde_json::from_value(pod).expect("a pod");
        compiler.pod("x", "c", Some(&pod));
        compiler.sync();
        let flow = told(&early, &compiler);
        assert_eq!(flow.source.pod.as_deref(), Some("x/c"));
        assert_eq!(flow.rule, Some(format!("{rule}; {ALLOWED_BY_NOW}")));
    }

    #[test]
    fn who_serves_is_the_destination_and_what_was_asked_for_the_service() {
        let compiler = compiler();
        let it = record(
            FlowRecord::EGRESS,
            Counter::PolicyAllowed,
            "10.96.0.7",
            "10.0.0.2",
        );
        let flow = told(&it, &compiler);
        assert_eq!(flow.verdict, FlowVerdict::Forwarded);
        assert_eq!(flow.destination.to_string(), "x/b:8080");
        assert_eq!(flow.service.as_deref(), Some("10.96.0.7 port 80"));
    }

    #[test]
    fn a_reason_of_another_version_is_no_flow() {
        let it = FlowRecord {
            reason: 47,
            ..FlowRecord::NOTHING
        };
        let known = PolicyNames::default();
        assert_eq!(flow(&it, known, "n1", CLOCKS, None, &HashMap::new()), None);
    }
}
