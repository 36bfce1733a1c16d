//! What a list shows: the objects of a resource as of a revision.

use std::sync::Arc;

use control_store::{Range, Revision};
use control_types::status::Status;

use super::continue_token::Token;
use crate::registry::Registry;
use crate::selection::Selection;
use crate::served_resource::ServedResource;
use crate::store_error::store_error;
use control_request::options::ListOptions;
use control_watch_cache::{CacheEntry, Change, Tree};

/// A snapshot of a resource and the revision as of which it is true.
#[derive(Debug, Clone)]
pub struct ListSnapshot {
    /// The objects.
    pub objects: Arc<Tree<CacheEntry>>,
    /// As of which revision.
    pub revision: Revision,
}

/// The snapshot that a request asks for, and the place where its page begins. Where
/// objects are selected by what they are in the version that is served, it holds only
/// the selected ones.
pub(crate) async fn snapshot(
    registry: &Registry,
    served: &ServedResource,
    options: &ListOptions,
    selection: &Selection,
) -> Result<(ListSnapshot, Option<String>), Status> {
    let (mut snapshot, start) = whole(registry, served, options, selection).await?;
    if selection.by_served_fields() {
        snapshot.objects =
            Arc::new(in_version(registry, served, &snapshot.objects, selection).await?);
    }
    Ok((snapshot, start))
}

/// The selected objects in the version that is served, as far as it takes a webhook to
/// bring them there.
pub(crate) async fn in_version(
    registry: &Registry,
    served: &ServedResource,
    objects: &Tree<CacheEntry>,
    selection: &Selection,
) -> Result<Tree<CacheEntry>, Status> {
    let stored = objects
        .prefixed(selection.prefix())
        .filter(|object| selection.matches(object))
        .cloned()
        .collect();
    let mut objects = served.all_in_version(registry, stored).await?;
    objects.retain(|object| selection.matches_served(served, object));
    Ok(Tree::from_sorted(objects))
}

async fn whole(
    registry: &Registry,
    served: &ServedResource,
    options: &ListOptions,
    selection: &Selection,
) -> Result<(ListSnapshot, Option<String>), Status> {
    if !options.continue_token.is_empty() {
        if !matches!(options.resource_version.as_str(), "" | "0") {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let token = Token::decode(&options.continue_token)?;
        let start = Some(format!(
            "{}{}",
            selection.prefix(),
            token.start.trim_start_matches('/')
        ));
        let Some(at) = token.revision else {
            registry.fresh(served, None).await?;
            return Ok((present(registry, served)?, start));
        };
        return match exact(registry, served, at).await {
            Ok(snapshot) => Ok((snapshot, start)),
            Err(status) if status.reason == "Expired" => Err(expired_token(&token)),
            Err(status) => Err(status),
        };
    }
    match options.revision()? {
        None => registry.fresh(served, None).await?,
        Some(0) => {}
        Some(at)
            if options.resource_version_match == "Exact"
                || (options.resource_version_match.is_empty() && options.limit > 0) =>
        {
            return Ok((exact(registry, served, at).await?, None));
        }
        Some(at) => registry.fresh(served, Some(at)).await?,
    }
    Ok((present(registry, served)?, None))
}

/// The newest snapshot. The revision is read first: the snapshot holds at
/// least all that had happened by then.
fn present(registry: &Registry, served: &ServedResource) -> Result<ListSnapshot, Status> {
    let applied = registry.caches.applied();
    let state = served.cache()?.state();
    Ok(ListSnapshot {
        objects: Arc::new(state.objects.clone()),
        revision: applied.max(state.revision),
    })
}

/// The objects as they were at a revision: the present ones if nothing changed
/// since, else the store's.
async fn exact(
    registry: &Registry,
    served: &ServedResource,
    revision: Revision,
) -> Result<ListSnapshot, Status> {
    registry.reach(revision).await?;
    // What the store has forgotten is told to be gone even where nothing has
    // changed since: clients learn at the same time, whatever they list.
    if revision < registry.store().compacted() {
        return Err(store_error(&control_store::Error::Compacted {
            requested: revision,
            compacted: registry.store().compacted(),
        }));
    }
    let cache = served.cache()?;
    let state = cache.state();
    if state.revision <= revision {
        return Ok(ListSnapshot {
            objects: Arc::new(state.objects.clone()),
            revision,
        });
    }
    let range = Range {
        at: Some(revision),
        ..Range::prefix(cache.prefix().to_owned())
    };
    let page = registry
        .store()
        .range(range)
        .await
        .map_err(|error| store_error(&error))?;
    let mut objects = Vec::with_capacity(page.kvs.len());
    for kv in &page.kvs {
        let Some(key) = std::str::from_utf8(&kv.key)
            .ok()
            .and_then(|key| key.strip_prefix(cache.prefix()))
        else {
            continue;
        };
        let bytes = registry
            .transform
            .open(&kv.key, &kv.value)
            .map_err(Status::internal)?;
        let (revision, reading) = (kv.mod_revision, cache.reading());
        let object = CacheEntry::new(key, &bytes, revision, Change::Modified, reading)
            .map_err(Status::internal)?;
        objects.push(Arc::new(object));
    }
    Ok(ListSnapshot {
        objects: Arc::new(Tree::from_sorted(objects)),
        revision,
    })
}

fn expired_token(token: &Token) -> Status {
    let mut status = Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    status.continue_token = Token {
        revision: None,
        start: token.start.clone(),
    }
    .encode();
    status
}
