//! Compares results with those of a stock server (Kubernetes 1.36.3) for the same expressions.

use super::*;

static USER: Object = Object {
    name: "kubernetes.UserInfo",
    fields: &[
        ("username", || Type::String),
        ("groups", || Type::list(Type::String)),
    ],
};
static REQUEST: Object = Object {
    name: "kubernetes.AdmissionRequest",
    fields: &[
        ("operation", || Type::String),
        ("userInfo", || Type::Object(&USER)),
        ("options", || Type::Dyn),
    ],
};

fn env() -> Env {
    Env::new()
        .with("object", Type::Dyn)
        .with("oldObject", Type::Dyn)
        .with("request", Type::Object(&REQUEST))
        .with(
            "authorizer",
            Type::Opaque("kubernetes.authorization.Authorizer"),
        )
}

fn said(source: &str) -> String {
    match check(source, &env()) {
        Ok(of) => of.to_string(),
        Err(issues) => issues.to_string(),
    }
}

#[test]
fn right_expressions_have_a_type() {
    for (source, of) in [
        ("object.foo == 1", "bool"),
        ("request.operation == 'CREATE'", "bool"),
        ("1", "int"),
        ("object", "dyn"),
        ("has(object.x)", "bool"),
        (
            "authorizer.group('').resource('pods').check('get').allowed()",
            "bool",
        ),
        ("object.spec.list.exists(i, i == 1) ? true : false", "bool"),
        ("[1,2].map(x, x*2).exists_one(x, x==2)", "bool"),
        ("quantity('1Gi').isGreaterThan(quantity('1'))", "bool"),
        ("object.?a.orValue(1) == 1", "bool"),
        ("optional.of(1).hasValue()", "bool"),
        ("type(1) == int", "bool"),
        ("duration('1s') > duration('2s')", "bool"),
        ("google.protobuf.Timestamp{} == null", "bool"),
        ("{'a': 1}.a == 1", "bool"),
        ("\"\"\"a\nb\"\"\" == r'\\d' // why", "bool"),
        ("request.userInfo.groups.exists(g, g == 'a')", "bool"),
        ("[1, 2].all(i, v, i < v) && -1 < 0x1F && 1u < 2.5", "bool"),
        (
            "object.metadata.labels.exists(k, k.matches('^a[b-z]+(c|d)*$'))",
            "bool",
        ),
        ("[].all(x, true)", "bool"),
    ] {
        assert_eq!(said(source), of, "{source}");
    }
}

