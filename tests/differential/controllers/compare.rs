//! What differs between two snapshots, in few lines.

use std::collections::BTreeSet;

use serde_json::Value;

use super::normal::Snapshot;

/// Lines that are shown of one object.
const MOST_OF_OBJECT: usize = 8;
/// Lines that are shown of one case.
const MOST: usize = 40;

/// The differences between stock's and our objects, one in a line.
pub fn differences(stock: &Snapshot, ours: &Snapshot) -> Vec<String> {
    let names: BTreeSet<&String> = stock.keys().chain(ours.keys()).collect();
    let mut lines = Vec::new();
    for name in names {
        let empty = Vec::new();
        let (theirs, ours) = (
            stock.get(name).unwrap_or(&empty),
            ours.get(name).unwrap_or(&empty),
        );
        if theirs == ours {
            continue;
        }
        let mut of_object = Vec::new();
        let (mut theirs, mut ours) = (theirs.clone(), ours.clone());
        // What is alike on both sides is left out.
        theirs.retain(|one| match ours.iter().position(|other| other == one) {
            Some(at) => {
                ours.remove(at);
                false
            }
            None => true,
        });
        if theirs.len() == ours.len() && !name.starts_with("events/") {
            for (stock, ours) in theirs.iter().zip(&ours) {
                leaves("", Some(stock), Some(ours), &mut of_object);
            }
        } else {
            let short = |one: &Value| {
                let text = one.to_string();
                text.chars().take(300).collect::<String>()
            };
            of_object.extend(
                theirs
                    .iter()
                    .map(|one| format!("only stock: {}", short(one))),
            );
            of_object.extend(ours.iter().map(|one| format!("only ours:  {}", short(one))));
        }
        let hidden = of_object.len().saturating_sub(MOST_OF_OBJECT);
        of_object.truncate(MOST_OF_OBJECT);
        lines.extend(of_object.into_iter().map(|line| format!("{name}: {line}")));
        if hidden > 0 {
            lines.push(format!("{name}: {hidden} more"));
        }
    }
    let hidden = lines.len().saturating_sub(MOST);
    lines.truncate(MOST);
    if hidden > 0 {
        lines.push(format!("{hidden} more lines"));
    }
    lines
}

fn leaves(path: &str, stock: Option<&Value>, ours: Option<&Value>, lines: &mut Vec<String>) {
    if stock == ours {
        return;
    }
    match (stock, ours) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                leaves(&format!("{path}/{key}"), a.get(key), b.get(key), lines);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for at in 0..a.len().max(b.len()) {
                leaves(&format!("{path}/{at}"), a.get(at), b.get(at), lines);
            }
        }
        (stock, ours) => {
            let show = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
            lines.push(format!(
                "{path}: stock {}, ours {}",
                show(stock),
                show(ours)
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_differs_is_shown() {
        let of = |objects: Vec<Value>| -> Snapshot { [("pods/a".to_owned(), objects)].into() };
        let same = of(vec![json!({"a": 1})]);
        assert!(differences(&same, &same).is_empty());
        let other = of(vec![json!({"a": 2, "b": [1]})]);
        assert_eq!(
            differences(&same, &other),
            [
                "pods/a: /a: stock 1, ours 2",
                "pods/a: /b: stock nothing, ours [1]"
            ]
        );
        let two = of(vec![json!({"a": 1}), json!({"a": 3})]);
        assert_eq!(differences(&same, &two), ["pods/a: only ours:  {\"a\":3}"]);
    }
}
