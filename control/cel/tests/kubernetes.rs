//! Tests values as Kubernetes declares them: custom resources, the authorizer, variables and
//! mutations.

use std::cell::Cell;

use control_cel::{
    Authorizer, Bindings, Budget, Check, Decision, Entries, Env, Error, Lazy, Program, Question,
    Schema, Type, Val, compile,
};
use control_types::value::Value;

fn json(text: &str) -> Value {
    Value::from_slice(text.as_bytes()).expect("JSON")
}

/// A program that outlives all bindings, as those of a server do.
fn made(source: &str, env: &Env) -> &'static Program {
    let program = compile(source, env).unwrap_or_else(|issues| panic!("{issues}"));
    Box::leak(Box::new(program))
}

#[test]
fn custom_resources_are_read_as_their_schema_says() {
    let schema = Schema::read_declaration(
        &json(
            r#"{"type":"object","properties":{
                "namespace":{"type":"string"},"a-b":{"type":"integer"},"f":{"type":"number"},
                "when":{"type":"string","format":"date-time"},"day":{"type":"string","format":"date"},
                "span":{"type":"string","format":"duration"},"data":{"type":"string","format":"byte"},
                "port":{"x-kubernetes-int-or-string":true},
                "set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
                "ports":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["n"],
                    "items":{"type":"object","properties":{"n":{"type":"string"},"p":{"type":"integer"}}}},
                "labels":{"type":"object","additionalProperties":{"type":"string"}},
                "free":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}"#,
        ),
        true,
    )
    .expect("a type");
    let env = Env::new()
        .with("self", schema.type_of())
        .with("oldSelf", schema.type_of());
    let new = json(
        r#"{"apiVersion":"v1","kind":"K","metadata":{"name":"n"},"namespace":"x","a-b":3,"f":2,
            "when":"2024-01-01T00:00:00Z","day":"2024-01-02","span":"90s","data":"aGk=","port":"80%",
            "set":["a","b"],"ports":[{"n":"x","p":1},{"n":"y","p":2}],"labels":{"a-b":"c"},
            "free":{"q":1},"undeclared":1}"#,
    );
    let old =
        json(r#"{"a-b":2,"set":["b","a"],"ports":[{"n":"y","p":2},{"n":"x","p":1}],"port":8}"#);
    let bindings = Bindings::new()
        .with("self", schema.read(&new).expect("right"))
        .with("oldSelf", schema.read(&old).expect("right"));
    for rule in [
        "self.__namespace__ == 'x'",
        "self.namespace == 'x' && has(self.namespace)",
        "self.a__dash__b > oldSelf.a__dash__b",
        "self.f == 2.0 && type(self.f) == double",
        "self.when < timestamp('2024-06-01T00:00:00Z')",
        "self.day.getDate() == 2",
        "self.span == duration('1m30s')",
        "self.data == b'hi'",
        "type(self.port) == string && type(oldSelf.port) == int",
        "self.set == oldSelf.set",
        "(self.set + ['b', 'c']).size() == 3",
        "self.ports == oldSelf.ports",
        "self.ports + oldSelf.ports == self.ports",
        "self.labels['a-b'] == 'c' && 'a-b' in self.labels",
        "self.metadata.name == 'n' && self.kind == 'K'",
        "!has(oldSelf.labels) && has(self.labels)",
        "self.?labels[?'zz'].hasValue() == false",
        "self == self && self != oldSelf",
    ] {
        let program = made(rule, &env);
        let result = program.evaluate(&bindings, &mut Budget::per_call());
        let result = result.map(|value| value.as_bool());
        assert_eq!(result, Ok(Some(true)), "{rule}");
    }
    assert!(made("self.f > oldSelf.f", &env).reads("oldSelf"));
    for wrong in ["self.undeclared == 1", "self.free.q == 1"] {
        assert!(compile(wrong, &env).is_err(), "{wrong}");
    }
    let bad = json(r#"{"when":"yesterday"}"#);
    let bindings = Bindings::new().with("self", schema.read(&bad).expect("an object"));
    let program = made("self.when == self.when", &env);
    assert!(
        program
            .evaluate(&bindings, &mut Budget::per_call())
            .is_err()
    );
}

#[derive(Debug)]
struct Known;

impl Authorizer for Known {
    fn authorize(&self, question: &Question) -> Decision {
        Decision {
            allowed: question.resource == "pods"
                && question.verb == "list"
                && question.namespace == "shop"
                && question.label_selector == "a=b"
                || question.path.as_deref() == Some("/healthz")
                || question.service_account.is_some(),
            reason: format!("asked of {:?}", question.name),
            error: (question.verb == "fail").then(|| "broken".to_owned()),
        }
    }
}

#[test]
fn authorizers_are_asked_what_is_written() {
    let env = Env::new()
        .with(
            "authorizer",
            Type::Opaque("kubernetes.authorization.Authorizer"),
        )
        .with(
            "authorizer.requestResource",
            Type::Opaque("kubernetes.authorization.ResourceCheck"),
        );
    let request = Question {
        resource: "pods".to_owned(),
        namespace: "shop".to_owned(),
        label_selector: "a=b".to_owned(),
        name: "web".to_owned(),
        ..Question::default()
    };
    let bindings = Bindings::new().with("authorizer", Check::variable(&Known, Some(request)));
    for (rule, answer) in [
        (
            "authorizer.group('').resource('pods').namespace('shop').labelSelector('a=b').check('list').allowed()",
            true,
        ),
        (
            "authorizer.group('').resource('pods').check('list').allowed()",
            false,
        ),
        ("authorizer.path('/healthz').check('get').allowed()", true),
        (
            "authorizer.serviceAccount('a', 'b').group('').resource('x').check('y').allowed()",
            true,
        ),
        ("authorizer.requestResource.check('list').allowed()", true),
        ("authorizer.requestResource.check('fail').errored()", true),
        (
            "authorizer.requestResource.check('fail').error() == 'broken'",
            true,
        ),
        (
            "authorizer.requestResource.check('x').reason() == 'asked of \"web\"'",
            true,
        ),
    ] {
        let program = made(rule, &env);
        let mut budget = Budget::per_call();
        let result = program.evaluate(&bindings, &mut budget);
        let result = result.map(|value| value.as_bool());
        assert_eq!(result, Ok(Some(answer)), "{rule}");
        assert!(budget.left < Budget::CALL - 350_000, "{rule}");
    }
    let said = |rule| {
        let program = made(rule, &env);
        let result = program.evaluate(&bindings, &mut Budget::per_call());
        result
            .map(|value| value.as_bool())
            .map_err(|error| error.to_string())
    };
    assert_eq!(
        said("authorizer.path(' ').check('get').allowed()"),
        Err("path must not be empty".to_owned())
    );
    let thrice = "[1, 2, 3].all(x, authorizer.path('/healthz').check('get').allowed())";
    assert_eq!(said(thrice), Err(Error::CostLimit.to_string()));
}

#[derive(Debug, Default)]
struct Counted(Cell<u32>);

impl<'a> Lazy<'a> for Counted {
    fn get(&'a self, name: &str) -> Option<Result<Val<'a>, Error>> {
        self.0.set(self.0.get() + 1);
        (name == "five").then_some(Ok(Val::Int(5)))
    }
}

#[test]
fn variables_are_made_when_they_are_read() {
    let variables = vec![("five".to_owned(), Type::Int)];
    let env = Env::new().with("variables", Type::Record(variables));
    let counted = Counted::default();
    let bindings = Bindings::new().with("variables", Val::Map(Entries::Lazy(&counted)));
    let program = made("false && variables.five == 5", &env);
    assert!(program.evaluate(&bindings, &mut Budget::per_call()).is_ok());
    assert_eq!(counted.0.get(), 0);
    let program = made("variables.five == 5", &env);
    let result = program.evaluate(&bindings, &mut Budget::per_call());
    assert_eq!(result.map(|value| value.as_bool()), Ok(Some(true)));
    assert_eq!(counted.0.get(), 1);
}

#[test]
fn mutations_make_objects_and_patches() {
    let plain = Env::new().with("object", Type::Dyn);
    let env = plain.clone().with_patches();
    let object = json(r#"{"metadata":{"labels":{"a/b":"c"}}}"#);
    let bindings = Bindings::new().with("object", Val::tree(&object));
    for (source, wanted) in [
        (
            "Object{spec: Object.spec{replicas: 3, ?paused: optional.none()}, metadata: Object.metadata{labels: {'a': 'b'}}}",
            r#"{"spec":{"replicas":3},"metadata":{"labels":{"a":"b"}}}"#,
        ),
        (
            "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b~'), value: 'x'}]",
            r#"[{"op":"add","path":"/metadata/labels/a~1b~0","value":"x"}]"#,
        ),
    ] {
        let program = made(source, &env);
        let value = program.evaluate(&bindings, &mut Budget::per_call());
        let value = value.expect("a value").to_value().expect("JSON");
        assert_eq!(value, json(wanted), "{source}");
    }
    for (source, env, wrong) in [
        (
            "JSONPatch{op: 1}",
            &env,
            "ERROR: <input>:1:13: expected type of field 'op' is 'string' but provided type is 'int'",
        ),
        (
            "JSONPatch{op: 'add', a: 1}",
            &env,
            "ERROR: <input>:1:23: expected type of field 'a' is '' but provided type is 'int'",
        ),
        (
            "Object{}",
            &plain,
            "ERROR: <input>:1:7: undeclared reference to 'Object' (in container '')",
        ),
        (
            "jsonpatch.escapeKey('a')",
            &plain,
            "ERROR: <input>:1:1: undeclared reference to 'jsonpatch' (in container '')",
        ),
    ] {
        let issues = compile(source, env).expect_err(source).to_string();
        assert!(issues.starts_with(wrong), "{source}: {issues}");
    }
}

#[test]
fn parts_are_named_where_that_is_allowed() {
    let env = Env::new().with("n", Type::Int).with_bindings();
    let bindings = Bindings::new().with("n", Val::Int(4));
    for rule in [
        "cel.bind(a, n + 1, cel.bind(b, a * 2, a + b + [a].map(a, a * 10)[0])) == 65",
        "[1, 2].all(x, cel.bind(y, x * n, y == x * n))",
        "cel.bind(n, n + 1, n) == n + 1",
    ] {
        let found = made(rule, &env).evaluate(&bindings, &mut Budget::new(1000));
        assert_eq!(found.map(|it| it.as_bool()), Ok(Some(true)), "{rule}");
    }
    let why = |text: &str| compile(text, &env).expect_err("wrong").to_string();
    assert!(why("cel.bind(a, 'x', a + 1)").contains("no matching overload"));
    assert!(why("cel.bind(a.b, 1, a)").contains("variable names must be simple identifiers"));
    assert!(why("cel.bind(a, 1, a) == a").contains("undeclared reference to 'a'"));
    let plain = Env::new().with("n", Type::Int);
    let why = compile("cel.bind(a, n, a)", &plain).expect_err("not allowed here");
    assert!(why.to_string().contains("undeclared reference to 'cel'"));
}
