//! Writing objects: create, and read-decide-write with retry.

use std::time::Duration;

use bytes::Bytes;
use control_store::{KeyValue, Outcome, Precondition, Revision, Write};
use control_types::status::Status;
use control_types::value::Value;
use control_types::{coerce, meta};

use crate::served_resource::ServedResource;
use crate::storage::{Storage, precondition};
use crate::store_error::store_error;
use control_watch_cache::{encode, storage};

/// How often a decision is taken anew because others wrote in between.
const ATTEMPTS: usize = 30;

/// The stored object that a decision is about.
#[derive(Debug, Clone)]
pub struct Current {
    /// The object, in the version in which it is stored, with its resource version.
    pub object: Value,
    /// The revision of its last change.
    pub revision: Revision,
}

/// What to do with the stored object.
#[derive(Debug)]
pub enum Decision {
    /// Store this.
    Put(Value),
    /// Delete it; the answer is this last state of it.
    Delete(Value),
    /// Leave it as it is; the answer is this object.
    Keep(Value),
}

/// What was done.
#[derive(Debug)]
pub struct WriteResult {
    /// The object as it is now, or as it was last, with its resource version.
    pub object: Value,
    /// Whether it is gone.
    pub deleted: bool,
    /// Whether it did not exist before.
    pub created: bool,
}

/// An object that is being changed: read, decided about by the caller, written,
/// and all that again while others write in between.
#[derive(Debug)]
pub struct Modification<'a> {
    storage: &'a Storage,
    served: &'a ServedResource,
    key: &'a str,
    store_key: Bytes,
    dry_run: bool,
    ttl: Option<Duration>,
    current: Option<Current>,
    /// Of the object that is decided about; 0: there is none.
    revision: Revision,
    /// Whether that is as new as the store.
    fresh: bool,
    attempts: usize,
}

impl Modification<'_> {
    /// The object to decide about; to be asked once before every decision.
    pub fn current(&mut self) -> Option<Current> {
        self.current.take()
    }

    /// Returns whether the current object is the newest one. If not, the newest becomes
    /// current and needs a new decision.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn confirm(&mut self) -> Result<bool, Status> {
        if self.fresh {
            return Ok(true);
        }
        let stored = self
            .storage
            .read_store(self.served, &self.store_key)
            .await?;
        self.fresh = true;
        let revision = stored.as_ref().map_or(0, |stored| stored.revision);
        if revision == self.revision {
            return Ok(true);
        }
        self.revision = revision;
        self.current = stored;
        Ok(false)
    }

    /// Reads the object again, because the decision about it is obsolete.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn again(&mut self) -> Result<(), Status> {
        let stored = self
            .storage
            .read_store(self.served, &self.store_key)
            .await?;
        self.fresh = true;
        self.revision = stored.as_ref().map_or(0, |stored| stored.revision);
        self.current = stored;
        Ok(())
    }

    /// Does what was decided. Answers nothing if another decision is needed, about
    /// what is [`Modification::current`] now.
    ///
    /// # Errors
    /// The decision's own, if it was about the newest state, or an error of the store.
    pub async fn commit_decision(
        &mut self,
        decision: Result<Decision, Status>,
    ) -> Result<Option<WriteResult>, Status> {
        if self.attempts == 0 {
            return Err(self.served.conflict(
                self.key,
                "the object is being written too often; please try again",
            ));
        }
        self.attempts -= 1;
        let decided = match decision {
            Ok(decided @ (Decision::Put(_) | Decision::Delete(_))) if !self.dry_run => decided,
            other => {
                if !self.confirm().await? {
                    return Ok(None);
                }
                let (object, deleted, created) = match other? {
                    Decision::Put(object) => {
                        crate::convert::can_be_stored(self.storage, &object, self.served).await?;
                        (object, false, self.revision == 0)
                    }
                    Decision::Delete(object) => (object, true, false),
                    Decision::Keep(object) => (object, false, false),
                };
                if deleted || created || !self.is_stored_otherwise(&object).await? {
                    return Ok(Some(WriteResult {
                        object: with_revision(object, self.revision),
                        deleted,
                        created,
                    }));
                }
                // Nothing of it changes but how it is stored.
                Decision::Put(object)
            }
        };
        let Self {
            storage, served, ..
        } = *self;
        let key = self.store_key.clone();
        let condition = precondition(self.revision);
        let (object, written, deleted) = match decided {
            Decision::Put(mut object) => {
                let ttl = self.ttl;
                let written = storage.put(served, key, condition, &mut object, ttl).await;
                (object, written, false)
            }
            Decision::Delete(object) => {
                let began = std::time::Instant::now();
                let written = storage.store().write(key, condition, Write::Delete).await;
                let (group, plural) = (served.resource.group, served.resource.plural);
                let counts = &storage.counts;
                counts.store("delete", group, plural, began.elapsed());
                (object, written.map_err(|error| store_error(&error)), true)
            }
            Decision::Keep(object) => {
                return Ok(Some(WriteResult {
                    object,
                    deleted: false,
                    created: false,
                }));
            }
        };
        match written? {
            Outcome::Done { revision: now, .. } => Ok(Some(WriteResult {
                object: with_revision(object, now),
                deleted,
                created: self.revision == 0,
            })),
            Outcome::Failed {
                current: stored, ..
            } => {
                let stored = stored.map(|stored| storage.current(served, &stored));
                self.current = stored.transpose()?;
                self.revision = self.current.as_ref().map_or(0, |current| current.revision);
                self.fresh = true;
                Ok(None)
            }
        }
    }
}

