//! YAML as Kubernetes reads and writes it: `sigs.k8s.io/yaml`, which is YAML 1.1 by way
//! of JSON. `yes` is a truth value and `010` is eight; keys become texts and are sorted;
//! of several documents the first counts.

mod read;
mod scalar;
mod write;

pub use read::{Document, Error, read};
pub use write::to_string;

#[cfg(test)]
mod tests;
