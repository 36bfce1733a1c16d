//! The roles and bindings of the start are those of kube-apiserver 1.36.3.
//!
//! `stock_policy.jsonl` was recorded from one with its controllers (which gather
//! the rules of aggregated roles), by listing the four kinds and keeping what
//! carries `kubernetes.io/bootstrapping=rbac-defaults`, an object a line without
//! what differs from start to start.

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
