//! Compares expressions with the answers of cel-go 0.26 in the environment of Kubernetes 1.36:
//! value, type, error and cost must be the same.
//!
//! A file of `tests/cases` has one JSON object per line: `vars` sets the variables for the
//! following lines; `e` is an expression with its `value` or `error`, its `type` and its `cost`,
//! or with the error of the phase that refuses it: `compile` or `program`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use control_cel::{Bindings, Budget, Entries, Env, List, Type, Val, compile};
use control_types::value::Value;

fn env() -> Env {
    Env::new()
        .with("object", Type::Dyn)
        .with("n", Type::Int)
        .with("s", Type::String)
        .with("l", Type::list(Type::Int))
        .with("m", Type::map(Type::Dyn))
}

/// A value as cel-go writes it for people; maps ordered.
fn shown(value: &Val<'_>) -> String {
    match value {
        Val::Null => "null".to_owned(),
        Val::Bool(truth) => truth.to_string(),
        Val::Int(number) => number.to_string(),
        Val::Uint(number) => format!("{number}u"),
        Val::Double(number) if number.is_infinite() => "double(\"Infinity\")".to_owned(),
        Val::Double(number) => format!("{number:?}"),
        Val::Text(text) => format!("{:?}", &**text),
        Val::Bytes(bytes) => {
            let mut out = "b\"".to_owned();
            for byte in bytes.iter() {
                let _ = write!(out, "\\{byte:03o}");
            }
            out + "\""
        }
        Val::List(List::Own(items)) => {
            let items: Vec<_> = items.iter().map(shown).collect();
            format!("[{}]", items.join(", "))
        }
        Val::List(List::Tree(items, _)) => {
            let items: Vec<_> = items.iter().map(|item| shown(&Val::tree(item))).collect();
            format!("[{}]", items.join(", "))
        }
        Val::Map(Entries::Own(map)) => {
            let map: BTreeMap<_, _> = map
                .iter()
                .map(|(key, value)| (shown(&Val::from(key.clone())), shown(value)))
                .collect();
            braces(map)
        }
        Val::Map(Entries::Tree(map, _)) => braces(
            map.iter()
                .map(|(key, value)| (format!("{:?}", key.as_str()), shown(&Val::tree(value))))
                .collect(),
        ),
        Val::Optional(Some(inner)) => format!("optional.of({})", shown(inner)),
        Val::Optional(None) => "optional.none()".to_owned(),
        Val::Type(name) => name.to_string(),
        Val::Timestamp(_) | Val::Duration(_) => {
            let of = if matches!(value, Val::Duration(_)) {
                "duration"
            } else {
                "timestamp"
            };
            let text = value
                .to_value()
                .map_or_else(String::new, |text| text.to_string());
            format!("{of}({text})")
        }
        other => format!("<{}>", other.type_name()),
    }
}

fn braces(map: BTreeMap<String, String>) -> String {
    let pairs: Vec<_> = map.into_iter().map(|(k, v)| format!("{k}: {v}")).collect();
    format!("{{{}}}", pairs.join(", "))
}

/// What this crate says of an expression, in the form of the files.
fn answer(expression: &str, variables: &Value) -> BTreeMap<&'static str, String> {
    let mut out = BTreeMap::new();
    let program = match compile(expression, &env()) {
        Ok(program) => program,
        Err(issues) => {
            let text = issues.to_string();
            match text.strip_prefix("ERROR: <input>:-1:0: ") {
                Some(text) => out.insert("program", text.to_owned()),
                None => out.insert("compile", text),
            };
            return out;
        }
    };
    out.insert("type", program.type_of().declared_name());
    let mut bindings = Bindings::new();
    for (name, value) in variables
        .as_object()
        .into_iter()
        .flat_map(control_types::Map::iter)
    {
        bindings.set(name.as_str(), Val::tree(value));
    }
    let mut budget = Budget::new(Budget::CALL);
    match program.evaluate(&bindings, &mut budget) {
        Ok(value) => out.insert("value", shown(&value)),
        Err(error) => out.insert("error", error.to_string()),
    };
    out.insert("cost", (Budget::CALL - budget.left).to_string());
    out
}

fn run(file: &str, text: &str) -> Vec<String> {
    let mut variables = Value::Null;
    let mut wrong = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let case = Value::from_slice(line.as_bytes()).expect("a line is JSON");
        if let Some(vars) = case.get("vars") {
            variables = vars.clone();
            continue;
        }
        let expression = case
            .get("e")
            .and_then(Value::as_str)
            .expect("an expression");
        let said = answer(expression, &variables);
        for (key, wanted) in case.as_object().expect("an object").iter() {
            if key.as_str() == "e" {
                continue;
            }
            let wanted = wanted
                .as_str()
                .map_or_else(|| wanted.to_string(), str::to_owned);
            let found = said.get(key.as_str()).cloned().unwrap_or_default();
            if found != wanted {
                wrong.push(format!(
                    "{file}:{}: {expression}\n  {} wanted {wanted}\n  found {found} {said:?}",
                    number + 1,
                    key.as_str()
                ));
            }
        }
    }
    wrong
}

#[test]
fn answers_are_those_of_cel_go() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut wrong = Vec::new();
    let mut files = 0;
    for entry in std::fs::read_dir(folder).expect("the cases") {
        let path = entry.expect("a file").path();
        let text = std::fs::read_to_string(&path).expect("text");
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        wrong.extend(run(&name.unwrap_or_default(), &text));
        files += 1;
    }
    assert!(files > 0, "no cases");
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}
