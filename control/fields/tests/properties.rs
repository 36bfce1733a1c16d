//! Properties that hold for any applied objects, managers and order.

use control_fields::manager::{Writer, apply, update};
use control_fields::typed::{Duplicates, compare, extract, field_set, merge, remove, validate};
use control_fields::update::Versions;
use control_fields::{Filter, Schema, Set};
use control_types::coerce;
use control_types::schema::TypeId;
use control_types::value;
use control_types::value::{Map, Value};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

/// Pods, in one version.
struct Pods;

fn pod_type() -> TypeId {
    TypeId::by_name("io.k8s.api.core.v1.Pod").expect("a type")
}

fn schema() -> Schema<'static> {
    Schema::Struct(pod_type())
}

impl Versions for Pods {
    fn schema(&self, version: &str) -> Option<Schema<'_>> {
        (version == "v1").then(schema)
    }
    fn convert(&self, _: &Value, _: &str, _: &str) -> Option<Value> {
        None
    }
    fn filter(&self, _: &str) -> Option<&Filter> {
        None
    }
    fn empty(&self) -> Value {
        let mut empty = Value::object();
        coerce::complete(&mut empty, pod_type());
        empty
    }
}

fn writer(name: &str) -> Writer<'_> {
    Writer {
        name,
        api_version: "v1",
        kind: "Pod",
        subresource: "",
        now: "2026-01-02T03:04:05Z",
    }
}

/// A list in random order, each name once.
fn by_name(items: Vec<(String, Value)>) -> Value {
    let mut list: Vec<Value> = Vec::new();
    for (name, mut item) in items {
        if !list.iter().any(|one| one.str_at(&["name"]) == Some(&name)) {
            item.insert("name", name);
            list.push(item);
        }
    }
    Value::Array(list)
}

fn texts() -> impl Strategy<Value = Value> {
    btree_map("[a-d]", "[0-2]", 0..4)
        .prop_map(|map| Value::Object(map.into_iter().collect::<Map>()))
}

fn container() -> impl Strategy<Value = Value> {
    (
        option::of("[x-z]"),
        option::of(vec("[a-c]", 0..3)),
        option::of(vec(("[A-C]", "[0-1]"), 0..4)),
        option::of(texts()),
        option::of(vec((80_i64..83, option::of("UDP")), 0..3)),
    )
        .prop_map(|(image, args, env, limits, ports)| {
            let mut one = Value::object();
            if let Some(image) = image {
                one.insert("image", image);
            }
            if let Some(args) = args {
                one.insert("args", args);
            }
            if let Some(env) = env {
                one.insert(
                    "env",
                    by_name(
                        env.into_iter()
                            .map(|(name, value)| (name, value!({"value": value})))
                            .collect(),
                    ),
                );
            }
            if let Some(limits) = limits {
                one.set_path(&["resources", "limits"], limits);
            }
            let mut seen: Vec<(i64, Option<String>)> = Vec::new();
            for port in ports.unwrap_or_default() {
                if !seen.contains(&port) {
                    seen.push(port);
                }
            }
            if !seen.is_empty() {
                let ports = seen.into_iter().map(|(number, protocol)| {
                    let mut port = value!({"containerPort": number});
                    if let Some(protocol) = protocol {
                        port.insert("protocol", protocol);
                    }
                    port
                });
                one.insert("ports", ports.collect::<Value>());
            }
            one
        })
}

/// A part of a pod, as somebody might apply it.
fn config() -> impl Strategy<Value = Value> {
    (
        option::of(texts()),
        option::of(vec("[a-d]", 0..4)),
        option::of(vec(("[a-d]", container()), 0..4)),
        option::of(texts()),
        option::of("[n-p]"),
    )
        .prop_map(|(labels, finalizers, containers, selector, node)| {
            let mut pod = value!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
            if let Some(labels) = labels {
                pod.set_path(&["metadata", "labels"], labels);
            }
            if let Some(mut finalizers) = finalizers {
                let mut seen = std::collections::BTreeSet::new();
                finalizers.retain(|one| seen.insert(one.clone()));
                pod.set_path(&["metadata", "finalizers"], finalizers);
            }
            if let Some(containers) = containers {
                pod.set_path(&["spec", "containers"], by_name(containers));
            }
            if let Some(selector) = selector {
                pod.set_path(&["spec", "nodeSelector"], selector);
            }
            if let Some(node) = node {
                pod.set_path(&["spec", "nodeName"], node);
            }
            pod
        })
}

fn drop_empty(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(drop_empty);
            map.retain(|_, value| !value.as_object().is_some_and(Map::is_empty));
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty),
        _ => {}
    }
}

/// An applied object as the server stores it.
fn stored(mut object: Value) -> Value {
    coerce::coerce(&mut object, pod_type()).expect("a pod");
    coerce::complete(&mut object, pod_type());
    control_types::meta::set_uid(&mut object, "u");
    object
}

fn forced(live: &Value, config: &Value, who: &str) -> Value {
    stored(apply(&Pods, live, config, &writer(who), true).expect("no conflict when forced"))
}

/// What a manager owns.
fn owned(object: &Value, manager: &str) -> Option<Set> {
    object
        .items_at(&["metadata", "managedFields"])
        .iter()
        .find(|entry| entry.str_at(&["manager"]) == Some(manager))
        .and_then(|entry| Set::from_fields(entry.get("fieldsV1")?).ok())
}

