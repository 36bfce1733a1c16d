//! Mutating webhooks, one after the other.

use std::sync::Arc;
use std::time::Instant;

use control_types::json_patch::Patch;
use control_types::meta;
use control_types::status::{Status, quote};
use control_types::value;
use control_types::value::Value;

use super::call::{self, VersionedObjects};
use super::conditions;
use super::failure::WebhookFailure;
use super::hook::Hook;
use super::outcome::{self, ADMIT};
use crate::attributes::Attributes;
use crate::dynamic::rounds::Rounds;
use control_request::plain_error;
use control_strategy::ServedVersion;

/// The object on its way through the webhooks, in the version of one of them.
struct CarriedObjects {
    served: Arc<ServedVersion>,
    object: Option<Value>,
    old: Option<Value>,
    /// Whether a webhook changed it.
    dirty: bool,
}

/// Lets all mutating webhooks change the object.
///
/// # Errors
/// What one refuses, or a failure that is not to be ignored.
pub(super) async fn run(
    hooks: &[Arc<Hook>],
    attributes: &Attributes<'_>,
    object: Option<&mut Value>,
    old: Option<&Value>,
    rounds: &mut Rounds,
) -> Result<(), Status> {
    if hooks.is_empty() {
        return Ok(());
    }
    let again = rounds.is_reinvocation();
    if again && rounds.webhooks.left.as_ref() != object.as_deref() {
        rounds.webhooks.repeat();
    }
    let mut carried = None;
    for (index, hook) in hooks.iter().enumerate() {
        let present = carried.as_ref().map_or_else(
            || (object.as_deref(), old),
            |carried: &CarriedObjects| (carried.object.as_ref(), carried.old.as_ref()),
        );
        let found = hook.constraints.find(attributes, present.0, present.1)?;
        let Some(found) = found else {
            continue;
        };
        let carried = match &mut carried {
            Some(carried) => carried,
            none => {
                let mut first = object.as_deref().cloned();
                if let Some(object) = &mut first {
                    attributes.kind.form.complete(object);
                }
                none.insert(CarriedObjects {
                    served: Arc::clone(attributes.served),
                    object: first,
                    old: old.cloned(),
                    dirty: false,
                })
            }
        };
        carried.convert_to(attributes, &found).await?;
        let facts = (carried.object.as_ref(), carried.old.as_ref());
        if !conditions::are_met(attributes, hook, &found, facts, "admit")? {
            continue;
        }
        if again && !rounds.webhooks.due.contains(&hook.uid) {
            continue;
        }
        let changed = one(attributes, hook, carried, usize::from(again), index).await?;
        if changed {
            rounds.webhooks.repeat();
            rounds.ask_again();
        }
        if hook.reinvoked {
            rounds.webhooks.asked.insert(hook.uid.clone());
        }
    }
    if let (Some(mut carried), Some(object)) = (carried, object) {
        if carried.dirty {
            carried.convert_to(attributes, attributes.served).await?;
            if let Some(changed) = carried.object {
                *object = changed;
            }
        }
        if rounds.is_to_be_repeated() && !again {
            rounds.webhooks.left = Some(object.clone());
        }
    }
    Ok(())
}

/// Asks one webhook. Tells whether it changed the object.
async fn one(
    attributes: &Attributes<'_>,
    hook: &Hook,
    carried: &mut CarriedObjects,
    round: usize,
    index: usize,
) -> Result<bool, Status> {
    let began = Instant::now();
    let asked = ask(attributes, hook, carried).await;
    let place = format!("round_{round}_index_{index}");
    let mutated = asked.as_ref().is_ok_and(|changed| *changed);
    let note = value!({
        "configuration": (hook.configuration.as_str()),
        "webhook": (hook.name.as_str()),
        "mutated": (mutated)
    });
    attributes.context.annotate(
        format!("mutation.webhook.admission.k8s.io/{place}"),
        String::from_utf8_lossy(&note.to_vec()).into_owned(),
    );
    let changed = outcome::judge(attributes, hook, &ADMIT, &place, began.elapsed(), asked)?;
    Ok(changed.unwrap_or_default())
}

