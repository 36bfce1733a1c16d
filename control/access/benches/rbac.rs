//! Measures the time of single RBAC decisions with 10 000 bindings:
//!
//! ```text
//! cargo bench -p control-access --bench rbac
//! ```
//!
//! It ends with an error if the 99th percentile of any question exceeds 20 µs.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use control_access::{Attributes, Rbac, User, bootstrap};
use control_types::value;
use control_types::value::Value;

/// How many decisions of each kind are measured.
const DECISIONS: usize = 100_000;
/// The limit of the 99th percentile.
const MOST: Duration = Duration::from_micros(20);

/// Returns a binding; half of them are in namespaces, half cluster-wide.
fn binding(at: usize) -> Value {
    let (kind, namespace) = if at.is_multiple_of(2) {
        ("ClusterRoleBinding", String::new())
    } else {
        ("RoleBinding", format!("ns-{}", at % 100))
    };
    value!({
        "kind": kind,
        "metadata": { "name": (format!("b-{at}")), "namespace": namespace },
        "roleRef": { "kind": "ClusterRole", "name": "edit" },
        "subjects": [
            { "kind": "User", "name": (format!("user-{}", at / 4)) },
            { "kind": "Group", "name": (format!("group-{}", at % 500)) }
        ]
    })
}

/// All of one group, in the cluster: the worst that can be configured.
fn same(at: usize) -> Value {
    value!({
        "kind": "ClusterRoleBinding",
        "metadata": { "name": (format!("s-{at}")) },
        "roleRef": { "kind": "ClusterRole", "name": "view" },
        "subjects": [{ "kind": "Group", "name": "everybody" }]
    })
}

fn ask(groups: &[&str], verb: &str, namespace: &str, name: &str) -> Attributes {
    Attributes {
        user: User::named("user-77", groups.iter().copied()),
        verb: verb.to_owned(),
        resource: "pods".to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        is_resource_request: true,
        ..Attributes::default()
    }
}

fn main() -> ExitCode {
    let mut objects = bootstrap::objects();
    objects.extend((0..10_000).map(binding));
    let spread = Rbac::new(&objects);
    let mut objects = bootstrap::objects();
    objects.extend((0..10_000).map(same));
    let heaped = Rbac::new(&objects);
    let groups = ["group-1", "group-2", "group-3"];
    let mut good = true;
    println!(
        "{:42} {:>10} {:>10} {:>10}",
        "10 000 bindings", "p50", "p99", "p99.9"
    );
    for (name, rbac, question, expected) in [
        ("allowed", &spread, ask(&groups, "list", "ns-1", ""), true),
        (
            "refused in a namespace",
            &spread,
            ask(&groups, "impersonate", "ns-1", "x"),
            false,
        ),
        (
            "refused in the cluster",
            &spread,
            ask(&groups, "impersonate", "", "x"),
            false,
        ),
        (
            "refused, all bindings of the user's group",
            &heaped,
            ask(&["everybody"], "impersonate", "", "x"),
            false,
        ),
    ] {
        assert_eq!(rbac.allows(&question), expected, "{name}");
        let mut took: Vec<Duration> = (0..DECISIONS)
            .map(|_| {
                let began = Instant::now();
                black_box(rbac.allows(black_box(&question)));
                began.elapsed()
            })
            .collect();
        took.sort_unstable();
        let part = |per_mille: usize| took[DECISIONS * per_mille / 1000];
        good &= part(990) <= MOST;
        let shown = [500, 990, 999].map(|at| format!("{:.2?}", part(at)));
        println!(
            "{name:42} {:>10} {:>10} {:>10}",
            shown[0], shown[1], shown[2]
        );
    }
    if good {
        return ExitCode::SUCCESS;
    }
    eprintln!("the 99th percentile is above {MOST:?}");
    ExitCode::FAILURE
}
