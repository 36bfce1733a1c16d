//! DELETE of one object: at once, or step by step while finalizers and grace
//! periods last.

use std::sync::Arc;

use control_admission::{self as admission, Attributes, Operation, RequestOptions};
use control_types::meta;
use control_types::status::Status;
use control_types::value::Value;

use crate::context::Context;
use crate::registry::Registry;
use crate::reply::{self, Answer};
use crate::served_resource::ServedResource;
use crate::verbs::update::is_finished;
use crate::write::{Decision, WriteResult};
use control_request::body::Body;
use control_request::negotiate::Format;
use control_request::options::DeleteOptions;
use control_strategy::{decode, name_of};

/// Dependents are kept and lose their owner.
const ORPHAN: &str = "orphan";
/// Dependents go first.
const FOREGROUND: &str = "foregroundDeletion";

/// Answers a deletion.
///
/// # Errors
/// 404, 409 when preconditions fail.
pub async fn delete(context: &Context, served: &Arc<ServedResource>, body: Body) -> Answer {
    let format = Format::negotiate(&context.parts.headers, context.query())?;
    let options = read_options(context, body).await?;
    let key = served.key(&context.info.namespace, &context.info.name);
    let name = &context.info.name;
    // Whatever comes of it, even if there is nothing to delete.
    context.warnings.extend(warnings(served, &options));
    if let Some(why) = served.kind.undeletable(name) {
        let resource = served.resource;
        return Err(Status::forbidden(
            resource.group,
            resource.plural,
            name,
            why,
        ));
    }
    let (object, deleted) = remove(context, served, &key, &options, name).await?;
    Ok(if deleted && !returns_object(served) {
        let resource = served.resource;
        let status = Status::success(
            resource.group,
            resource.plural,
            name_of(&key),
            meta::uid(&object),
        );
        reply::value(200, &status.to_value(), format)
    } else {
        reply::acceptable_for_one(served.resource, format)?;
        let code = if !deleted && options.orphan_dependents == Some(false) {
            202
        } else {
            200
        };
        reply::value(code, &reply::shaped(object, &served.kind, format), format)
    })
}

/// Reads the options of a deletion.
///
/// # Errors
/// 400 and 422.
pub async fn read_options(context: &Context, body: Body) -> Result<DeleteOptions, Status> {
    let bytes = decode::read(body).await?;
    if bytes.is_empty() {
        return DeleteOptions::parse(context.query(), None);
    }
    let tree = decode::options(&context.parts.headers, &bytes, "DeleteOptions")?;
    DeleteOptions::parse(context.query(), Some(&tree))
}

/// Deletes an object or marks it. Answers its last state, and whether it is gone.
/// `asked` is the name that the request is about; empty for a whole collection.
///
/// # Errors
/// 404, 409 when preconditions fail, and whatever forbids it.
pub async fn remove(
    context: &Context,
    served: &Arc<ServedResource>,
    key: &str,
    options: &DeleteOptions,
    asked: &str,
) -> Result<(Value, bool), Status> {
    let attributes = Attributes {
        name: asked,
        options: RequestOptions::Delete(options),
        dry_run: options.dry_run,
        ..context.admission(&served.version, Operation::Delete, served.expected(), "")
    };
    remove_for(&context.registry, Some(attributes), served, key, options).await
}

/// As [`remove`], for the server itself.
///
/// # Errors
/// 404, 409 when preconditions fail.
pub async fn remove_by(
    registry: &Registry,
    served: &Arc<ServedResource>,
    key: &str,
    options: &DeleteOptions,
) -> Result<(Value, bool), Status> {
    remove_for(registry, None, served, key, options).await
}

async fn remove_for(
    registry: &Registry,
    attributes: Option<Attributes<'_>>,
    served: &Arc<ServedResource>,
    key: &str,
    options: &DeleteOptions,
) -> Result<(Value, bool), Status> {
    let mut found = Value::Null;
    let mut modification = registry.begin(served, key, options.dry_run, None).await?;
    if attributes.is_some_and(|attributes| registry.admission.is_dynamic(&attributes)) {
        // Whoever is asked costs more than to read what others may have written.
        modification.confirm().await?;
    }
    let done = loop {
        let decided = match modification.current() {
            Some(current) => {
                found = current.object;
                decide(registry, attributes.as_ref(), served, key, options, &found).await
            }
            None => Err(served.not_found(key)),
        };
        if let Some(done) = modification.commit_decision(decided).await? {
            break done;
        }
    };
    let done = if ends_at_once(served, &done) && !options.dry_run {
        finish(registry, served, key, done).await?
    } else {
        done
    };
    if done.deleted && !options.dry_run {
        registry
            .allocators
            .deleted(registry, served, &done.object)
            .await;
    }
    let mut object = done.object;
    if done.deleted && meta::finalizers(&object).next().is_none() && !was_marked(&object, served) {
        // Gone at once: it is shown as it was, not as being deleted.
        let revision = meta::resource_version(&object).to_owned();
        object = found;
        meta::set_resource_version(&mut object, &revision);
        let metadata = meta::metadata_mut(&mut object);
        metadata.remove("deletionTimestamp");
        metadata.remove("deletionGracePeriodSeconds");
    }
    if !served.is_form_of_tree(&object) {
        crate::convert::to_version(registry, &mut object, served).await?;
    }
    Ok((object, done.deleted))
}

