//! Whether two answers are the same, and if not, where they differ first.

use serde_json::Value;

use crate::recording::Answer;

/// How far two answers agree.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// In everything.
    Exact,
    /// In all that programs look at.
    Agree,
    /// Not: why.
    Differ(String),
}

/// Compares an answer with the one that is wanted.
pub fn of(want: &Answer, got: &Answer) -> Verdict {
    if want.code != got.code {
        let said = brief(&got.body);
        return Verdict::Differ(format!("code {} != {}: {said}", want.code, got.code));
    }
    if want.kind != got.kind {
        return Verdict::Differ(format!("content type {} != {}", want.kind, got.kind));
    }
    if want.warnings.len() != got.warnings.len() {
        return Verdict::Differ(format!(
            "warnings {:?} != {:?}",
            want.warnings, got.warnings
        ));
    }
    if want.body == got.body {
        return if want.warnings == got.warnings {
            Verdict::Exact
        } else {
            Verdict::Agree
        };
    }
    if want.body["kind"] == "Status" && got.body.is_object() {
        if want.body["reason"] != got.body["reason"] {
            return Verdict::Differ(format!(
                "reason {} != {}",
                want.body["reason"], got.body["reason"]
            ));
        }
        let (wanted, found) = (causes(&want.body), causes(&got.body));
        if wanted != found {
            return Verdict::Differ(format!("causes {wanted:?} != {found:?}"));
        }
        return Verdict::Agree;
    }
    Verdict::Differ(format!("body: {}", difference(&want.body, &got.body, "")))
}

/// Where two answers that agree are worded otherwise.
pub fn words(want: &Answer, got: &Answer) -> String {
    if want.body == got.body {
        format!("warnings {:?} != {:?}", want.warnings, got.warnings)
    } else {
        let (one, other) = (&want.body["message"], &got.body["message"]);
        if one == other {
            difference(&want.body, &got.body, "")
        } else {
            format!("{one}\n     != {other}")
        }
    }
}

fn causes(status: &Value) -> Vec<(&str, &str)> {
    let list = status["details"]["causes"].as_array();
    let mut out: Vec<_> = list
        .into_iter()
        .flatten()
        .map(|cause| {
            let text = |key: &str| cause[key].as_str().unwrap_or_default();
            (text("reason"), text("field"))
        })
        .collect();
    out.sort_unstable();
    out
}

/// The first place at which two values differ.
fn difference(want: &Value, got: &Value, path: &str) -> String {
    match (want, got) {
        (Value::Object(want), Value::Object(got)) => {
            let mut keys: Vec<_> = want.keys().chain(got.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                match (want.get(key), got.get(key)) {
                    (Some(value), None) => {
                        return format!("{path}.{key}: missing, want {}", brief(value));
                    }
                    (None, Some(value)) => {
                        return format!("{path}.{key}: not wanted, got {}", brief(value));
                    }
                    (Some(one), Some(other)) if one != other => {
                        return difference(one, other, &format!("{path}.{key}"));
                    }
                    _ => {}
                }
            }
            format!("{path}: the same")
        }
        (Value::Array(want), Value::Array(got)) if want.len() != got.len() => {
            format!("{path}: {} items != {} items", want.len(), got.len())
        }
        (Value::Array(want), Value::Array(got)) => {
            let pairs = want.iter().zip(got).enumerate();
            match pairs.into_iter().find(|(_, (one, other))| one != other) {
                Some((at, (one, other))) => difference(one, other, &format!("{path}[{at}]")),
                None => format!("{path}: the same"),
            }
        }
        (Value::String(want), Value::String(got)) if want.contains('\n') => {
            // Documents: the first line that differs tells most.
            let (mut wanted, mut found) = (want.lines(), got.lines());
            for number in 1.. {
                match (wanted.next(), found.next()) {
                    (None, None) => break,
                    (one, other) if one == other => {}
                    (one, other) => {
                        return format!("{path} line {number}: {one:?} != {other:?}");
                    }
                }
            }
            format!("{path}: the same lines")
        }
        _ => {
            let path = if path.is_empty() { "." } else { path };
            format!("{path}: {} != {}", brief(want), brief(got))
        }
    }
}

/// A value for people, not too long.
pub fn brief(value: &Value) -> String {
    let value = match &value["kind"] {
        Value::String(kind) if kind == "Status" => &value["message"],
        _ => value,
    };
    let text = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned);
    match text.char_indices().nth(220) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(code: u16, body: Value) -> Answer {
        Answer {
            code,
            kind: "application/json".into(),
            warnings: Vec::new(),
            body,
        }
    }

    #[test]
    fn texts_for_people_decide_between_exact_and_agreeing() {
        let status = |message: &str, field: &str| {
            let causes = [json!({"reason": "FieldValueInvalid", "field": field})];
            let details = json!({"causes": causes});
            answer(
                422,
                json!({"kind": "Status", "reason": "Invalid", "message": message, "details": details}),
            )
        };
        assert_eq!(of(&status("a", "x"), &status("a", "x")), Verdict::Exact);
        assert_eq!(of(&status("a", "x"), &status("b", "x")), Verdict::Agree);
        assert!(matches!(
            of(&status("a", "x"), &status("a", "y")),
            Verdict::Differ(_)
        ));
    }

    #[test]
    fn the_first_difference_is_named() {
        let want = answer(200, json!({"spec": {"list": [{"a": 1}, {"a": 2}]}}));
        let got = answer(200, json!({"spec": {"list": [{"a": 1}, {"a": 3}]}}));
        assert_eq!(
            of(&want, &got),
            Verdict::Differ("body: .spec.list[1].a: 2 != 3".into())
        );
        assert!(matches!(
            of(&want, &answer(201, json!({}))),
            Verdict::Differ(_)
        ));
    }
}
