//! `PersistentVolumeClaimResize`: claims grow if their class lets them.

use control_kinds::admission as rules;

use crate::admission::{Admission, AdmissionResult, Change, done};
use crate::attributes::Attributes;

/// The plugin.
#[derive(Debug)]
pub struct PersistentVolumeClaimResize;

impl Admission for PersistentVolumeClaimResize {
    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        change: Change<'a>,
        _warnings: &'a mut Vec<String>,
    ) -> AdmissionResult<'a> {
        let Some(old) = change.old else {
            return done(Ok(()));
        };
        let class = rules::growing_claim_class(change.new, old);
        let checked = class.and_then(|class| {
            let Some(class) = class else {
                return Ok(());
            };
            let cluster = attributes.cluster;
            let class = cluster.object("storage.k8s.io", "storageclasses", class);
            rules::check_growth(class.as_ref())
        });
        done(checked.map_err(|why| attributes.refuse(change.new, &why)))
    }
}
