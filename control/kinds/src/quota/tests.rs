//! Tests the rules of quotas, one kind after the other.

use control_types::value;
use control_types::value::Value;

use super::*;
use crate::tree::Read as _;

const NO_LIMITS: Limits = Limits(Vec::new());

fn refused(why: &str) -> Result<Vec<Charge>, Unpaid> {
    Err(Unpaid::Refused(why.into()))
}

fn now() -> jiff::Timestamp {
    jiff::Timestamp::UNIX_EPOCH
}

fn taken(group: &str, plural: &str, object: &Value) -> Value {
    usage(group, plural, object, &[], now()).to_value()
}

fn quota(spec: &Value, used: &Value) -> Value {
    value!({
        "metadata": {"name": "q"},
        "spec": (spec.clone()),
        "status": {"hard": (spec.at("hard").clone()), "used": (used.clone())}
    })
}

fn create<'a>(plural: &'a str, new: &'a Value) -> Request<'a> {
    Request {
        group: "",
        plural,
        subresource: "",
        new,
        old: None,
    }
}

#[test]
fn a_pod_takes_what_its_containers_ask_for_and_its_overhead() {
    let pod = value!({"spec": {
        "overhead": {"cpu": "10m", "memory": "1Mi"},
        "containers": [
            {"resources": {"requests": {"cpu": "100m", "example.com/gpu": "2"}, "limits": {"cpu": "1"}}},
            {"resources": {"requests": {"cpu": "200m", "memory": "64Mi", "hugepages-2Mi": "4Mi"}}}
        ],
        "initContainers": [
            {"restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}}},
            {"resources": {"requests": {"cpu": "2"}}}
        ]
    }});
    assert_eq!(
        taken("", "pods", &pod),
        value!({
            "count/pods": "1",
            "cpu": "2060m",
            "hugepages-2Mi": "4Mi",
            "limits.cpu": "1010m",
            "memory": "65Mi",
            "pods": "1",
            "requests.cpu": "2060m",
            "requests.example.com/gpu": "2",
            "requests.hugepages-2Mi": "4Mi",
            "requests.memory": "65Mi"
        })
    );
}

#[test]
fn a_pod_that_is_over_is_only_counted() {
    let over = value!({"status": {"phase": "Succeeded"}, "spec": {"containers": [{}]}});
    assert_eq!(taken("", "pods", &over), value!({"count/pods": "1"}));
    let late = value!({"metadata": {
        "deletionTimestamp": "1969-12-31T23:59:00Z", "deletionGracePeriodSeconds": 30
    }});
    assert_eq!(taken("", "pods", &late), value!({"count/pods": "1"}));
    let dying = value!({"metadata": {
        "deletionTimestamp": "1969-12-31T23:59:00Z", "deletionGracePeriodSeconds": 90
    }});
    assert_eq!(
        taken("", "pods", &dying),
        value!({"count/pods": "1", "pods": "1"})
    );
}

#[test]
fn usage_changes_at_the_next_end_of_a_grace_period() {
    let pod = |second: i64| {
        let at = jiff::Timestamp::from_second(second).unwrap().to_string();
        value!({"metadata": {"deletionTimestamp": (at), "deletionGracePeriodSeconds": 30}})
    };
    let pods = CountedObjects {
        group: String::new(),
        plural: "pods".to_owned(),
        objects: vec![pod(100), pod(60), pod(10), value!({"metadata": {}})],
    };
    let at = |second| jiff::Timestamp::from_second(second).unwrap();
    let next = |now| next_change(std::slice::from_ref(&pods), at(now));
    assert_eq!(next(50), Some(at(90)));
    assert_eq!(next(91), Some(at(130)));
    assert_eq!(next(131), None);
}

#[test]
fn what_is_being_resized_takes_the_most_of_before_and_after() {
    let pod = |conditions: Value| {
        value!({
            "spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "3"}}}]},
            "status": {
                "conditions": (conditions),
                "containerStatuses": [{
                    "name": "a",
                    "resources": {"requests": {"cpu": "1"}},
                    "allocatedResources": {"cpu": "2"}
                }]
            }
        })
    };
    let cpu = |pod: &Value| taken("", "pods", pod).text("cpu").to_owned();
    assert_eq!(cpu(&pod(value!([]))), "3");
    let infeasible = value!([{"type": "PodResizePending", "reason": "Infeasible"}]);
    assert_eq!(cpu(&pod(infeasible)), "2");
}

#[test]
fn services_take_ports_of_nodes_by_their_type() {
    let service = |kind: &str, allocate: bool| {
        let object = value!({"spec": {
            "type": kind,
            "allocateLoadBalancerNodePorts": allocate,
            "ports": [{"port": 1}, {"port": 2, "nodePort": 30001}]
        }});
        let taken = taken("", "services", &object);
        (
            taken.text("services.nodeports").to_owned(),
            taken.text("services.loadbalancers").to_owned(),
        )
    };
    let pair = |ports: &str, balancers: &str| (ports.to_owned(), balancers.to_owned());
    assert_eq!(service("ClusterIP", true), pair("0", "0"));
    assert_eq!(service("NodePort", true), pair("2", "0"));
    assert_eq!(service("LoadBalancer", true), pair("2", "1"));
    assert_eq!(service("LoadBalancer", false), pair("1", "1"));
}

#[test]
fn claims_are_counted_by_class_and_in_whole_bytes() {
    let claim = value!({
        "spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "1500m"}}},
        "status": {"allocatedResources": {"storage": "1"}}
    });
    assert_eq!(
        taken("", "persistentvolumeclaims", &claim),
        value!({
            "count/persistentvolumeclaims": "1",
            "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
            "gold.storageclass.storage.k8s.io/requests.storage": "2",
            "persistentvolumeclaims": "1",
            "requests.storage": "2"
        })
    );
}

#[test]
fn claims_to_devices_take_the_worst_case_of_each_class() {
    let claim = value!({"spec": {"devices": {"requests": [
        {"exactly": {"deviceClassName": "a", "allocationMode": "ExactCount", "count": 2}},
        {"exactly": {"deviceClassName": "b", "allocationMode": "All"}},
        {"firstAvailable": [
            {"deviceClassName": "a", "allocationMode": "ExactCount", "count": 1},
            {"deviceClassName": "a", "allocationMode": "ExactCount", "count": 4}
        ]}
    ]}}});
    let classes = [("a".to_owned(), "example.com/x".to_owned())];
    let taken = usage("resource.k8s.io", "resourceclaims", &claim, &classes, now());
    let taken = taken.to_value();
    assert_eq!(taken.text("a.deviceclass.resource.k8s.io/devices"), "6");
    assert_eq!(taken.text("b.deviceclass.resource.k8s.io/devices"), "32");
    assert_eq!(taken.text("requests.example.com/x"), "6");
    assert_eq!(taken.text("count/resourceclaims.resource.k8s.io"), "1");
    let tracked = |name| tracks("resource.k8s.io", "resourceclaims", name, &classes);
    assert!(tracked("requests.example.com/x") && !tracked("requests.example.com/y"));
}

#[test]
fn names_of_limits_are_about_resources() {
    let cases = [
        ("", "pods", "pods", true),
        ("", "pods", "limits.ephemeral-storage", true),
        ("", "pods", "requests.example.com/gpu", true),
        ("", "pods", "example.com/gpu", false),
        ("", "pods", "count/pods", true),
        ("", "configmaps", "configmaps", true),
        ("", "configmaps", "count/configmaps", true),
        ("", "services", "services.nodeports", true),
        ("apps", "deployments", "count/deployments.apps", true),
        ("apps", "deployments", "count/deployments", false),
        ("", "deployments", "count/deployments.apps", false),
        ("", "events", "count/events", false),
        (
            "",
            "persistentvolumeclaims",
            "x.storageclass.storage.k8s.io/requests.storage",
            true,
        ),
        ("", "persistentvolumeclaims", "xrequests.storage", false),
    ];
    for (group, plural, name, tracked) in cases {
        assert_eq!(tracks(group, plural, name, &[]), tracked, "{plural} {name}");
    }
}

#[test]
fn what_exceeds_a_quota_is_told_with_all_amounts() {
    let pod = value!({"spec": {"containers": [
        {"name": "c", "resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}}}
    ]}});
    let q = quota(
        &value!({"hard": {"requests.cpu": "2", "requests.memory": "1Gi", "pods": "9", "secrets": "1"}}),
        &value!({"requests.cpu": "1", "requests.memory": "512Mi", "pods": "1", "secrets": "1"}),
    );
    assert_eq!(
        assess(&[q], &create("pods", &pod), &NO_LIMITS, &[], now()),
        refused(
            "exceeded quota: q, requested: requests.cpu=1500m,requests.memory=1Gi, used: requests.cpu=1,requests.memory=512Mi, limited: requests.cpu=2,requests.memory=1Gi"
        )
    );
}

#[test]
fn containers_must_say_what_they_need_where_that_is_limited() {
    let pod = value!({"spec": {
        "containers": [{"name": "b"}, {"name": "a", "resources": {"requests": {"cpu": "1"}}}],
        "initContainers": [{"name": "i"}]
    }});
    let q = quota(
        &value!({"hard": {"limits.memory": "1", "cpu": "9", "ephemeral-storage": "1"}}),
        &value!({"limits.memory": "0", "cpu": "0", "ephemeral-storage": "0"}),
    );
    assert_eq!(
        assess(&[q], &create("pods", &pod), &NO_LIMITS, &[], now()),
        refused("failed quota: q: must specify cpu for: b,i; limits.memory for: a,b,i")
    );
}

#[test]
fn a_quota_that_was_not_counted_yet_lets_nothing_through() {
    let map = value!({});
    let q = quota(&value!({"hard": {"configmaps": "1"}}), &value!({}));
    assert_eq!(
        assess(
            std::slice::from_ref(&q),
            &create("configmaps", &map),
            &NO_LIMITS,
            &[],
            now()
        ),
        refused("status unknown for quota: q, resources: configmaps")
    );
    // One without limits in its status limits nothing yet.
    let mut fresh = q;
    fresh.remove("status");
    assert_eq!(
        assess(
            &[fresh],
            &create("configmaps", &map),
            &NO_LIMITS,
            &[],
            now()
        ),
        Ok(vec![])
    );
}

#[test]
fn an_update_owes_what_it_takes_more() {
    let service = |kind: &str| value!({"spec": {"type": kind, "ports": [{"port": 1}]}});
    let (old, new) = (service("ClusterIP"), service("NodePort"));
    let q = quota(
        &value!({"hard": {"services": "1", "services.nodeports": "1"}}),
        &value!({"services": "1", "services.nodeports": "0"}),
    );
    let request = |new, old| Request {
        old: Some(old),
        ..create("services", new)
    };
    let quotas = [q];
    let charges =
        assess(&quotas, &request(&new, &old), &NO_LIMITS, &[], now()).expect("there is a port");
    let paid = pay(&quotas[0], &charges[0]).expect("there is a port");
    assert_eq!(
        paid,
        Some(value!({"services": "1", "services.nodeports": "1"}))
    );
    assert_eq!(
        assess(&quotas, &request(&old, &new), &NO_LIMITS, &[], now()),
        Ok(vec![])
    );
}

#[test]
fn scopes_select_pods() {
    let scoped = |scopes: Value| value!({"spec": {"scopes": (scopes)}});
    let selector = |operator: &str, values: Value| {
        value!({"spec": {"scopeSelector": {"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": operator, "values": (values)}
        ]}}})
    };
    let plain = value!({"spec": {"containers": [{}]}});
    let ending = value!({"spec": {"activeDeadlineSeconds": 0, "containers": [
        {"resources": {"requests": {"cpu": "1"}}}
    ]}});
    let high = value!({"spec": {"priorityClassName": "high"}});
    let cross = value!({"spec": {"affinity": {"podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"podAffinityTerm": {"namespaceSelector": {}}}
        ]
    }}}});
    let matches = |quota: &Value, pod: &Value| scopes::matches(quota, "", "pods", pod);
    let cases = [
        (scoped(value!(["Terminating"])), &ending, true),
        (scoped(value!(["Terminating"])), &plain, false),
        (
            scoped(value!(["NotTerminating", "BestEffort"])),
            &plain,
            true,
        ),
        (scoped(value!(["BestEffort"])), &ending, false),
        (scoped(value!(["NotBestEffort"])), &ending, true),
        (scoped(value!(["CrossNamespacePodAffinity"])), &cross, true),
        (scoped(value!(["CrossNamespacePodAffinity"])), &plain, false),
        (scoped(value!(["VolumeAttributesClass"])), &plain, false),
        (selector("In", value!(["high"])), &high, true),
        (selector("In", value!(["high"])), &plain, false),
        (selector("NotIn", value!(["high"])), &high, false),
        (selector("NotIn", value!(["high"])), &plain, true),
        (selector("Exists", value!([])), &plain, false),
        (selector("DoesNotExist", value!([])), &plain, true),
    ];
    for (quota, pod, expected) in cases {
        assert_eq!(matches(&quota, pod), expected, "{quota:?} {pod:?}");
    }
    // Kinds without scopes are in none.
    assert!(!scopes::matches(
        &scoped(value!(["Terminating"])),
        "",
        "configmaps",
        &plain
    ));
}