async fn ask(
    attributes: &Attributes<'_>,
    hook: &Hook,
    carried: &mut CarriedObjects,
) -> Result<bool, WebhookFailure> {
    let versioned = VersionedObjects {
        served: Arc::clone(&carried.served),
        object: call::json(carried.object.as_ref()),
        old: call::json(carried.old.as_ref()),
    };
    let answer = call::call_webhook(attributes, hook, &versioned, true).await?;
    let Some((patch, patch_type)) = answer.patch else {
        return Ok(false);
    };
    let undecodable = |why: String| WebhookFailure::Calling {
        why: format!("received undecodable patch in webhook response: {why}"),
        code: 503,
    };
    let tree = Value::from_slice(&patch).map_err(|error| undecodable(error.to_string()))?;
    if tree.as_array().is_none() && !tree.is_null() {
        return Err(undecodable(format!(
            "json: cannot unmarshal {} into Go value of type jsonpatch.Patch",
            tree.type_name()
        )));
    }
    if tree.as_array().is_none_or(Vec::is_empty) {
        return Ok(false);
    }
    let patch = Patch::read(&tree).map_err(|error| undecodable(error.to_string()))?;
    let Some(object) = &carried.object else {
        let why = format!(
            "admission webhook {} attempted to modify the object, which is not supported for this operation",
            quote(&hook.name)
        );
        return Err(WebhookFailure::Internal(Status::internal(why)));
    };
    if patch_type != "JSONPatch" {
        return Err(WebhookFailure::Calling {
            why: format!("unsupported patch type {}", quote(&patch_type)),
            code: 400,
        });
    }
    let changed = patched(attributes, carried.served.as_ref(), object, &patch)
        .map_err(WebhookFailure::Internal)?;
    if meta::kind(object) != meta::kind(&changed) {
        let (version, kind) = (meta::api_version(&changed), meta::kind(&changed));
        let own = attributes.kind;
        let internal = match own.group {
            "" => "core",
            group => group.split('.').next().unwrap_or_default(),
        };
        let version = version.rsplit('/').next().unwrap_or_default();
        return Err(WebhookFailure::Internal(plain_error(format!(
            "converting ({version}.{kind}) to ({internal}.{}): unknown conversion",
            own.kind
        ))));
    }
    let is_other = *object != changed;
    let mut changed = changed;
    if attributes.kind.kind == attributes.served.resource.kind {
        carried.served.kind.default(&mut changed);
    }
    carried.object = Some(changed);
    carried.dirty = true;
    Ok(is_other)
}

/// The object that a patch makes of another.
///
/// # Errors
/// 500 when it cannot be applied.
fn patched(
    attributes: &Attributes<'_>,
    served: &ServedVersion,
    object: &Value,
    patch: &Patch,
) -> Result<Value, Status> {
    let mut changed = object.clone();
    patch.apply(&mut changed).map_err(|error| {
        let explained = patch.explain(object);
        Status::internal(explained.unwrap_or_else(|| error.to_string()))
    })?;
    let form = if attributes.kind.kind == attributes.served.resource.kind {
        served.form()
    } else {
        attributes.kind.form
    };
    // What the patch invented is dropped, as from every object that is sent.
    form.coerce(&mut changed).map_err(Status::internal)?;
    form.complete(&mut changed);
    Ok(changed)
}

// === impl CarriedObjects ===

impl CarriedObjects {
    async fn convert_to(
        &mut self,
        attributes: &Attributes<'_>,
        served: &Arc<ServedVersion>,
    ) -> Result<(), Status> {
        if Arc::ptr_eq(&self.served, served) {
            return Ok(());
        }
        for object in [&mut self.object, &mut self.old].into_iter().flatten() {
            call::convert(attributes, object, &self.served, served).await?;
        }
        self.served = Arc::clone(served);
        Ok(())
    }
}
