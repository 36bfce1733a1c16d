use super::*;
use crate::schema::Schema;
use crate::set::Set;
use control_types::schema::TypeId;
use control_types::value;
use control_types::value::Value;

fn pod() -> Schema<'static> {
    Schema::Struct(TypeId::by_name("io.k8s.api.core.v1.Pod").unwrap())
}

fn with_containers(containers: Value) -> Value {
    value!({"spec": {"containers": (containers)}})
}

fn set_text(set: &Set) -> String {
    set.to_fields().to_string()
}

fn owned(config: &Value) -> String {
    set_text(&field_set(pod(), config).unwrap())
}

#[test]
fn what_is_applied_is_owned_by_leaf_item_and_unnamed_member() {
    let config = value!({
        "metadata": {"labels": {"a": "1"}, "finalizers": ["x"], "annotations": {}},
        "spec": {"nodeSelector": {"x": "y"}, "containers": [{"name": "c", "args": ["a"], "ports": [{"containerPort": 80}]}]}
    });
    assert_eq!(
        owned(&config),
        r#"{"f:metadata":{"f:annotations":{},"f:finalizers":{"v:\"x\"":{}},"f:labels":{"f:a":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:args":{},"f:name":{},"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}}}},"f:nodeSelector":{}}}"#
    );
}

#[test]
fn items_that_come_twice_are_owned_as_one() {
    let config = with_containers(value!([{"name": "c", "image": "a"}, {"name": "c"}]));
    assert_eq!(
        owned(&config),
        r#"{"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{}}}}"#
    );
}

#[test]
fn comparing_tells_added_modified_and_removed() {
    let old = value!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"nodeName": "n", "containers": [{"name": "x", "image": "1"}]}, "status": {}});
    let new = value!({"metadata": {"labels": {"a": "1", "c": "3"}}, "spec": {"nodeName": "m", "containers": [{"name": "y", "resources": {}}, {"name": "x", "image": "1"}]}, "status": {}});
    let changed = compare(pod(), &old, &new).unwrap();
    assert_eq!(
        set_text(&changed.added),
        r#"{"f:metadata":{"f:labels":{"f:c":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"y\"}":{".":{},"f:name":{},"f:resources":{}}}}}"#
    );
    assert_eq!(
        set_text(&changed.modified),
        r#"{"f:spec":{"f:nodeName":{}}}"#
    );
    assert_eq!(
        set_text(&changed.removed),
        r#"{"f:metadata":{"f:labels":{"f:b":{}}}}"#
    );
    assert!(compare(pod(), &old, &old).unwrap().brought().is_empty());
}

#[test]
fn a_value_that_appears_is_added_with_its_parents() {
    let changed = compare(
        pod(),
        &value!({"metadata": {}, "spec": {"containers": null}}),
        &value!({"metadata": {"labels": {"a": "1"}}, "spec": {"containers": [{"name": "c"}]}}),
    )
    .unwrap();
    assert_eq!(
        set_text(&changed.added),
        r#"{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:name":{}}}}}"#
    );
}

#[test]
fn duplicates_that_come_and_go_are_marked_as_one() {
    let one = with_containers(value!([{"name": "c", "image": "a"}]));
    let two = with_containers(value!([{"name": "c", "image": "a"}, {"name": "c", "image": "b"}]));
    let three = with_containers(value!([{"name": "c", "image": "a"}, {"name": "c", "image": "z"}]));
    let item = r#"{"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{}}}}"#;
    let whole =
        r#"{"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{},"f:name":{}}}}}"#;
    let more = compare(pod(), &one, &two).unwrap();
    assert_eq!(
        (
            set_text(&more.added).as_str(),
            set_text(&more.removed).as_str()
        ),
        (item, whole)
    );
    let less = compare(pod(), &two, &one).unwrap();
    assert_eq!(
        (
            set_text(&less.added).as_str(),
            set_text(&less.removed).as_str()
        ),
        (whole, item)
    );
    assert_eq!(
        set_text(&compare(pod(), &two, &three).unwrap().modified),
        item
    );
}

fn names(list: &Value) -> Vec<&str> {
    list.items_at(&["spec", "containers"])
        .iter()
        .filter_map(|item| item.str_at(&["name"]))
        .collect()
}

fn list_of(names: &[&str]) -> Value {
    with_containers(names.iter().map(|name| value!({"name": (*name)})).collect())
}

