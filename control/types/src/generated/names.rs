//! Written by `cargo xtask generate`; do not edit.

/// Every field name of the API, in order.
pub static NAMES: &[&str] = &[
    "annotations",
    "apiVersion",
    "conditions",
    "containers",
    "kind",
    "labels",
    "metadata",
    "name",
    "namespace",
    "spec",
    "status",
];
