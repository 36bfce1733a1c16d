//! `PodNodeSelector`: pods run on the nodes of their namespace.

use std::collections::BTreeMap;

use control_kinds::admission as rules;
use control_types::status::Status;
use control_types::value::Value;

use crate::admission::{Admission, AdmissionResult, Change, done};
use crate::attributes::Attributes;
use crate::settings::PluginError;

/// The plugin, with what namespaces want that do not say it, and what they may want, by their
/// names.
#[derive(Clone, Debug, Default)]
pub struct PodNodeSelector {
    pub usual: BTreeMap<String, String>,
    pub allowed: BTreeMap<String, BTreeMap<String, String>>,
}

impl Admission for PodNodeSelector {
    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        _old: Option<&'a Value>,
    ) -> AdmissionResult<'a> {
        let wanted = self.selector(attributes);
        done(wanted.and_then(|wanted| {
            rules::select_nodes(object, &wanted).map_err(|why| attributes.refuse(object, &why))?;
            self.check(attributes, object)
        }))
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        change: Change<'a>,
        _warnings: &'a mut Vec<String>,
    ) -> AdmissionResult<'a> {
        done(self.check(attributes, change.new))
    }
}

impl PodNodeSelector {
    /// Reads a configuration. It has no version, and one member.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(configuration: &Value) -> Result<Self, PluginError> {
        let member = "podNodeSelectorPluginConfig";
        let all = configuration.get(member).and_then(Value::as_object);
        let all = all.ok_or_else(|| PluginError::Required(member.to_owned()))?;
        let mut read = Self::default();
        for (namespace, selector) in all.iter() {
            let text = selector
                .as_str()
                .ok_or_else(|| PluginError::NoText(format!("{member}.{namespace}")))?;
            let selector =
                rules::read_node_selector(text).map_err(|source| PluginError::NodeSelector {
                    namespace: namespace.to_string(),
                    source,
                })?;
            if *namespace == "clusterDefaultNodeSelector" {
                read.usual = selector;
            } else {
                read.allowed.insert(namespace.to_string(), selector);
            }
        }
        Ok(read)
    }

    /// Returns what the namespace wants of its nodes.
    fn selector(&self, attributes: &Attributes<'_>) -> Result<BTreeMap<String, String>, Status> {
        match attributes.namespace_annotation(rules::NODE_SELECTOR) {
            Some(text) => rules::read_node_selector(&text).map_err(Status::internal),
            None => Ok(self.usual.clone()),
        }
    }

    fn check(&self, attributes: &Attributes<'_>, pod: &Value) -> Result<(), Status> {
        let none = BTreeMap::new();
        let namespace = &*attributes.context.info.namespace;
        let allowed = self.allowed.get(namespace).unwrap_or(&none);
        rules::check_node_selector(pod, &self.selector(attributes)?, allowed)
            .map_err(|why| attributes.refuse(pod, &why))
    }
}
