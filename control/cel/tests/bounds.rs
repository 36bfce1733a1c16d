//! Tests that evaluation of any expression ends without a panic and within its cost limit.

use std::time::{Duration, Instant};

use control_cel::{Bindings, Budget, Env, Error, Type, Val, compile};
use control_types::value::Value;
use proptest::prelude::*;

fn env() -> Env {
    Env::new().with("object", Type::Dyn).with("n", Type::Int)
}

fn object() -> Value {
    Value::from_slice(br#"{"a":{"b":[1,2.5,"x",null,{"c":true}]},"s":"text","m":{"k":"v"},"i":7}"#)
        .expect("JSON")
}

/// Expressions put together from all that the language has.
fn expressions() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "object",
        "object.a.b",
        "object.s",
        "object.m",
        "object.i",
        "n",
        "1",
        "0",
        "-1",
        "2u",
        "1.5",
        "'x'",
        "''",
        "'[a-z]+'",
        "b'x'",
        "true",
        "false",
        "null",
        "[]",
        "{}",
        "[1, 2]",
        "['a']",
        "duration('1h')",
        "timestamp('2020-01-01T00:00:00Z')",
        "quantity('1Gi')",
        "ip('10.0.0.1')",
        "cidr('10.0.0.0/8')",
        "semver('1.2.3')",
        "optional.none()",
        "optional.of(1)",
        "9223372036854775807",
        "object.nope",
    ])
    .prop_map(|text| format!("dyn({text})"));
    leaf.prop_recursive(4, 24, 3, |inner| {
        let unary = prop::sample::select(vec![
            "!",
            "-",
            "size",
            "int",
            "uint",
            "double",
            "string",
            "bytes",
            "bool",
            "type",
            "timestamp",
            "duration",
            "url",
            "isURL",
            "quantity",
            "isIP",
            "isCIDR",
            "semver",
            "lists.range",
            "strings.quote",
            "optional.ofNonZeroValue",
        ]);
        let binary = prop::sample::select(vec![
            "+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "in", "&&", "||",
        ]);
        let method = prop::sample::select(vec![
            "startsWith",
            "contains",
            "matches",
            "split",
            "indexOf",
            "lastIndexOf",
            "charAt",
            "join",
            "find",
            "findAll",
            "isGreaterThan",
            "add",
            "sub",
            "containsIP",
            "compareTo",
            "containsCIDR",
            "getHours",
            "substring",
        ]);
        let plain = prop::sample::select(vec![
            "size",
            "trim",
            "lowerAscii",
            "sum",
            "min",
            "max",
            "isSorted",
            "reverse",
            "sort",
            "distinct",
            "first",
            "last",
            "value",
            "hasValue",
            "getFullYear",
            "getMilliseconds",
            "masked",
            "ip",
            "family",
            "major",
            "asInteger",
            "flatten",
        ]);
        let fold = prop::sample::select(vec![
            "all",
            "exists",
            "exists_one",
            "map",
            "filter",
            "sortBy",
        ]);
        prop_oneof![
            (unary, inner.clone()).prop_map(|(f, a)| format!("{f}({a})")),
            (binary, inner.clone(), inner.clone()).prop_map(|(o, a, b)| format!("({a} {o} {b})")),
            (method, inner.clone(), inner.clone()).prop_map(|(f, a, b)| format!("{a}.{f}({b})")),
            (plain, inner.clone()).prop_map(|(f, a)| format!("{a}.{f}()")),
            (fold, inner.clone(), inner.clone()).prop_map(|(f, a, b)| format!("{a}.{f}(x, {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}[{b}]")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("[{a}, dyn({b})]")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{{{a}: {b}}}")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("{a}.replace({b}, {c})")),
            inner.clone().prop_map(|a| format!("{a}.?s.orValue(1)")),
            inner.clone().prop_map(|a| format!("has({a}.k)")),
            inner.prop_map(|a| format!("'%s %d'.format([{a}, {a}])")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn no_expression_panics_or_costs_more_than_it_may(source in expressions()) {
        if let Ok(program) = compile(&source, &env()) {
            let object = object();
            let bindings = Bindings::new()
                .with("object", Val::tree(&object))
                .with("n", Val::Int(3));
            let mut budget = Budget { call: 50_000, left: 100_000 };
            let result = program.evaluate(&bindings, &mut budget);
            if let Ok(value) = result {
                prop_assert!(budget.left >= 50_000);
                let _ = value.to_value();
            }
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic(source in "[-a-z0-9.'\"()\\[\\]{}?:!&|<>=+*/%, \\\\xubr`]{0,40}") {
        let _ = compile(&source, &env());
    }

    #[test]
    fn no_pattern_makes_matches_panic(pattern in "[-a-c^$.*+?()\\[\\]{}|\\\\dwsbQE0-9,:]{0,16}", text in ".{0,16}") {
        let env = Env::new().with("s", Type::String).with("p", Type::String);
        let program = compile("s.matches(p)", &env).expect("right");
        let (s, p) = (Value::from(text), Value::from(pattern));
        let bindings = Bindings::new().with("s", Val::tree(&s)).with("p", Val::tree(&p));
        let _ = program.evaluate(&bindings, &mut Budget::per_call());
    }
}

fn outcome(source: &str) -> Result<Option<Value>, Error> {
    let program = compile(source, &env()).unwrap_or_else(|issues| panic!("{issues}"));
    let object = object();
    let bindings = Bindings::new()
        .with("object", Val::tree(&object))
        .with("n", Val::Int(i64::MAX));
    let result = program.evaluate(&bindings, &mut Budget::new(Budget::OBJECT));
    result.map(|value| value.to_value())
}

#[test]
fn what_grows_without_end_is_stopped() {
    let start = Instant::now();
    let doubled = "['0123456789']".to_owned() + &".map(x, x + x)".repeat(40);
    let lists = "[[1, 2]]".to_owned() + &".map(x, x + x)".repeat(60);
    let nested = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(a, ".repeat(9) + "true" + &")".repeat(9);
    for source in [
        "lists.range(n)",
        "lists.range(1000000).map(x, lists.range(1000000))",
        doubled.as_str(),
        lists.as_str(),
        nested.as_str(),
    ] {
        assert_eq!(outcome(source), Err(Error::CostLimit), "{source}");
    }
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn the_limit_cannot_be_hidden_by_other_conditions() {
    let source = "true || [1].all(x, lists.range(n) == [])";
    assert_eq!(outcome(source), Ok(Some(true.into())));
    let source = "[1].all(x, lists.range(n) == []) || true";
    assert_eq!(outcome(source), Err(Error::CostLimit));
}

#[test]
fn a_budget_for_many_evaluations_is_used_up() {
    let program = compile("[1, 2, 3].all(x, x > 0)", &env()).expect("right");
    let mut budget = Budget::new(40);
    let bindings = Bindings::new();
    assert!(program.evaluate(&bindings, &mut budget).is_ok());
    assert!(program.evaluate(&bindings, &mut budget).is_ok());
    assert_eq!(
        program.evaluate(&bindings, &mut budget).err(),
        Some(Error::Budget)
    );
    assert_eq!(budget.left, 0);
}

#[test]
fn depth_is_bounded_in_all_directions() {
    // the smallest stack on which the server works; without optimization a level
    // takes several times as much
    let stack = if cfg!(debug_assertions) { 16 } else { 2 };
    let worker = std::thread::Builder::new()
        .stack_size(stack << 20)
        .spawn(|| {
            let mut grown = "object".to_owned();
            for _ in 0..180 {
                grown = format!("({grown}){}", ".a".repeat(240));
            }
            let text = compile(&grown, &env()).expect_err("too deep").to_string();
            assert!(text.contains("recursion limit exceeded"), "{text}");
            let sums = format!("{}1{}", "(".repeat(200), " + 1 + 1)".repeat(200));
            let _ = compile(&sums, &env());
            let deep = format!("object{}", ".a".repeat(240));
            assert!(compile(&deep, &env()).is_ok());
            let lists = format!("{}1{}", "[".repeat(240), "]".repeat(240));
            let program = compile(&lists, &env()).expect("right");
            let mut budget = Budget::per_call();
            assert!(program.evaluate(&Bindings::new(), &mut budget).is_ok());
        });
    worker.expect("a thread").join().expect("no overflow");
}
