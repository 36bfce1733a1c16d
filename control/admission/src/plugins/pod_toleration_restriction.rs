//! `PodTolerationRestriction`: pods have the tolerations of their namespace, and no others than
//! it allows.

use control_kinds::admission as rules;
use control_request::plain_error;
use control_types::status::Status;
use control_types::value::Value;
use serde::Deserialize;

use crate::admission::{Admission, AdmissionResult, Change, done};
use crate::attributes::Attributes;

/// The plugin, with what holds where namespaces say nothing.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PodTolerationRestriction {
    #[serde(rename = "default")]
    pub given: Vec<Value>,
    #[serde(rename = "whitelist")]
    pub allowed: Vec<Value>,
}

impl Admission for PodTolerationRestriction {
    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        old: Option<&'a Value>,
    ) -> AdmissionResult<'a> {
        let stated = tolerations(attributes, rules::DEFAULT_TOLERATIONS);
        done(stated.and_then(|stated| {
            let given = match (old, stated) {
                (Some(_), _) => Vec::new(),
                (None, Some(given)) => given,
                (None, None) => self.given.clone(),
            };
            rules::add_tolerations(object, &given);
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

impl PodTolerationRestriction {
    fn check(&self, attributes: &Attributes<'_>, pod: &Value) -> Result<(), Status> {
        let stated = tolerations(attributes, rules::ALLOWED_TOLERATIONS)?;
        let (allowed, scope) = match &stated {
            Some(allowed) => (allowed, "namespace"),
            None => (&self.allowed, "cluster"),
        };
        // Not a Status there: kube-apiserver answers 500.
        rules::check_tolerations(pod, allowed, scope).map_err(plain_error)
    }
}

/// Returns the tolerations that an annotation of the namespace lists, if it is there.
fn tolerations(attributes: &Attributes<'_>, key: &str) -> Result<Option<Vec<Value>>, Status> {
    let text = attributes.namespace_annotation(key);
    let read = text.map(|text| rules::read_tolerations(&text)).transpose();
    read.map_err(Status::internal)
}