#[test]
fn merged_lists_take_the_order_of_the_configuration_for_what_both_have() {
    for (live, config, merged) in [
        (&["a", "b", "c"][..], &["b"][..], &["a", "b", "c"][..]),
        (&["a", "b", "c"], &["c", "a"], &["b", "c", "a"]),
        (&["a", "b"], &["c"], &["a", "b", "c"]),
        (&["a", "b"], &["x", "a"], &["x", "a", "b"]),
        (
            &["a", "b", "c", "d"],
            &["d", "b", "e"],
            &["a", "c", "d", "b", "e"],
        ),
        (&[], &["x"], &["x"]),
        (&["a", "a"], &["a", "b"], &["a", "b"]),
    ] {
        let result = merge(pod(), &list_of(live), &list_of(config)).unwrap();
        assert_eq!(names(&result), merged, "{live:?} {config:?}");
    }
}

#[test]
fn merging_keeps_what_only_one_has_and_lets_the_configuration_win() {
    let live = value!({"spec": {"nodeName": "n", "nodeSelector": {"a": "b"}, "containers": [{"name": "c", "image": "1", "args": ["x"]}]}});
    let config = value!({"spec": {"nodeSelector": {"c": "d"}, "containers": [{"name": "c", "image": "2"}], "volumes": []}});
    assert_eq!(
        merge(pod(), &live, &config).unwrap(),
        value!({"spec": {"nodeName": "n", "nodeSelector": {"c": "d"}, "containers": [{"name": "c", "image": "2", "args": ["x"]}], "volumes": []}})
    );
    assert_eq!(
        merge(pod(), &live, &list_of(&["a", "a"]))
            .unwrap_err()
            .to_string(),
        ".spec.containers: duplicate entries for key [name=\"a\"]"
    );
}

#[test]
fn removed_items_leave_null_where_nothing_is_left() {
    let object = value!({"metadata": {"labels": {"a": "1"}, "name": "n"}, "spec": {"containers": [{"name": "c"}, {"name": "d"}], "nodeSelector": {"a": "b"}}});
    let gone = Set::from_fields(&value!({"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {}}}})).unwrap();
    assert_eq!(
        remove(pod(), &object, &gone),
        value!({"metadata": {"labels": null, "name": "n"}, "spec": {"containers": [{"name": "d"}], "nodeSelector": {"a": "b"}}})
    );
    assert_eq!(
        extract(pod(), &object, &gone),
        value!({"metadata": {"labels": {"a": "1"}}, "spec": {"containers": [{"name": "c"}]}})
    );
}

#[test]
fn what_does_not_fit_is_told_with_its_path() {
    let wrong = |config: Value| {
        validate(pod(), &config, Duplicates::Refused)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        wrong(value!({"spec": {"nope": 1}})),
        ".spec.nope: field not declared in schema"
    );
    assert_eq!(
        wrong(value!({"spec": {"nodeName": 1}})),
        ".spec.nodeName: expected string, got &value.valueUnstructured{Value:1}"
    );
    assert_eq!(
        wrong(list_of(&["a", "a"])),
        ".spec.containers: duplicate entries for key [name=\"a\"]"
    );
    assert_eq!(
        wrong(value!({"spec": {"containers": {"a": 1}, "hostNetwork": "x"}})),
        "errors:\n  .spec.containers: expected list, got &{map[a:1]}\n  .spec.hostNetwork: expected boolean, got &{x}"
    );
    assert_eq!(
        wrong(value!({"spec": {"activeDeadlineSeconds": "x"}})),
        ".spec.activeDeadlineSeconds: expected numeric (int or float), got string"
    );
    assert!(validate(pod(), &list_of(&["a", "a"]), Duplicates::Allowed).is_ok());
}

#[test]
fn untyped_trees_merge_by_key_and_lists_are_one() {
    let live = value!({"a": {"b": 1, "c": [1, 2]}, "d": "x"});
    let config = value!({"a": {"c": [3]}, "d": {"e": 1}});
    assert_eq!(
        merge(Schema::Deduced, &live, &config).unwrap(),
        value!({"a": {"b": 1, "c": [3]}, "d": {"e": 1}})
    );
    let changed = compare(
        Schema::Deduced,
        &live,
        &merge(Schema::Deduced, &live, &config).unwrap(),
    )
    .unwrap();
    assert_eq!(
        set_text(&changed.modified),
        r#"{"f:a":{"f:c":{}},"f:d":{}}"#
    );
    assert_eq!(set_text(&changed.added), r#"{"f:d":{"f:e":{}}}"#);
}