#[test]
fn counting_anew_sums_what_is_in_scope_and_keeps_what_it_cannot_know() {
    let pod =
        |cpu: &str| value!({"spec": {"containers": [{"resources": {"requests": {"cpu": cpu}}}]}});
    let quota = value!({
        "spec": {"hard": {"cpu": "4", "pods": "9", "count/widgets.example.com": "3", "secrets": "2"}},
        "status": {"used": {"count/widgets.example.com": "2", "gone": "1"}}
    });
    assert_eq!(
        counted(&quota, &[]),
        [("", "pods"), ("", "secrets"), ("example.com", "widgets")]
            .map(|(group, plural)| (group.to_owned(), plural.to_owned()))
    );
    let all = [
        CountedObjects {
            group: String::new(),
            plural: "pods".into(),
            objects: vec![pod("500m"), pod("750m")],
        },
        CountedObjects {
            group: String::new(),
            plural: "secrets".into(),
            objects: vec![],
        },
    ];
    assert_eq!(
        recount(&quota, &all, &[], now()),
        value!({
            "hard": {"cpu": "4", "pods": "9", "count/widgets.example.com": "3", "secrets": "2"},
            "used": {"count/widgets.example.com": "2", "cpu": "1250m", "pods": "2", "secrets": "0"}
        })
    );
}

