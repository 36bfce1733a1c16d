use super::*;
use crate::filter::Filter;
use control_types::coerce;
use control_types::schema::TypeId;
use control_types::value;

/// Pods, in one version.
struct Pods(Option<Filter>);

fn pod_type() -> TypeId {
    TypeId::by_name("io.k8s.api.core.v1.Pod").unwrap()
}

impl Versions for Pods {
    fn schema(&self, version: &str) -> Option<Schema<'_>> {
        (version == "v1").then(|| Schema::Struct(pod_type()))
    }
    fn convert(&self, _: &Value, _: &str, _: &str) -> Option<Value> {
        None
    }
    fn filter(&self, _: &str) -> Option<&Filter> {
        self.0.as_ref()
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

fn pod(labels: Value) -> Value {
    value!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": (labels)}})
}

fn applied(live: &Value, config: &Value, name: &str, force: bool) -> Result<Value, ApplyError> {
    let mut new = apply(&Pods(None), live, config, &writer(name), force)?;
    coerce::coerce(&mut new, pod_type()).unwrap();
    coerce::complete(&mut new, pod_type());
    meta::set_uid(&mut new, "u");
    Ok(new)
}

fn written(live: &Value, name: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut new = live.clone();
    change(&mut new);
    update(&Pods(None), live, &mut new, &writer(name));
    new
}

/// Managers and what they own, a line each.
fn owners(object: &Value) -> Vec<String> {
    object
        .items_at(&["metadata", "managedFields"])
        .iter()
        .map(|entry| {
            format!(
                "{} {} {}",
                entry.str_at(&["manager"]).unwrap_or_default(),
                entry.str_at(&["operation"]).unwrap_or_default(),
                entry.get("fieldsV1").unwrap_or(&Value::Null)
            )
        })
        .collect()
}

const A: &str = r#"{"f:metadata":{"f:labels":{"f:a":{}}}}"#;

#[test]
fn an_applier_owns_what_it_applies_and_a_second_may_share_it() {
    let empty = Pods(None).empty();
    let one = applied(&empty, &pod(value!({"a": "1"})), "x", false).unwrap();
    assert_eq!(owners(&one), [format!("x Apply {A}")]);
    let two = applied(&one, &pod(value!({"a": "1"})), "y", false).unwrap();
    assert_eq!(
        owners(&two),
        [format!("y Apply {A}"), format!("x Apply {A}")]
    );
    // The second wrote nothing: it has no time.
    assert_eq!(
        two.str_at(&["metadata", "managedFields", "0", "time"]),
        None
    );
    // One gives it up: it stays, as the other has it.
    let three = applied(&two, &pod(value!({})), "x", false).unwrap();
    assert_eq!(three.str_at(&["metadata", "labels", "a"]), Some("1"));
    // Both give it up: it goes.
    let four = applied(&three, &pod(value!({})), "y", false).unwrap();
    assert_eq!(four.path(&["metadata", "labels"]), None);
}

#[test]
fn changing_what_another_owns_conflicts_unless_forced() {
    let empty = Pods(None).empty();
    let one = applied(&empty, &pod(value!({"a": "1"})), "x", false).unwrap();
    let error = applied(&one, &pod(value!({"a": "2"})), "y", false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"x\": .metadata.labels.a"
    );
    let two = applied(&one, &pod(value!({"a": "2"})), "y", true).unwrap();
    assert_eq!(owners(&two), [format!("y Apply {A}")]);
    let edited = written(&two, "edit", |new| meta::set_label(new, "a", "3"));
    assert_eq!(owners(&edited), [format!("edit Update {A}")]);
    let error = applied(&edited, &pod(value!({"a": "4", "b": "1"})), "y", false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"edit\" using v1: .metadata.labels.a"
    );
}

#[test]
fn what_was_there_before_the_first_apply_belongs_to_somebody() {
    let mut live = pod(value!({"a": "1"}));
    meta::set_uid(&mut live, "u");
    let new = applied(&live, &pod(value!({"b": "1"})), "x", false).unwrap();
    assert_eq!(
        owners(&new),
        [
            r#"x Apply {"f:metadata":{"f:labels":{"f:b":{}}}}"#,
            r#"before-first-apply Update {"f:metadata":{"f:labels":{".":{},"f:a":{}}}}"#
        ]
    );
}

#[test]
fn a_write_that_changes_nothing_changes_no_managers() {
    let empty = Pods(None).empty();
    let one = applied(&empty, &pod(value!({"a": "1"})), "x", false).unwrap();
    assert_eq!(written(&one, "y", |_| ()), one);
    let twice = applied(&one, &pod(value!({"a": "1"})), "x", false).unwrap();
    assert_eq!(twice, one);
}

#[test]
fn clients_may_send_and_reset_managers_but_not_through_a_subresource() {
    let empty = Pods(None).empty();
    let one = applied(&empty, &pod(value!({"a": "1"})), "x", false).unwrap();
    let list = |list: Value| {
        move |new: &mut Value| {
            meta::metadata_mut(new).insert("managedFields", list);
        }
    };
    for reset in [value!([]), value!([{}])] {
        assert_eq!(owners(&written(&one, "y", list(reset))), [""; 0]);
    }
    let malformed = value!([{"manager": "z", "operation": "Steal"}]);
    assert_eq!(owners(&written(&one, "y", list(malformed))), owners(&one));
    let own = value!([{"manager": "z", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}}]);
    assert_eq!(
        owners(&written(&one, "y", list(own.clone()))),
        [r#"z Apply {"f:spec":{}}"#]
    );
    let mut new = one.clone();
    list(own)(&mut new);
    let through = Writer {
        subresource: "status",
        ..writer("y")
    };
    update(&Pods(None), &one, &mut new, &through);
    assert_eq!(owners(&new), owners(&one));
}

#[test]
fn what_a_strategy_resets_is_nobodys() {
    let status: &[&str] = &["status"];
    let filter = Filter::Exclude([status].into_iter().collect());
    let live = Pods(None).empty();
    let mut new = pod(value!({"a": "1"}));
    new.set_path(&["status", "phase"], "Running");
    coerce::complete(&mut new, pod_type());
    update(&Pods(Some(filter)), &live, &mut new, &writer("x"));
    assert_eq!(
        owners(&new),
        [r#"x Update {"f:metadata":{"f:labels":{".":{},"f:a":{}}}}"#]
    );
}

#[test]
fn more_than_ten_writers_are_joined() {
    let mut live = written(&Pods(None).empty(), "w00", |new| {
        meta::set_label(new, "l00", "1");
    });
    meta::set_uid(&mut live, "u");
    for at in 1..14 {
        let (name, label) = (format!("w{at:02}"), format!("l{at:02}"));
        live = written(&live, &name, |new| meta::set_label(new, &label, "1"));
    }
    let owners = owners(&live);
    assert_eq!(owners.len(), 10);
    assert_eq!(
        owners[0],
        r#"ancient-changes Update {"f:metadata":{"f:labels":{".":{},"f:l00":{},"f:l01":{},"f:l02":{},"f:l03":{},"f:l04":{}}}}"#
    );
}

#[test]
fn kubectl_takes_over_what_client_side_apply_set() {
    let mut live = pod(value!({"a": "1", "b": "1"}));
    let last = pod(value!({"a": "1", "b": "old"}));
    meta::set_annotation(&mut live, LAST_APPLIED, &last.to_string());
    let mut live = written(&Pods(None).empty(), "kubectl-client-side-apply", |new| {
        *new = live;
    });
    coerce::complete(&mut live, pod_type());
    meta::set_uid(&mut live, "u");
    let config = pod(value!({"a": "2"}));
    assert!(applied(&live, &config, "other", false).is_err());
    let new = applied(&live, &config, "kubectl", false).unwrap();
    assert_eq!(new.str_at(&["metadata", "labels", "a"]), Some("2"));
    assert_eq!(
        meta::annotation(&new, LAST_APPLIED),
        Some(
            "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"labels\":{\"a\":\"2\"},\"name\":\"p\"}}\n"
        )
    );
    let error = applied(&live, &pod(value!({"a": "2", "b": "2"})), "kubectl", false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using v1: .metadata.labels.b"
    );
}

#[test]
fn a_configuration_of_another_kind_or_with_managers_is_refused() {
    let live = Pods(None).empty();
    let config = value!({"apiVersion": "v1", "kind": "Node"});
    assert_eq!(
        applied(&live, &config, "x", false).unwrap_err().to_string(),
        "invalid object type: /v1, Kind=Node"
    );
    let mut config = pod(value!({}));
    meta::metadata_mut(&mut config).insert("managedFields", value!([]));
    assert_eq!(
        applied(&live, &config, "x", false).unwrap_err().to_string(),
        "metadata.managedFields must be nil"
    );
    let mut config = pod(value!({}));
    config.set_path(&["spec", "nope"], 1);
    assert_eq!(
        applied(&live, &config, "x", false).unwrap_err().to_string(),
        "failed to create typed patch object (/p; /v1, Kind=Pod): .spec.nope: field not declared in schema"
    );
}

#[test]
fn a_name_comes_from_the_agent_up_to_the_slash() {
    assert_eq!(name_of_agent("kubectl/v1.36 (linux)"), "kubectl");
    assert_eq!(name_of_agent("a\tb\u{7f}c"), "abc");
    assert_eq!(name_of_agent(&"é".repeat(100)).len(), 128);
}
