//! The status of CustomResourceDefinitions: which of the names that they ask for they get,
//! when they are established, and whether a protected group was approved.

use std::collections::HashSet;

use control_kinds::approval;
use control_types::meta;
use control_types::status::quote;
use control_types::value::Value;

use crate::conditions::{self, Condition};

/// Waits until the objects of a definition are gone.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Names that definitions of a group have.
#[derive(Clone, Debug, Default)]
pub struct Names {
    resources: HashSet<String>,
    kinds: HashSet<String>,
}

impl Names {
    /// Those that a definition holds: until nothing is left of its objects.
    pub fn held(definition: &Value) -> Self {
        let mut out = Self::default();
        let names = definition.path(&["status", "acceptedNames"]);
        let gone = meta::is_deleting(definition) && !meta::has_finalizer(definition, FINALIZER);
        let Some(names) = names.filter(|_| !gone) else {
            return out;
        };
        let text = |member: &str| {
            let text = names.str_at(&[member]).filter(|text| !text.is_empty());
            text.map(str::to_owned)
        };
        out.resources.extend(text("plural"));
        out.resources.extend(text("singular"));
        let short = names.items_at(&["shortNames"]);
        out.resources
            .extend(short.iter().filter_map(Value::as_str).map(str::to_owned));
        out.kinds.extend(text("kind"));
        out.kinds.extend(text("listKind"));
        out
    }

    /// Adds others.
    pub fn extend(&mut self, others: &Self) {
        self.resources.extend(others.resources.iter().cloned());
        self.kinds.extend(others.kinds.iter().cloned());
    }
}

/// Whether the server has said all that it has to say of a definition, whatever
/// becomes of others.
pub fn is_settled(definition: &Value) -> bool {
    let said = |wanted: Condition| {
        conditions::find(definition, wanted.kind).is_some_and(|said| {
            let same = |member, text: &str| said.str_at(&[member]) == Some(text);
            same("status", wanted.status)
                && same("reason", wanted.reason)
                && same("message", &wanted.message)
        })
    };
    definition.path(&["spec", "names"]) == definition.path(&["status", "acceptedNames"])
        && conditions::is_true(definition, "NamesAccepted")
        && conditions::is_true(definition, "Established")
        && approve(definition).is_none_or(said)
}

/// Says of a definition what the server has to say, given the names that others have; whether
/// that changed anything.
pub fn judge(definition: &mut Value, taken: &Names) -> bool {
    let naming = name(definition, taken);
    let establishing = establish(definition);
    let approval = approve(definition).is_some_and(|said| conditions::set(definition, &said));
    approval || naming || establishing
}

/// Accepts the names that are free; the last that is not is told.
fn name(definition: &mut Value, taken: &Names) -> bool {
    let asked = definition
        .path(&["spec", "names"])
        .cloned()
        .unwrap_or_default();
    let had = definition
        .path(&["status", "acceptedNames"])
        .cloned()
        .unwrap_or_default();
    if asked == had {
        return false;
    }
    let mut names = had.clone();
    let mut refused: Option<(&'static str, String)> = None;
    let mut one = |member: &'static str, reason, used: &HashSet<String>, names: &mut Value| {
        let wanted = asked.str_at(&[member]).unwrap_or_default();
        if Some(wanted) != had.str_at(&[member]) && used.contains(wanted) {
            refused = Some((reason, in_use(wanted)));
        } else if !wanted.is_empty() {
            names.insert(member, wanted);
        }
    };
    one("plural", "PluralConflict", &taken.resources, &mut names);
    one("singular", "SingularConflict", &taken.resources, &mut names);
    let short = asked.items_at(&["shortNames"]);
    let conflicts: Vec<String> = short
        .iter()
        .filter(|name| !had.items_at(&["shortNames"]).contains(name))
        .filter_map(Value::as_str)
        .filter(|name| taken.resources.contains(*name))
        .map(in_use)
        .collect();
    let short_refused = match conflicts.as_slice() {
        [] => {
            keep(&mut names, "shortNames", &asked);
            None
        }
        [only] => Some(only.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    };
    let mut late = None;
    let mut two = |member: &'static str, reason, names: &mut Value| {
        let wanted = asked.str_at(&[member]).unwrap_or_default();
        if Some(wanted) != had.str_at(&[member]) && taken.kinds.contains(wanted) {
            late = Some((reason, in_use(wanted)));
        } else if !wanted.is_empty() {
            names.insert(member, wanted);
        }
    };
    two("kind", "KindConflict", &mut names);
    two("listKind", "ListKindConflict", &mut names);
    keep(&mut names, "categories", &asked);
    let refused = late
        .or(short_refused.map(|message| ("ShortNamesConflict", message)))
        .or(refused);
    let accepted = refused.is_none();
    let (status, (reason, message)) = match refused {
        Some(refused) => ("False", refused),
        None => ("True", ("NoConflicts", "no conflicts found".to_owned())),
    };
    let changed = names != had;
    definition.set_path(&["status", "acceptedNames"], names);
    let told = conditions::set(
        definition,
        &Condition {
            kind: "NamesAccepted",
            status,
            reason,
            message,
        },
    );
    if !conditions::is_true(definition, "Established") && !accepted {
        conditions::set(
            definition,
            &Condition {
                kind: "Established",
                status: "False",
                reason: "NotAccepted",
                message: "not all names are accepted".into(),
            },
        );
    }
    changed || told
}