#[test]
fn wrong_expressions_are_told_as_a_stock_server_tells_them() {
    for (source, message) in [
        (
            "a b",
            "1:3: Syntax error: extraneous input 'b' expecting <EOF>\n | a b\n | ..^",
        ),
        (
            "(1",
            "1:3: Syntax error: missing ')' at '<EOF>'\n | (1\n | ..^",
        ),
        (
            "[1,",
            "1:4: Syntax error: missing ']' at '<EOF>'\n | [1,\n | ...^",
        ),
        (
            "... [] bad expression",
            "1:2: Syntax error: no viable alternative at input '..'\n | ... [] bad expression\n | .^",
        ),
        (
            "foo == 1",
            "1:1: undeclared reference to 'foo' (in container '')\n | foo == 1\n | ^",
        ),
        (
            "request.foo == 1",
            "1:8: undefined field 'foo'\n | request.foo == 1\n | .......^",
        ),
        (
            "1 + 'a' == 2",
            "1:3: found no matching overload for '_+_' applied to '(int, string)'\n | 1 + 'a' == 2\n | ..^",
        ),
        (
            "foo(1)",
            "1:4: undeclared reference to 'foo' (in container '')\n | foo(1)\n | ...^",
        ),
        (
            "object.all(x, x > y)",
            "1:19: undeclared reference to 'y' (in container '')\n | object.all(x, x > y)\n | ..................^",
        ),
        (
            "has(object)",
            "1:5: invalid argument to has() macro\n | has(object)\n | ....^",
        ),
        (
            "true && 1",
            "1:9: expected type 'bool' but found 'int'\n | true && 1\n | ........^",
        ),
        (
            "!1",
            "1:1: found no matching overload for '!_' applied to '(int)'\n | !1\n | ^",
        ),
        (
            "true ? 1 : 'a'",
            "1:6: found no matching overload for '_?_:_' applied to '(bool, int, string)'\n | true ? 1 : 'a'\n | .....^",
        ),
        (
            "1 == 1.0",
            "1:3: found no matching overload for '_==_' applied to '(int, double)'\n | 1 == 1.0\n | ..^",
        ),
        (
            "'\\q' == ''",
            "1:1: Syntax error: token recognition error at: ''\\q'\n | '\\q' == ''\n | ^\nERROR: <input>:1:10: Syntax error: token recognition error at: '''\n | '\\q' == ''\n | .........^",
        ),
        (
            "true ? true",
            "1:12: Syntax error: mismatched input '<EOF>' expecting ':'\n | true ? true\n | ...........^",
        ),
        (
            "1 in 1",
            "1:3: found no matching overload for '@in' applied to '(int, int)'\n | 1 in 1\n | ..^",
        ),
        (
            "'a'.matches('[')",
            "1:13: invalid matches argument\n | 'a'.matches('[')\n | ............^",
        ),
        (
            "object.foo()",
            "1:11: undeclared reference to 'foo' (in container '')\n | object.foo()\n | ..........^",
        ),
        (
            "1 < 2 < 3",
            "1:7: found no matching overload for '_<_' applied to '(bool, int)'\n | 1 < 2 < 3\n | ......^",
        ),
        (
            "true\n&& foo",
            "2:4: undeclared reference to 'foo' (in container '')\n | && foo\n | ...^",
        ),
        (
            "true,false",
            "1:5: Syntax error: mismatched input ',' expecting <EOF>\n | true,false\n | ....^",
        ),
        (
            "true &&& true",
            "1:8: Syntax error: token recognition error at: '& '\n | true &&& true\n | .......^",
        ),
        (
            "9223372036854775808 == 1",
            "1:1: invalid int literal\n | 9223372036854775808 == 1\n | ^",
        ),
        (
            "a.",
            "1:3: Syntax error: no viable alternative at input '.'\n | a.\n | ..^",
        ),
        (
            "object.`a-b` == 1",
            "1:8: unsupported syntax: '`'\n | object.`a-b` == 1\n | .......^",
        ),
    ] {
        assert_eq!(
            said(source),
            format!("ERROR: <input>:{message}"),
            "{source}"
        );
    }
}

#[test]
fn missing_operands_are_told_with_what_may_begin_one() {
    let end = said("1 +");
    assert!(
        end.starts_with(
            "ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '('"
        ),
        "{end}"
    );
    assert!(said("").starts_with("ERROR: <input>:1:0: Syntax error: mismatched input '<EOF>'"));
    assert!(!said("").contains('^'));
    assert!(said("f(").contains("expecting {'[', '{', '(', ')', '.'"));
    assert!(said("&& true").contains("extraneous input '&&' expecting"));
}

#[test]
fn nothing_written_can_exhaust_the_stack() {
    // the smallest stack on which the server works
    let small = std::thread::Builder::new().stack_size(2 << 20);
    let worker = small.spawn(|| {
        for (open, close) in [("(", ")"), ("[", "]"), ("{1:", "}"), ("!", ""), ("f(", ")")] {
            for depth in [200, 100_000 / open.len()] {
                let _ = said(&format!("{}1{}", open.repeat(depth), close.repeat(depth)));
            }
        }
        for row in ["1+", "1 == ", "true && ", "a.", "a[", "'", "`", "\\"] {
            let _ = said(&row.repeat(90_000 / row.len()));
        }
        assert_eq!(said(&format!("{}true", "true || ".repeat(9_000))), "bool");
        assert_eq!(
            said(&format!("{}1{}", "(".repeat(300), ")".repeat(300))),
            "ERROR: <input>:-1:0: expression recursion limit exceeded: 250"
        );
    });
    worker.expect("a thread").join().expect("no overflow");
}
