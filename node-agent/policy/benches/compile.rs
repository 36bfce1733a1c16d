//! Measures compilation: `cargo bench -p node-agent-policy`. Prints a table.
//!
//! A cluster of 50 namespaces, 100 nodes, 5 000 pods of 10 applications per namespace and
//! 1 000 policies, as seen by one node with 110 pods, and as seen by the whole cluster
//! (as `orlop policy test` compiles it). Then ten thousand policies, each with a port of
//! its own.

#![allow(missing_docs, reason = "a program")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use node_agent_policy::objects::*;
use node_agent_policy::{Compiler, Config};

/// Counts allocated memory.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: as the system's.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }
    // SAFETY: as the system's.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const NAMESPACES: usize = 50;
const APPS: usize = 10;

fn map(pairs: &[(&str, String)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.clone()))
        .collect()
}

fn selector(key: &str, value: String) -> LabelSelector {
    LabelSelector {
        match_labels: [(key.into(), value.into())].into(),
        ..LabelSelector::default()
    }
}

fn namespace(number: usize) -> Namespace {
    Namespace {
        metadata: Metadata {
            name: format!("ns{number}"),
            labels: map(&[
                ("kubernetes.io/metadata.name", format!("ns{number}")),
                ("team", format!("t{}", number % 10)),
            ]),
            ..Metadata::default()
        },
    }
}

fn pod(number: usize, unique: bool) -> Pod {
    let mut labels = map(&[
        ("app", format!("a{}", number / NAMESPACES % APPS)),
        (
            "pod-template-hash",
            format!("{:x}", number / NAMESPACES % APPS * 7919),
        ),
        ("tier", ["front", "back"][number % 2].to_owned()),
    ]);
    if unique {
        labels.insert("instance".into(), format!("i{number}"));
    }
    let ip = format!(
        "10.{}.{}.{}",
        1 + number / 65536,
        number / 256 % 256,
        number % 256
    );
    Pod {
        metadata: Metadata {
            name: format!("app-{number}"),
            namespace: format!("ns{}", number % NAMESPACES),
            labels,
            ..Metadata::default()
        },
        spec: PodSpec {
            // 110 pods are here.
            node_name: if (number % 5000).is_multiple_of(45) {
                "here"
            } else {
                "there"
            }
            .into(),
            containers: vec![Container {
                ports: vec![ContainerPort {
                    name: "http".into(),
                    container_port: 8080,
                    protocol: None,
                }],
                restart_policy: None,
            }],
            ..PodSpec::default()
        },
        status: PodStatus {
            phase: "Running".into(),
            pod_ip: ip,
            pod_ips: Vec::new(),
        },
    }
}

/// Twenty a namespace: default deny, then rules of all sorts.
fn policy(number: usize) -> NetworkPolicy {
    let (namespace, of) = (number % NAMESPACES, number / NAMESPACES);
    let mut spec = NetworkPolicySpec::default();
    let port = |number: usize| NetworkPolicyPort {
        protocol: None,
        port: Some(IntOrString::Int(8000 + (number % 200) as i64)),
        end_port: None,
    };
    if of > 0 {
        spec.pod_selector = selector("app", format!("a{}", of % APPS));
        let peer = match of % 5 {
            0 => NetworkPolicyPeer {
                pod_selector: Some(selector("app", format!("a{}", (of + 1) % APPS))),
                ..NetworkPolicyPeer::default()
            },
            1 => NetworkPolicyPeer {
                namespace_selector: Some(selector("team", format!("t{}", of % 10))),
                ..NetworkPolicyPeer::default()
            },
            2 => NetworkPolicyPeer {
                namespace_selector: Some(selector("team", format!("t{}", of % 10))),
                pod_selector: Some(selector("tier", "front".into())),
                ..NetworkPolicyPeer::default()
            },
            3 => NetworkPolicyPeer {
                ip_block: Some(IpBlock {
                    cidr: format!("192.168.{namespace}.0/24"),
                    except: vec![format!("192.168.{namespace}.{of}/32")],
                }),
                ..NetworkPolicyPeer::default()
            },
            _ => NetworkPolicyPeer {
                ip_block: Some(IpBlock {
                    cidr: "0.0.0.0/0".into(),
                    except: vec!["169.254.169.254/32".into()],
                }),
                ..NetworkPolicyPeer::default()
            },
        };
        if of % 2 == 0 {
            spec.ingress.push(NetworkPolicyIngress {
                from: vec![peer],
                ports: vec![port(number)],
            });
        } else {
            spec.egress.push(NetworkPolicyEgress {
                to: vec![peer],
                ports: vec![port(number)],
            });
            spec.policy_types = vec!["Egress".into()];
        }
    }
    NetworkPolicy {
        metadata: Metadata {
            name: format!("p{number}"),
            namespace: format!("ns{namespace}"),
            ..Metadata::default()
        },
        spec,
    }
}

fn compiler(node: Option<&str>, pods: usize, policies: usize, unique: bool) -> Compiler {
    let mut compiler = Compiler::new(Config {
        node: node.map(str::to_owned),
        ..Config::default()
    });
    for it in (0..NAMESPACES).map(namespace) {
        compiler.namespace(&it.metadata.name, Some(&it));
    }
    for it in (0..pods).map(|it| pod(it, unique)) {
        compiler.pod(&it.metadata.namespace, &it.metadata.name, Some(&it));
    }
    for it in (0..policies).map(policy) {
        let metadata = &it.metadata;
        compiler.network_policy(&metadata.namespace, &metadata.name, Some(&it));
    }
    compiler
}

