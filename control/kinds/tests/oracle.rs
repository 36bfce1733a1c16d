//! Creations that a stock server has answered: the same objects are accepted,
//! and the refused ones for the same causes.
//!
//! The recorded answers lie outside the repository; without them the test says
//! so. It proves nothing about updates, admission or allocation.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use control_types::value::Value;
use control_types::{coerce, registry};

/// Of the creations compared, how many in a thousand must agree. It only rises.
const FLOOR: usize = 980;

/// Kinds whose rules this crate does not state yet are not counted.
fn stated(group: &str, kind: &str) -> bool {
    control_kinds::all().any(|k| k.group == group && k.kind == kind)
}

fn answers() -> Option<PathBuf> {
    let path = std::env::var_os("ORLOP_ORACLE").map_or_else(
        || {
            PathBuf::from(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../../shared/oracle"
            ))
        },
        PathBuf::from,
    );
    Some(path.join("answers.jsonl.gz")).filter(|p| p.exists())
}

fn text<'a>(value: &'a Value, keys: &[&str]) -> &'a str {
    value.str_at(keys).unwrap_or("")
}

/// Reasons and fields of the causes, sorted.
fn ours(body: &Value) -> Option<Vec<(String, String)>> {
    let api_version = text(body, &["apiVersion"]);
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let kind = text(body, &["kind"]);
    let resource = registry::lookup_kind(group, version, kind)?;
    if !stated(group, kind) {
        return None;
    }
    let mut object = body.clone();
    coerce::coerce(&mut object, resource.schema).ok()?;
    object.set_path(&["metadata", "uid"], "6f6e8a3c-0000-4000-8000-000000000000");
    object.set_path(&["metadata", "creationTimestamp"], "2026-01-01T00:00:00Z");
    if resource.namespaced {
        object.set_path(&["metadata", "namespace"], "orc-1");
    }
    let rules = control_kinds::of(group, kind);
    (rules.default)(&mut object);
    let mut errors = Vec::new();
    if kind == "Service" {
        let families = [control_kinds::service::Family::V4];
        match control_kinds::service::prepare(&mut object, None, &families) {
            Ok(()) => {
                let needs = control_kinds::service::needs(&object, None);
                for need in needs.addresses {
                    let address = need.address.unwrap_or_else(|| "10.96.0.9".into());
                    control_kinds::service::set_address(&mut object, need.index, &address);
                }
                for (need, free) in needs.ports.into_iter().zip(30_100..) {
                    let port = need.port.unwrap_or(free);
                    control_kinds::service::set_port(&mut object, need.index, port);
                }
            }
            Err(refused) => errors = refused,
        }
    }
    if errors.is_empty() {
        errors = rules.before_create(&mut object);
    }
    let mut causes: Vec<_> = errors
        .into_iter()
        .map(|e| (e.kind.reason().to_owned(), e.field))
        .collect();
    causes.sort();
    Some(causes)
}

#[test]
fn creations_are_accepted_and_refused_as_a_stock_server_does() {
    let Some(path) = answers() else {
        println!("not run: no recorded answers (set ORLOP_ORACLE to their folder)");
        return;
    };
    let file = std::fs::File::open(path).expect("recorded answers");
    let lines = BufReader::new(flate2::read::GzDecoder::new(file)).lines();
    let (mut agreed, mut all, mut shown) = (0, 0, 0);
    let mut wrong: BTreeMap<String, usize> = BTreeMap::new();
    for line in lines {
        // each group ran in a namespace of its own
        let line = line.expect("a line").replace("$ns", "orc-1");
        let group = Value::from_slice(line.as_bytes()).expect("JSON");
        // scenarios look at more than one object: those are for a whole server
        if !text(&group, &["group"]).contains('#') {
            continue;
        }
        for step in group.items_at(&["steps"]) {
            let code = step.i64_at(&["want", "code"]);
            if text(step, &["method"]) != "POST" || !matches!(code, Some(201 | 422)) {
                continue;
            }
            let Some(body) = step.get("body") else {
                continue;
            };
            let Some(got) = ours(body) else { continue };
            let mut want: Vec<_> = step
                .items_at(&["want", "body", "details", "causes"])
                .iter()
                .map(|c| {
                    (
                        text(c, &["reason"]).to_owned(),
                        text(c, &["field"]).to_owned(),
                    )
                })
                .collect();
            want.sort();
            all += 1;
            if got == want {
                agreed += 1;
                continue;
            }
            *wrong.entry(text(body, &["kind"]).to_owned()).or_default() += 1;
            shown += 1;
            if shown <= 60 {
                println!("{}\n  want {want:?}\n  got  {got:?}", text(step, &["name"]));
            }
        }
    }
    println!("{agreed} of {all} agree; differ: {wrong:?}");
    assert!(agreed * 1000 >= FLOOR * all, "only {agreed} of {all} agree");
}
