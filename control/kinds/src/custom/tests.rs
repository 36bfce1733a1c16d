use control_types::value;

use super::*;

fn kind(schema: Value) -> CustomKind {
    let definition = value!({"spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"kind": "Gear", "plural": "gears"}
    }});
    let version = value!({
        "name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": {
            "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"
        }},
        "selectableFields": [{"jsonPath": ".spec.color"}],
        "additionalPrinterColumns": [
            {"name": "Color", "type": "string", "jsonPath": ".spec.color"},
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}
        ]
    });
    CustomKind::new(&definition, &version)
}

fn gear(spec: Value) -> Value {
    value!({
        "apiVersion": "example.com/v1", "kind": "Gear",
        "metadata": {"name": "a", "namespace": "n", "uid": "1", "resourceVersion": "1"},
        "spec": spec
    })
}

/// Errors of a property `x` of the spec with a schema.
fn errors(schema: Value, given: Value) -> Vec<String> {
    let kind = kind(value!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"x": schema}}
    }}));
    let mut object = gear(value!({"x": given}));
    kind.before_create(&mut object)
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// As kube-apiserver 1.36.3 answered: whether the type is wrong, and whether the value
/// is out of the range of no format, of `int64` and of `int32`.
#[test]
fn numbers_too_large_for_an_integer_are_told_as_kubernetes_tells_them() {
    for (number, of_type, of_range) in [
        ("9223372036854775807", false, [false, false, true]),
        ("9223372036854775808", true, [true, true, true]),
        ("-9223372036854775808", false, [false, false, true]),
        ("-9223372036854775809", true, [true, true, true]),
        ("9007199254740993", false, [false, false, true]),
        ("9007199254740993.0", true, [false, false, true]),
        ("1e3", false, [false, false, false]),
        ("1e18", true, [false, false, true]),
        ("1e19", true, [true, true, true]),
        ("0.1", true, [true, true, true]),
    ] {
        let value = Value::from_slice(number.as_bytes()).expect("a number");
        for (format, of_range) in ["", "int64", "int32"].into_iter().zip(of_range) {
            let mut schema = value!({"type": "integer"});
            if !format.is_empty() {
                schema.insert("format", format);
            }
            let found = errors(schema, value.clone());
            let told = |what: &str| found.iter().any(|error| error.contains(what));
            let about = (
                told("in body must be of type"),
                told("Checked value must be"),
            );
            assert_eq!(about, (of_type, of_range), "{number} {format}: {found:?}");
        }
    }
}

#[test]
fn what_does_not_fit_is_told_as_kubernetes_tells_it() {
    for (schema, given, wanted) in [
        (
            value!({"type": "integer"}),
            value!("a"),
            vec![
                "spec.x: Invalid value: \"string\": spec.x in body must be of type integer: \"string\"",
            ],
        ),
        (value!({"type": "integer"}), value!(1.0), vec![]),
        (value!({"type": "number"}), value!(1), vec![]),
        (
            value!({"type": "integer", "minimum": 2}),
            value!(1),
            vec!["spec.x: Invalid value: 1: spec.x in body should be greater than or equal to 2"],
        ),
        (
            value!({"type": "number", "maximum": 2.5, "exclusiveMaximum": true}),
            value!(2.5),
            vec!["spec.x: Invalid value: 2.5: spec.x in body should be less than 2.5"],
        ),
        (
            value!({"type": "integer", "multipleOf": 3}),
            value!(4),
            vec!["spec.x: Invalid value: 4: spec.x in body should be a multiple of 3"],
        ),
        (
            value!({"type": "string", "enum": ["a", "b"]}),
            value!("c"),
            vec!["spec.x: Unsupported value: \"c\": supported values: \"a\", \"b\""],
        ),
        (
            value!({"type": "string", "pattern": "^a+$"}),
            value!("b"),
            vec!["spec.x: Invalid value: \"b\": spec.x in body should match '^a+$'"],
        ),
        (
            value!({"type": "string", "maxLength": 2}),
            value!("abc"),
            vec!["spec.x: Too long: may not be more than 2 bytes"],
        ),
        (
            value!({"type": "string", "minLength": 2}),
            value!("a"),
            vec!["spec.x: Invalid value: \"a\": spec.x in body should be at least 2 chars long"],
        ),
        (
            value!({"type": "array", "items": {"type": "string"}, "maxItems": 1}),
            value!(["a", 1]),
            vec![
                "spec.x[1]: Invalid value: \"integer\": spec.x[1] in body must be of type string: \"integer\"",
                "spec.x: Too many: 2: must have at most 1 item",
            ],
        ),
        (
            value!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
            value!(["a", "b", "a", "a"]),
            vec!["spec.x[2]: Duplicate value: \"a\""],
        ),
        (
            value!({"type": "object", "properties": {"y": {"type": "string"}}, "required": ["y"]}),
            value!({}),
            vec!["spec.x.y: Required value"],
        ),
        (
            value!({"x-kubernetes-int-or-string": true}),
            value!(true),
            vec![
                "spec.x: Invalid value: \"boolean\": spec.x in body must be of type integer,string: \"boolean\"",
            ],
        ),
        (
            value!({"type": "string", "format": "ipv4"}),
            value!("x"),
            vec!["spec.x: Invalid value: \"x\": spec.x in body must be of type ipv4: \"x\""],
        ),
        (
            value!({"type": "integer", "not": {"minimum": 5}}),
            value!(6),
            vec!["<nil>: Invalid value: \"\": \"spec.x\" must not validate the schema (not)"],
        ),
        (
            value!({"type": "integer", "oneOf": [{"maximum": 5}, {"minimum": 5}]}),
            value!(5),
            vec![
                "<nil>: Invalid value: \"\": \"spec.x\" must validate one and only one schema (oneOf). Found 2 valid alternatives",
            ],
        ),
    ] {
        assert_eq!(errors(schema.clone(), given), wanted, "{schema}");
    }
}

