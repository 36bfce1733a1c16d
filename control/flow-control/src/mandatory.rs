//! The priority levels and flow schemas that every cluster has (KEP-1040):
//! mandatory ones are kept as they are, suggested ones until an administrator
//! takes them over.

use std::sync::LazyLock;

use control_types::status::Status;
use control_types::value::Value;
use control_types::{meta, value};
use futures::future::join_all;

use control_registry::{Registry, own};

/// The group of levels and schemas.
pub const GROUP: &str = "flowcontrol.apiserver.k8s.io";
/// The plural of priority levels.
pub const LEVELS: &str = "prioritylevelconfigurations";
/// The plural of flow schemas.
pub const SCHEMAS: &str = "flowschemas";
/// Under which name they are made.
const PRODUCER: &str = "api-priority-and-fairness-config-producer-v1";
/// Whether the server keeps an object's spec up to date.
const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";

/// Names, specs, and which of them are mandatory.
static TABLE: LazyLock<Value> = LazyLock::new(|| {
    // A test reads the table; should it not be readable, there is nothing to be made.
    Value::from_slice(include_bytes!("mandatory.json")).unwrap_or_default()
});

/// The objects of one member of the table that no cluster can be without, as far
/// as names and specs.
pub(crate) fn objects(member: &str) -> Vec<Value> {
    TABLE
        .items_at(&[member])
        .iter()
        .filter(|entry| entry.bool_at(&["mandatory"]) == Some(true))
        .map(|entry| {
            value!({
                "metadata": {"name": (entry.str_at(&["name"]).unwrap_or_default())},
                "spec": (entry.get("spec").cloned().unwrap_or_default())
            })
        })
        .collect()
}

/// Creates and mends the priority levels and flow schemas that every cluster has.
///
/// # Errors
/// When they cannot be written.
pub async fn ensure_objects(registry: &Registry) -> Result<(), Status> {
    for (plural, kind, member) in [
        (LEVELS, "PriorityLevelConfiguration", "priorityLevels"),
        (SCHEMAS, "FlowSchema", "flowSchemas"),
    ] {
        let served = registry.resource(GROUP, plural)?;
        let entries = TABLE.items_at(&[member]);
        // All at once: they share the store's commits.
        let written = entries.iter().map(|entry| async move {
            let name = entry.str_at(&["name"]).unwrap_or_default();
            let mandatory = entry.bool_at(&["mandatory"]) == Some(true);
            let mut object = value!({
                "kind": kind,
                "apiVersion": (served.api_version.as_str()),
                "metadata": {
                    "name": name,
                    "generation": 1,
                    "annotations": {AUTO_UPDATE: "true"}
                },
                "spec": (entry.get("spec").cloned().unwrap_or_default())
            });
            served.kind.default(&mut object);
            served.form().complete(&mut object);
            own::ensure(
                registry,
                (GROUP, plural),
                PRODUCER,
                object,
                |stored, wanted| mend(stored, wanted, mandatory),
            )
            .await
        });
        join_all(written)
            .await
            .into_iter()
            .collect::<Result<(), _>>()?;
        for stored in own::all(registry, GROUP, plural)? {
            let name = meta::name(&stored);
            let known = entries
                .iter()
                .any(|entry| entry.str_at(&["name"]) == Some(name));
            // What earlier releases suggested, and nobody took over.
            if !known && meta::annotation(&stored, AUTO_UPDATE) == Some("true") {
                own::delete(registry, served, name).await?;
            }
        }
    }
    Ok(())
}

/// Gives a stored object the spec and the annotation that it should have.
fn mend(stored: &mut Value, wanted: &Value, mandatory: bool) -> bool {
    let told = meta::annotation(stored, AUTO_UPDATE).and_then(|text| text.parse::<bool>().ok());
    let automatic = mandatory || told.unwrap_or(meta::generation(stored) == 1);
    let mut changed = false;
    if told != Some(automatic) {
        let text = if automatic { "true" } else { "false" };
        meta::set_annotation(stored, AUTO_UPDATE, text);
        changed = true;
    }
    let mut spec = wanted.get("spec").cloned().unwrap_or_default();
    if let Some(exempt) = stored.path(&["spec", "exempt"]) {
        // How much exempt requests take from others is an administrator's to say.
        spec.insert("exempt", exempt.clone());
    }
    if automatic && stored.get("spec") != Some(&spec) {
        stored.insert("spec", spec);
        meta::set_generation(stored, meta::generation(stored) + 1);
        changed = true;
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(annotation: Option<&str>, generation: i64, precedence: i64) -> Value {
        let mut object = value!({
            "metadata": {"name": "x", "generation": generation},
            "spec": {"matchingPrecedence": precedence}
        });
        if let Some(text) = annotation {
            meta::set_annotation(&mut object, AUTO_UPDATE, text);
        }
        object
    }

    #[test]
    fn table_can_be_read_and_names_both_mandatory_pairs() {
        for member in ["priorityLevels", "flowSchemas"] {
            let mandatory: Vec<_> = TABLE
                .items_at(&[member])
                .iter()
                .filter(|entry| entry.bool_at(&["mandatory"]) == Some(true))
                .filter_map(|entry| entry.str_at(&["name"]))
                .collect();
            assert_eq!(mandatory, ["catch-all", "exempt"], "{member}");
        }
    }

    #[test]
    fn suggested_objects_are_kept_until_taken_over() {
        let wanted = object(Some("true"), 1, 5);
        let mut kept = object(Some("true"), 3, 6);
        assert!(mend(&mut kept, &wanted, false));
        assert_eq!(kept.i64_at(&["spec", "matchingPrecedence"]), Some(5));
        let mut taken = object(Some("false"), 3, 6);
        assert!(!mend(&mut taken, &wanted, false));
        let mut edited = object(None, 2, 6);
        assert!(mend(&mut edited, &wanted, false));
        assert_eq!(meta::annotation(&edited, AUTO_UPDATE), Some("false"));
        assert_eq!(edited.i64_at(&["spec", "matchingPrecedence"]), Some(6));
    }

    #[test]
    fn mandatory_objects_cannot_be_taken_over() {
        let wanted = object(Some("true"), 1, 5);
        let mut taken = object(Some("false"), 3, 6);
        assert!(mend(&mut taken, &wanted, true));
        assert_eq!(taken.i64_at(&["spec", "matchingPrecedence"]), Some(5));
    }
}