/// The set without the fields that are the system's.
fn without_system(set: &Set) -> Set {
    let system: &[&[&str]] = &[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
    ];
    set.difference(&system.iter().copied().collect())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn merging_again_changes_nothing(live in config(), new in config()) {
        let once = merge(schema(), &live, &new).expect("they merge");
        prop_assert_eq!(&merge(schema(), &once, &new).expect("they merge"), &once);
        prop_assert_eq!(&merge(schema(), &live, &live).expect("they merge"), &live);
    }

    #[test]
    fn what_is_merged_has_all_that_was_applied(live in config(), new in config()) {
        // An empty map says nothing of what is in it.
        let mut new = new;
        drop_empty(&mut new);
        let merged = merge(schema(), &live, &new).expect("they merge");
        let set = field_set(schema(), &new).expect("a set");
        let kept = extract(schema(), &merged, &set);
        let changed = compare(schema(), &new, &kept).expect("they compare");
        prop_assert!(changed.modified.is_empty(), "{}", changed.modified.to_fields());
    }

    #[test]
    fn comparing_tells_the_way_from_one_to_the_other(left in config(), right in config()) {
        let there = compare(schema(), &left, &right).expect("they compare");
        let back = compare(schema(), &right, &left).expect("they compare");
        prop_assert_eq!(&there.added, &back.removed);
        prop_assert_eq!(&there.removed, &back.added);
        prop_assert_eq!(&there.modified, &back.modified);
        let none = compare(schema(), &left, &left).expect("they compare");
        prop_assert!(none.brought().is_empty() && none.removed.is_empty());
    }

    #[test]
    fn applying_twice_is_applying_once(first in config(), second in config()) {
        let live = forced(&Pods.empty(), &first, "a");
        let once = forced(&live, &second, "b");
        prop_assert_eq!(&forced(&once, &second, "b"), &once);
    }

    #[test]
    fn an_applier_owns_what_it_applied(first in config(), second in config()) {
        let live = forced(&Pods.empty(), &first, "a");
        let new = forced(&live, &second, "b");
        let wanted = without_system(&field_set(schema(), &second).expect("a set"));
        prop_assert_eq!(owned(&new, "b").unwrap_or_default(), wanted);
    }

    #[test]
    fn what_its_only_applier_gives_up_goes(first in config(), second in config()) {
        let live = forced(&Pods.empty(), &first, "a");
        let new = forced(&live, &second, "a");
        let direct = forced(&Pods.empty(), &second, "a");
        let left = compare(schema(), &direct, &new).expect("they compare");
        // Only order and empty holders may tell where it came from.
        prop_assert!(left.modified.is_empty() || !second.items_at(&["spec", "containers"]).is_empty());
        prop_assert!(left.removed.is_empty(), "{}", left.removed.to_fields());
        prop_assert_eq!(owned(&direct, "a"), owned(&new, "a"));
    }

    #[test]
    fn a_write_owns_what_it_changed_and_nobody_else_does(first in config(), second in config()) {
        let live = forced(&Pods.empty(), &first, "a");
        // What nobody owns is not tracked.
        prop_assume!(owned(&live, "a").is_some());
        let mut new = stored(merge(schema(), &live, &second).expect("they merge"));
        let changed = compare(schema(), &live, &new).expect("they compare");
        update(&Pods, &live, &mut new, &writer("w"));
        let own = owned(&new, "w").unwrap_or_default();
        prop_assert_eq!(&own, &without_system(&changed.brought()));
        if let Some(other) = owned(&new, "a") {
            prop_assert!(other.intersection(&own).is_empty());
        }
    }

    #[test]
    fn what_is_removed_is_no_more(object in config(), part in config()) {
        let set = field_set(schema(), &part).expect("a set");
        let left = remove(schema(), &object, &set);
        if !left.is_null() {
            validate(schema(), &left, Duplicates::Refused).expect("still a pod");
            let still = field_set(schema(), &left).expect("a set");
            for path in still.intersection(&set).paths() {
                let holder = matches!(path.0.last(), Some(control_fields::Element::Field(_)));
                prop_assert!(holder, "{path}");
            }
        }
    }

    #[test]
    fn sets_are_sets(left in config(), right in config()) {
        let a = field_set(schema(), &left).expect("a set");
        let b = field_set(schema(), &right).expect("a set");
        prop_assert_eq!(&a.union(&b), &b.union(&a));
        prop_assert_eq!(&a.difference(&b).union(&a.intersection(&b)), &a);
        prop_assert_eq!(a.overlaps(&b), !a.intersection(&b).is_empty());
        prop_assert_eq!(a.len() + b.len(), a.union(&b).len() + a.intersection(&b).len());
        prop_assert_eq!(&Set::from_fields(&a.to_fields()).expect("well formed"), &a);
        prop_assert!(a.recursive_difference(&a).is_empty());
        prop_assert!(a.paths().iter().all(|path| a.has(&path.0)));
    }

    #[test]
    fn no_text_of_fields_panics(text in r#"(\{("(f:|k:|v:|i:|\.|x)[^"\\]{0,6}":\{\},?){0,3}\}|.{0,20})"#) {
        if let Ok(value) = Value::from_slice(text.as_bytes())
            && let Ok(set) = Set::from_fields(&value)
        {
            let again = Set::from_fields(&set.to_fields()).expect("well formed");
            prop_assert_eq!(again, set);
        }
    }
}