#[test]
fn rules_are_left_out_where_a_value_has_another_type() {
    const SKIPPED: &str = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
    let schema = value!({
        "type": "integer",
        "x-kubernetes-validations": [{"rule": "self > 3"}]
    });
    assert_eq!(
        errors(schema, value!("a")),
        [
            "spec.x: Invalid value: \"string\": spec.x in body must be of type integer: \"string\"",
            SKIPPED
        ]
    );
}

#[test]
fn rules_are_told_with_their_messages_and_places() {
    let kind = kind(value!({"type": "object", "properties": {"spec": {
        "type": "object",
        "properties": {"min": {"type": "integer"}, "max": {"type": "integer", "x-kubernetes-validations": [
            {"rule": "self == oldSelf", "message": "is immutable"}
        ]}},
        "x-kubernetes-validations": [
            {"rule": "self.min <= self.max", "fieldPath": ".min", "reason": "FieldValueForbidden",
             "messageExpression": "'at most ' + string(self.max)"},
            {"rule": "self.min != 7"}
        ]
    }}}));
    let told = |errors: Vec<crate::FieldError>| -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    };
    let mut fine = gear(value!({"min": 1, "max": 2}));
    assert!(kind.before_create(&mut fine).is_empty());
    let mut wrong = gear(value!({"min": 7, "max": 2}));
    assert_eq!(
        told(kind.before_create(&mut wrong)),
        [
            "spec.min: Forbidden: at most 2",
            "spec: Invalid value: failed rule: self.min != 7"
        ]
    );
    let mut changed = gear(value!({"min": 1, "max": 3}));
    assert_eq!(
        told(kind.before_update(&mut changed, &fine)),
        ["spec.max: Invalid value: 3: is immutable"]
    );
}

#[test]
fn an_update_lets_through_what_was_there_before() {
    let kind = kind(
        value!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "x": {"type": "string", "maxLength": 2}, "y": {"type": "integer", "maximum": 3}
        }}}}),
    );
    let old = gear(value!({"x": "long", "y": 1}));
    let mut new = gear(value!({"x": "long", "y": 2}));
    assert!(kind.before_update(&mut new, &old).is_empty());
    let mut new = gear(value!({"x": "longer", "y": 2}));
    assert_eq!(kind.before_update(&mut new, &old).len(), 1);
}

#[test]
fn status_and_spec_are_written_through_their_own_endpoints() {
    let kind = kind(value!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    let mut object = gear(value!({"a": 1}));
    object.insert("status", value!({"b": 1}));
    let mut made = object.clone();
    assert!(kind.before_create(&mut made).is_empty());
    assert_eq!(made.get("status"), None);
    assert_eq!(control_types::meta::generation(&made), 1);
    let mut new = object.clone();
    new.insert("spec", value!({"a": 2}));
    assert!(kind.before_update(&mut new, &made).is_empty());
    assert_eq!(new.get("status"), None);
    assert_eq!(control_types::meta::generation(&new), 2);
    let mut status = object.clone();
    status.insert("spec", value!({"a": 9}));
    assert_eq!(kind.before_status_update(&mut status, &made), Some(vec![]));
    assert_eq!(status.get("spec"), made.get("spec"));
    assert_eq!(status.get("status"), Some(&value!({"b": 1})));
    assert_eq!(control_types::meta::generation(&status), 1);
}

#[test]
fn rows_and_selectable_fields_are_found_by_their_paths() {
    let kind = kind(value!({"type": "object"}));
    let object = gear(value!({"color": "red", "size": 3}));
    assert_eq!(
        kind.row(&object, jiff::Timestamp::now()),
        [value!("a"), value!("red"), value!(3)]
    );
    assert_eq!(kind.columns().len(), 3);
    assert_eq!(
        kind.selectable_fields(&object),
        [("spec.color", "red".to_owned())]
    );
}

#[test]
fn versions_are_ordered_by_stability_then_number() {
    let mut all = [
        "v1",
        "v10",
        "v2beta1",
        "foo",
        "v11alpha2",
        "v2",
        "v3beta1",
        "bar",
    ];
    all.sort_by(|a, b| compare_versions(b, a));
    assert_eq!(
        all,
        [
            "v10",
            "v2",
            "v1",
            "v3beta1",
            "v2beta1",
            "v11alpha2",
            "bar",
            "foo"
        ]
    );
}
