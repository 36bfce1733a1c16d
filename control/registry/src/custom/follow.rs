//! Keeps what is served as the definitions are.

use std::sync::Arc;
use std::time::Duration;

use control_store::{Range, Revision, Store};
use control_types::meta;
use control_types::status::Status;
use control_types::value::Value;
use jiff::Timestamp;
use rustc_hash::FxHashMap;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::build::{self, CrdInfo};
use super::conversion::ConversionWebhooks;
use super::status::{self, Names};
use super::{Definitions, GROUP, PLURAL, Snapshot};
use crate::conditions::is_true;
use crate::served_resource::ServedResource;
use crate::storage::Storage;
use control_watch_cache::storage::{self, Transform};
use control_watch_cache::{Replacement, ResourceCache, TreeEntry as _};

/// How long after a failure the definitions are looked at again.
const RETRY: Duration = Duration::from_secs(1);

/// A definition and what was made of it.
#[derive(Debug)]
pub(super) struct DefinitionState {
    revision: Revision,
    /// What it was made of, in few bytes: definitions are large.
    content: Digest,
    /// When it was created, for who came first has the names.
    since: Option<Timestamp>,
    pub(super) group: Box<str>,
    pub(super) names: Names,
    /// Whether all is said of it that the server has to say.
    pub(super) settled: bool,
    deleting: bool,
    /// Whether objects of it cannot be made any more.
    terminating: bool,
    built: Option<CrdInfo>,
}

type Digest = [u8; 32];

/// The digest of the parts of a definition that decide what is served.
fn digest(definition: &Value) -> Digest {
    let mut hash = Sha256::new();
    for path in [&["spec"][..], &["status", "acceptedNames"]] {
        if let Some(part) = definition.path(path) {
            hash.update(part.to_vec());
        }
        hash.update([0]);
    }
    hash.finalize().into()
}

impl std::fmt::Debug for CrdInfo {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("CrdInfo")
            .field("served", &self.served)
            .finish_non_exhaustive()
    }
}

/// Follows the definitions until shutdown.
pub async fn follow(storage: Arc<Storage>, shutdown: CancellationToken) {
    let Some(mut wake) = storage
        .resource(GROUP, PLURAL)
        .ok()
        .and_then(|served| Some(served.cache.as_ref()?.wake()))
    else {
        return;
    };
    wake.mark_changed();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            changed = wake.changed() => if changed.is_err() { return },
        }
        if let Err(error) = storage.definitions.refresh(&storage).await {
            tracing::warn!(%error, "the definitions of custom resources cannot be followed");
            // It may be that no other change comes.
            wake.mark_changed();
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(RETRY) => {}
            }
        }
    }
}

/// Whether objects of the kind are served.
fn is_served(definition: &Value) -> bool {
    is_true(definition, "NamesAccepted") || is_true(definition, "Established")
}

impl DefinitionState {
    /// What a definition makes; `before`: what it made of an earlier state.
    fn of(
        revision: Revision,
        definition: &Value,
        before: Option<&Self>,
        webhooks: &ConversionWebhooks,
    ) -> Self {
        let content = digest(definition);
        let served = is_served(definition);
        let built = match before {
            Some(before) if before.content == content && served => before.built.clone(),
            _ => None,
        };
        let built = if served {
            built.or_else(|| build::build(definition, webhooks))
        } else {
            None
        };
        let deleting = meta::is_deleting(definition);
        let group = definition.str_at(&["spec", "group"]).unwrap_or_default();
        Self {
            revision,
            content,
            since: meta::creation_timestamp(definition),
            group: group.into(),
            names: Names::held(definition),
            settled: deleting || status::is_settled(definition),
            deleting,
            terminating: built.is_some() && is_true(definition, "Terminating"),
            built,
        }
    }

    /// Tells those who serve it whether it is on its way out.
    fn mark(&self) {
        if let Some(built) = &self.built {
            built.crd.set_terminating(self.terminating);
        }
    }
}

