//! Compares results with those of a stock server for the same requests: the same objects are
//! accepted, defaulted alike, and printed alike; the others are refused for the same causes.
//!
//! `cargo xtask oracle` compares a whole server with the same answers. This test cannot check what
//! needs more than one object (admission, allocation, conflicts).

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use control_kinds::{FieldError, Kind, service};
use control_types::registry::Resource;
use control_types::value::Value;
use control_types::{coerce, registry};

/// Of what is compared, how many in a thousand must agree. They only rise.
const CAUSES: usize = 1000;
const OBJECTS: usize = 990;
const TABLES: usize = 1000;
const UPDATES: usize = 1000;

const UID: &str = "6f6e8a3c-0000-4000-8000-000000000000";
const STAMP: &str = "2026-01-01T00:00:00Z";
const NAMESPACE: &str = "orc-1";

/// What differs between two runs of one server.
const VOLATILE: &[&str] = &[
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "lastTransitionTime",
    "lastPhaseTransitionTime",
    "lastUpdateTime",
    "lastProbeTime",
    "renewTime",
    "acquireTime",
    "firstTimestamp",
    "lastTimestamp",
    "eventTime",
    "time",
    "timeAdded",
    "lastObservedTime",
];

/// The recorded groups of requests: each is about one object.
fn groups() -> Vec<Value> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/oracle"));
    ["answers.jsonl.gz", "kinds/answers.jsonl.gz"]
        .iter()
        .flat_map(|name| {
            let file = std::fs::File::open(folder.join(name)).expect("the recording");
            BufReader::new(flate2::read::GzDecoder::new(file)).lines()
        })
        .map(|line| {
            // each group ran in a namespace of its own
            let line = line.expect("a line").replace("$ns", NAMESPACE);
            Value::from_slice(line.as_bytes()).expect("JSON")
        })
        // scenarios look at more than one object
        .filter(|group| text(group, &["group"]).contains('#'))
        .collect()
}

fn text<'a>(value: &'a Value, keys: &[&str]) -> &'a str {
    value.str_at(keys).unwrap_or("")
}

/// The resource and the rules of a body; `None` for reviews and unknown kinds.
fn rules(body: &Value) -> Option<(&'static Resource, &'static Kind)> {
    let api_version = text(body, &["apiVersion"]);
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let kind = text(body, &["kind"]);
    let resource = registry::lookup_kind(group, version, kind)?;
    let stated = control_kinds::all().any(|k| k.group == group && k.kind == kind);
    stated.then(|| (resource, control_kinds::find_kind(group, kind)))
}

/// A new object as it is stored, or why it is refused.
fn create(body: &Value) -> Option<Result<Value, Vec<FieldError>>> {
    let (resource, rules) = rules(body)?;
    let mut object = body.clone();
    coerce::coerce(&mut object, resource.schema).ok()?;
    if resource.namespaced {
        object.set_path(&["metadata", "namespace"], NAMESPACE);
    }
    (rules.default)(&mut object);
    match resource.kind {
        "Node" => control_kinds::admission::taint_new_node(&mut object),
        kind => control_kinds::admission::protect_from_deletion(kind, &mut object),
    }
    object.set_path(&["metadata", "uid"], UID);
    object.set_path(&["metadata", "creationTimestamp"], STAMP);
    if resource.kind == "Service" {
        let families = [service::Family::V4];
        if let Err(refused) = service::prepare(&mut object, None, &families) {
            return Some(Err(refused));
        }
        let needs = service::needs(&object, None);
        for need in needs.addresses {
            let address = need.address.unwrap_or_else(|| "10.96.0.9".into());
            service::set_address(&mut object, need.index, &address);
        }
        for (need, free) in needs.ports.into_iter().zip(30_100..) {
            let port = need.port.unwrap_or(free);
            service::set_port(&mut object, need.index, port);
        }
    }
    let errors = rules.before_create(&mut object);
    if !errors.is_empty() {
        return Some(Err(errors));
    }
    coerce::complete(&mut object, resource.schema);
    Some(Ok(object))
}

/// A value without what a run makes up.
fn stable(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(key, _)| !VOLATILE.contains(&&***key))
            .map(|(key, value)| (key.clone(), stable(value)))
            .collect::<control_types::Map>()
            .into(),
        Value::Array(items) => items.iter().map(stable).collect::<Vec<_>>().into(),
        Value::String(text) => text.replace(NAMESPACE, "<ns>").replace(UID, "<uid>").into(),
        other => other.clone(),
    }
}