/// `limitedResources` of one resource.
fn limits(plural: &str, contains: &[&str], scopes: &[Value]) -> Limits {
    Limits(vec![Limit {
        group: String::new(),
        plural: plural.to_owned(),
        contains: contains.iter().map(|part| (*part).to_owned()).collect(),
        scopes: scopes.to_vec(),
    }])
}

#[test]
fn what_is_limited_must_be_covered_by_a_quota() {
    let claim = value!({"spec": {
        "storageClassName": "gold", "resources": {"requests": {"storage": "1Gi"}}
    }});
    let gold = "gold.storageclass.storage.k8s.io/requests.storage";
    let limits = limits("persistentvolumeclaims", &[gold], &[]);
    let ask = |quotas: &[Value], claim: &Value| {
        let request = create("persistentvolumeclaims", claim);
        assess(quotas, &request, &limits, &[], now())
    };
    let uncovered = format!("insufficient quota to consume: {gold}");
    assert_eq!(ask(&[], &claim), refused(&uncovered));
    let of = |name: &str| {
        let mut hard = Value::object();
        hard.insert(name, "5Gi");
        let mut used = Value::object();
        used.insert(name, "0");
        let spec = value!({"hard": (hard)});
        quota(&spec, &used)
    };
    // Another limit of the same kind does not cover it.
    assert_eq!(ask(&[of("requests.storage")], &claim), refused(&uncovered));
    let charges = ask(&[of(gold)], &claim).expect("it is covered");
    assert_eq!(charges.len(), 1);
    // An object that uses nothing of it needs no quota.
    let other = value!({"spec": {"storageClassName": "tin"}});
    assert_eq!(ask(&[], &other), Ok(vec![]));
    // Nor do other kinds.
    let map = value!({});
    assert_eq!(
        assess(&[], &create("configmaps", &map), &limits, &[], now()),
        Ok(vec![])
    );
}

