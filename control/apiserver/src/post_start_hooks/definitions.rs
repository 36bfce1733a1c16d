//! CustomResourceDefinitions: which of the names that they ask for they get,
//! when they are established, and whether a protected group was approved.

use std::time::Duration;

use control_types::meta;
use control_types::status::Status;
use futures::{FutureExt, StreamExt as _, stream};

use control_registry::custom::status::{Names, judge};

use super::PostStartHook;
use control_registry::{Registry, own};

/// Who makes one waits for it, and changes that come together share a look anyway.
pub(super) static HOOK: PostStartHook =
    PostStartHook::new("definitions", Duration::from_secs(30), |context| {
        run(context).boxed()
    })
    .following(&[(GROUP, PLURAL)])
    .settling(Duration::ZERO);

pub(super) const GROUP: &str = "apiextensions.k8s.io";
pub(super) const PLURAL: &str = "customresourcedefinitions";

/// So many definitions are written at the same time.
const WRITES: usize = 64;

async fn run(registry: &Registry) -> Result<(), Status> {
    registry.definitions.refresh(registry).await?;
    let served = registry.resource(GROUP, PLURAL)?;
    // Names that were given in this round, and are not in the cache yet.
    let mut given: Vec<(String, Names)> = Vec::new();
    let mut changes = Vec::new();
    for name in registry.definitions.unsettled().await {
        let Some(found) = served.cache()?.get(&name) else {
            continue;
        };
        let mut one = found.value().map_err(Status::internal)?;
        // The end of a definition is a hook of its own.
        if meta::is_deleting(&one) {
            continue;
        }
        let group = one
            .str_at(&["spec", "group"])
            .unwrap_or_default()
            .to_owned();
        // Who has all names asks for none.
        let has_names = one.path(&["spec", "names"]) == one.path(&["status", "acceptedNames"]);
        let mut taken = Names::default();
        if !has_names {
            registry
                .definitions
                .names_of_others(&group, &name, &mut taken)
                .await;
            for (_, names) in given.iter().filter(|(of, _)| *of == group) {
                taken.extend(names);
            }
        }
        if judge(&mut one, &taken) {
            given.push((group, Names::held(&one)));
            changes.push((name, taken));
        }
    }
    // Together, so that they share the store's commits: who brings many definitions
    // waits for all of them.
    let changes = changes.into_iter().map(|(name, taken)| async move {
        own::change(registry, served, &name, |stored| judge(stored, &taken)).await
    });
    let done: Vec<_> = stream::iter(changes)
        .buffer_unordered(WRITES)
        .collect()
        .await;
    done.into_iter().collect()
}