impl Modification<'_> {
    /// Whether the object is stored in another way than it would be now: encrypted by
    /// another key, or in another version of its kind. `object`: as it would be written.
    async fn is_stored_otherwise(&self, object: &Value) -> Result<bool, Status> {
        if self.dry_run {
            return Ok(false);
        }
        let served = self.served;
        if served.resource.is_custom()
            && meta::api_version(object) == served.api_version
            && let Some(cached) = served.cache()?.get(self.key)
            && cached.revision() == self.revision
        {
            let (group, version) = meta::split_api_version(cached.api_version());
            if (group, version) != served.stored_as {
                return Ok(true);
            }
        }
        if !self.storage.transform.covers(served.resource) {
            return Ok(false);
        }
        let stored = self.storage.store().get(self.store_key.clone(), None).await;
        let stored = stored.map_err(|error| store_error(&error))?;
        Ok(stored.is_some_and(|stored| {
            stored.mod_revision == self.revision
                && self.storage.transform.is_stale(&stored.key, &stored.value)
        }))
    }
}

impl Storage {
    /// Stores a new object and returns it with its resource version.
    ///
    /// # Errors
    /// 409 when there is an object of that key.
    pub async fn store_new(
        &self,
        served: &ServedResource,
        key: &str,
        mut object: Value,
        ttl: Option<Duration>,
    ) -> Result<Value, Status> {
        let store_key = served.store_key(key)?;
        match self
            .put(served, store_key, Precondition::Absent, &mut object, ttl)
            .await
        {
            Ok(Outcome::Done { revision, .. }) => Ok(with_revision(object, revision)),
            Ok(Outcome::Failed { .. }) => Err(Status::already_exists(
                served.resource.group,
                served.resource.plural,
                control_strategy::name_of(key),
            )),
            Err(status) => Err(status),
        }
    }

    /// Reads an object, lets `decide` say what becomes of it, and writes that
    /// if nobody else wrote in between; else once more. `decide` first sees
    /// the cached object, which may be old: what it refuses then, it is asked
    /// again about the stored one.
    ///
    /// # Errors
    /// The error that `decide` returns for the newest state, or an error of the store.
    pub async fn modify<F>(
        &self,
        served: &ServedResource,
        key: &str,
        dry_run: bool,
        ttl: Option<Duration>,
        mut decide: F,
    ) -> Result<WriteResult, Status>
    where
        F: FnMut(Option<Current>) -> Result<Decision, Status>,
    {
        let mut change = self.begin(served, key, dry_run, ttl).await?;
        loop {
            let decision = decide(change.current());
            if let Some(done) = change.commit_decision(decision).await? {
                return Ok(done);
            }
        }
    }

