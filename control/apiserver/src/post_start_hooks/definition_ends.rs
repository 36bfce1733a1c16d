//! The end of a CustomResourceDefinition: the objects of its kind go before it.

use std::time::Duration;

use control_store::Range;
use control_types::meta;
use control_types::status::Status;
use control_types::value::Value;
use futures::FutureExt;

use super::PostStartHook;
use super::definitions::{GROUP, PLURAL};
use control_registry::conditions::{self, Condition};
use control_registry::custom::status::FINALIZER;
use control_registry::verbs::delete::remove_by;
use control_registry::{Registry, custom, own, store_error};
use control_request::options::DeleteOptions;
use control_watch_cache::TreeEntry as _;

/// Objects with finalizers are looked at again; most often there are none.
pub(super) static HOOK: PostStartHook =
    PostStartHook::new("ends of definitions", Duration::from_secs(1), |context| {
        run(context).boxed()
    })
    .following(&[(GROUP, PLURAL)]);

async fn run(registry: &Registry) -> Result<(), Status> {
    registry.definitions.refresh(registry).await?;
    if !registry.definitions.now().any_deleting() {
        return Ok(());
    }
    let served = registry.resource(GROUP, PLURAL)?;
    for one in own::all(registry, GROUP, PLURAL)? {
        if !meta::is_deleting(&one) || !meta::has_finalizer(&one, FINALIZER) {
            continue;
        }
        let name = meta::name(&one);
        if delete_instances(registry, &one).await? {
            own::change(registry, served, name, finish).await?;
        } else {
            own::change(registry, served, name, wait).await?;
        }
    }
    Ok(())
}

/// Deletes the objects of the kind. Answers whether none is left.
async fn delete_instances(registry: &Registry, definition: &Value) -> Result<bool, Status> {
    let text = |path: &[&str]| definition.str_at(path).unwrap_or_default();
    let now = registry.definitions.now();
    let plural = text(&["spec", "names", "plural"]);
    let served = now
        .resources(text(&["spec", "group"]))
        .find(|served| served.resource.plural == plural)
        .cloned();
    drop(now);
    let Some(served) = served else {
        return Ok(!has_instances(registry, definition).await?);
    };
    registry.catch_up().await?;
    let state = served.cache()?.state();
    let options = DeleteOptions::default();
    for object in state.objects.iter() {
        match remove_by(registry, &served, object.key(), &options).await {
            Ok(_) => {}
            // Somebody else was faster.
            Err(status) if status.code == 404 => {}
            Err(status) => return Err(status),
        }
    }
    Ok(!has_instances(registry, definition).await?)
}

/// Objects are left: they wait for their finalizers.
fn wait(definition: &mut Value) -> bool {
    conditions::set(
        definition,
        &Condition {
            kind: "Terminating",
            status: "True",
            reason: "InstanceDeletionInProgress",
            message: "CustomResource deletion is in progress".into(),
        },
    )
}

/// Whether objects of the kind are still in the store.
async fn has_instances(registry: &Registry, definition: &Value) -> Result<bool, Status> {
    let text = |path: &[&str]| definition.str_at(path).unwrap_or_default().to_owned();
    let prefix = custom::prefix(
        &text(&["spec", "group"]),
        &text(&["spec", "names", "plural"]),
    );
    let range = Range {
        limit: 1,
        ..Range::prefix(prefix)
    };
    let page = registry.store().range(range).await;
    Ok(!page.map_err(|error| store_error(&error))?.kvs.is_empty())
}

/// Nothing is left of the kind: its definition may go.
fn finish(definition: &mut Value) -> bool {
    let (reason, message) = if conditions::is_true(definition, "Established") {
        ("InstanceDeletionCompleted", "removed all instances")
    } else {
        ("NeverEstablished", "resource was never established")
    };
    conditions::set(
        definition,
        &Condition {
            kind: "Terminating",
            status: "False",
            reason,
            message: message.into(),
        },
    );
    meta::remove_finalizer(definition, FINALIZER)
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn a_definition_waits_for_objects_and_then_goes() {
        let mut one = value!({
            "metadata": {"name": "gears.example.com", "finalizers": (vec![FINALIZER])},
            "status": {"conditions": [{"type": "Established", "status": "True"}]}
        });
        assert!(wait(&mut one) && !wait(&mut one));
        assert!(conditions::is_true(&one, "Terminating"));
        assert!(finish(&mut one));
        assert!(!meta::has_finalizer(&one, FINALIZER));
        let said = conditions::find(&one, "Terminating").expect("said");
        assert_eq!(said.str_at(&["reason"]), Some("InstanceDeletionCompleted"));
    }
}
