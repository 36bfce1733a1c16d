//! How what is stored is encrypted, told to administrators:
//! `/orlop/v1/encryption`. Values are counted where they lie, by the provider and
//! key that their first bytes name.

use std::collections::BTreeMap;

use bytes::Bytes;
use control_store::Range;
use control_types::status::Status;
use control_types::value::{Map, Value};
use control_types::{registry, value};
use http::Method;

use control_encryption::Encryption;
use control_registry::reply::{self, Answer};
use control_registry::{Context, ServedResource, Storage, store_error};

/// Where it is told.
pub(crate) const PATH: &str = "/orlop/v1/encryption";

/// Values that are looked at at once.
const PAGE: usize = 500;

/// Tells, for every resource that is configured, what writes its values, how many
/// there are, and how many of them are stored otherwise.
///
/// # Errors
/// 405, or an error of the store.
pub(crate) async fn answer(context: &Context, encryption: &Encryption) -> Answer {
    if context.parts.method != Method::GET {
        return Err(Status::method_not_allowed());
    }
    let storage = &context.registry.storage;
    let table = encryption.now();
    let mut rows = Vec::new();
    for served in covered(storage) {
        rows.push(count(storage, encryption, &served).await?);
    }
    let error = table.health().err().map(|error| error.to_string());
    let answer = value!({
        "healthy": (error.is_none()),
        "error": (error.unwrap_or_default()),
        "resources": rows
    });
    Ok(reply::json(200, reply::line(&answer.to_vec())))
}

/// The stored resources of which the configuration says something, each once.
fn covered(storage: &Storage) -> Vec<std::sync::Arc<ServedResource>> {
    let custom = storage.definitions.now();
    let built_in = registry::resources().iter().filter_map(|one| {
        let stored = (one.storage.group, one.storage.version) == (one.group, one.version);
        stored
            .then(|| storage.served(one.group, one.version, one.plural))
            .flatten()
    });
    let custom = custom
        .groups()
        .into_iter()
        .flat_map(|group| custom.resources(group).cloned().collect::<Vec<_>>());
    let mut all: Vec<_> = built_in
        .chain(custom)
        .filter(|served| served.cache.is_some() && storage.transform.covers(served.resource))
        .collect();
    all.sort_by_key(|served| (served.resource.storage.group, served.resource.plural));
    all.dedup_by_key(|served| (served.resource.storage.group, served.resource.plural));
    all
}

async fn count(
    storage: &Storage,
    encryption: &Encryption,
    served: &ServedResource,
) -> Result<Value, Status> {
    let resource = served.resource;
    let (group, plural) = (resource.storage.group, resource.plural);
    let table = encryption.now();
    let mut range = Range::prefix(served.cache()?.prefix().to_owned());
    range.limit = PAGE;
    let (mut objects, mut stale) = (0_i64, 0_i64);
    let mut stored: BTreeMap<String, i64> = BTreeMap::new();
    loop {
        let page = storage.store().range(range.clone()).await;
        let page = page.map_err(|error| store_error(&error))?;
        for kv in &page.kvs {
            objects += 1;
            let prefix = table.prefix_of(group, plural, &kv.value);
            *stored.entry(prefix.to_owned()).or_default() += 1;
            if storage.transform.is_stale(&kv.key, &kv.value) {
                stale += 1;
            }
        }
        let Some(last) = page.kvs.last().filter(|_| page.kvs.len() == PAGE) else {
            break;
        };
        range.start = Bytes::from([&last.key[..], &[0]].concat());
    }
    let base = if resource.group.is_empty() {
        format!("/api/{}", resource.version)
    } else {
        format!("/apis/{}/{}", resource.group, resource.version)
    };
    let stored: Map = stored
        .into_iter()
        .map(|(prefix, count)| (prefix, Value::from(count)))
        .collect();
    Ok(value!({
        "resource": plural,
        "group": group,
        "base": base,
        "namespaced": (resource.namespaced),
        "writes": (table.prefix(group, plural)),
        "objects": objects,
        "stale": stale,
        "stored": stored
    }))
}
