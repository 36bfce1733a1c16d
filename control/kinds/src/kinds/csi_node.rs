//! `CSINode`: the storage drivers of a node.

use control_types::internal;
use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::PLAIN;
use crate::rules::{collect, labels, meta, names, non_negative, volumes};
use crate::table::{age, columns, name};
use crate::tree::{Read, Write, same};
use crate::{FieldError, Kind};

const ID_LIMIT: usize = 256;

pub(crate) static KIND: Kind = Kind {
    group: "storage.k8s.io",
    kind: "CSINode",
    namespaced: Some(false),
    validate_create: |object| collect(|errors| check(object, errors)),
    validate_update,
    columns: columns::CSI_NODE,
    row: |object, now| {
        let drivers = object.at("spec").items("drivers").len();
        vec![name(object), drivers.into(), age(object, now)]
    },
    ..PLAIN
};

fn check(object: &Value, errors: &mut Errors) {
    meta::validate(object, Some(false), names::subdomain_name, errors);
    let all = Path::new("spec.drivers");
    let drivers = object.at("spec").items("drivers");
    for (i, driver) in drivers.iter().enumerate() {
        let at = all.index(i);
        let name = driver.text("name");
        volumes::csi_driver(name, &at.child("name"), errors);
        let id = driver.text("nodeID");
        if id.is_empty() {
            errors.required(&at.child("nodeID"), "");
        }
        if id.len() > ID_LIMIT {
            errors.invalid(
                &at.child("nodeID"),
                id,
                format!("must be {ID_LIMIT} characters or less"),
            );
        }
        let count = driver.at("allocatable").num("count");
        non_negative(count, &at.child("allocatable").child("count"), errors);
        if drivers
            .iter()
            .take(i)
            .any(|other| other.text("name") == name)
        {
            errors.duplicate(&at.child("name"), name);
        }
        let keys = driver.items("topologyKeys");
        for (j, key) in keys.iter().enumerate() {
            if key.as_text().is_empty() {
                errors.required(&at, "");
            }
            if keys.iter().take(j).any(|other| other == key) {
                errors.duplicate(&at, key.clone());
            }
            labels::label_key(key.as_text(), &at, errors);
        }
    }
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        check(new, errors);
        // a driver's limits may change, its other fields may not
        let fixed = |driver: &Value| {
            let mut driver = driver.clone();
            driver.drop_field("allocatable");
            driver
        };
        for before in old.at("spec").items("drivers") {
            for driver in new.at("spec").items("drivers") {
                if driver.text("name") == before.text("name")
                    && !same(&fixed(driver), &fixed(before))
                {
                    errors.invalid(
                        &Path::new("spec.drivers"),
                        internal::form("storage.CSINodeDriver", &fixed(driver)),
                        "field is immutable",
                    );
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(id: &str, keys: &[&str], allocatable: serde_json::Value) -> Value {
        let object = json!({
            "metadata": {"name": "n", "resourceVersion": "1"},
            "spec": {"drivers": [
                {"name": "d.io", "nodeID": id, "topologyKeys": keys, "allocatable": allocatable}]}});
        serde_json::from_value(object).expect("a tree")
    }

    #[test]
    fn of_a_driver_that_is_there_only_what_it_can_hold_changes() {
        let old = node("n1", &["zone"], json!({"count": 5}));
        let said = |new: &Value| -> Vec<String> {
            let errors = validate_update(new, &old);
            errors.iter().map(ToString::to_string).collect()
        };
        for count in [
            json!({"count": 3}),
            json!({"count": 0}),
            json!({}),
            json!(null),
        ] {
            let new = node("n1", &["zone"], count);
            assert_eq!(said(&new), [""; 0], "KEP-4876");
        }
        let negative = said(&node("n1", &["zone"], json!({"count": -1})));
        assert_eq!(negative.len(), 1);
        assert!(
            negative[0].starts_with("spec.drivers[0].allocatable.count: Invalid value: -1"),
            "{negative:?}"
        );
        for new in [
            node("n2", &["zone"], json!({"count": 5})),
            node("n1", &["zone", "rack"], json!({"count": 3})),
        ] {
            let errors = said(&new);
            assert_eq!(errors.len(), 1, "{errors:?}");
            assert!(
                errors[0].starts_with("spec.drivers: Invalid value: ")
                    && errors[0].ends_with("field is immutable"),
                "{errors:?}"
            );
        }
    }
}
