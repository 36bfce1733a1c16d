//! The programs that guard pods, asked about random clusters: what the kernel
//! says is what the specification says.
//!
//! `ORLOP_POLICY_CLUSTERS=200 cargo test -p node-agent-datapath --test verdicts`
//! asks more; `ORLOP_POLICY_SEED` begins elsewhere. A failure names its seed.

mod host;
#[path = "verdicts/kernel.rs"]
mod kernel;
#[path = "../../policy/tests/support/mod.rs"]
mod support;

use ebpf_abi::policy::Direction;
use host::Host;
use kernel::{Kernel, Packet};
use node_agent_datapath::Policy;
use node_agent_policy::Config;
use support::random::{self, NODES, Random};
use support::reference::Who;

fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|it| it.parse().ok()).unwrap_or(default)
}

#[test]
fn the_kernel_says_what_the_specification_says() {
    let Some(host) = Host::new() else { return };
    let _engine = host.engine();
    let policy = Policy::open(&host.pin_dir).expect("policy's maps");
    let mut kernel = Kernel::new(&host.pin_dir);
    let first = number("ORLOP_POLICY_SEED", 1);
    let clusters = number("ORLOP_POLICY_CLUSTERS", 24);
    let addresses = random::addresses();
    let ports = random::ports();
    let (mut asked, mut allowed) = (0_u32, 0_u32);
    for seed in first..first + clusters {
        let mut random = Random::new(seed ^ 0x6b65_726e);
        let cluster = random::cluster(&mut random);
        let node = random.pick(&NODES);
        // As an agent that takes over from another.
        let config = Config {
            node: Some(node.to_owned()),
            previous: policy.root().expect("root"),
            ..Config::default()
        };
        let actions = support::told(&cluster, config).sync();
        policy.apply(&actions).expect("apply");
        for own in &addresses {
            let here = |pod: &node_agent_policy::objects::Pod| pod.spec.node_name == node;
            if !matches!(cluster.who(*own), Who::Pod(pod) if here(pod)) {
                continue;
            }
            for peer in &addresses {
                if own.is_ipv4() != peer.is_ipv4() {
                    continue;
                }
                let from_node =
                    matches!(cluster.who(*peer), Who::Node(it) if it.metadata.name == node);
                for direction in [Direction::EGRESS, Direction::INGRESS] {
                    for _ in 0..3 {
                        let (protocol, port) = random.pick(&ports);
                        let expected = cluster.side(direction, *own, *peer, protocol, port);
                        let packet = Packet {
                            direction,
                            own: *own,
                            peer: *peer,
                            protocol,
                            port,
                            from_node,
                        };
                        let said = kernel.passes(&packet);
                        assert_eq!(
                            Some(said),
                            expected,
                            "seed {seed}: {direction:?} of {own}, {peer}, {protocol}/{port}\n{cluster:#?}"
                        );
                        asked += 1;
                        allowed += u32::from(said);
                    }
                }
            }
        }
    }
    println!("{asked} flows, {allowed} allowed");
    // A test of which all flows have the same answer would show nothing.
    assert!(
        asked > 1_000 && allowed * 10 > asked && allowed * 10 < asked * 9,
        "{allowed} of {asked}"
    );
    // Nothing is left of agents that are gone.
    let entries = policy.entries().expect("entries");
    assert!(entries.verdicts < 5_000, "{entries:?}");
}
