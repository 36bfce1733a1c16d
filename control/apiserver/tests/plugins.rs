//! Admission plugins that are off unless turned on, and usual ones turned off, as
//! clients meet them.

mod common;
#[path = "common/webhook.rs"]
mod webhook;

use std::path::Path;
use std::sync::Arc;

use common::{ask, root};
use control_access::User;
use control_admission::{Plugins, Settings, Stay};
use control_apiserver::ApiServer;
use control_apiserver::chain;
use control_audit::{Audit, LogOptions, Mode, Policy, SinkOptions, SinkTarget};
use control_auth::Settings as Access;
use control_types::value;
use control_types::value::Value;
use http::Method;
use webhook::{Fake, Reply};

/// An audit log of who writes, which is complete when a request is answered.
fn audit(path: &Path) -> Arc<Audit> {
    let policy = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata, verbs: [create, patch]}]}";
    let policy = Policy::parse(policy.as_bytes()).expect("a policy");
    let log = SinkOptions {
        to: SinkTarget::Log(LogOptions {
            path: path.to_owned(),
            ..LogOptions::default()
        }),
        mode: Mode::BlockingStrict,
        truncate: None,
    };
    Audit::open(policy, [log]).expect("a log")
}

/// A server with these plugins besides the usual ones, without those, and with this
/// configuration.
async fn server(dir: &Path, on: &[&str], off: &[&str], file: Option<&str>) -> ApiServer {
    let names = |list: &[&str]| {
        list.iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>()
    };
    let plugins = Plugins::choose(&names(on), &names(off)).expect("known");
    let path = dir.join("admission.yaml");
    if let Some(text) = file {
        let head =
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n";
        std::fs::write(&path, format!("{head}{text}")).expect("written");
    }
    let settings = Settings::new(plugins, Stay::default(), file.map(|_| &*path)).expect("right");
    let chain = chain::Settings {
        admission: Arc::new(settings),
        audit: Some(audit(&dir.join("audit.log"))),
        ..chain::Settings::default()
    };
    let server = common::server_of(dir, Access::default(), chain).await;
    let account = value!({"metadata": {"name": "default"}});
    let path = "/api/v1/namespaces/default/serviceaccounts";
    post(&server, path, account).await.expect("made");
    server
}

async fn post(server: &ApiServer, path: &str, object: Value) -> Result<Value, (u16, String)> {
    post_as(server, &root(), path, object).await
}

async fn post_as(
    server: &ApiServer,
    user: &User,
    path: &str,
    object: Value,
) -> Result<Value, (u16, String)> {
    let (code, answer) = ask(server, user, Method::POST, path, Some(object)).await;
    match code {
        201 => Ok(answer),
        _ => Err((
            code,
            answer.str_at(&["message"]).unwrap_or_default().to_owned(),
        )),
    }
}

async fn patch(
    server: &ApiServer,
    user: &User,
    path: &str,
    change: Value,
) -> Result<Value, (u16, String)> {
    let (code, answer) = ask(server, user, Method::PATCH, path, Some(change)).await;
    match code {
        200 => Ok(answer),
        _ => Err((
            code,
            answer.str_at(&["message"]).unwrap_or_default().to_owned(),
        )),
    }
}

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = value!({"metadata": {"name": (name)}});
    let mut spec = spec;
    spec.insert(
        "containers",
        value!([{
            "name": "c", "image": "i", "imagePullPolicy": "Never",
            "resources": {"limits": {"example.com/gpu": "1"}}
        }]),
    );
    pod.insert("spec", spec);
    pod
}

