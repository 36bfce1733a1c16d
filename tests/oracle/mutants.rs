//! Mutants: valid objects with one or two places changed, to probe types, bounds,
//! formats, what is required and what must be unique.

use serde_json::{Value, json};

/// Numbers in an order that a seed decides (SplitMix64), the same everywhere.
pub struct Dice(u64);

impl Dice {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `limit`; 0 if that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % (limit.max(1) as u64)).unwrap_or(0)
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.below(all.len()))
    }
}

type Path = Vec<String>;

fn places(value: &Value, path: &Path, out: &mut Vec<Path>) {
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.clone(), value))
            .collect(),
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.map(|(at, item)| (at.to_string(), item)).collect()
        }
        _ => Vec::new(),
    };
    for (key, value) in inner {
        let mut path = path.clone();
        path.push(key);
        places(value, &path, out);
        out.push(path);
    }
}

/// What may stand in a value's place; nothing: the member goes away.
fn replacements(value: &Value) -> Vec<Option<Value>> {
    let list: Vec<Value> = match value {
        Value::Bool(truth) => vec![json!("yes"), json!(0), Value::Null, json!(!truth)],
        Value::Number(_) => [-7, 0, 1, 2, 100, 101, 65_535, 65_536, 1 << 31, i64::MAX]
            .into_iter()
            .map(Value::from)
            .chain([
                json!(u64::MAX),
                json!(0.5),
                json!("12"),
                Value::Null,
                json!({}),
            ])
            .collect(),
        Value::String(_) => [
            "",
            "Other",
            "with space",
            "UPPER",
            "under_score",
            "-dash",
            "dash-",
            "a.b",
            "a..b",
            "a/b",
            "a/b/c",
            "256.1.1.1",
            "10.0.0.1/33",
            "fe80::1",
            "0",
            "-3",
            "0.5",
            "250m",
            "2Gi",
            "1e9",
            "50%",
            "150%",
            "ü",
            "\u{7f}",
            "*",
            "None",
        ]
        .into_iter()
        .map(Value::from)
        .chain(
            [
                "n".repeat(63),
                "n".repeat(64),
                "n".repeat(253),
                "n".repeat(254),
            ]
            .map(Value::from),
        )
        .chain([json!(3), json!(true), Value::Null, json!([]), json!({})])
        .collect(),
        Value::Array(items) => {
            let mut list = vec![
                json!([]),
                Value::Null,
                json!({}),
                json!("text"),
                json!([null]),
                json!([1]),
                json!(["text"]),
                json!([{}]),
                json!([[]]),
            ];
            if let Some(last) = items.last() {
                let twice = items.iter().chain([last]).cloned();
                list.push(twice.collect());
                list.push(items.iter().rev().cloned().collect());
                let many = std::iter::repeat_n(last, 70).cloned();
                list.push(many.collect());
            }
            list
        }
        Value::Object(map) => {
            let with = |key: &str, value: Value| {
                let mut map = map.clone();
                map.insert(key.to_owned(), value);
                Value::Object(map)
            };
            vec![
                json!({}),
                Value::Null,
                json!([]),
                json!("text"),
                with("unknown", json!(1)),
                with("", json!("")),
                with("a/b/c", json!("x")),
                with("Name", json!("x")),
            ]
        }
        Value::Null => vec![json!({})],
    };
    list.into_iter().map(Some).chain([None]).collect()
}

/// A mutant, and what was done.
pub fn of(object: &Value, dice: &mut Dice) -> (Value, String) {
    let mut all = Vec::new();
    places(object, &Vec::new(), &mut all);
    all.retain(|path| !matches!(path[0].as_str(), "apiVersion" | "kind"));
    all.sort();
    let mut out = object.clone();
    let mut said = Vec::new();
    let times = if dice.below(5) == 0 { 2 } else { 1 };
    for _ in 0..times {
        let Some(path) = dice.pick(&all).cloned() else {
            break;
        };
        let pointer: String = path
            .iter()
            .map(|key| format!("/{}", escaped(key)))
            .collect();
        // A place may have gone with the first change.
        let Some(old) = out.pointer(&pointer).cloned() else {
            continue;
        };
        let all = replacements(&old);
        let Some(new) = dice.pick(&all) else {
            continue;
        };
        let place = path.join(".");
        let (parent, last) = pointer.rsplit_once('/').unwrap_or_default();
        match (new, out.pointer_mut(parent)) {
            (Some(new), Some(_)) => {
                said.push(format!("{place} = {}", crate::verdict::brief(new)));
                if let Some(at) = out.pointer_mut(&pointer) {
                    *at = new.clone();
                }
            }
            (None, Some(Value::Object(map))) => {
                said.push(format!("no {place}"));
                map.remove(&last.replace("~1", "/").replace("~0", "~"));
            }
            (None, Some(Value::Array(items))) => {
                said.push(format!("no {place}"));
                if let Ok(at) = last.parse::<usize>() {
                    items.remove(at);
                }
            }
            _ => {}
        }
    }
    let said: String = said.join(", ").chars().take(80).collect();
    (out, said)
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_mutants_and_each_differs_from_its_object() {
        let object = json!({"kind": "A", "spec": {"list": [{"a": 1}, {"b/c": "x"}], "on": true}});
        let many = |seed| {
            let mut dice = Dice::new(seed);
            (0..50).map(|_| of(&object, &mut dice)).collect::<Vec<_>>()
        };
        assert_eq!(many(3), many(3));
        assert_ne!(many(3), many(4));
        assert!(
            many(3)
                .iter()
                .filter(|(mutant, _)| *mutant != object)
                .count()
                > 40
        );
        assert!(many(3).iter().all(|(mutant, _)| mutant["kind"] == "A"));
    }
}
