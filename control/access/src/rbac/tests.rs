use control_types::value;

use super::*;

fn role(kind: &str, namespace: &str, name: &str, rule: Value) -> Value {
    value!({
        "kind": kind,
        "metadata": { "namespace": namespace, "name": name },
        "rules": [rule],
    })
}

fn binding(kind: &str, namespace: &str, name: &str, role: (&str, &str), subject: Value) -> Value {
    value!({
        "kind": kind,
        "metadata": { "namespace": namespace, "name": name },
        "roleRef": { "kind": role.0, "name": role.1 },
        "subjects": [subject],
    })
}

fn ask(user: &User, verb: &str, what: &str, namespace: &str, name: &str) -> Attributes {
    let (resource, subresource) = what.split_once('/').unwrap_or((what, ""));
    Attributes {
        user: user.clone(),
        verb: verb.to_owned(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        is_resource_request: true,
        ..Attributes::default()
    }
}

fn reader() -> Value {
    value!({ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"] })
}

#[test]
fn a_role_binding_grants_a_cluster_role_in_its_namespace_only() {
    let rbac = Rbac::new(&[
        role("ClusterRole", "", "reader", reader()),
        binding(
            "RoleBinding",
            "a",
            "b",
            ("ClusterRole", "reader"),
            value!({ "kind": "User", "name": "ann" }),
        ),
    ]);
    let ann = User::named("ann", []);
    let why = rbac
        .explain(&ask(&ann, "get", "pods", "a", "x"))
        .expect("allowed");
    assert_eq!(
        why,
        r#"RBAC: allowed by RoleBinding "b/a" of ClusterRole "reader" to User "ann""#
    );
    for no in [
        ask(&ann, "get", "pods", "b", "x"),
        ask(&ann, "get", "pods", "", "x"),
        ask(&ann, "list", "pods", "a", ""),
        ask(&ann, "get", "pods/log", "a", "x"),
        ask(&ann, "get", "secrets", "a", "x"),
        ask(&User::named("bob", []), "get", "pods", "a", "x"),
    ] {
        assert!(!rbac.allows(&no), "{no:?}");
        assert_eq!(rbac.explain(&no), Err(RbacDenial::default()));
    }
}

#[test]
fn a_role_of_another_namespace_cannot_be_bound() {
    let subject = value!({ "kind": "User", "name": "ann" });
    let rbac = Rbac::new(&[
        role("Role", "a", "reader", reader()),
        binding("RoleBinding", "b", "b", ("Role", "reader"), subject.clone()),
        binding("ClusterRoleBinding", "", "c", ("Role", "reader"), subject),
    ]);
    let ann = User::named("ann", []);
    for namespace in ["a", "b", ""] {
        assert!(!rbac.allows(&ask(&ann, "get", "pods", namespace, "x")));
    }
}

#[test]
fn a_service_account_without_namespace_is_of_the_bindings_namespace() {
    let subject = value!({ "kind": "ServiceAccount", "name": "robot" });
    let rbac = Rbac::new(&[
        role("ClusterRole", "", "reader", reader()),
        binding(
            "RoleBinding",
            "a",
            "b",
            ("ClusterRole", "reader"),
            subject.clone(),
        ),
        binding(
            "ClusterRoleBinding",
            "",
            "c",
            ("ClusterRole", "reader"),
            subject,
        ),
    ]);
    let robot = User::service_account("a", "robot", "");
    assert_eq!(
        rbac.explain(&ask(&robot, "get", "pods", "a", "x")),
        Ok(r#"RBAC: allowed by RoleBinding "b/a" of ClusterRole "reader" to ServiceAccount "robot/a""#.to_owned())
    );
    assert!(!rbac.allows(&ask(&robot, "get", "pods", "b", "x")));
}

#[test]
fn what_changes_takes_effect_and_what_is_removed_grants_nothing() {
    let subject = value!({ "kind": "Group", "name": "ops" });
    let bound = binding(
        "ClusterRoleBinding",
        "",
        "c",
        ("ClusterRole", "reader"),
        subject,
    );
    let rbac = Rbac::new([&bound]);
    let user = User::named("ann", ["ops"]);
    let question = ask(&user, "get", "pods", "", "x");
    assert_eq!(
        rbac.explain(&question).expect_err("no role").to_string(),
        r#"RBAC: clusterrole.rbac.authorization.k8s.io "reader" not found"#
    );
    rbac.set(
        PolicyKind::ClusterRole,
        &role("ClusterRole", "", "reader", reader()),
    );
    assert!(rbac.allows(&question));
    let other = value!({ "kind": "Group", "name": "dev" });
    rbac.set(
        PolicyKind::ClusterRoleBinding,
        &binding(
            "ClusterRoleBinding",
            "",
            "c",
            ("ClusterRole", "reader"),
            other,
        ),
    );
    assert!(!rbac.allows(&question), "the old subject is gone");
    rbac.set(PolicyKind::ClusterRoleBinding, &bound);
    assert!(rbac.allows(&question));
    rbac.remove(PolicyKind::ClusterRoleBinding, "", "c");
    assert!(!rbac.allows(&question));
}

#[test]
fn names_subresources_and_paths_match_as_documented() {
    let user = User::named("ann", []);
    let allows = |rule: Value, question: &Attributes| Rule::from_value(&rule).allows(question);
    let scale = value!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*/scale"] });
    assert!(allows(
        scale.clone(),
        &ask(&user, "get", "deployments/scale", "a", "x")
    ));
    assert!(!allows(scale, &ask(&user, "get", "deployments", "a", "x")));
    let named = value!({ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["x"] });
    assert!(allows(named.clone(), &ask(&user, "get", "pods", "a", "x")));
    assert!(!allows(named, &ask(&user, "get", "pods", "a", "")));
    let path = |path: &str| Attributes {
        verb: "get".to_owned(),
        path: path.to_owned(),
        ..Attributes::default()
    };
    let urls = value!({ "verbs": ["get"], "nonResourceURLs": ["/healthz", "/api/*"] });
    assert!(allows(urls.clone(), &path("/healthz")) && allows(urls.clone(), &path("/api/v1")));
    assert!(!allows(urls.clone(), &path("/healthz/x")) && !allows(urls, &path("/apis")));
    // A rule for resources never opens a path, and the other way round.
    let all = value!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] });
    assert!(!allows(all, &path("/metrics")));
    let all_paths = value!({ "verbs": ["*"], "nonResourceURLs": ["*"] });
    assert!(!allows(all_paths, &ask(&user, "get", "pods", "a", "x")));
}

/// Bounded generously: a busy machine and an unoptimised build. The measure is
/// that of `benches/rbac.rs`.
#[test]
fn a_decision_does_not_look_at_the_bindings_of_others() {
    let mut objects = vec![role("ClusterRole", "", "reader", reader())];
    for at in 0..10_000 {
        objects.push(binding(
            "ClusterRoleBinding",
            "",
            &format!("b{at}"),
            ("ClusterRole", "reader"),
            value!({ "kind": "User", "name": (format!("user-{at}")) }),
        ));
    }
    let rbac = Rbac::new(&objects);
    let user = User::named("user-77", ["dev", "ops"]);
    let yes = ask(&user, "get", "pods", "a", "x");
    let no = ask(&user, "delete", "pods", "a", "x");
    let began = std::time::Instant::now();
    for _ in 0..1000 {
        assert!(rbac.allows(&yes) && !rbac.allows(&no));
    }
    let each = began.elapsed() / 2000;
    assert!(each.as_micros() < 200, "{each:?}");
}

#[test]
fn many_bindings_of_one_role_go_one_by_one() {
    let everybody = value!({ "kind": "Group", "name": "system:authenticated" });
    let bind = |name: &str| {
        binding(
            "ClusterRoleBinding",
            "",
            name,
            ("ClusterRole", "reader"),
            everybody.clone(),
        )
    };
    let rbac = Rbac::new(&[
        role("ClusterRole", "", "reader", reader()),
        bind("a"),
        bind("b"),
    ]);
    let question = ask(&User::named("ann", []), "get", "pods", "n", "x");
    // The same binding again counts once.
    rbac.set(PolicyKind::ClusterRoleBinding, &bind("b"));
    assert!(rbac.allows(&question));
    rbac.remove(PolicyKind::ClusterRoleBinding, "", "a");
    assert!(rbac.allows(&question), "the other one still binds");
    rbac.remove(PolicyKind::ClusterRoleBinding, "", "b");
    assert!(!rbac.allows(&question));
}

/// Not a benchmark (that is `benches/rbac.rs`): only that the number of bindings is
/// not what a decision costs.
#[test]
fn ten_thousand_bindings_of_a_group_cost_no_more_than_a_few() {
    let bindings: Vec<Value> = (0..10_000)
        .map(|at| {
            let everybody = value!({ "kind": "Group", "name": "system:authenticated" });
            binding(
                "ClusterRoleBinding",
                "",
                &format!("b{at}"),
                ("ClusterRole", "reader"),
                everybody,
            )
        })
        .collect();
    let rbac = Rbac::new(
        bindings
            .iter()
            .chain(&[role("ClusterRole", "", "reader", reader())]),
    );
    let question = ask(&User::named("ann", []), "delete", "pods", "n", "x");
    let mut took: Vec<_> = (0..1000)
        .map(|_| {
            let began = std::time::Instant::now();
            assert!(!rbac.allows(&question));
            began.elapsed()
        })
        .collect();
    took.sort_unstable();
    // Unoptimised, and beside other tests: ten times what the bench allows. Looking at
    // all bindings takes milliseconds.
    assert!(took[500].as_micros() <= 200, "{:?}", took[500]);
}
