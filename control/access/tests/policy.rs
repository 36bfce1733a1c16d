//! Compares the default roles and bindings with those of kube-apiserver 1.36.3.
//!
//! `stock_policy.jsonl` was recorded from a kube-apiserver and its controllers (which fill in the
//! rules of aggregated roles): it lists the objects of the four kinds with the label
//! `kubernetes.io/bootstrapping=rbac-defaults`, one per line, without the fields that differ from
//! start to start.

use std::collections::{BTreeMap, BTreeSet};

use control_access::bootstrap;
use control_types::value::Value;

type Place = (String, String, String);

fn place(object: &Value) -> Place {
    let text = |path: &[&str]| object.str_at(path).unwrap_or_default().to_owned();
    (
        text(&["kind"]),
        text(&["metadata", "namespace"]),
        text(&["metadata", "name"]),
    )
}

/// A value as text in which the order of members, and of lists that are sets,
/// says nothing.
fn canonical(value: &Value) -> String {
    if let Some(map) = value.as_object() {
        let members: BTreeMap<String, String> = map
            .iter()
            .map(|(key, member)| (key.to_string(), canonical(member)))
            .collect();
        return format!("{members:?}");
    }
    match value.as_array() {
        Some(items) => {
            let items: BTreeSet<String> = items.iter().map(canonical).collect();
            format!("{items:?}")
        }
        None => String::from_utf8_lossy(&value.to_vec()).into_owned(),
    }
}

fn parts(object: &Value) -> Vec<(&'static str, String)> {
    let of = |path: &[&str]| object.path(path).map(canonical).unwrap_or_default();
    vec![
        ("labels", of(&["metadata", "labels"])),
        ("annotations", of(&["metadata", "annotations"])),
        ("rules", of(&["rules"])),
        ("aggregationRule", of(&["aggregationRule"])),
        ("roleRef", of(&["roleRef"])),
        ("subjects", of(&["subjects"])),
    ]
}

#[test]
fn roles_and_bindings_are_those_of_kube_apiserver() {
    let recorded: BTreeMap<Place, Value> = include_str!("stock_policy.jsonl")
        .lines()
        .map(|line| Value::from_slice(line.as_bytes()).expect("JSON"))
        .map(|object| (place(&object), object))
        .collect();
    assert!(recorded.len() > 120, "{}", recorded.len());
    // What our own parts need beyond is named so that nobody takes it for stock's.
    let ours: BTreeMap<Place, Value> = bootstrap::objects()
        .into_iter()
        .map(|object| (place(&object), object))
        .filter(|((.., name), _)| !name.starts_with("orlop:"))
        .collect();
    let mut wrong = Vec::new();
    for (place, object) in &recorded {
        let Some(own) = ours.get(place) else {
            wrong.push(format!("{place:?} is missing"));
            continue;
        };
        for ((part, wanted), (_, found)) in parts(object).iter().zip(parts(own)) {
            if *wanted != found {
                wrong.push(format!(
                    "{place:?} {part}\n  stock {wanted}\n  ours  {found}"
                ));
            }
        }
    }
    for place in ours.keys().filter(|place| !recorded.contains_key(place)) {
        wrong.push(format!("{place:?} is not kube-apiserver's"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Under a stock API server, controllers have the rights of stock ones: what they patch here,
/// they update there.
#[test]
fn controllers_may_update_with_stock_rights_what_they_patch() {
    let objects = bootstrap::objects();
    let named = |name: &str| {
        let mut all = objects.iter();
        all.find(|it| {
            it.str_at(&["kind"]) == Some("ClusterRole")
                && it.str_at(&["metadata", "name"]) == Some(name)
        })
    };
    let list = |rule: &Value, part: &str| -> Vec<String> {
        let items = rule.items_at(&[part]).iter();
        items
            .filter_map(|it| it.as_str().map(str::to_owned))
            .collect()
    };
    let allows = |role: &Value, wanted: [&str; 3]| {
        role.items_at(&["rules"]).iter().any(|rule| {
            let parts = ["verbs", "apiGroups", "resources"];
            parts.iter().zip(wanted).all(|(part, wanted)| {
                let all = list(rule, part);
                all.iter().any(|it| it == wanted || it == "*")
            })
        })
    };
    let mut compared = 0;
    for object in &objects {
        let name = object.str_at(&["metadata", "name"]).unwrap_or_default();
        let Some(controller) = name.strip_prefix("orlop:controller:") else {
            continue;
        };
        let Some(stock) = named(&format!("system:controller:{controller}")) else {
            continue;
        };
        for rule in object.items_at(&["rules"]) {
            assert_eq!(list(rule, "verbs"), ["patch"], "{name}");
            for group in list(rule, "apiGroups") {
                for resource in list(rule, "resources") {
                    let is_allowed = allows(stock, ["update", &group, &resource]);
                    assert!(is_allowed, "{name}: {resource} of `{group}`");
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 15, "{compared}");
}
