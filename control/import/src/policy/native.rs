//! Other objects of the cluster that affect the conversion: namespaces, nodes and the
//! remaining NetworkPolicies.

use std::collections::BTreeMap;

use control_types::label_selector::LabelSelector;
use serde_json::Value;

use super::{Direction, Settings, Surroundings};
use crate::labels::{Conjunction, Requirements};
use crate::{IMPORTED_FROM, MalformedObject, ObjectId, labels_of, net};

/// The labels of a namespace.
pub type NamespaceLabels = BTreeMap<String, String>;

/// A NetworkPolicy of Kubernetes that stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativePolicy {
    /// The object.
    pub id: ObjectId,
    /// Its pods.
    pub subject: Conjunction,
    /// Whether it applies to traffic to them.
    pub ingress: bool,
    /// Whether it applies to traffic from them.
    pub egress: bool,
}

impl NativePolicy {
    /// Whether it applies to a direction.
    #[must_use]
    pub const fn applies_to(&self, direction: Direction) -> bool {
        match direction {
            Direction::Ingress => self.ingress,
            Direction::Egress => self.egress,
        }
    }
}

impl Surroundings {
    /// Reads Namespaces, Nodes and NetworkPolicies out of all objects; others are ignored.
    ///
    /// # Errors
    /// An object that is not what its kind says.
    pub fn read(objects: &[Value], settings: &Settings) -> Result<Self, MalformedObject> {
        let mut all = Self {
            pod_ranges: settings.pod_ranges.clone(),
            node_ranges: settings.node_ranges.clone(),
            ..Self::default()
        };
        for object in objects {
            let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
            match (text("apiVersion"), text("kind")) {
                ("v1", "Namespace") => {
                    let name = ObjectId::from_object(object).name;
                    let mut labels = labels_of(object);
                    labels.insert(crate::labels::NAMESPACE_NAME.to_owned(), name.clone());
                    all.namespaces.insert(name, labels);
                }
                ("v1", "Node") => all.add_node(object, settings),
                // Earlier imports are replaced by this one.
                ("networking.k8s.io/v1", "NetworkPolicy")
                    if !object["metadata"]["annotations"][IMPORTED_FROM].is_string() =>
                {
                    all.natives.push(native(object)?);
                }
                _ => {}
            }
        }
        Ok(all)
    }

    /// Given ranges replace those of Nodes.
    fn add_node(&mut self, node: &Value, settings: &Settings) {
        let texts = |pointer: &str| {
            let list = node.pointer(pointer).and_then(Value::as_array);
            list.into_iter().flatten()
        };
        if settings.pod_ranges.is_empty() {
            let ranges = texts("/spec/podCIDRs").filter_map(Value::as_str);
            let first = node.pointer("/spec/podCIDR").and_then(Value::as_str);
            self.pod_ranges
                .extend(ranges.chain(first).filter_map(net::parse));
        }
        if settings.node_ranges.is_empty() {
            let addresses = texts("/status/addresses").filter_map(|it| it["address"].as_str());
            self.node_ranges.extend(addresses.filter_map(net::parse));
        }
    }
}

fn native(object: &Value) -> Result<NativePolicy, MalformedObject> {
    let id = ObjectId::from_object(object);
    let spec = &object["spec"];
    let selector = match &spec["podSelector"] {
        Value::Null => LabelSelector::default(),
        other => serde_json::from_value(other.clone()).map_err(|error| MalformedObject {
            object: id.clone(),
            why: error.to_string(),
        })?,
    };
    let tests = Requirements::of_selector(&selector).map_err(|why| MalformedObject {
        object: id.clone(),
        why: why.to_string(),
    })?;
    let pod = tests
        .into_iter()
        .try_fold(Requirements::default(), |all, (key, test)| {
            all.and(&Requirements::one(&key, test))
        });
    let types: Vec<&str> = spec["policyTypes"].as_array().map_or_else(Vec::new, |all| {
        all.iter().filter_map(Value::as_str).collect()
    });
    let has_egress = spec["egress"].as_array().is_some_and(|it| !it.is_empty());
    let subject = Conjunction {
        namespace: Requirements::namespace(&id.namespace),
        // A contradiction selects nothing; taking it for more only makes us careful.
        pod: pod.unwrap_or_default(),
    };
    Ok(NativePolicy {
        subject,
        ingress: types.is_empty() || types.contains(&"Ingress"),
        egress: types.contains(&"Egress") || (types.is_empty() && has_egress),
        id,
    })
}