/// Where two values differ first.
fn difference(want: &Value, got: &Value, at: &str) -> Option<String> {
    if let (Value::Object(a), Value::Object(b)) = (want, got) {
        let keys = a.keys().chain(b.keys());
        let null = Value::Null;
        return keys.into_iter().find_map(|key| {
            let (x, y) = (a.get(key).unwrap_or(&null), b.get(key).unwrap_or(&null));
            difference(x, y, &format!("{at}.{}", &**key))
        });
    }
    (want != got).then(|| format!("{at}: want {want}, got {got}"))
}

/// Counts what agrees and shows the first that do not.
#[derive(Default)]
struct Tally {
    agreed: usize,
    all: usize,
    wrong: BTreeMap<String, usize>,
}

impl Tally {
    fn add(&mut self, step: &Value, kind: &str, differs: Option<String>) {
        self.all += 1;
        let Some(differs) = differs else {
            self.agreed += 1;
            return;
        };
        *self.wrong.entry(kind.to_owned()).or_default() += 1;
        if self.all - self.agreed <= 60 {
            println!("{}\n  {differs}", text(step, &["name"]));
        }
    }

    fn check(&self, floor: usize) {
        let Self { agreed, all, wrong } = self;
        println!("{agreed} of {all} agree; differ: {wrong:?}");
        assert!(*all > 0, "nothing was compared");
        assert!(
            agreed * 1000 >= floor * all,
            "only {agreed} of {all} agree: {wrong:?}"
        );
    }
}

#[test]
fn creations_are_accepted_and_refused_as_a_stock_server_does() {
    let groups = groups();
    let mut tally = Tally::default();
    for step in groups.iter().flat_map(|group| group.items_at(&["steps"])) {
        let code = step.i64_at(&["want", "code"]);
        if text(step, &["method"]) != "POST" || !matches!(code, Some(201 | 422)) {
            continue;
        }
        // Allocation needs the other objects.
        if text(step, &["want", "body", "message"]).contains("provided port is already allocated") {
            continue;
        }
        let Some(body) = step.get("body") else {
            continue;
        };
        let Some(made) = create(body) else { continue };
        let mut got: Vec<_> = made
            .err()
            .unwrap_or_default()
            .into_iter()
            .map(|error| (error.kind.reason().to_owned(), error.field))
            .collect();
        let causes = step.items_at(&["want", "body", "details", "causes"]);
        let mut want: Vec<_> = causes
            .iter()
            .map(|cause| {
                let part = |key| text(cause, &[key]).to_owned();
                (part("reason"), part("field"))
            })
            .collect();
        got.sort();
        want.sort();
        let differs = (got != want).then(|| format!("want {want:?}\n  got  {got:?}"));
        tally.add(step, text(body, &["kind"]), differs);
    }
    tally.check(CAUSES);
}

/// Kinds to whose objects more than their own rules adds something: accounts and
/// priorities, addresses, the name of the user.
const MADE_ELSEWHERE: &[&str] = &["Pod", "Service", "CertificateSigningRequest"];

#[test]
fn created_objects_are_those_of_a_stock_server() {
    let groups = groups();
    let mut tally = Tally::default();
    for step in groups.iter().flat_map(|group| group.items_at(&["steps"])) {
        let created = step.i64_at(&["want", "code"]) == Some(201);
        if text(step, &["method"]) != "POST" || !created {
            continue;
        }
        let Some(body) = step.get("body") else {
            continue;
        };
        let kind = text(body, &["kind"]);
        let named = !text(body, &["metadata", "name"]).is_empty();
        if MADE_ELSEWHERE.contains(&kind) || !named {
            continue;
        }
        let Some(Ok(object)) = create(body) else {
            continue;
        };
        let want = step.path(&["want", "body"]).expect("an object");
        let differs = difference(&stable(want), &stable(&object), "");
        tally.add(step, kind, differs);
    }
    tally.check(OBJECTS);
}

/// The recorded answer to the step whose name ends so.
fn answer<'a>(group: &'a Value, what: &str) -> Option<(&'a Value, &'a Value)> {
    let steps = group.items_at(&["steps"]);
    let step = steps
        .iter()
        .find(|step| text(step, &["name"]).ends_with(what))?;
    let code = step.i64_at(&["want", "code"]);
    let body = step.path(&["want", "body"])?;
    matches!(code, Some(200 | 201)).then_some((step, body))
}