impl Definitions {
    /// Reads the definitions from the store, before there is a cache of them. Who
    /// converts their objects is reached by the ways of `webhooks`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn load(
        store: &Arc<dyn Store>,
        transform: &Transform,
        webhooks: &ConversionWebhooks,
    ) -> Result<(Self, Vec<Arc<ResourceCache>>), control_store::Error> {
        let range = Range::prefix(storage::prefix(GROUP, PLURAL));
        let page = store.range(range).await?;
        let mut known = FxHashMap::default();
        for kv in &page.kvs {
            // What cannot be read is told by the cache of definitions.
            let Some(definition) = transform
                .open(&kv.key, &kv.value)
                .ok()
                .and_then(|json| Value::from_slice(&json).ok())
            else {
                continue;
            };
            let one = DefinitionState::of(kv.mod_revision, &definition, None, webhooks);
            one.mark();
            known.insert(meta::name(&definition).to_owned(), one);
        }
        let caches = known
            .values()
            .filter_map(|one| Some(Arc::clone(&one.built.as_ref()?.cache)))
            .collect();
        let definitions = Self::default();
        definitions
            .snapshot
            .store(Arc::new(Snapshot::of(&known, 0, 1)));
        *definitions.known.lock().await = known;
        Ok((definitions, caches))
    }

    /// The names of the definitions of which something is to be said yet, the oldest
    /// first.
    pub async fn unsettled(&self) -> Vec<String> {
        let known = self.known.lock().await;
        let mut open: Vec<(Option<Timestamp>, Revision, &String)> = known
            .iter()
            .filter(|(_, one)| !one.settled)
            .map(|(name, one)| (one.since, one.revision, name))
            .collect();
        open.sort_unstable();
        open.into_iter().map(|(.., name)| name.clone()).collect()
    }

    /// Adds the names that other definitions of a group have.
    pub async fn names_of_others(&self, group: &str, own: &str, to: &mut Names) {
        let known = self.known.lock().await;
        for (name, one) in known.iter() {
            if &*one.group == group && name != own {
                to.extend(&one.names);
            }
        }
    }

    /// Whether what is served is as new as the cache of definitions.
    fn is_current(&self, revision: Revision) -> bool {
        self.now().revision == revision
    }

    /// Makes what is served as new as the cache of definitions.
    ///
    /// # Errors
    /// When a definition or the objects of a resource cannot be read.
    pub async fn refresh(&self, storage: &Storage) -> Result<(), Status> {
        let cache = storage.resource(GROUP, PLURAL)?.cache()?;
        if self.is_current(cache.state().revision) {
            return Ok(());
        }
        let mut known = self.known.lock().await;
        // Others may have done it while this waited.
        let state = cache.state();
        if self.is_current(state.revision) {
            return Ok(());
        }
        let mut next = Vec::new();
        let mut change = Replacement::default();
        for object in state.objects.iter() {
            let before = known.get(object.key());
            if before.is_some_and(|before| before.revision == object.revision()) {
                continue;
            }
            let definition = object.value().map_err(Status::internal)?;
            let webhooks = &storage.webhooks;
            let one = DefinitionState::of(object.revision(), &definition, before, webhooks);
            let old = before.and_then(|before| before.built.as_ref());
            match (old, &one.built) {
                (Some(old), Some(built)) if old.is(built) => {}
                (_, Some(built)) => change.added.push(Arc::clone(&built.cache)),
                (Some(old), None) => change.removed.push(Arc::clone(&old.cache)),
                (None, None) => {}
            }
            next.push((object.key().to_owned(), one));
        }
        let gone: Vec<String> = known
            .keys()
            .filter(|name| state.objects.get(name).is_none())
            .cloned()
            .collect();
        let left = gone.iter().filter_map(|name| known[name].built.as_ref());
        change
            .removed
            .extend(left.map(|built| Arc::clone(&built.cache)));
        let mut changed = !change.is_empty();
        // Whoever waits for this may go away: until here nothing is different, and
        // from here on nobody waits.
        storage
            .caches
            .replace(change)
            .await
            .map_err(Status::internal)?;
        for (name, one) in next {
            one.mark();
            let (built, ends) = (one.built.clone(), one.terminating);
            let Some(before) = known.insert(name, one) else {
                continue;
            };
            changed |= before.terminating != ends;
            if let Some(old) = before.built
                && !built.is_some_and(|built| old.is(&built))
            {
                old.crd.gone.cancel();
            }
        }
        for built in gone
            .iter()
            .filter_map(|name| known.remove(name.as_str())?.built)
        {
            built.crd.gone.cancel();
        }
        let now = self.now();
        let snapshot = if changed {
            Snapshot::of(&known, state.revision, now.generation + 1)
        } else {
            Snapshot {
                groups: now.groups.clone(),
                revision: state.revision,
                deleting: known.values().any(|one| one.deleting),
                generation: now.generation,
            }
        };
        drop(now);
        self.snapshot.store(Arc::new(snapshot));
        Ok(())
    }
}

impl Snapshot {
    fn of(known: &FxHashMap<String, DefinitionState>, revision: Revision, generation: u64) -> Self {
        let mut groups: FxHashMap<_, FxHashMap<_, Vec<Arc<ServedResource>>>> = FxHashMap::default();
        for built in known.values().filter_map(|one| one.built.as_ref()) {
            let mut served = built.served.clone();
            served.sort_by(|a, b| {
                control_kinds::compare_versions(b.resource.version, a.resource.version)
            });
            if let Some(first) = served.first() {
                groups
                    .entry(first.resource.group)
                    .or_default()
                    .insert(first.resource.plural, served);
            }
        }
        Self {
            groups,
            revision,
            deleting: known.values().any(|one| one.deleting),
            generation,
        }
    }
}
