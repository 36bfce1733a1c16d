//! `DefaultTolerationSeconds`: pods outlive some minutes of a silent node.

use control_kinds::admission::{self as rules, Stay};
use control_types::value::Value;

use crate::admission::{Admission, AdmissionResult, done};
use crate::attributes::Attributes;

/// The plugin, with how long pods stay that do not say it themselves.
#[derive(Debug)]
pub struct DefaultTolerationSeconds(pub Stay);

impl Admission for DefaultTolerationSeconds {
    fn admit<'a>(
        &'a self,
        _attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        _old: Option<&'a Value>,
    ) -> AdmissionResult<'a> {
        rules::default_tolerations(object, self.0);
        done(Ok(()))
    }
}
