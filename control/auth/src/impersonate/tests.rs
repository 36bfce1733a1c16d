use futures::FutureExt;
use futures::future::BoxFuture;
use http::Method;
use http::request::Parts;

use super::*;
use crate::access::Notes;

/// Lets each user do what is listed: verb, resource, name.
struct Few(&'static [(&'static str, &'static str, &'static str, &'static str)]);

impl Access for Few {
    fn authenticate<'a>(
        &'a self,
        _parts: &'a Parts,
        _notes: Notes<'a>,
    ) -> BoxFuture<'a, Result<User, Status>> {
        futures::future::ready(Ok(User::anonymous())).boxed()
    }
}

impl control_registry::authorizer::Authorizer for Few {
    fn authorize(&self, attributes: &Attributes) -> Verdict {
        let what = (
            &*attributes.user.name,
            &*attributes.verb,
            &*attributes.resource,
            &*attributes.name,
        );
        if self.0.contains(&what) {
            Verdict::Allow
        } else {
            Verdict::Deny(String::new())
        }
    }
}

const ANN: Few = Few(&[
    ("ann", "impersonate", "users", "bob"),
    ("ann", "impersonate", "groups", "ops"),
    ("ann", "impersonate", "serviceaccounts", "robot"),
    ("kim", "impersonate-on:user-info:list", "pods", ""),
    ("kim", "impersonate:user-info", "users", "bob"),
    ("kim", "impersonate:user-info", "groups", "system:masters"),
    (
        "system:serviceaccount:a:csi",
        "impersonate-on:associated-node:list",
        "pods",
        "",
    ),
    (
        "system:serviceaccount:a:csi",
        "impersonate:associated-node",
        "nodes",
        "*",
    ),
]);

fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
    list.iter()
        .map(|(name, value)| {
            (
                name.parse().expect("a name"),
                value.parse().expect("a value"),
            )
        })
        .collect()
}

fn as_caller(
    caller: &User,
    list: &[(&'static str, &'static str)],
) -> Result<Impersonation, Status> {
    let wanted = wanted(&headers(list))?.expect("a user");
    let info = RequestInfo::parse(&Method::GET, "/api/v1/namespaces/a/pods", None);
    apply(&ANN, &RecentModes::default(), caller, wanted, &info)
        .now_or_never()
        .expect("nobody else is asked")
}

fn ask(caller: &str, list: &[(&'static str, &'static str)]) -> Result<User, Status> {
    as_caller(&User::named(caller, []), list).map(|made| made.user)
}

#[test]
fn who_may_act_as_another_becomes_that_other() {
    let bob = ask("ann", &[(USER, "bob"), (GROUP, "ops")]).expect("allowed");
    assert_eq!(
        (&*bob.name, &bob.groups[..]),
        ("bob", &["ops".to_owned(), AUTHENTICATED.to_owned()][..])
    );
    let robot = ask("ann", &[(USER, "system:serviceaccount:a:robot")]).expect("allowed");
    assert!(robot.is_in("system:serviceaccounts:a"));
    assert!(wanted(&headers(&[])).expect("nobody").is_none());
}

#[test]
fn who_may_not_is_refused_for_each_header() {
    for headers in [
        &[(USER, "root")][..],
        &[(USER, "bob"), (GROUP, "system:masters")],
        &[(USER, "bob"), (UID, "1")],
        &[(USER, "bob"), ("impersonate-extra-scopes", "all")],
    ] {
        assert_eq!(ask("ann", headers).expect_err("refused").code, 403);
    }
    let refused = ask("eve", &[(USER, "bob")]).expect_err("refused");
    assert_eq!(refused.code, 403);
    assert_eq!(
        refused.message,
        r#"pods is forbidden: User "eve" cannot impersonate-on:user-info:list resource "pods" in API group "" in the namespace "a""#
    );
    let without = wanted(&headers(&[(GROUP, "ops")])).expect_err("a group without a user");
    assert_eq!(
        (without.code, &*without.message),
        (
            400,
            r#"requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"ops"}, Extra:map[string][]string(nil)} without impersonating a user name"#
        )
    );
}

#[test]
fn a_constrained_right_holds_for_its_action_and_never_makes_a_master() {
    let made = as_caller(&User::named("kim", []), &[(USER, "bob")]).expect("allowed");
    assert_eq!(made.constraint, "impersonate:user-info");
    let wanted = wanted(&headers(&[(USER, "bob")]))
        .expect("right")
        .expect("a user");
    let other = RequestInfo::parse(&Method::DELETE, "/api/v1/namespaces/a/pods/x", None);
    let refused = apply(
        &ANN,
        &RecentModes::default(),
        &User::named("kim", []),
        wanted,
        &other,
    )
    .now_or_never();
    assert_eq!(refused.expect("now").expect_err("another action").code, 403);
    let master = ask("kim", &[(USER, "bob"), (GROUP, "system:masters")]).expect_err("refused");
    assert!(
        master
            .message
            .ends_with("impersonating the system:masters group is not allowed"),
        "{}",
        master.message
    );
}

#[test]
fn an_account_becomes_the_node_of_its_pod_and_no_other() {
    let mut csi = User::service_account("a", "csi", "");
    csi.extra
        .push((NODE_NAME.to_owned(), vec!["n1".to_owned()]));
    let made = as_caller(&csi, &[(USER, "system:node:n1")]).expect("allowed");
    assert_eq!(
        (&*made.user.name, made.user.node()),
        ("system:node:n1", Some("n1"))
    );
    assert_eq!(
        as_caller(&csi, &[(USER, "system:node:n2")])
            .expect_err("another node")
            .code,
        403
    );
}
