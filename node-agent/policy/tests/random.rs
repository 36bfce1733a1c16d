//! Compares the verdicts of maps with the specification in random clusters.
//!
//! `ORLOP_POLICY_PAIRS=10000000 cargo test -p node-agent-policy --test
//! random` checks more pairs; `ORLOP_POLICY_SEED` sets the first seed. A failure names its seed.

mod support;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};

use ebpf_abi::policy::Direction;
use ebpf_logic::policy::HookPlace;
use ebpf_logic::policy::model::PolicyModel;
use node_agent_policy::Action;
use support::halted::{Halted, LOOKS};
use support::random::{self, NODES, Random};
use support::reference::{At, Who};
use support::{Cluster, asked, compiler, settle};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|it| it.parse().ok())
        .unwrap_or(default)
}

fn home(cluster: &Cluster, address: IpAddr) -> Option<(&str, HookPlace)> {
    home_of(cluster.who(address))
}

fn home_of(who: Who<'_>) -> Option<(&str, HookPlace)> {
    match who {
        Who::Pod(pod) => Some((pod.spec.node_name.as_str(), HookPlace::Pod)),
        Who::Node(node) => Some((node.metadata.name.as_str(), HookPlace::Host)),
        Who::Nobody | Who::Unknown => None,
    }
}

/// A node's maps of a cluster that it heard of for the first time.
fn maps(cluster: &Cluster, node: &str) -> PolicyModel {
    let mut model = PolicyModel::default();
    let actions = compiler(cluster, Some(node)).sync();
    // Ranges of ports are thousands of actions: those at once, the others one by one.
    let ports = actions.iter().filter_map(|action| match action {
        Action::PutPorts(element, classes) => Some((*element, *classes)),
        _ => None,
    });
    let ports = ports.collect();
    for action in actions
        .iter()
        .filter(|it| !matches!(it, Action::PutPorts(..)))
    {
        action.apply(&mut model);
    }
    model.ports = ports;
    model
}

/// All pairs of addresses in a cluster of this seed: how many flows were asked about, and
/// how many are allowed.
fn pairs(seed: u64) -> (u64, u64) {
    let mut random = Random::new(seed);
    let cluster = random::cluster(&mut random);
    let models = NODES.map(|node| (node, maps(&cluster, node)));
    let mut whole = compiler(&cluster, None);
    whole.sync();
    let ends: Vec<At<'_>> = random::addresses()
        .into_iter()
        .map(|it| cluster.at(it))
        .collect();
    let ports = random::ports();
    let (mut done, mut allowed) = (0, 0);
    for from in &ends {
        for to in &ends {
            if from.address.is_ipv4() != to.address.is_ipv4() {
                continue;
            }
            for _ in 0..2 {
                let (protocol, port) = random.pick(&ports);
                let mut said = true;
                for (own, peer, direction) in [
                    (from, to, Direction::EGRESS),
                    (to, from, Direction::INGRESS),
                ] {
                    if let Some((node, place)) = home_of(own.who) {
                        let (_, model) = models.iter().find(|it| it.0 == node).unwrap();
                        let (own, peer) = (own.address, peer.address);
                        said &= asked(model, place, direction, own, peer, protocol, port);
                    }
                }
                let expected = cluster.flow(*from, *to, protocol, port);
                let explained = whole.explain(from.address, to.address, protocol, port);
                assert_eq!(
                    (said, explained.allow),
                    (expected, expected),
                    "seed {seed}: {} to {} {protocol}/{port}\n{explained:#?}\n{cluster:#?}",
                    from.address,
                    to.address,
                );
                allowed += u64::from(expected);
                done += 1;
            }
        }
    }
    (done, allowed)
}