fn in_use(name: &str) -> String {
    format!("{} is already in use", quote(name))
}

/// Copies a list of names, or its absence.
fn keep(names: &mut Value, member: &'static str, asked: &Value) {
    match asked.get(member) {
        Some(list) => {
            names.insert(member, list.clone());
        }
        None => {
            names.remove(member);
        }
    }
}

/// A definition whose names were once accepted is established for good.
fn establish(definition: &mut Value) -> bool {
    if !conditions::is_true(definition, "NamesAccepted")
        || conditions::is_true(definition, "Established")
    {
        return false;
    }
    conditions::set(
        definition,
        &Condition {
            kind: "Established",
            status: "True",
            reason: "InitialNamesAccepted",
            message: "the initial names have been accepted".into(),
        },
    )
}

/// What is to be told of a definition in a group of the Kubernetes community;
/// `None` for other groups.
fn approve(definition: &Value) -> Option<Condition> {
    if !approval::is_protected(definition.str_at(&["spec", "group"])?) {
        return None;
    }
    let found = approval::evaluate(definition);
    let (status, reason) = match found.state {
        approval::State::Missing => ("False", "MissingAnnotation"),
        approval::State::Bypassed => ("False", "UnapprovedAnnotation"),
        approval::State::Approved => ("True", "ApprovedAnnotation"),
        approval::State::Invalid => ("False", "InvalidAnnotation"),
    };
    Some(Condition {
        kind: "KubernetesAPIApprovalPolicyConformant",
        status,
        reason,
        message: found.message,
    })
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    fn definition(plural: &str, kind: &str) -> Value {
        value!({
            "metadata": {"name": (format!("{plural}.example.com"))},
            "spec": {"group": "example.com", "names": {
                "plural": plural, "singular": (kind.to_lowercase()), "kind": kind,
                "listKind": (format!("{kind}List"))
            }},
            "status": {"acceptedNames": {"plural": "", "kind": ""}}
        })
    }

    #[test]
    fn free_names_are_accepted_and_the_definition_established() {
        let mut one = definition("gears", "Gear");
        assert!(judge(&mut one, &Names::default()));
        assert_eq!(
            one.path(&["status", "acceptedNames"]),
            one.path(&["spec", "names"])
        );
        assert!(conditions::is_true(&one, "NamesAccepted"));
        assert!(conditions::is_true(&one, "Established"));
        assert!(is_settled(&one));
        assert!(!judge(&mut one, &Names::default()), "nothing is left to do");
    }

    #[test]
    fn names_of_others_are_refused_and_the_last_is_told() {
        let mut first = definition("gears", "Gear");
        judge(&mut first, &Names::default());
        let taken = Names::held(&first);
        let mut all = [first, definition("cogs", "Gear")];
        assert!(!is_settled(&all[1]) && judge(&mut all[1], &taken));
        let said = conditions::find(&all[1], "NamesAccepted").expect("said");
        assert_eq!(said.str_at(&["reason"]), Some("ListKindConflict"));
        assert_eq!(
            said.str_at(&["message"]),
            Some("\"GearList\" is already in use")
        );
        assert!(!conditions::is_true(&all[1], "Established"));
        let accepted = all[1].path(&["status", "acceptedNames"]).cloned();
        assert_eq!(accepted, Some(value!({"plural": "cogs", "kind": ""})));
        // The names become free.
        assert!(judge(&mut all[1], &Names::default()));
        assert!(conditions::is_true(&all[1], "Established"));
    }
}
