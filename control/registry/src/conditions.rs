//! Conditions of a status: each type once, and a time that tells since when.

use control_types::value::Value;
use control_types::{time, value};

/// What a condition says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// What it is about.
    pub kind: &'static str,
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// One word.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

/// Whether the object's status has a condition of this type that is `True`.
pub fn is_true(object: &Value, kind: &str) -> bool {
    find(object, kind).is_some_and(|found| found.str_at(&["status"]) == Some("True"))
}

/// The condition of a type.
pub fn find<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object
        .items_at(&["status", "conditions"])
        .iter()
        .find(|condition| condition.str_at(&["type"]) == Some(kind))
}

/// A status with this condition of the object alone, to be applied.
pub fn only(object: &Value, kind: &str) -> Value {
    let mut condition = find(object, kind).cloned().unwrap_or_default();
    if condition.str_at(&["reason"]) == Some("") {
        condition.remove("reason");
    }
    value!({"conditions": [(condition)]})
}

/// Sets a condition and tells whether that changed anything. The time changes
/// with the status alone.
pub fn set(object: &mut Value, wanted: &Condition) -> bool {
    let since = match find(object, wanted.kind) {
        Some(old) => {
            let same = |member: &str, text: &str| old.str_at(&[member]).unwrap_or_default() == text;
            if same("status", wanted.status)
                && same("reason", wanted.reason)
                && same("message", &wanted.message)
            {
                return false;
            }
            old.get("lastTransitionTime")
                .filter(|_| same("status", wanted.status))
                .cloned()
        }
        None => None,
    };
    let since = since.unwrap_or_else(|| Value::from(time::now().as_str()));
    let condition = value!({
        "type": (wanted.kind),
        "status": (wanted.status),
        "lastTransitionTime": (since),
        "reason": (wanted.reason),
        "message": (wanted.message.as_str())
    });
    let conditions = object
        .make_object()
        .object_mut("status")
        .get_or_insert_with("conditions", || value!([]))
        .make_array();
    match conditions
        .iter_mut()
        .find(|condition| condition.str_at(&["type"]) == Some(wanted.kind))
    {
        Some(old) => *old = condition,
        None => conditions.push(condition),
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(status: &'static str, message: &str) -> Condition {
        Condition {
            kind: "Ready",
            status,
            reason: "Because",
            message: message.into(),
        }
    }

    #[test]
    fn time_tells_since_when_the_status_holds() {
        let mut object = value!({"status": {"conditions": [{
            "type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z",
            "reason": "Because", "message": "a"
        }]}});
        assert!(!set(&mut object, &ready("True", "a")));
        assert!(set(&mut object, &ready("True", "b")));
        let since = |object: &Value| {
            find(object, "Ready")
                .and_then(|found| found.str_at(&["lastTransitionTime"]).map(str::to_owned))
        };
        assert_eq!(since(&object).as_deref(), Some("2020-01-01T00:00:00Z"));
        assert!(set(&mut object, &ready("False", "b")));
        assert_ne!(since(&object).as_deref(), Some("2020-01-01T00:00:00Z"));
        assert_eq!(object.items_at(&["status", "conditions"]).len(), 1);
    }
}