#[test]
fn an_update_that_takes_no_more_needs_no_cover() {
    let claim = |size: &str| value!({"spec": {"resources": {"requests": {"storage": size}}}});
    let (small, large) = (claim("1Gi"), claim("2Gi"));
    let limits = limits("persistentvolumeclaims", &["requests.storage"], &[]);
    let update = |new, old| {
        let request = Request {
            old: Some(old),
            ..create("persistentvolumeclaims", new)
        };
        assess(&[], &request, &limits, &[], now())
    };
    assert_eq!(update(&small, &small), Ok(vec![]));
    assert_eq!(
        update(&large, &small),
        refused("insufficient quota to consume: requests.storage")
    );
}

#[test]
fn a_limited_scope_must_be_covered_by_its_name() {
    let scope = value!({
        "scopeName": "PriorityClass", "operator": "In", "values": ["high", "top"]
    });
    let limits = limits("pods", &[], std::slice::from_ref(&scope));
    let pod = |class: &str| value!({"spec": {"priorityClassName": class}});
    let ask =
        |quotas: &[Value], pod: &Value| assess(quotas, &create("pods", pod), &limits, &[], now());
    assert_eq!(
        ask(&[], &pod("high")),
        Err(Unpaid::Uncovered(
            "insufficient quota to match these scopes: [{PriorityClass In [high top]}]".to_owned()
        ))
    );
    assert_eq!(ask(&[], &pod("low")), Ok(vec![]));
    let of = |values: Value| {
        let select = value!({"scopeName": "PriorityClass", "operator": "In", "values": (values)});
        quota(
            &value!({"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [(select)]}}),
            &value!({"pods": "0"}),
        )
    };
    assert!(ask(&[of(value!(["low"]))], &pod("high")).is_err());
    let charges = ask(&[of(value!(["high"]))], &pod("high")).expect("it is covered");
    assert_eq!(charges.len(), 1);
}

#[test]
fn usage_that_a_status_lacks_is_counted_within_its_scopes_and_no_other() {
    let mut quota = value!({
        "metadata": {"name": "q"},
        "spec": {"hard": {"pods": "2", "count/pods": "9", "services": "1"}, "scopes": ["Terminating"]},
        "status": {"hard": {"count/pods": "9"}, "used": {"count/pods": "5"}}
    });
    let ends = value!({"spec": {"activeDeadlineSeconds": 5, "containers": [{}]}});
    let all = CountedObjects {
        group: String::new(),
        plural: "pods".to_owned(),
        objects: vec![ends, value!({"spec": {"containers": [{}]}})],
    };
    assert!(is_usage_unknown(&quota, "", "pods", &[]));
    assert!(!is_usage_unknown(&quota, "", "secrets", &[]));
    let counted = count_unknown(&quota, &all, &[], now());
    assert_eq!(counted.to_value(), value!({"pods": "1"}));
    fill_unknown(&mut quota, &counted);
    assert!(!is_usage_unknown(&quota, "", "pods", &[]));
    assert_eq!(
        quota.at("status"),
        &value!({
            "hard": {"count/pods": "9", "pods": "2"},
            "used": {"count/pods": "5", "pods": "1"}
        })
    );
    let before = quota.clone();
    fill_unknown(&mut quota, &counted);
    assert_eq!(quota, before, "what is known stays");
}