    /// Begins what [`Storage::modify`] does for decisions that wait for others: the
    /// caller decides about [`Modification::current`] and lets that be settled,
    /// until it is.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn begin<'a>(
        &'a self,
        served: &'a ServedResource,
        key: &'a str,
        dry_run: bool,
        ttl: Option<Duration>,
    ) -> Result<Modification<'a>, Status> {
        let store_key = served.store_key(key)?;
        let cached = served.cache()?.get(key);
        let mut current = match &cached {
            Some(object) => Some(Current {
                object: object.value().map_err(Status::internal)?,
                revision: object.revision(),
            }),
            None => None,
        };
        let mut fresh = false;
        if current.is_none() {
            current = self.read_store(served, &store_key).await?;
            fresh = true;
        }
        Ok(Modification {
            storage: self,
            served,
            key,
            store_key,
            dry_run,
            ttl,
            revision: current.as_ref().map_or(0, |current| current.revision),
            current,
            fresh,
            attempts: ATTEMPTS,
        })
    }

    /// Deletes an object if its last change was at a revision; the revision of the
    /// deletion, or nothing if it changed since.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn delete_at(
        &self,
        served: &ServedResource,
        key: &str,
        revision: Revision,
    ) -> Result<Option<Revision>, Status> {
        let key = served.store_key(key)?;
        let began = std::time::Instant::now();
        let written = self
            .store()
            .write(key, precondition(revision), Write::Delete);
        let written = written.await;
        let (group, plural) = (served.resource.group, served.resource.plural);
        let counts = &self.counts;
        counts.store("delete", group, plural, began.elapsed());
        match written.map_err(|error| store_error(&error))? {
            Outcome::Done { revision, .. } => Ok(Some(revision)),
            Outcome::Failed { .. } => Ok(None),
        }
    }

    /// Whether there is an object of a key, as the store has it.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn is_stored(&self, served: &ServedResource, key: &str) -> Result<bool, Status> {
        if served.cache()?.get(key).is_some() {
            return Ok(true);
        }
        let found = self.read_store(served, &served.store_key(key)?).await?;
        Ok(found.is_some())
    }

    async fn read_store(
        &self,
        served: &ServedResource,
        key: &Bytes,
    ) -> Result<Option<Current>, Status> {
        let stored = self
            .store()
            .get(key.clone(), None)
            .await
            .map_err(|error| store_error(&error))?;
        stored
            .map(|stored| self.current(served, &stored))
            .transpose()
    }

    /// A stored value as an object with its resource version.
    pub fn current(&self, served: &ServedResource, stored: &KeyValue) -> Result<Current, Status> {
        let bytes = self
            .transform
            .open(&stored.key, &stored.value)
            .map_err(Status::internal)?;
        let mut object = Value::from_slice(&bytes).map_err(Status::internal)?;
        served.cache()?.strategy().upgrade_stored(&mut object);
        Ok(Current {
            object: with_revision(object, stored.mod_revision),
            revision: stored.mod_revision,
        })
    }

    /// Stores an object if the condition holds. The object is brought into the form
    /// that reading it back will give.
    async fn put(
        &self,
        served: &ServedResource,
        key: Bytes,
        condition: Precondition,
        object: &mut Value,
        ttl: Option<Duration>,
    ) -> Result<Outcome, Status> {
        let in_protobuf = storage::is_protobuf(served.resource);
        coerce::arrange(object, served.resource.schema, in_protobuf);
        let converted = if served.is_stored_form() && served.converter().is_none() {
            None
        } else {
            let mut held = object.clone();
            crate::convert::to_storage(self, &mut held, served).await?;
            Some(held)
        };
        let held = converted.as_ref().unwrap_or(object);
        let json = encode(held);
        let value = self
            .transform
            .seal(&key, served.resource, &json)
            .map_err(Status::internal)?;
        let prepared = served.cache()?.prepare(held, json);
        self.caches.offer(key.clone(), value.clone(), prepared);
        let write = Write::Put {
            value: value.clone(),
            ttl,
        };
        let operation = match condition {
            Precondition::Absent => "create",
            _ => "update",
        };
        let (group, plural) = (served.resource.group, served.resource.plural);
        let name = match condition {
            Precondition::Absent => "Create etcd3",
            _ => "GuaranteedUpdate etcd3",
        };
        let span = control_tracing::child(name).map(|span| {
            span.with("key", &*String::from_utf8_lossy(&key))
                .with("group", group)
                .with("resource", plural)
        });
        let began = std::time::Instant::now();
        let written = self.store().write(key.clone(), condition, write);
        let written = control_tracing::under(span.as_ref(), written).await;
        drop(span);
        let counts = &self.counts;
        counts.store(operation, group, plural, began.elapsed());
        match &written {
            Ok(Outcome::Done { revision, .. }) if decides(group, plural) => {
                // It is written whether or not the caches hear of it in time.
                let _behind = self.reach(*revision).await;
            }
            Ok(Outcome::Done { .. }) => {}
            _ => self.caches.withdraw(&key, &value),
        }
        written.map_err(|error| store_error(&error))
    }
}

/// Whether this server decides about other objects by what it has cached of these.
/// Who was told that a namespace is restricted now finds the next pod judged by it: such
/// a write is answered when the caches have it.
fn decides(group: &str, plural: &str) -> bool {
    matches!(
        (group, plural),
        ("", "limitranges" | "namespaces" | "resourcequotas")
    )
}

/// Sets the resource version, where Kubernetes prints it: right in the metadata.
fn with_revision(mut object: Value, revision: Revision) -> Value {
    if revision > 0 {
        meta::set_resource_version(&mut object, &revision.to_string());
    } else {
        meta::set_resource_version(&mut object, "");
    }
    object
}
