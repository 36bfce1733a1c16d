//! What a decision costs with 10 000 bindings: `cargo bench -p control-access`.
//! The median of the worst of the three is to stay below 20 µs.

use std::hint::black_box;

use control_access::{Attributes, Rbac, User, bootstrap};
use control_types::value;
use control_types::value::Value;
use criterion::{Criterion, criterion_group, criterion_main};

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

fn ask(verb: &str, namespace: &str, name: &str) -> Attributes {
    Attributes {
        user: User::named("user-77", ["group-1", "group-2", "group-3"]),
        verb: verb.to_owned(),
        resource: "pods".to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        is_resource_request: true,
        ..Attributes::default()
    }
}

fn decisions(bench: &mut Criterion) {
    let mut objects = bootstrap::objects();
    objects.extend((0..10_000).map(binding));
    let rbac = Rbac::new(&objects);
    for (name, question, expected) in [
        ("allowed", ask("list", "ns-1", ""), true),
        ("refused", ask("impersonate", "ns-1", "x"), false),
        ("refused everywhere", ask("impersonate", "", "x"), false),
    ] {
        assert_eq!(rbac.allows(&question), expected, "{name}");
        bench.bench_function(name, |bench| {
            bench.iter(|| black_box(rbac.allows(black_box(&question))));
        });
    }
}

criterion_group!(benches, decisions);
criterion_main!(benches);
