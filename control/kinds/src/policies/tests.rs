//! Tests that policies decide as those of kube-apiserver do.

use std::cell::Cell;

use control_cel::{Authorizer, Decision, Question};
use control_types::value;
use control_types::value::Value;

use super::*;

#[derive(Debug, Default)]
struct Nobody(Cell<u32>);

impl Authorizer for Nobody {
    fn authorize(&self, question: &Question) -> Decision {
        self.0.set(self.0.get() + 1);
        Decision {
            allowed: question.verb == "get" && question.resource == "pods",
            ..Decision::default()
        }
    }
}

fn pod() -> Value {
    value!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "a", "labels": {"app": "x"}},
        "spec": {"replicas": 3, "containers": [{"name": "c", "image": "i"}]}
    })
}

/// Evaluates a policy with this `spec` on a pod.
fn decide(spec: &Value, params: Option<&Value>) -> Verdict {
    let (object, request) = (pod(), value!({"operation": "CREATE", "name": "a"}));
    let (authorizer, resource) = (Nobody::default(), Question::default());
    let facts = Facts {
        object: Some(&object),
        old: None,
        request: &request,
        namespace: None,
        params,
        authorizer: Some((&authorizer, &resource)),
    };
    ValidatingPolicy::compile(spec).decide(&facts)
}

fn messages(verdict: &Verdict) -> Vec<&str> {
    verdict
        .findings
        .iter()
        .map(|one| one.message.as_str())
        .collect()
}

#[test]
fn messages_are_made_of_expression_text_or_rule() {
    let verdict = decide(
        &value!({"validations": [
            {"expression": "object.spec.replicas > 1"},
            {"expression": "object.spec.replicas > 5", "message": "too few"},
            {"expression": " object.spec.replicas > 6 "},
            {"expression": "false", "message": "m", "messageExpression": "'has ' + string(object.spec.replicas)", "reason": "Forbidden"},
            {"expression": "false", "message": "m", "messageExpression": "'a\\nb'"},
            {"expression": "false", "message": "m", "messageExpression": "object.nothing"}
        ]}),
        None,
    );
    assert_eq!(
        messages(&verdict),
        [
            "too few",
            "failed expression: object.spec.replicas > 6",
            "has 3",
            "m",
            "m"
        ]
    );
    let indexes: Vec<usize> = verdict.findings.iter().map(|one| one.index).collect();
    assert_eq!(indexes, [1, 2, 3, 4, 5]);
    assert_eq!(verdict.findings[2].reason, "Forbidden");
}

#[test]
fn failures_deny_unless_they_are_ignored() {
    for (policy, denies) in [("Fail", true), ("Ignore", false)] {
        let verdict = decide(
            &value!({"failurePolicy": policy, "validations": [
                {"expression": "object.nothing > 1"},
                {"expression": "object.spec.replicas"},
                {"expression": "false"}
            ]}),
            None,
        );
        let denied: Vec<bool> = verdict.findings.iter().map(|one| one.denies).collect();
        assert_eq!(denied, [denies, denies, true]);
        assert_eq!(
            messages(&verdict),
            [
                "expression 'object.nothing > 1' resulted in error: no such key: nothing",
                "compilation error: must evaluate to bool but got dyn",
                "failed expression: false"
            ]
        );
        assert_eq!(verdict.findings[1].cause, Cause::Compilation);
    }
}

#[test]
fn variables_are_made_once_and_of_each_other() {
    let verdict = decide(
        &value!({
            "variables": [
                {"name": "n", "expression": "object.spec.replicas"},
                {"name": "twice", "expression": "variables.n * 2"},
                {"name": "broken", "expression": "object.nothing"},
                {"name": "wrong", "expression": "nothing"}
            ],
            "validations": [
                {"expression": "variables.twice == 6 && variables.twice == variables.n + 3"},
                {"expression": "variables.broken == 1"},
                {"expression": "variables.wrong == 1"}
            ]
        }),
        None,
    );
    assert_eq!(
        verdict.findings[0].message,
        "expression 'variables.broken == 1' resulted in error: composited variable \"broken\" fails to evaluate: no such key: nothing"
    );
    assert!(verdict.findings[1].message.starts_with(
        "expression 'variables.wrong == 1' resulted in error: composited variable \"wrong\" fails to compile: compilation failed: ERROR: <input>:1:1: undeclared reference to 'nothing'"
    ));
    assert_eq!(verdict.findings.len(), 2);
}

#[test]
fn a_variable_that_needs_itself_fails_alone() {
    let verdict = decide(
        &value!({
            "variables": [
                {"name": "x", "expression": "1"},
                {"name": "x", "expression": "variables.x + 1"}
            ],
            "validations": [{"expression": "variables.x == 2"}]
        }),
        None,
    );
    assert_eq!(verdict.findings.len(), 1);
    assert!(verdict.findings[0].message.contains("needs itself"));
}