/// Whether an object of a kind that ends gracefully was just marked, and nothing is to be
/// waited for.
fn ends_at_once(served: &ServedResource, done: &WriteResult) -> bool {
    !done.deleted && served.kind.facts().graceful.is_some() && is_finished(&done.object)
}

/// Deletes an object that was marked for it. If somebody else was faster, it is gone; if
/// somebody gave it a finalizer meanwhile, it waits for that.
async fn finish(
    registry: &Registry,
    served: &ServedResource,
    key: &str,
    marked: WriteResult,
) -> Result<WriteResult, Status> {
    let uid = meta::uid(&marked.object).to_owned();
    let revision = meta::resource_version(&marked.object).parse();
    if let Ok(revision) = revision
        && let Some(revision) = registry.delete_at(served, key, revision).await?
    {
        let mut object = marked.object;
        meta::set_resource_version(&mut object, &revision.to_string());
        return Ok(WriteResult {
            object,
            deleted: true,
            created: false,
        });
    }
    let deleted = registry.modify(served, key, false, None, |current| {
        let current = current.filter(|current| meta::uid(&current.object) == uid);
        let Some(current) = current else {
            return Err(served.not_found(key));
        };
        if is_finished(&current.object) {
            Ok(Decision::Delete(current.object))
        } else {
            Ok(Decision::Keep(current.object))
        }
    });
    match deleted.await {
        Err(status) if status.code == 404 => Ok(WriteResult {
            deleted: true,
            ..marked
        }),
        other => other,
    }
}

/// What becomes of an object that is to be deleted.
async fn decide(
    registry: &Registry,
    attributes: Option<&Attributes<'_>>,
    served: &Arc<ServedResource>,
    key: &str,
    options: &DeleteOptions,
    object: &Value,
) -> Result<Decision, Status> {
    check_preconditions(served, key, object, options)?;
    match attributes {
        Some(attributes) => {
            let change = admission::Change {
                new: object,
                old: None,
            };
            let mut warnings = Vec::new();
            let validated = registry
                .admission
                .validate(attributes, change, &mut warnings);
            validated.await?;
        }
        None if (served.resource.group, served.resource.plural) == ("", "namespaces") => {
            admission::check_deletion(name_of(key))?;
        }
        None => {}
    }
    if let Some(attributes) = attributes.filter(|one| registry.admission.is_dynamic(one)) {
        let mut old = object.clone();
        if !served.is_form_of_tree(&old) {
            crate::convert::to_version(registry, &mut old, served).await?;
        }
        served.form().complete(&mut old);
        let mut options = options.clone();
        if let Some(graceful) = served.kind.facts().graceful {
            // They are told of the period that it is given, said or not.
            let given = options.grace_period_seconds.map(|seconds| seconds.max(-1));
            options.grace_period_seconds = Some(graceful(object, given));
        }
        let attributes = Attributes {
            options: RequestOptions::Delete(&options),
            ..*attributes
        };
        registry
            .admission
            .review_deletion(&attributes, &old)
            .await?;
    }
    let mut marked = object.clone();
    mark(served, &mut marked, options);
    // Watchers see that a pod is to end before it is gone.
    let is_seen = served.kind.facts().graceful.is_some() && marked != *object && !options.dry_run;
    Ok(if is_finished(&marked) && !is_seen {
        Decision::Delete(marked)
    } else if marked == *object {
        Decision::Keep(marked)
    } else {
        Decision::Put(marked)
    })
}

/// Whether stock shows a deleted object of this kind with its deletion time:
/// the kinds that end gracefully.
fn was_marked(_object: &Value, served: &ServedResource) -> bool {
    served.kind.facts().graceful.is_some() || served.kind.facts().begin_deletion.is_some()
}

/// The uid and the version that a deletion names must be the present ones.
pub fn check_preconditions(
    served: &ServedResource,
    key: &str,
    object: &Value,
    options: &DeleteOptions,
) -> Result<(), Status> {
    let resource = served.resource;
    // Preconditions speak of the kind where other conflicts speak of the plural.
    let conflict = |why: &str| Status::conflict(resource.group, resource.kind, name_of(key), why);
    if let Some(uid) = options
        .uid
        .as_deref()
        .filter(|uid| *uid != meta::uid(object))
    {
        return Err(conflict(&format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            meta::uid(object)
        )));
    }
    if let Some(version) = options
        .resource_version
        .as_deref()
        .filter(|version| *version != meta::resource_version(object))
    {
        return Err(conflict(&format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object might have been modified",
            meta::resource_version(object)
        )));
    }
    Ok(())
}

