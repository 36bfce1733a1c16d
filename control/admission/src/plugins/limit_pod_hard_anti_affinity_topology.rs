//! `LimitPodHardAntiAffinityTopology`: required anti-affinity is about nodes only.

use control_kinds::admission as rules;

use crate::admission::{Admission, AdmissionResult, Change, done};
use crate::attributes::Attributes;

/// The plugin.
#[derive(Debug)]
pub struct LimitPodHardAntiAffinityTopology;

impl Admission for LimitPodHardAntiAffinityTopology {
    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        change: Change<'a>,
        _warnings: &'a mut Vec<String>,
    ) -> AdmissionResult<'a> {
        let checked = rules::check_anti_affinity(change.new);
        done(checked.map_err(|why| attributes.refuse(change.new, &why)))
    }
}