#[test]
fn conditions_leave_requests_alone() {
    let mut spec = value!({
        "matchConditions": [
            {"name": "a", "expression": "request.operation == 'CREATE'"},
            {"name": "b", "expression": "object.nothing == 1"},
            {"name": "c", "expression": "object.spec.replicas == 0"}
        ],
        "validations": [{"expression": "false"}]
    });
    assert!(decide(&spec, None).findings.is_empty());
    spec.as_object_mut()
        .and_then(|map| map.get_mut("matchConditions"))
        .and_then(Value::as_array_mut)
        .expect("a list")
        .pop();
    assert_eq!(
        messages(&decide(&spec, None)),
        ["expression 'object.nothing == 1' resulted in error: no such key: nothing"]
    );
}

#[test]
fn parameters_and_authorizer_are_known() {
    let verdict = decide(
        &value!({
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "validations": [
                {"expression": "object.spec.replicas <= int(params.data.most)"},
                {"expression": "authorizer.group('').resource('pods').check('get').allowed()"},
                {"expression": "authorizer.group('').resource('pods').check('list').allowed()"}
            ],
            "auditAnnotations": [
                {"key": "most", "valueExpression": "'at most ' + params.data.most"},
                {"key": "none", "valueExpression": "null"},
                {"key": "bad", "valueExpression": "string(params.data.nothing)"}
            ]
        }),
        Some(&value!({"data": {"most": "2"}})),
    );
    let indexes: Vec<usize> = verdict.findings.iter().map(|one| one.index).collect();
    assert_eq!(indexes, [0, 2]);
    let notes: Vec<&Note> = verdict.annotations.iter().map(|one| &one.note).collect();
    assert_eq!(notes[0], &Note::Text("at most 2".into()));
    assert!(matches!(notes[1], Note::Failed(why) if why.contains("no such key: nothing")));
}

#[test]
fn a_budget_is_for_all_expressions_together() {
    let costly = "[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, [1,2,3,4,5,6,7,8,9].all(d, [1,2,3,4,5,6,7,8,9].all(e, e > 0)))))";
    let all: Vec<Value> = (0..60).map(|_| value!({"expression": costly})).collect();
    let verdict = decide(&value!({"validations": (Value::Array(all))}), None);
    assert_eq!(
        messages(&verdict),
        [
            "validation failed due to running out of cost budget, no further validation rules will be run"
        ]
    );
    assert_eq!(verdict.findings[0].cause, Cause::Budget);
}

#[test]
fn mutations_ask_for_fields_or_operations() {
    let spec = value!({
        "variables": [{"name": "image", "expression": "object.spec.containers[0].image"}],
        "mutations": [
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression":
                "Object{metadata: Object.metadata{labels: {'image': variables.image}}, spec: Object.spec{containers: [Object.spec.containers{name: 'c', image: 'z'}]}}"}},
            {"patchType": "JSONPatch", "jsonPatch": {"expression":
                "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: 'c'}, JSONPatch{op: 'add', path: '/spec/x', value: Object.spec.x{y: 1}}]"}},
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{spec: Object.wrong{}}"}},
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "object"}},
            {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 1}]"}}
        ]
    });
    let (object, request) = (pod(), Value::Null);
    let facts = Facts {
        object: Some(&object),
        old: None,
        request: &request,
        namespace: None,
        params: None,
        authorizer: None,
    };
    let policy = MutatingPolicy::compile(&spec);
    assert_eq!(policy.len(), 5);
    assert_eq!(
        policy.mutate(0, &facts).ok(),
        Some(Mutation::Apply(value!({
            "metadata": {"labels": {"image": "i"}},
            "spec": {"containers": [{"name": "c", "image": "z"}]}
        })))
    );
    assert_eq!(
        policy.mutate(1, &facts).ok(),
        Some(Mutation::Patch(value!([
            {"op": "add", "path": "/metadata/labels/a~1b", "value": "c"},
            {"op": "add", "path": "/spec/x", "value": {"y": 1}}
        ])))
    );
    let said = |number| match policy.mutate(number, &facts) {
        Ok(made) => panic!("{made:?}"),
        Err(error) => error.to_string(),
    };
    // a type that is misnamed
    assert!(said(2).starts_with(
        "type mismatch: unexpected type name \"Object.wrong\", expected \"Object.spec\""
    ));
    // no object
    assert_eq!(said(3), "must evaluate to Object but got dyn");
    // no operation
    let said = said(4);
    assert!(
        said.contains("expected type of field 'op' is 'string' but provided type is 'int'"),
        "{said}"
    );
}