/// The time and the period of a deletion that began `left` seconds before `until` and gets
/// a period of `grace` seconds. A period that is over already is the shortest in which an
/// agent may still end the object gracefully, unless it is none at all.
fn shortened(
    until: jiff::Timestamp,
    left: i64,
    grace: i64,
    now: jiff::Timestamp,
) -> (jiff::Timestamp, i64) {
    let seconds = jiff::SignedDuration::from_secs;
    let began = until.checked_sub(seconds(left)).unwrap_or(now);
    let at = began.checked_add(seconds(grace)).unwrap_or(now);
    if at < now {
        (now, grace.min(1))
    } else {
        (at, grace)
    }
}

/// Marks an object for deletion: finalizers by policy, the time, the grace period.
fn mark(served: &ServedResource, object: &mut Value, options: &DeleteOptions) {
    let now = jiff::Timestamp::now();
    // Any negative period is the shortest there is.
    let given = options.grace_period_seconds.map(|seconds| seconds.max(-1));
    let grace = served
        .kind
        .facts()
        .graceful
        .map_or(0, |graceful| graceful(object, given));
    let deleting = meta::is_deleting(object);
    let left = meta::deletion_grace_period_seconds(object).unwrap_or_default();
    let shorter = given.is_some() && grace < left;
    if deleting && left > 0 && !shorter {
        // Under way already: nothing changes, not even what becomes of dependents.
        return;
    }
    set_policy(served, object, options);
    if deleting {
        if left > 0 {
            let until = meta::deletion_timestamp(object).unwrap_or(now);
            let (at, grace) = shortened(until, left, grace, now);
            meta::set_deletion_timestamp(object, at);
            meta::set_deletion_grace_period_seconds(object, grace);
        }
        return;
    }
    let at = now
        .checked_add(jiff::SignedDuration::from_secs(grace))
        .unwrap_or(now);
    meta::set_deletion_timestamp(object, at);
    if let Some(begin) = served.kind.facts().begin_deletion {
        // It goes when all is cleared up; no clock runs.
        begin(object);
        return;
    }
    meta::set_deletion_grace_period_seconds(object, grace);
    if meta::generation(object) > 0 {
        meta::set_generation(object, meta::generation(object) + 1);
    }
}

/// Adds or takes away the two finalizers of the garbage collector.
fn set_policy(served: &ServedResource, object: &mut Value, options: &DeleteOptions) {
    let wanted = match (
        options.propagation_policy.as_deref(),
        options.orphan_dependents,
    ) {
        (Some("Orphan"), _) | (None, Some(true)) => Some(ORPHAN),
        (Some("Foreground"), _) => Some(FOREGROUND),
        (Some(_), _) | (None, Some(false)) => None,
        // Without a word an object keeps what it has.
        (None, None) if meta::has_finalizer(object, ORPHAN) => Some(ORPHAN),
        (None, None) if meta::has_finalizer(object, FOREGROUND) => Some(FOREGROUND),
        (None, None) if orphans_by_default(served) => Some(ORPHAN),
        (None, None) => None,
    };
    for finalizer in [ORPHAN, FOREGROUND] {
        if wanted == Some(finalizer) {
            meta::add_finalizer(object, finalizer);
        } else {
            meta::remove_finalizer(object, finalizer);
        }
    }
}

/// The kinds whose dependents have always outlived them unless asked otherwise.
fn orphans_by_default(served: &ServedResource) -> bool {
    matches!(
        (served.resource.group, served.resource.plural),
        ("", "replicationcontrollers") | ("batch", "jobs")
    )
}

fn warnings(served: &ServedResource, options: &DeleteOptions) -> Vec<String> {
    let silent = options.propagation_policy.is_some() || options.orphan_dependents.is_some();
    if (served.resource.group, served.resource.plural) == ("batch", "jobs") && !silent {
        return vec![
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning".into(),
        ];
    }
    Vec::new()
}

/// The kinds whose deletion answers the object instead of a Status.
fn returns_object(served: &ServedResource) -> bool {
    // Namespaces are never gone at once.
    served.resource.returns_deleted || served.resource.plural == "namespaces"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_is_brought_forward_but_never_into_the_past() {
        let at = |second: i64| jiff::Timestamp::from_second(second).expect("a time");
        // Begun at 100 with 30 seconds.
        let until = at(130);
        assert_eq!(shortened(until, 30, 10, at(105)), (at(110), 10));
        assert_eq!(shortened(until, 30, 0, at(105)), (at(105), 0));
        assert_eq!(shortened(until, 30, 3, at(105)), (at(105), 1));
    }
}
