//! What becomes of `managedFields` that mutating admission made unreadable.

use control_types::meta;
use control_types::value::Value;

/// Where they are.
pub const LIST: [&str; 2] = ["metadata", "managedFields"];

/// Gives an object the managers back that it had before, if those that it has now
/// cannot be read. Answers what the client is told then.
pub fn restore(object: &mut Value, before: Option<Value>) -> Option<String> {
    let now = object.path(&LIST);
    if now == before.as_ref() {
        return None;
    }
    let error = control_fields::managed::decode(now).err()?;
    match before {
        Some(before) => meta::metadata_mut(object).insert("managedFields", before),
        None => meta::metadata_mut(object).remove("managedFields"),
    };
    Some(format!(
        ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; please fix your requests: {error}"
    ))
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn managers_that_cannot_be_read_are_taken_back() {
        let good = value!([{
            "manager": "m", "operation": "Update", "apiVersion": "v1",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}
        }]);
        let mut object = value!({"metadata": {"name": "a", "managedFields": (good.clone())}});
        assert_eq!(restore(&mut object, Some(good.clone())), None);
        object.set_path(&LIST, value!([{"manager": "m", "operation": "Guess"}]));
        let warning = restore(&mut object, Some(good.clone())).expect("unreadable");
        assert!(warning.starts_with(".metadata.managedFields was in an invalid state"));
        assert_eq!(object.path(&LIST), Some(&good));
        // Others that can be read are taken.
        object.set_path(&LIST, value!([]));
        assert_eq!(restore(&mut object, Some(good)), None);
        assert_eq!(object.path(&LIST), Some(&value!([])));
    }
}
