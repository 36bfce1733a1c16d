//! `ComponentStatus`: the health of a part of the control plane. It is never stored; the
//! API server determines it on request.

use control_types::value::Value;

use crate::Kind;
use crate::generic::PLAIN;
use crate::table::{Timestamp, columns, name};
use crate::tree::Read;

pub(crate) static KIND: Kind = Kind {
    group: "",
    kind: "ComponentStatus",
    namespaced: Some(false),
    columns: columns::COMPONENT_STATUS,
    row,
    ..PLAIN
};

fn row(object: &Value, _: Timestamp) -> Vec<Value> {
    let health = object
        .items("conditions")
        .iter()
        .find(|condition| condition.text("type") == "Healthy");
    let text = |field: &str| health.map_or("", |health| health.text(field)).to_owned();
    let status = match (health, text("status").as_str()) {
        (None, _) => "Unknown",
        (Some(_), "True") => "Healthy",
        (Some(_), _) => "Unhealthy",
    };
    vec![
        name(object),
        status.into(),
        text("message").into(),
        text("error").into(),
    ]
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn a_part_that_is_not_known_to_be_well_is_unhealthy() {
        let status = |status: &str| {
            let object = value!({"metadata": {"name": "scheduler"}, "conditions": [
                {"type": "Healthy", "status": (status), "message": "m"}
            ]});
            row(&object, Timestamp::default())[1].clone()
        };
        assert_eq!(status("True"), Value::from("Healthy"));
        assert_eq!(status("Unknown"), Value::from("Unhealthy"));
        let none = row(&value!({"metadata": {"name": "x"}}), Timestamp::default());
        assert_eq!(none[1], Value::from("Unknown"));
    }
}