/// Applies a change, and frees what it replaced.
fn settle(compiler: &mut Compiler) {
    black_box(compiler.sync());
    while let Some(mark) = compiler.mark() {
        compiler.passed(mark);
        black_box(compiler.sync());
    }
}

/// How long each takes.
fn each(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1000.0;
    format!(
        "p50 {:.3} ms, p99 {:.3} ms, worst {:.3} ms",
        at(50),
        at(99),
        at(100)
    )
}

fn put(compiler: &mut Compiler, policy: &NetworkPolicy) {
    let metadata = &policy.metadata;
    compiler.network_policy(&metadata.namespace, &metadata.name, Some(policy));
    settle(compiler);
}

/// Measures a changed policy: the minimum of a few rounds, so that other processes do not
/// count.
fn changed(compiler: &mut Compiler, before: &NetworkPolicy, after: &NetworkPolicy) -> Duration {
    let mut least = Duration::MAX;
    for _ in 0..3 {
        put(compiler, before);
        let start = Instant::now();
        put(compiler, after);
        least = least.min(start.elapsed());
    }
    least
}

fn changes(name: &str, compiler: &mut Compiler) {
    let mut times = Vec::new();
    for number in 0..500 {
        let it = pod(100_000 + number, true);
        let start = Instant::now();
        compiler.pod(&it.metadata.namespace, &it.metadata.name, Some(&it));
        settle(compiler);
        times.push(start.elapsed());
    }
    println!("{name}: a new pod: {}", each(times));
    let mut times = Vec::new();
    for number in 0..500 {
        let it = pod(100_000 + number, true);
        let start = Instant::now();
        compiler.pod(&it.metadata.namespace, &it.metadata.name, None);
        settle(compiler);
        times.push(start.elapsed());
    }
    println!("{name}: a pod goes: {}", each(times));
    let mut times = Vec::new();
    for number in 0..1000 {
        let before = policy(number);
        let mut after = before.clone();
        for rule in &mut after.spec.ingress {
            rule.ports.push(NetworkPolicyPort {
                port: Some(IntOrString::Int(20_000 + number as i64)),
                ..NetworkPolicyPort::default()
            });
        }
        after.spec.egress.push(NetworkPolicyEgress::default());
        times.push(changed(compiler, &before, &after));
    }
    println!("{name}: a policy changes: {}", each(times));
}

/// Policies of a node's one pod that each name a port of their own.
fn many_ports(policies: usize) {
    let with_port = |number: usize, port: usize| {
        let mut it = policy(NAMESPACES);
        it.metadata.name = format!("port{number}");
        it.spec.egress.push(NetworkPolicyEgress {
            to: Vec::new(),
            ports: vec![NetworkPolicyPort {
                protocol: None,
                port: Some(IntOrString::Int(port as i64)),
                end_port: None,
            }],
        });
        it.spec.policy_types = vec!["Egress".into()];
        it.metadata.namespace = format!("ns{}", 1 + number % (NAMESPACES - 1));
        it
    };
    let mut compiler = compiler(Some("here"), 1, 0, false);
    for number in 0..policies {
        put(&mut compiler, &with_port(number, 1 + number));
    }
    let mut times = Vec::new();
    for number in 0..policies.min(500) {
        let (before, after) = (
            with_port(number, 1 + number),
            with_port(number, 30_000 + number),
        );
        times.push(changed(&mut compiler, &before, &after));
    }
    println!(
        "{policies} policies with ports of their own: one changes: {}",
        each(times)
    );
}

fn main() {
    for (name, node) in [("one node", Some("here")), ("whole cluster", None)] {
        let mut best = Duration::MAX;
        let mut kept = None;
        for _ in 0..3 {
            drop(kept.take());
            let start = Instant::now();
            let mut it = compiler(node, 5000, 1000, false);
            let actions = it.sync();
            best = best.min(start.elapsed());
            println!("{name}: {} actions", actions.len());
            kept = Some(it);
        }
        let Some(mut it) = kept else { continue };
        println!(
            "{name}: 1 000 policies, 5 000 pods, cold, objects made too: {:.0} ms; {:?}",
            best.as_secs_f64() * 1000.0,
            it.sizes()
        );
        changes(name, &mut it);
    }
    for policies in [10, 1000, 10_000] {
        many_ports(policies);
    }
    let before = HELD.load(Ordering::Relaxed);
    let mut few = compiler(Some("here"), 5000, 1000, true);
    few.sync();
    let middle = HELD.load(Ordering::Relaxed);
    let mut many = compiler(Some("here"), 10_000, 1000, true);
    many.sync();
    let after = HELD.load(Ordering::Relaxed);
    println!("unique labels, 5 000 pods: {:?}", few.sizes());
    println!("unique labels, 10 000 pods: {:?}", many.sizes());
    println!(
        "memory: {} KB with 5 000 pods; {} bytes for each of 5 000 more",
        (middle - before) / 1024,
        (after - middle).saturating_sub(middle - before) / 5000
    );
}
