//! `DefaultIngressClass`: ingresses get the default class.

use control_kinds::admission as rules;
use control_types::value::Value;

use crate::admission::{Admission, AdmissionResult, done};
use crate::attributes::Attributes;

/// The plugin.
#[derive(Debug)]
pub struct DefaultIngressClass;

impl Admission for DefaultIngressClass {
    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        _old: Option<&'a Value>,
    ) -> AdmissionResult<'a> {
        let classes = attributes
            .cluster
            .list("networking.k8s.io", "ingressclasses", "");
        done(classes.map(|classes| rules::default_ingress_class(object, classes.iter())))
    }
}