#[test]
fn maps_and_explanations_say_what_the_specification_says() {
    let wanted = number("ORLOP_POLICY_PAIRS", 150_000);
    let seeds = AtomicU64::new(number("ORLOP_POLICY_SEED", 1));
    let all = [const { AtomicU64::new(0) }; 2];
    let work = || {
        while all[0].load(Ordering::Relaxed) < wanted {
            let (done, allowed) = pairs(seeds.fetch_add(1, Ordering::Relaxed) + 1);
            all[0].fetch_add(done, Ordering::Relaxed);
            all[1].fetch_add(allowed, Ordering::Relaxed);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let [done, allowed] = all.map(AtomicU64::into_inner);
    println!("{done} flows, {allowed} allowed");
    // A test of which all flows have the same answer would show nothing.
    assert!(
        allowed * 10 > done && allowed * 10 < done * 9,
        "{allowed} of {done}"
    );
}

/// One thing that happens.
fn happen(random: &mut Random, cluster: &mut Cluster, tell: &mut dyn FnMut(&Event<'_>)) -> bool {
    let namespace = random.pick(&random::NAMESPACES);
    match random.below(10) {
        0 => {
            let object = (!random.one_in(4)).then(|| random::namespace(random, namespace));
            match &object {
                Some(it) => cluster.namespaces.insert(namespace.into(), it.clone()),
                None => cluster.namespaces.remove(namespace),
            };
            tell(&Event::Namespace(namespace, object));
            // All pods of it change at once.
            false
        }
        1 => {
            let name = random.pick(&NODES);
            let object = random::node(random, name);
            cluster.nodes.insert(name.into(), object.clone());
            tell(&Event::Node(name, Some(object)));
            false
        }
        2..=4 => {
            let name = random.pick(&random::PODS);
            let object = (!random.one_in(3)).then(|| random::pod(random, namespace, name));
            let key = (namespace.to_owned(), name.to_owned());
            match &object {
                Some(it) => cluster.pods.insert(key, it.clone()),
                None => cluster.pods.remove(&key),
            };
            tell(&Event::Pod(namespace, name, object));
            true
        }
        5..=7 => {
            let name = random.pick(&random::POLICIES);
            let object =
                (!random.one_in(3)).then(|| random::network_policy(random, namespace, name));
            let key = (namespace.to_owned(), name.to_owned());
            match &object {
                Some(it) => cluster.policies.insert(key, it.clone()),
                None => cluster.policies.remove(&key),
            };
            tell(&Event::Policy(namespace, name, object));
            true
        }
        _ => {
            let name = random.pick(&random::POLICIES);
            let object = (!random.one_in(3)).then(|| random::cluster_policy(random, name));
            match &object {
                Some(it) => cluster.cluster_policies.insert(name.into(), it.clone()),
                None => cluster.cluster_policies.remove(name),
            };
            tell(&Event::ClusterPolicy(name, object));
            true
        }
    }
}

enum Event<'a> {
    Namespace(&'a str, Option<node_agent_policy::objects::Namespace>),
    Node(&'a str, Option<node_agent_policy::objects::Node>),
    Pod(&'a str, &'a str, Option<node_agent_policy::objects::Pod>),
    Policy(
        &'a str,
        &'a str,
        Option<node_agent_policy::objects::NetworkPolicy>,
    ),
    ClusterPolicy(
        &'a str,
        Option<node_agent_policy::objects::ClusterNetworkPolicy>,
    ),
}

impl Event<'_> {
    fn tell(&self, compiler: &mut node_agent_policy::Compiler) {
        match self {
            Self::Namespace(name, it) => compiler.namespace(name, it.as_ref()),
            Self::Node(name, it) => compiler.node(name, it.as_ref()),
            Self::Pod(namespace, name, it) => compiler.pod(namespace, name, it.as_ref()),
            Self::Policy(namespace, name, it) => {
                compiler.network_policy(namespace, name, it.as_ref());
            }
            Self::ClusterPolicy(name, it) => compiler.cluster_network_policy(name, it.as_ref()),
        }
    }
}

#[test]
fn history_leaves_nothing_and_every_step_is_sound() {
    let histories = number("ORLOP_POLICY_HISTORIES", 16);
    let first = number("ORLOP_POLICY_SEED", 1);
    let addresses = random::addresses();
    let ports = random::ports();
    let (mut steps, mut checked, mut halted) = (0_u64, 0_u64, 0_u64);
    for seed in first..first + histories {
        let mut random = Random::new(seed ^ 0x5eed);
        let mut cluster = random::cluster(&mut random);
        let mut compilers: Vec<_> = NODES
            .iter()
            .map(|node| {
                (
                    *node,
                    compiler(&cluster, Some(node)),
                    PolicyModel::default(),
                )
            })
            .collect();
        for (_, compiler, model) in &mut compilers {
            for action in compiler.sync() {
                action.apply(model);
            }
        }
        for step in 0..20 {
            let before = cluster.clone();
            let mut single = true;
            // Sometimes several things happen at once.
            let count = if random.one_in(5) {
                1 + random.below(5)
            } else {
                1
            };
            for _ in 0..count {
                single &= happen(&mut random, &mut cluster, &mut |event| {
                    for (_, compiler, _) in &mut compilers {
                        event.tell(compiler);
                    }
                });
            }
            single &= count == 1;
            let sides: Vec<_> = (0..60)
                .map(|_| {
                    let (own, peer) = (random.pick(&addresses), random.pick(&addresses));
                    let direction = random.pick(&[Direction::INGRESS, Direction::EGRESS]);
                    (own, peer, direction, random.pick(&ports))
                })
                .filter(|(own, peer, ..)| own.is_ipv4() == peer.is_ipv4())
                .collect();
            for (node, compiler, model) in &mut compilers {
                let watched: Vec<_> = sides
                    .iter()
                    .filter_map(|(own, peer, direction, (protocol, port))| {
                        let at = |cluster: &Cluster| {
                            let (home, place) = home(cluster, *own)?;
                            (home == *node).then_some(place)?;
                            let said = cluster.side(*direction, *own, *peer, *protocol, *port)?;
                            Some((said, place))
                        };
                        let (old, new) = (at(&before), at(&cluster));
                        let place = new.or(old)?.1;
                        // Who comes or goes may be closed meanwhile, or replaced.
                        let is_same = |address| match (before.who(address), cluster.who(address)) {
                            (Who::Pod(a), Who::Pod(b)) => {
                                (&a.metadata.namespace, &a.metadata.name)
                                    == (&b.metadata.namespace, &b.metadata.name)
                            }
                            (Who::Node(_), Who::Node(_)) => true,
                            (Who::Nobody, Who::Nobody) | (Who::Unknown, Who::Unknown) => true,
                            _ => false,
                        };
                        let same = is_same(*own);
                        // A pod that goes from one end's address to the other's changes
                        // both, as no pod does.
                        if !same && !is_same(*peer) {
                            return None;
                        }
                        let mut allowed = BTreeSet::new();
                        allowed.extend(old.map(|it| it.0));
                        allowed.extend(new.map(|it| it.0));
                        if !same || old.is_none() || new.is_none() {
                            allowed.insert(false);
                        }
                        Some((*own, *peer, *direction, *protocol, *port, place, allowed))
                    })
                    .collect();
                // What went before, programs that begin now do not know.
                let mark = compiler.mark();
                let mut actions = compiler.sync();
                if let Some(mark) = mark {
                    compiler.passed(mark);
                    actions.extend(compiler.sync());
                }
                for (number, action) in actions.iter().enumerate() {
                    if single && random.one_in(1 + actions.len() / 8) {
                        for (own, peer, direction, protocol, port, place, allowed) in
                            watched.iter().take(6)
                        {
                            let looks = random.below(LOOKS);
                            let until = number + 1 + random.below(actions.len() - number);
                            let meanwhile = &actions[number..until];
                            let maps = Halted::after(looks, model.clone(), meanwhile);
                            let said =
                                asked(&maps, *place, *direction, *own, *peer, *protocol, *port);
                            halted += 1;
                            assert!(
                                allowed.contains(&said),
                                "seed {seed} step {step} on {node}: {own} {direction:?} {peer} \
                                 {protocol}/{port} is {said} for who is stopped after {looks} \
                                 looks, from {number} to {until} of {actions:#?}"
                            );
                        }
                    }
                    action.apply(model);
                    steps += 1;
                    // A wide range is thousands of these.
                    let is_port = matches!(action, Action::PutPorts(..));
                    if !single || is_port && !random.one_in(40) {
                        continue;
                    }
                    for (own, peer, direction, protocol, port, place, allowed) in
                        watched.iter().take(12)
                    {
                        let said = asked(model, *place, *direction, *own, *peer, *protocol, *port);
                        checked += 1;
                        assert!(
                            allowed.contains(&said),
                            "seed {seed} step {step} on {node}: {own} {direction:?} {peer} \
                             {protocol}/{port} is {said} after {action:?}"
                        );
                    }
                }
                assert!(
                    compiler.sync().is_empty(),
                    "seed {seed}: nothing is left to do"
                );
                // As from scratch, in sizes (so nothing is left over) and verdicts.
                let settled = random.one_in(3);
                if settled {
                    settle(compiler, model);
                }
                let mut fresh = support::compiler(&cluster, Some(node));
                let mut again = PolicyModel::default();
                for action in fresh.sync() {
                    action.apply(&mut again);
                }
                let sizes = compiler.sizes();
                if settled {
                    assert_eq!(sizes, fresh.sizes(), "seed {seed} step {step} on {node}");
                    assert_eq!(
                        (sizes.verdicts, sizes.endpoints, sizes.prefixes),
                        (
                            model.verdicts.len(),
                            model.endpoints.len(),
                            model.peers.len()
                        ),
                        "seed {seed} step {step}: the maps hold what is counted"
                    );
                }
                for (own, peer, direction, (protocol, port)) in &sides {
                    if let Some((home, place)) = home(&cluster, *own)
                        && home == *node
                    {
                        {
                            let ask = |model| {
                                asked(model, place, *direction, *own, *peer, *protocol, *port)
                            };
                            let expected = cluster.side(*direction, *own, *peer, *protocol, *port);
                            assert_eq!(
                                (Some(ask(model)), Some(ask(&again))),
                                (expected, expected),
                                "seed {seed} step {step} on {node}: {own} {direction:?} {peer} \
                                 {protocol}/{port}"
                            );
                        }
                    }
                }
            }
        }
    }
    println!("{steps} actions, {checked} verdicts between them, {halted} by who was stopped");
    assert!(halted > 0, "nobody was stopped");
}
