//! Compares estimated costs of custom resources' rules with those of Kubernetes 1.36. A file of
//! `tests/data` has the schema in its first line, then expressions about `self` and `oldSelf` with
//! their highest cost.

use control_cel::{CRD_LIMIT, Env, RULE_LIMIT, Schema, estimate, exceeds};
use control_types::value::Value;

#[test]
fn estimates_are_those_of_kubernetes() {
    let text = include_str!("data/estimates.jsonl");
    let mut lines = text
        .lines()
        .map(|line| Value::from_slice(line.as_bytes()).expect("JSON"));
    let first = lines.next().expect("a schema");
    let schema = Schema::read_declaration(first.get("schema").expect("a schema"), true);
    let schema = schema.expect("a type");
    let env = Env::new()
        .with("self", schema.type_of())
        .with("oldSelf", schema.type_of());
    let mut wrong = Vec::new();
    for case in lines {
        let expression = case
            .get("e")
            .and_then(Value::as_str)
            .expect("an expression");
        let wanted = case.get("max").and_then(Value::as_str).expect("a cost");
        let found = match estimate(expression, &env, &schema) {
            Ok(estimate) => estimate.max.to_string(),
            Err(issues) => issues.to_string(),
        };
        if found != wanted {
            wrong.push(format!("{expression}\n  wanted {wanted} found {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_exceeds_its_limit_is_told_with_a_factor() {
    for (cost, factor) in [
        (RULE_LIMIT + 1, "1.000000x"),
        (RULE_LIMIT * 14 / 10, "1.400000x"),
        (RULE_LIMIT * 25 / 10, "2.5x"),
        (u64::MAX, "more than 100x"),
    ] {
        let text = exceeds("estimated rule cost", cost, RULE_LIMIT);
        let start = format!("estimated rule cost exceeds budget by factor of {factor} (try");
        assert!(text.starts_with(&start), "{text}");
    }
    assert!(exceeds("all", CRD_LIMIT * 2, CRD_LIMIT).contains("2.0x"));
}
