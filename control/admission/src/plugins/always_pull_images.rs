//! `AlwaysPullImages`: sets the pull policy of every container to `Always`.

use control_kinds::admission as rules;
use control_types::value::Value;

use crate::admission::{Admission, AdmissionResult, Change, done};
use crate::attributes::Attributes;

/// The plugin.
#[derive(Debug)]
pub struct AlwaysPullImages;

impl Admission for AlwaysPullImages {
    fn admit<'a>(
        &'a self,
        _attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        old: Option<&'a Value>,
    ) -> AdmissionResult<'a> {
        rules::always_pull(object, old);
        done(Ok(()))
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        change: Change<'a>,
        _warnings: &'a mut Vec<String>,
    ) -> AdmissionResult<'a> {
        let checked = rules::check_always_pull(change.new, change.old);
        done(checked.map_err(|why| attributes.refuse(change.new, &why)))
    }
}
