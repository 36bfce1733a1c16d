//! How a `Scale` is shown in a table: the subresource of many kinds, and no kind
//! that is stored.

use crate::Kind;
use crate::generic::PLAIN;
use crate::table::{AGE, Column, NAME, age, name};
use crate::tree::Read;

/// The kind, as far as tables need it.
pub static SCALE: Kind = Kind {
    group: "autoscaling",
    kind: "Scale",
    columns: &[
        Column { format: "", ..NAME },
        Column {
            name: "Desired",
            r#type: "integer",
            description: "replicas is the desired number of instances for the scaled object.",
            ..AGE
        },
        Column {
            name: "Available",
            r#type: "integer",
            description: "replicas is the actual number of observed instances of the scaled object.",
            ..AGE
        },
        AGE,
    ],
    row: |object, now| {
        vec![
            name(object),
            object.at("spec").num("replicas").into(),
            object.at("status").num("replicas").into(),
            age(object, now),
        ]
    },
    ..PLAIN
};