const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_get_what_plugins_give_and_keep_to_what_they_want() {
    let dir = tempfile::tempdir().expect("a directory");
    let on = [
        "AlwaysPullImages",
        "ExtendedResourceToleration",
        "LimitPodHardAntiAffinityTopology",
        "PodNodeSelector",
        "PodTolerationRestriction",
    ];
    let file = "- name: PodNodeSelector\n  configuration: {podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: 'disk=ssd'}}\n";
    let server = server(dir.path(), &on, &[], Some(file)).await;
    let made = post(&server, PODS, pod("a", value!({})))
        .await
        .expect("made");
    assert_eq!(
        made.items_at(&["spec", "containers"])[0].str_at(&["imagePullPolicy"]),
        Some("Always")
    );
    assert_eq!(
        made.path(&["spec", "nodeSelector"]),
        Some(&value!({"disk": "ssd"}))
    );
    let keys: Vec<_> = made
        .items_at(&["spec", "tolerations"])
        .iter()
        .filter_map(|one| one.str_at(&["key"]))
        .collect();
    // In the order of the plugins; the quality of service is not the least.
    assert_eq!(
        keys[..2],
        [
            "node.kubernetes.io/not-ready",
            "node.kubernetes.io/unreachable"
        ]
    );
    assert_eq!(keys.last(), Some(&"example.com/gpu"));
    let other = pod("b", value!({"nodeSelector": {"disk": "hdd"}}));
    assert_eq!(
        post(&server, PODS, other).await.expect_err("refused"),
        (403, "pods \"b\" is forbidden: pod node label selector conflicts with its namespace node label selector".to_owned())
    );
    let term = value!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}});
    let zone = value!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}});
    assert_eq!(
        post(&server, PODS, pod("b", zone)).await.expect_err("refused"),
        (403, "pods \"b\" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key kubernetes.io/hostname is allowed".to_owned())
    );
    // What the namespace says wins.
    let says = value!({"metadata": {"annotations": {
        "scheduler.alpha.kubernetes.io/node-selector": "zone=a",
        "scheduler.alpha.kubernetes.io/defaultTolerations": "[{\"key\":\"team\",\"operator\":\"Exists\"}]",
        "scheduler.alpha.kubernetes.io/tolerationsWhitelist": "[{\"key\":\"team\",\"operator\":\"Exists\"}]"
    }}});
    patch(&server, &root(), "/api/v1/namespaces/default", says)
        .await
        .expect("patched");
    let (code, _) = ask(
        &server,
        &root(),
        Method::GET,
        "/api/v1/namespaces/default",
        None,
    )
    .await;
    assert_eq!(code, 200);
    assert_eq!(
        post(&server, PODS, pod("c", value!({}))).await.expect_err("refused"),
        (500, "pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist".to_owned())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_get_no_external_addresses_that_they_had_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path(), &["DenyServiceExternalIPs"], &[], None).await;
    let services = "/api/v1/namespaces/default/services";
    let service = value!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    post(&server, services, service).await.expect("made");
    let change = value!({"spec": {"externalIPs": ["192.0.2.1"]}});
    assert_eq!(
        patch(&server, &root(), &format!("{services}/s"), change)
            .await
            .expect_err("refused"),
        (
            403,
            "services \"s\" is forbidden: Use of external IPs is denied by admission control"
                .to_owned()
        )
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_limited_in_both_groups() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = "- name: EventRateLimit\n  configuration: {apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: [{type: Namespace, qps: 1, burst: 3}]}\n";
    let server = server(dir.path(), &["EventRateLimit"], &[], Some(file)).await;
    let events = "/api/v1/namespaces/default/events";
    let event = |name: &str| {
        value!({
            "metadata": {"name": (name)},
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}, "reason": "R", "type": "Normal"
        })
    };
    let dry = format!("{events}?dryRun=All");
    for _ in 0..5 {
        post(&server, &dry, event("dry"))
            .await
            .expect("a dry run takes nothing");
    }
    let mut refused = None;
    for at in 0..5 {
        if let Err(why) = post(&server, events, event(&format!("e{at}"))).await {
            refused.get_or_insert((at, why));
        }
    }
    let told = "Too many requests: limit reached on type Namespace for key default";
    assert_eq!(refused, Some((3, (429, told.to_owned()))));
    let newer = value!({
        "metadata": {"name": "new"}, "eventTime": "2026-01-01T00:00:00.000000Z", "reason": "R", "type": "Normal",
        "action": "A", "reportingController": "a.b/c", "reportingInstance": "i",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"}
    });
    let path = "/apis/events.k8s.io/v1/namespaces/default/events";
    assert_eq!(
        post(&server, path, newer).await.expect_err("too many"),
        (429, told.to_owned())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_names_owners_could_delete_and_finalize() {
    let dir = tempfile::tempdir().expect("a directory");
    let on = ["OwnerReferencesPermissionEnforcement"];
    let server = server(dir.path(), &on, &[], None).await;
    let api = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    post(&server, &format!("{api}/roles"), value!({
        "metadata": {"name": "maps"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "get", "patch"]}]
    })).await.expect("made");
    post(
        &server,
        &format!("{api}/rolebindings"),
        value!({
            "metadata": {"name": "maps"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "maps"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve"}]
        }),
    )
    .await
    .expect("made");
    let eve = User::named("eve", []);
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = |name: &str, owner: Option<(&str, bool)>| {
        let mut map = value!({"metadata": {"name": (name)}});
        if let Some((kind, blocks)) = owner {
            map.set_path(&["metadata", "ownerReferences"], value!([{
                "apiVersion": "v1", "kind": kind, "name": "o", "uid": "u", "blockOwnerDeletion": blocks
            }]));
        }
        map
    };
    for _ in 0..200 {
        if post_as(&server, &eve, maps, map("plain", None))
            .await
            .is_ok()
        {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    post_as(&server, &eve, maps, map("owned", Some(("Secret", false))))
        .await
        .expect("a new thing may have any owner");
    assert_eq!(
        post_as(&server, &eve, maps, map("blocks", Some(("Secret", true)))).await.expect_err("refused"),
        (403, "configmaps \"blocks\" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>".to_owned())
    );
    assert_eq!(
        post_as(&server, &eve, maps, map("blocks", Some(("Unheard", true))))
            .await
            .expect_err("refused")
            .1,
        "configmaps \"blocks\" is forbidden: cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion v1 Kind Unheard: no matches for kind \"Unheard\" in version \"v1\""
    );
    let path = format!("{maps}/plain");
    let change = map("plain", Some(("Secret", false)));
    assert_eq!(
        patch(&server, &eve, &path, change.clone()).await.expect_err("refused"),
        (403, "configmaps \"plain\" is forbidden: cannot set an ownerRef on a resource you can't delete: , <nil>".to_owned())
    );
    patch(&server, &eve, &path, value!({"data": {"a": "b"}}))
        .await
        .expect("owners stay");
    patch(&server, &root(), &path, change)
        .await
        .expect("who may do all");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespaces_come_as_they_are_needed() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path(), &["NamespaceAutoProvision"], &[], None).await;
    let path = "/api/v1/namespaces/young/configmaps";
    let map = value!({"metadata": {"name": "a"}});
    let dry = format!("{path}?dryRun=All");
    assert_eq!(
        post(&server, &dry, map.clone())
            .await
            .expect_err("nothing is made")
            .0,
        404
    );
    post(&server, path, map)
        .await
        .expect("made with its namespace");
    let (code, made) = ask(
        &server,
        &root(),
        Method::GET,
        "/api/v1/namespaces/young",
        None,
    )
    .await;
    assert_eq!(
        (code, made.str_at(&["status", "phase"])),
        (200, Some("Active"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn usual_plugins_can_be_turned_off_and_everything_denied() {
    let dir = tempfile::tempdir().expect("a directory");
    let off = [
        "DefaultTolerationSeconds",
        "Priority",
        "ServiceAccount",
        "NamespaceLifecycle",
    ];
    let open = server(dir.path(), &[], &off, None).await;
    let made = post(&open, PODS, pod("a", value!({}))).await.expect("made");
    assert!(
        made.path(&["spec", "tolerations"]).is_none() && made.path(&["spec", "priority"]).is_none()
    );
    assert!(made.path(&["spec", "serviceAccountName"]).is_none());
    post(
        &open,
        "/api/v1/namespaces/nowhere/configmaps",
        value!({"metadata": {"name": "a"}}),
    )
    .await
    .expect("nobody looks");
    let dir = tempfile::tempdir().expect("a directory");
    let server = common::server_of(
        dir.path(),
        Access::default(),
        chain::Settings {
            admission: Arc::new(
                Settings::new(
                    Plugins::only(&["AlwaysDeny".to_owned()]).expect("known"),
                    Stay::default(),
                    None,
                )
                .expect("right"),
            ),
            ..chain::Settings::default()
        },
    )
    .await;
    let map = value!({"metadata": {"name": "a"}});
    assert_eq!(
        post(&server, "/api/v1/namespaces/default/configmaps", map)
            .await
            .expect_err("refused"),
        (
            403,
            "configmaps \"a\" is forbidden: admission control is denying all modifications"
                .to_owned()
        )
    );
    let (code, _) = ask(
        &server,
        &root(),
        Method::DELETE,
        "/api/v1/namespaces/default",
        None,
    )
    .await;
    assert_eq!(code, 403);
    assert_eq!(
        ask(
            &server,
            &root(),
            Method::GET,
            "/api/v1/namespaces/default",
            None
        )
        .await
        .0,
        200
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pod_security_has_defaults_and_exemptions() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = "- name: PodSecurity\n  configuration:\n    apiVersion: pod-security.admission.config.k8s.io/v1\n    kind: PodSecurityConfiguration\n    defaults: {enforce: baseline}\n    exemptions: {usernames: [root], namespaces: [default]}\n";
    let server = server(dir.path(), &[], &[], Some(file)).await;
    let admin = User::named("admin", [control_access::MASTERS]);
    let host = || pod("h", value!({"hostNetwork": true}));
    post_as(&server, &admin, PODS, host())
        .await
        .expect("the namespace is exempt");
    post(
        &server,
        "/api/v1/namespaces",
        value!({"metadata": {"name": "n"}}),
    )
    .await
    .expect("made");
    let account = value!({"metadata": {"name": "default"}});
    post(&server, "/api/v1/namespaces/n/serviceaccounts", account)
        .await
        .expect("made");
    let pods = "/api/v1/namespaces/n/pods";
    let (code, why) = post_as(&server, &admin, pods, host())
        .await
        .expect_err("refused");
    assert_eq!(code, 403);
    assert!(
        why.starts_with("pods \"h\" is forbidden: violates PodSecurity \"baseline:latest\": host"),
        "{why}"
    );
    post(&server, pods, host())
        .await
        .expect("the user is exempt");
    let label =
        value!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}});
    patch(&server, &root(), "/api/v1/namespaces/n", label)
        .await
        .expect("patched");
    ask(&server, &root(), Method::GET, "/api/v1/namespaces/n", None).await;
    let mut other = host();
    other.set_path(&["metadata", "name"], "h2");
    post_as(&server, &admin, pods, other)
        .await
        .expect("a label wins");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_finds_the_classes_that_were_made_a_moment_ago() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path(), &[], &[], None).await;
    for number in 0..100 {
        let name = format!("c{number}");
        let class = value!({"metadata": {"name": (&*name)}, "handler": "h"});
        post(&server, "/apis/node.k8s.io/v1/runtimeclasses", class)
            .await
            .expect("made");
        let class = value!({"metadata": {"name": (&*name)}, "value": 10});
        post(&server, "/apis/scheduling.k8s.io/v1/priorityclasses", class)
            .await
            .expect("made");
        let spec = value!({"priorityClassName": (&*name), "runtimeClassName": (&*name)});
        post(&server, PODS, pod(&name, spec))
            .await
            .expect("the classes are found");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_limited_is_given_only_where_a_quota_covers_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = "- name: ResourceQuota\n  configuration:\n    apiVersion: apiserver.config.k8s.io/v1\n    kind: ResourceQuotaConfiguration\n    limitedResources:\n    - resource: persistentvolumeclaims\n      matchContains: [gold.storageclass.storage.k8s.io/requests.storage]\n    - resource: pods\n      matchScopes: [{scopeName: PriorityClass, operator: In, values: [urgent]}]\n";
    let server = server(dir.path(), &[], &[], Some(file)).await;
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let claim = |name: &str, class: &str| {
        value!({
            "metadata": {"name": name},
            "spec": {
                "storageClassName": class, "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}
            }
        })
    };
    post(&server, claims, claim("tin", "tin"))
        .await
        .expect("nothing limits it");
    assert_eq!(
        post(&server, claims, claim("gold", "gold")).await.expect_err("refused"),
        (403, "persistentvolumeclaims \"gold\" is forbidden: insufficient quota to consume: gold.storageclass.storage.k8s.io/requests.storage".to_owned())
    );
    let class = value!({"metadata": {"name": "urgent"}, "value": 10});
    post(&server, "/apis/scheduling.k8s.io/v1/priorityclasses", class)
        .await
        .expect("made");
    let urgent = || pod("urgent", value!({"priorityClassName": "urgent"}));
    assert_eq!(
        post(&server, PODS, urgent()).await.expect_err("refused"),
        (
            500,
            "insufficient quota to match these scopes: [{PriorityClass In [urgent]}]".to_owned()
        )
    );
    let hard = value!({"pods": "1"});
    let quota = value!({
        "metadata": {"name": "q"},
        "spec": {
            "hard": (hard.clone()),
            "scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "In", "values": ["urgent"]}
            ]}
        }
    });
    post(&server, "/api/v1/namespaces/default/resourcequotas", quota)
        .await
        .expect("made");
    // What the controller does.
    let status = value!({"status": {"hard": (hard), "used": {"pods": "0"}}});
    patch(
        &server,
        &root(),
        "/api/v1/namespaces/default/resourcequotas/q/status",
        status,
    )
    .await
    .expect("patched");
    post(&server, PODS, urgent()).await.expect("it is covered");
}

/// Annotations of the last event of the audit log.
fn annotations(dir: &Path) -> Value {
    let text = std::fs::read_to_string(dir.join("audit.log")).expect("a log");
    let last = text.lines().next_back().expect("an event");
    let mut event = Value::from_slice(last.as_bytes()).expect("JSON");
    event.remove("annotations").unwrap_or_default()
}

fn images(dir: &Path, fake: &Fake, open: bool) -> String {
    let path = dir.join("images.kubeconfig");
    std::fs::write(&path, fake.kubeconfig("/images")).expect("written");
    let path = path.display();
    format!(
        "- name: ImagePolicyWebhook\n  configuration: {{imagePolicy: {{kubeConfigFile: {path}, allowTTL: 50, denyTTL: -1, retryBackoff: 1, defaultAllow: {open}}}}}\n"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_server_judges_images() {
    let dir = tempfile::tempdir().expect("a directory");
    let fake = Fake::start(|_, review| {
        let bad = review
            .items_at(&["spec", "containers"])
            .iter()
            .any(|container| container.str_at(&["image"]) == Some("bad"));
        let mut answer = review.clone();
        answer.insert(
            "status",
            if bad {
                value!({"allowed": false, "reason": "it is bad", "auditAnnotations": {"seen": "yes"}})
            } else {
                value!({"allowed": true})
            },
        );
        Reply::Object(answer)
    })
    .await;
    let file = images(dir.path(), &fake, false);
    let server = server(dir.path(), &["ImagePolicyWebhook"], &[], Some(&file)).await;
    let mut good = pod("good", value!({}));
    good.set_path(
        &["metadata", "annotations"],
        value!({"ticket.image-policy.k8s.io/id": "7", "other": "x"}),
    );
    post(&server, PODS, good.clone()).await.expect("allowed");
    good.set_path(&["metadata", "name"], "twin");
    post(&server, PODS, good).await.expect("allowed");
    let asked = fake.take();
    assert_eq!(asked.len(), 1, "the second time it is remembered");
    assert_eq!(
        asked[0],
        (
            "/images".to_owned(),
            value!({
                "kind": "ImageReview", "apiVersion": "imagepolicy.k8s.io/v1alpha1", "metadata": {},
                "spec": {
                    "containers": [{"image": "i"}],
                    "annotations": {"ticket.image-policy.k8s.io/id": "7"},
                    "namespace": "default"
                },
                "status": {"allowed": false}
            })
        )
    );
    let mut bad = pod("bad", value!({}));
    bad.set_path(
        &["spec", "containers"],
        value!([{"name": "c", "image": "bad"}]),
    );
    for _ in 0..2 {
        assert_eq!(
            post(&server, PODS, bad.clone()).await.expect_err("refused"),
            (403, "pods \"bad\" is forbidden: image policy webhook backend denied one or more images: it is bad".to_owned())
        );
        assert_eq!(
            annotations(dir.path()).str_at(&["imagepolicywebhook.image-policy.k8s.io/seen"]),
            Some("yes")
        );
    }
    assert_eq!(fake.take().len(), 2, "a no is not remembered with -1");
    // What is no image is not asked about; what comes later is.
    let label = value!({"metadata": {"labels": {"a": "b"}}});
    patch(&server, &root(), &format!("{PODS}/good/status"), label)
        .await
        .expect("allowed");
    assert_eq!(fake.take().len(), 0);
    let debug = value!({"spec": {"ephemeralContainers": [{"name": "e", "image": "bad"}]}});
    let path = format!("{PODS}/good/ephemeralcontainers");
    assert_eq!(
        patch(&server, &root(), &path, debug)
            .await
            .expect_err("refused")
            .0,
        403
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn images_run_without_a_judge_only_where_that_is_said() {
    let broken = || Fake::start(|_, _| Reply::Text(500, "broken"));
    let on = ["ImagePolicyWebhook"];
    let (dir, fake) = (tempfile::tempdir().expect("a directory"), broken().await);
    let file = images(dir.path(), &fake, false);
    let closed = server(dir.path(), &on, &[], Some(&file)).await;
    let (code, why) = post(&closed, PODS, pod("a", value!({})))
        .await
        .expect_err("refused");
    assert_eq!(code, 403);
    assert!(why.contains("broken"), "{why}");
    assert_eq!(fake.take().len(), 5, "it is asked five times");
    let (dir, fake) = (tempfile::tempdir().expect("a directory"), broken().await);
    let file = images(dir.path(), &fake, true);
    let open = server(dir.path(), &on, &[], Some(&file)).await;
    post(&open, PODS, pod("a", value!({})))
        .await
        .expect("allowed");
    assert_eq!(
        annotations(dir.path()).str_at(&["imagepolicywebhook.image-policy.k8s.io/failed-open"]),
        Some("true")
    );
}
