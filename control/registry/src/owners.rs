//! Owner references that are given twice.

use control_types::meta;
use control_types::value::Value;

/// When an object is looked at: creations and updates are before mutating admission,
/// and all writes after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionStage {
    /// As the client sent it.
    Sent,
    /// After mutating admission.
    Admitted,
}

/// Takes owner references out that are the same as an earlier one in all of their
/// fields. Gives the warning for the client if there were some.
pub fn dedup(object: &mut Value, when: AdmissionStage) -> Option<String> {
    let given = meta::owner_references(object);
    let is_again = |at: usize| given[..at].iter().any(|one| is_same(one, &given[at]));
    let doubled: Vec<usize> = (1..given.len()).filter(|at| is_again(*at)).collect();
    if doubled.is_empty() {
        return None;
    }
    let uids: Vec<&str> = doubled.iter().map(|at| text(&given[*at], "uid")).collect();
    let since = match when {
        AdmissionStage::Sent => "",
        AdmissionStage::Admitted => " after mutating admission happens",
    };
    let warning = format!(
        ".metadata.ownerReferences contains duplicate entries{since}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        uids.join(", ")
    );
    let kept = given.iter().enumerate();
    let kept: Value = kept
        .filter(|(at, _)| !doubled.contains(at))
        .map(|(_, one)| one.clone())
        .collect();
    meta::metadata_mut(object).insert("ownerReferences", kept);
    Some(warning)
}

fn text<'a>(reference: &'a Value, field: &str) -> &'a str {
    reference.str_at(&[field]).unwrap_or_default()
}

fn is_same(one: &Value, other: &Value) -> bool {
    let flag = |reference: &Value, field: &str| reference.bool_at(&[field]);
    ["uid", "name", "kind", "apiVersion"]
        .iter()
        .all(|field| text(one, field) == text(other, field))
        && ["controller", "blockOwnerDeletion"]
            .iter()
            .all(|field| flag(one, field) == flag(other, field))
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn an_owner_that_is_named_twice_is_kept_once_and_the_client_warned() {
        let owner =
            |uid: &str| value!({"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": (uid)});
        let mut controller = owner("1");
        controller.insert("controller", true);
        let mut object = value!({"metadata": {"ownerReferences": [
            (owner("1")), (owner("2")), (owner("1")), (controller.clone()), (owner("2"))
        ]}});
        let warning = dedup(&mut object, AdmissionStage::Admitted).expect("told");
        assert!(warning.starts_with(".metadata.ownerReferences contains duplicate entries after mutating admission happens; "), "{warning}");
        assert!(
            warning.ends_with(" duplicate UID(s) observed: 1, 2"),
            "{warning}"
        );
        assert_eq!(
            meta::owner_references(&object),
            [owner("1"), owner("2"), controller]
        );
        assert_eq!(dedup(&mut object, AdmissionStage::Sent), None);
    }
}