/// Ages change from run to run.
fn shown(cell: &Value) -> Value {
    let age = |text: &str| {
        !text.is_empty()
            && text.ends_with(|c: char| "smhdy".contains(c))
            && text.starts_with(|c: char| c.is_ascii_digit())
            && text
                .chars()
                .all(|c| c.is_ascii_digit() || "smhdy".contains(c))
    };
    match cell {
        Value::String(text) if age(text) => "<age>".into(),
        // what the recording hides is no time any more
        Value::String(text) if &**text == "<invalid>" => "<age>".into(),
        Value::String(text) if &**text == "<set>" => "<time>".into(),
        other => other.clone(),
    }
}

#[test]
fn tables_are_those_of_a_stock_server() {
    let groups = groups();
    let mut tally = Tally::default();
    let now = "2026-01-01T00:01:00Z".parse().expect("a time");
    for group in &groups {
        let (Some((_, object)), Some((step, table))) =
            (answer(group, " get"), answer(group, " table"))
        else {
            continue;
        };
        let kind = text(object, &["kind"]);
        let Some((_, rules)) = rules(object) else {
            continue;
        };
        if kind == "Service" {
            continue;
        }
        let headings: Vec<Value> = rules
            .columns
            .iter()
            .map(|column| {
                control_types::value!({
                    "name": (column.name), "type": (column.r#type), "format": (column.format),
                    "description": (column.description),
                    "priority": (i64::from(column.priority))
                })
            })
            .collect();
        let cells: Vec<Value> = (rules.row)(object, now).iter().map(shown).collect();
        let rows = table.items_at(&["rows"]);
        let want = rows.first().map_or(&[][..], |row| row.items_at(&["cells"]));
        let want: Vec<Value> = want.iter().map(shown).collect();
        let columns = table.items_at(&["columnDefinitions"]);
        let differs = if columns == headings {
            difference(&want.into(), &cells.into(), "cells")
        } else {
            difference(&columns.into(), &headings.into(), "columns")
        };
        tally.add(step, kind, differs);
    }
    tally.check(TABLES);
}

#[test]
fn updates_change_what_a_stock_server_changes() {
    let groups = groups();
    let mut tally = Tally::default();
    for group in &groups {
        let Some((_, created)) = answer(group, " create") else {
            continue;
        };
        let Some((resource, rules)) = rules(created) else {
            continue;
        };
        // the recording hides names and addresses without which these are not valid
        if matches!(resource.kind, "Pod" | "Service") {
            continue;
        }
        let mut old = real(created);
        for what in ["merge patch", "strategic patch"] {
            let Some((step, want)) = answer(group, what) else {
                continue;
            };
            let mut new = old.clone();
            // both kinds merge maps of texts alike
            for map in ["annotations", "labels"] {
                let changes = step.path(&["body", "metadata", map]);
                for (key, value) in changes.and_then(Value::as_object).into_iter().flatten() {
                    let path = ["metadata", map, key.as_str()];
                    match value.as_str() {
                        Some(text) => new.set_path(&path, text),
                        None => drop(new.remove_path(&path)),
                    }
                }
            }
            (rules.default)(&mut new);
            let errors = rules.before_update(&mut new, &old);
            coerce::complete(&mut new, resource.schema);
            let mut wanted = want.clone();
            if WATCHED.contains(&resource.kind) {
                wanted.remove("status");
                new.remove("status");
            }
            let differs = match errors.first() {
                Some(error) => Some(error.to_string()),
                None => difference(&stable(&wanted), &stable(&new), ""),
            };
            tally.add(step, resource.kind, differs);
            old = real(want);
        }
    }
    tally.check(UPDATES);
}

/// A recorded object with the values that the recording hides put back.
fn real(object: &Value) -> Value {
    match object {
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| match (key.as_str(), value.as_str()) {
                ("uid", Some("<set>")) => (key.clone(), UID.into()),
                _ => (key.clone(), real(value)),
            })
            .collect::<control_types::Map>()
            .into(),
        Value::Array(items) => items.iter().map(real).collect::<Vec<_>>().into(),
        Value::String(text) => text
            .replace("<ns>", NAMESPACE)
            .replace("<uid>", UID)
            .replace("<time>", STAMP)
            .into(),
        other => other.clone(),
    }
}

/// Kinds whose status a controller of the server itself writes meanwhile.
const WATCHED: &[&str] = &["APIService", "CustomResourceDefinition", "FlowSchema"];
