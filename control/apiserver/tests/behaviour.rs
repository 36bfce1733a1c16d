//! What clients rely on besides plain reading and writing: preconditions,
//! deletions step by step, pages, watches from their beginning, metadata alone,
//! rules about rules.

mod common;

use common::{ask, events, root, send, server};
use control_access::User;
use control_types::value;
use control_types::value::Value;
use http::Method;
use http_body_util::BodyExt;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str) -> Value {
    value!({"metadata": {"name": name, "labels": {"app": name}}, "data": {"a": "b"}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_another_version_or_object_is_a_conflict() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (server(dir.path()).await, root());
    let (code, made) = ask(&server, &root, Method::POST, MAPS, Some(map("m"))).await;
    assert_eq!(code, 201, "{made:?}");
    let one = format!("{MAPS}/m");
    for (metadata, refused) in [
        (value!({"resourceVersion": "1"}), (409, Some("Conflict"))),
        // A patched uid is no precondition but a change of what never changes.
        (
            value!({"uid": "00000000-0000-4000-8000-000000000000"}),
            (422, Some("Invalid")),
        ),
    ] {
        let patch = value!({"metadata": (metadata.clone()), "data": {"c": "d"}});
        let (code, refusal) = ask(&server, &root, Method::PATCH, &one, Some(patch)).await;
        assert_eq!((code, refusal.str_at(&["reason"])), refused, "{metadata:?}");
        let member = if metadata.get("uid").is_some() {
            "uid"
        } else {
            "resourceVersion"
        };
        let named = metadata.str_at(&[member]).unwrap_or_default();
        let delete =
            value!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {member: named}});
        let (code, _) = ask(&server, &root, Method::DELETE, &one, Some(delete)).await;
        assert_eq!(code, 409, "{metadata:?}");
    }
    let right = value!({"metadata": {
        "resourceVersion": (made.str_at(&["metadata", "resourceVersion"]).unwrap_or_default()),
        "uid": (made.str_at(&["metadata", "uid"]).unwrap_or_default())
    }, "data": {"c": "d"}});
    let (code, _) = ask(&server, &root, Method::PATCH, &one, Some(right)).await;
    assert_eq!(code, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_waits_for_finalizers_and_for_pods_to_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (server(dir.path()).await, root());
    for (query, body, finalizer) in [
        ("?propagationPolicy=Orphan", None, "orphan"),
        ("?orphanDependents=true", None, "orphan"),
        (
            "",
            Some(value!({"propagationPolicy": "Foreground"})),
            "foregroundDeletion",
        ),
    ] {
        let (code, _) = ask(&server, &root, Method::POST, MAPS, Some(map("m"))).await;
        assert_eq!(code, 201);
        let one = format!("{MAPS}/m");
        let (_, left) = ask(
            &server,
            &root,
            Method::DELETE,
            &format!("{one}{query}"),
            body,
        )
        .await;
        assert_eq!(
            left.items_at(&["metadata", "finalizers"]),
            [Value::from(finalizer)]
        );
        assert!(left.str_at(&["metadata", "deletionTimestamp"]).is_some());
        let done = value!({"metadata": {"finalizers": null}});
        let (code, _) = ask(&server, &root, Method::PATCH, &one, Some(done)).await;
        assert_eq!(code, 200);
        let (code, _) = ask(&server, &root, Method::GET, &one, None).await;
        assert_eq!(code, 404, "the last finalizer ended it");
    }

    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = value!({"metadata": {"name": "default"}});
    ask(&server, &root, Method::POST, accounts, Some(account)).await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = value!({
        "metadata": {"name": "p"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    });
    let (code, answer) = ask(&server, &root, Method::POST, pods, Some(pod)).await;
    assert_eq!(code, 201, "{answer:?}");
    let one = format!("{pods}/p");
    for (query, left) in [
        ("", 30),
        ("?gracePeriodSeconds=5", 5),
        ("?gracePeriodSeconds=9", 5),
    ] {
        let (code, pod) = ask(
            &server,
            &root,
            Method::DELETE,
            &format!("{one}{query}"),
            None,
        )
        .await;
        let grace = pod.i64_at(&["metadata", "deletionGracePeriodSeconds"]);
        assert_eq!((code, grace), (200, Some(left)), "{query}");
    }
    let (code, _) = ask(
        &server,
        &root,
        Method::DELETE,
        &format!("{one}?gracePeriodSeconds=0"),
        None,
    )
    .await;
    assert_eq!(code, 200);
    assert_eq!(ask(&server, &root, Method::GET, &one, None).await.0, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_shows_that_a_pod_ends_before_it_is_gone() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (server(dir.path()).await, root());
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = value!({"metadata": {"name": "default"}});
    ask(&server, &root, Method::POST, accounts, Some(account)).await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = value!({
        "metadata": {"name": "p"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    });
    let (code, made) = ask(&server, &root, Method::POST, pods, Some(pod)).await;
    assert_eq!(code, 201, "{made:?}");
    let version = made.str_at(&["metadata", "resourceVersion"]);
    let version = version.expect("a version");
    let now = format!("{pods}/p?gracePeriodSeconds=0");
    let (code, last) = ask(&server, &root, Method::DELETE, &now, None).await;
    assert_eq!(code, 200);
    let path = format!("{pods}?watch=1&resourceVersion={version}");
    let seen = events(send(&server, &root, Method::GET, &path, &[], None).await).await;
    let kinds: Vec<_> = seen.iter().map(|event| event.str_at(&["type"])).collect();
    assert_eq!(kinds, [Some("MODIFIED"), Some("DELETED")]);
    for event in &seen {
        let of = |member| event.i64_at(&["object", "metadata", member]);
        assert_eq!(of("deletionGracePeriodSeconds"), Some(0));
        assert_eq!(of("generation"), Some(2));
        let at = event.str_at(&["object", "metadata", "deletionTimestamp"]);
        assert!(at.is_some());
    }
    let of_last = seen[1].str_at(&["object", "metadata", "resourceVersion"]);
    assert_eq!(last.str_at(&["metadata", "resourceVersion"]), of_last);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_in_pages_is_one_state_and_a_watch_goes_on_from_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (server(dir.path()).await, root());
    for name in ["a", "b", "c"] {
        ask(&server, &root, Method::POST, MAPS, Some(map(name))).await;
    }
    let (_, first) = ask(
        &server,
        &root,
        Method::GET,
        &format!("{MAPS}?limit=2"),
        None,
    )
    .await;
    assert_eq!(first.items_at(&["items"]).len(), 2);
    assert_eq!(first.i64_at(&["metadata", "remainingItemCount"]), Some(1));
    let version = first
        .str_at(&["metadata", "resourceVersion"])
        .expect("a version")
        .to_owned();
    ask(&server, &root, Method::DELETE, &format!("{MAPS}/c"), None).await;
    let token = first.str_at(&["metadata", "continue"]).expect("a token");
    let rest = format!("{MAPS}?limit=2&continue={token}");
    let (_, rest) = ask(&server, &root, Method::GET, &rest, None).await;
    assert_eq!(rest.items_at(&["items"]).len(), 1, "c was there then");
    assert_eq!(
        rest.str_at(&["metadata", "resourceVersion"]),
        Some(version.as_str())
    );

    let watch = format!("{MAPS}?watch=1&resourceVersion={version}");
    let seen = events(send(&server, &root, Method::GET, &watch, &[], None).await).await;
    let seen: Vec<_> = seen
        .iter()
        .map(|event| {
            (
                event.str_at(&["type"]),
                event.str_at(&["object", "metadata", "name"]),
            )
        })
        .collect();
    assert_eq!(seen, [(Some("DELETED"), Some("c"))]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_says_where_its_beginning_ends() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (server(dir.path()).await, root());
    ask(&server, &root, Method::POST, MAPS, Some(map("a"))).await;
    let query =
        "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    for (headers, kind) in [
        (vec![], "ConfigMap"),
        (vec![("accept", accept)], "PartialObjectMetadata"),
    ] {
        let path = format!("{MAPS}?{query}");
        let seen = events(send(&server, &root, Method::GET, &path, &headers, None).await).await;
        assert_eq!(seen.len(), 2, "{seen:?}");
        assert_eq!(seen[0].str_at(&["type"]), Some("ADDED"));
        assert_eq!(seen[1].str_at(&["type"]), Some("BOOKMARK"));
        for event in &seen {
            assert_eq!(event.str_at(&["object", "kind"]), Some(kind));
            assert_eq!(
                event.path(&["object", "data"]).is_some(),
                kind == "ConfigMap" && event.str_at(&["type"]) == Some("ADDED")
            );
        }
        let end = [
            "object",
            "metadata",
            "annotations",
            "k8s.io/initial-events-end",
        ];
        assert_eq!(seen[1].str_at(&end), Some("true"));
    }
    let short = format!("{MAPS}?watch=1&timeoutSeconds=0&resourceVersion=0");
    let seen = events(send(&server, &root, Method::GET, &short, &[], None).await).await;
    assert_eq!(seen.len(), 1, "the present state, then the end");
    let list = send(
        &server,
        &root,
        Method::GET,
        MAPS,
        &[(
            "accept",
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        )],
        None,
    )
    .await;
    let bytes = list.into_body().collect().await.expect("a body").to_bytes();
    let list = Value::from_slice(&bytes).expect("JSON");
    assert_eq!(list.str_at(&["kind"]), Some("PartialObjectMetadataList"));
    let item = &list.items_at(&["items"])[0];
    assert_eq!(item.str_at(&["metadata", "labels", "app"]), Some("a"));
    assert_eq!(item.get("data"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_grants_more_than_they_have() {
    const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (server(dir.path()).await, root());
    let ann = User::named("ann", ["system:authenticated"]);
    let roles = format!("{RBAC}/namespaces/default/roles");
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    let role = |name: &str, verbs: Value| value!({"metadata": {"name": name}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": (verbs)}]});
    let writer = value!({"metadata": {"name": "writer"}, "rules": [
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["*"], "resourceNames": []},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    ]});
    // Without `escalate` and `bind`, which `*` would include.
    let mut writer = writer;
    let verbs = value!(["create", "update", "patch"]);
    if let Some(rules) = writer.path_mut(&["rules"]).and_then(Value::as_array_mut) {
        rules[0].insert("verbs", verbs);
    }
    assert_eq!(
        ask(&server, &root, Method::POST, &roles, Some(writer))
            .await
            .0,
        201
    );
    let bind = |name: &str, role: &str| {
        value!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}]
        })
    };
    assert_eq!(
        ask(
            &server,
            &root,
            Method::POST,
            &bindings,
            Some(bind("ann", "writer"))
        )
        .await
        .0,
        201
    );
    let strong = role("strong", value!(["get", "delete"]));
    assert_eq!(
        ask(&server, &root, Method::POST, &roles, Some(strong.clone()))
            .await
            .0,
        201
    );

    let mut code = 0;
    for _ in 0..1000 {
        (code, _) = ask(
            &server,
            &ann,
            Method::POST,
            &roles,
            Some(role("own", value!(["get"]))),
        )
        .await;
        if code == 201 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(code, 201, "what ann has she may give");
    let (code, refusal) = ask(
        &server,
        &ann,
        Method::POST,
        &roles,
        Some(role("more", value!(["get", "delete"]))),
    )
    .await;
    assert_eq!(code, 403);
    assert_eq!(
        refusal.str_at(&["message"]),
        Some(
            "roles.rbac.authorization.k8s.io \"more\" is forbidden: user \"ann\" (groups=[\"system:authenticated\"]) \
             is attempting to grant RBAC permissions not currently held:\n\
             {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\"]}"
        )
    );
    let patch =
        value!({"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]});
    let (code, _) = ask(
        &server,
        &ann,
        Method::PATCH,
        &format!("{roles}/own"),
        Some(patch),
    )
    .await;
    assert_eq!(code, 403, "by no change either");
    // A role that was just made is looked up where access keeps its roles, which
    // may hear of it a moment later.
    let bound = async |name: &str, role: &str| {
        let mut answer = (0, Value::Null);
        for _ in 0..1000 {
            let binding = Some(bind(name, role));
            answer = ask(&server, &ann, Method::POST, &bindings, binding).await;
            if answer.0 != 404 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        answer
    };
    let (code, answer) = bound("b", "strong").await;
    assert_eq!(code, 403, "nor by a binding: {answer:?}");
    let (code, answer) = bound("c", "own").await;
    assert_eq!(code, 201, "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verifiers_of_tokens_find_the_keys() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path()).await;
    let account = User::named(
        "system:serviceaccount:default:x",
        ["system:serviceaccounts"],
    );
    let path = "/.well-known/openid-configuration";
    let (code, provider) = ask(&server, &account, Method::GET, path, None).await;
    assert_eq!(code, 200, "{provider:?}");
    let keys = provider
        .str_at(&["jwks_uri"])
        .expect("an address")
        .to_owned();
    let path = keys
        .strip_prefix("https://127.0.0.1:6443")
        .expect("this server");
    let answer = send(&server, &account, Method::GET, path, &[], None).await;
    assert_eq!(answer.headers()["content-type"], "application/jwk-set+json");
    let bytes = answer
        .into_body()
        .collect()
        .await
        .expect("a body")
        .to_bytes();
    let keys = Value::from_slice(&bytes).expect("JSON");
    assert_eq!(keys.items_at(&["keys"]).len(), 1);
    let (code, _) = ask(&server, &User::anonymous(), Method::GET, path, None).await;
    assert_eq!(code, 403);
}
