use super::*;
use crate::value;

fn schema() -> Schema {
    Schema::compile(&value!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "default": {"size": 3},
                "properties": {
                    "size": {"type": "integer", "default": 1, "maximum": 9},
                    "color": {"type": "string", "default": "red", "nullable": true},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                        "properties": {"known": {"type": "object", "properties": {"a": {"type": "string"}}}}},
                    "tags": {"type": "object", "additionalProperties": {"type": "object", "properties": {"v": {"type": "integer", "default": 7}}}},
                    "list": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "string"}, "d": {"type": "string", "default": "x"}}}},
                    "template": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}}
                }
            }
        }
    }))
}

#[test]
fn what_is_not_known_is_pruned_and_told() {
    let mut object = value!({
        "apiVersion": "a/v1", "kind": "A", "metadata": {"name": "x", "foo": 1},
        "other": 1,
        "spec": {
            "size": 2, "foo": {"a": 1},
            "free": {"any": {"thing": 1}, "known": {"a": "1", "b": 2}},
            "tags": {"x": {"v": 1, "w": 2}},
            "list": [{"n": "a"}, {"n": "b", "o": 1}],
            "template": {"kind": "K", "metadata": {"name": "y"}, "spec": {"a": 1}, "more": true}
        }
    });
    assert_eq!(
        schema().prune(&mut object),
        [
            "other",
            "spec.foo",
            "spec.free.known.b",
            "spec.list[1].o",
            "spec.tags.x.w",
            "spec.template.more",
            "spec.template.spec.a"
        ]
    );
    assert_eq!(
        object,
        value!({
            "apiVersion": "a/v1", "kind": "A", "metadata": {"name": "x", "foo": 1},
            "spec": {
                "size": 2,
                "free": {"any": {"thing": 1}, "known": {"a": "1"}},
                "tags": {"x": {"v": 1}},
                "list": [{"n": "a"}, {"n": "b"}],
                "template": {"kind": "K", "metadata": {"name": "y"}, "spec": {}}
            }
        })
    );
}

#[test]
fn absent_members_get_their_defaults_and_those_of_defaults() {
    let mut object = value!({"kind": "A"});
    schema().fill_defaults(&mut object);
    assert_eq!(
        object,
        value!({"kind": "A", "spec": {"size": 3, "color": "red"}})
    );
    let mut object = value!({"spec": {"tags": {"a": {}}, "list": [{}], "color": null}});
    schema().fill_defaults(&mut object);
    assert_eq!(
        object,
        value!({"spec": {
            "tags": {"a": {"v": 7}}, "list": [{"d": "x"}], "color": null, "size": 1
        }})
    );
}

#[test]
fn null_is_dropped_defaulted_or_kept_by_the_schema() {
    let schema = schema();
    let mut object =
        value!({"spec": {"size": null, "color": null, "tags": null, "list": [{"n": null}]}});
    schema.prune_nulls(&mut object);
    assert_eq!(
        object,
        value!({"spec": {"size": null, "color": null, "list": [{}]}})
    );
    schema.fill_defaults(&mut object);
    assert_eq!(
        object,
        value!({"spec": {"size": 1, "color": null, "list": [{"d": "x"}]}})
    );
}

#[test]
fn formats_that_mean_nothing_are_forgotten() {
    let format = |props: Value| {
        let schema = Schema::compile(&props);
        schema.rules().map(|rules| rules.format.to_string())
    };
    assert_eq!(
        format(value!({"type": "string", "format": "date-time"})).as_deref(),
        Some("date-time")
    );
    assert_eq!(
        format(value!({"type": "string", "format": "int32"})).as_deref(),
        Some("")
    );
    assert_eq!(
        format(value!({"type": "integer", "format": "int32"})).as_deref(),
        Some("int32")
    );
    assert_eq!(format(value!({"type": "object"})), None);
}

#[test]
fn a_schema_of_a_hundred_fields_is_small() {
    let properties: Value = Value::Object(
        (0..100)
            .map(|at| {
                (
                    format!("field{at}"),
                    value!({"type": "string", "description": (" ".repeat(500)), "maxLength": 9}),
                )
            })
            .collect(),
    );
    let schema = Schema::compile(&value!({"type": "object", "properties": properties}));
    assert!(schema.heap_size() < 100 * 800, "{}", schema.heap_size());
}
