//! Validating webhooks, all at the same time.

use std::sync::Arc;
use std::time::Instant;

use control_types::status::Status;
use control_types::value::Value;
use futures::future::join_all;

use super::call::{self, VersionedObjects};
use super::conditions;
use super::hook::Hook;
use super::outcome::{self, VALIDATE};
use crate::attributes::Attributes;

/// Lets all validating webhooks look at a request. Of several that refuse it the
/// first in their order is heard.
///
/// # Errors
/// What one refuses, or a failure that is not to be ignored.
pub(super) async fn run(
    hooks: &[Arc<Hook>],
    attributes: &Attributes<'_>,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<(), Status> {
    // The objects are converted and written once for all who want the same version.
    let mut versions: Vec<(VersionedObjects, Option<Value>, Option<Value>)> = Vec::new();
    let mut relevant: Vec<(&Hook, usize)> = Vec::new();
    for hook in hooks {
        let Some(found) = hook.constraints.find(attributes, object, old)? else {
            continue;
        };
        let known = versions
            .iter()
            .position(|(known, ..)| Arc::ptr_eq(&known.served, &found));
        let at = match known {
            Some(at) => at,
            None => {
                let (mut object, mut old) = (object.cloned(), old.cloned());
                for object in [&mut object, &mut old].into_iter().flatten() {
                    call::convert(attributes, object, attributes.served, &found).await?;
                }
                let versioned = VersionedObjects {
                    served: Arc::clone(&found),
                    object: call::json(object.as_ref()),
                    old: call::json(old.as_ref()),
                };
                versions.push((versioned, object, old));
                versions.len() - 1
            }
        };
        let facts = (versions[at].1.as_ref(), versions[at].2.as_ref());
        if conditions::are_met(attributes, hook, &found, facts, "validate")? {
            relevant.push((hook, at));
        }
    }
    let asked = relevant
        .iter()
        .enumerate()
        .map(|(index, (hook, at))| one(attributes, hook, &versions[*at].0, index));
    join_all(asked).await.into_iter().collect()
}

async fn one(
    attributes: &Attributes<'_>,
    hook: &Hook,
    versioned: &VersionedObjects,
    index: usize,
) -> Result<(), Status> {
    let began = Instant::now();
    let asked = call::call_webhook(attributes, hook, versioned, false).await;
    let place = format!("round_0_index_{index}");
    outcome::judge(attributes, hook, &VALIDATE, &place, began.elapsed(), asked)?;
    Ok(())
}
