//! `LimitRanger`: pods and claims keep to the limits of their namespace.

use control_kinds::admission as rules;
use control_types::meta;
use control_types::status::Status;
use control_types::value::Value;

use crate::admission::{Admission, AdmissionResult, Change, done};
use crate::attributes::Attributes;

/// The plugin.
#[derive(Debug)]
pub struct LimitRanger;

impl Admission for LimitRanger {
    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        old: Option<&'a Value>,
    ) -> AdmissionResult<'a> {
        if old.is_some() || !attributes.is_for("", "pods") {
            return done(Ok(()));
        }
        let namespace = &attributes.context.info.namespace;
        let ranges = attributes.cluster.list("", "limitranges", namespace);
        done(ranges.map(|ranges| {
            for range in &ranges {
                rules::default_limits(range, object);
            }
        }))
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        change: Change<'a>,
        _warnings: &'a mut Vec<String>,
    ) -> AdmissionResult<'a> {
        done(check(attributes, change))
    }
}

fn check(attributes: &Attributes<'_>, change: Change<'_>) -> Result<(), Status> {
    let is_claim = attributes.is_for("", "persistentvolumeclaims");
    let limited = match change.old {
        None => true,
        // Limits apply to updates of claims and to resizes of pods only.
        Some(old) => (is_claim || attributes.subresource == "resize") && !meta::is_deleting(old),
    };
    if !limited {
        return Ok(());
    }
    let namespace = meta::namespace(change.new);
    for range in attributes.cluster.list("", "limitranges", namespace)? {
        if let Some(why) = rules::check_limits(&range, change.new, is_claim) {
            return Err(attributes.refuse(change.new, &why));
        }
    }
    Ok(())
}
