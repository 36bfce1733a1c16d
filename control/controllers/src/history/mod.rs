//! ControllerRevisions: the history of StatefulSets and DaemonSets.
//!
//! A revision holds the strategic merge patch that restores a pod template. Its bytes
//! determine its hash, its hash its name, and the name is a label of each pod. They equal
//! those of kube-controller-manager, so that a cluster moves from one to the other
//! without replacing a pod.

mod serialize;
pub(crate) use serialize::{go_json, patch, template_of};

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use control_client::{Client, DeleteOptions, Error, Meta, Metadata, Patch, Resource, resources};
use serde_json::{Map, Value, json};

use crate::kind_cache::KindCache;
use crate::views::{LabelSelector, Revision, Template, Text};
use crate::{hash, work};

/// The label of a pod that names its revision.
pub(crate) const POD_REVISION_LABEL: &str = "controller-revision-hash";
/// The label of a StatefulSet's revision that holds its hash.
pub(crate) const HASH_LABEL: &str = "controller.kubernetes.io/hash";
/// The limit on remembered comparisons; all are forgotten beyond it.
const REMEMBERED: usize = 10_000;

/// The write after which a revision of the current template exists.
#[derive(Debug, Clone)]
pub(crate) enum UpdateRevision {
    /// The newest revision is that of the template.
    Keep(Arc<Revision>),
    /// An older revision is that of the template; it gets this number.
    Renumber(Arc<Revision>, i64),
    /// No revision is that of the template; one with this number is created.
    Create(i64),
}

/// Sorts revisions from the oldest to the newest.
pub(crate) fn sort(revisions: &mut [Arc<Revision>]) {
    revisions.sort_by(|a, b| {
        let key = |r: &Revision| (r.revision, r.metadata.creation_timestamp);
        key(a)
            .cmp(&key(b))
            .then_with(|| a.metadata.name.cmp(&b.metadata.name))
    });
}

/// Decides which of the sorted `revisions` is that of a template with this digest.
pub(crate) fn update_revision(revisions: &[Arc<Revision>], digest: u64) -> UpdateRevision {
    let next = revisions.last().map_or(1, |newest| newest.revision + 1);
    let is_equal = |revision: &&Arc<Revision>| revision.data.digest == digest;
    match (revisions.last(), revisions.iter().rev().find(is_equal)) {
        (Some(newest), Some(_)) if newest.data.digest == digest => {
            UpdateRevision::Keep(Arc::clone(newest))
        }
        (_, Some(older)) => UpdateRevision::Renumber(Arc::clone(older), next),
        _ => UpdateRevision::Create(next),
    }
}

/// Returns the oldest of the sorted `revisions` that are not live, beyond `limit` of
/// them.
pub(crate) fn surplus(
    revisions: &[Arc<Revision>],
    is_live: impl Fn(&Revision) -> bool,
    limit: i32,
) -> Vec<Arc<Revision>> {
    let Ok(limit) = usize::try_from(limit) else {
        return Vec::new();
    };
    let unused: Vec<_> = revisions.iter().filter(|r| !is_live(r)).collect();
    let count = unused.len().saturating_sub(limit);
    unused.into_iter().take(count).map(Arc::clone).collect()
}

/// The name of a revision. A long prefix is cut, so that the name is valid.
pub(crate) fn revision_name(prefix: &str, hash: &str) -> String {
    let mut end = prefix.len().min(223);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}-{hash}", prefix.get(..end).unwrap_or(prefix))
}

/// Reads and writes the revisions of one kind of workload.
pub(crate) struct History {
    client: Client,
    revisions: Arc<KindCache<Revision>>,
    owner: Resource,
    /// Generations of owners whose template, compared with a revision of this resource
    /// version after defaulting, was found equal.
    equal: Mutex<HashSet<(Text, i64, Text)>>,
}

impl History {
    pub(crate) fn new(
        client: Client,
        revisions: Arc<KindCache<Revision>>,
        owner: Resource,
    ) -> Self {
        Self {
            client,
            revisions,
            owner,
            equal: Mutex::default(),
        }
    }

    /// Returns the revisions that `owner` controls and the matching orphans, sorted.
    pub(crate) fn list(&self, owner: &Meta, selector: &LabelSelector) -> Vec<Arc<Revision>> {
        let mut found = self.revisions.claimable(owner);
        found.retain(|revision| selector.matches(|key| revision.metadata.labels.get(key)));
        sort(&mut found);
        found
    }

    /// All revisions that `owner` controls, and the orphans.
    pub(crate) fn claimable(&self, owner: &Meta) -> Vec<Arc<Revision>> {
        let mut found = self.revisions.claimable(owner);
        sort(&mut found);
        found
    }

    /// Adopts an orphan.
    pub(crate) async fn adopt(&self, owner: &Meta, revision: &Meta) -> Result<(), Error> {
        let orphan = (&resources::CONTROLLER_REVISIONS, revision);
        work::adopt(&self.client, (&self.owner, owner), orphan, None).await
    }

    /// Gives a revision another number.
    pub(crate) async fn renumber(&self, revision: &Revision, number: i64) -> Result<(), Error> {
        let patch = json!({
            "metadata": work::precondition(&revision.metadata),
            "revision": number,
        });
        self.patch(&revision.metadata, &patch).await
    }

    /// Patches a revision.
    pub(crate) async fn patch(&self, revision: &Meta, patch: &Value) -> Result<(), Error> {
        let resource = &resources::CONTROLLER_REVISIONS;
        self.client
            .patch::<Metadata>(
                resource,
                &revision.namespace,
                &revision.name,
                "",
                Patch::Merge(patch),
            )
            .await
            .map(drop)
    }

    /// Deletes a revision; succeeds if it does not exist.
    pub(crate) async fn delete(&self, revision: &Meta) -> Result<(), Error> {
        let options = DeleteOptions::of_uid(revision.uid.as_str());
        let resource = &resources::CONTROLLER_REVISIONS;
        let deleted = self
            .client
            .delete(resource, &revision.namespace, &revision.name, &options)
            .await;
        work::unless_gone(deleted)
    }

    /// One revision with its data.
    pub(crate) async fn get(&self, namespace: &str, name: &str) -> Result<Value, Error> {
        self.client
            .get(&resources::CONTROLLER_REVISIONS, namespace, name)
            .await
    }

    /// The pod template that a revision restores.
    pub(crate) async fn template(&self, namespace: &str, name: &str) -> Result<Value, Error> {
        let revision = self.get(namespace, name).await?;
        Ok(template_of(&revision))
    }

    /// Whether `newest`, with today's defaults, restores the owner's template: revisions
    /// of older servers lack fields that the template has got since.
    pub(crate) async fn restores(
        &self,
        owner: &Meta,
        template: &Template,
        newest: &Meta,
    ) -> Result<bool, Error> {
        let memo = (
            owner.uid.clone(),
            owner.generation,
            newest.resource_version.clone(),
        );
        if self.remembered().contains(&memo) {
            return Ok(true);
        }
        let old = self.template(&newest.namespace, &newest.name).await?;
        let old = serialize::with_defaults(&self.owner.kind, &old);
        let is_equal = patch(&old) == patch(&template.to_value());
        if is_equal {
            let mut remembered = self.remembered();
            if remembered.len() >= REMEMBERED {
                remembered.clear();
            }
            remembered.insert(memo);
        }
        Ok(is_equal)
    }

    fn remembered(&self) -> MutexGuard<'_, HashSet<(Text, i64, Text)>> {
        self.equal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The annotations of the owner, among them those that no cache holds. They are
    /// copied to its revisions.
    pub(crate) async fn owner_annotations(&self, owner: &Meta) -> Result<Value, Error> {
        let fresh: Value = self
            .client
            .get(&self.owner, &owner.namespace, &owner.name)
            .await?;
        let annotations = fresh.pointer("/metadata/annotations").cloned();
        Ok(annotations.unwrap_or_else(|| Value::Object(Map::new())))
    }

    /// Creates a revision of this body under its name.
    pub(crate) async fn create(&self, namespace: &str, body: &Value) -> Result<Meta, Error> {
        let created = self
            .client
            .create::<Metadata>(&resources::CONTROLLER_REVISIONS, namespace, body)
            .await?;
        Ok(created.metadata)
    }

    /// The body of a revision.
    pub(crate) fn body(
        &self,
        owner: &Meta,
        (name, labels, annotations): (&str, &Value, &Value),
        data: &str,
        number: i64,
    ) -> Value {
        let data: Value = serde_json::from_str(data).unwrap_or_default();
        json!({
            "apiVersion": resources::CONTROLLER_REVISIONS.api_version(),
            "kind": resources::CONTROLLER_REVISIONS.kind,
            "metadata": {
                "name": name,
                "namespace": owner.namespace,
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": [work::reference_to(&self.owner, owner)],
            },
            "data": data,
            "revision": number,
        })
    }

    /// Creates the revision of a StatefulSet's template. When another revision has its
    /// name, `collisions` counts up until a name is free.
    pub(crate) async fn create_hashed(
        &self,
        owner: &Meta,
        template: &Template,
        number: i64,
        collisions: &mut i32,
    ) -> Result<Meta, Error> {
        let data = patch(&template.to_value());
        let annotations = self.owner_annotations(owner).await?;
        let mut labels = labels_of(template);
        labels[HASH_LABEL] = hash::revision_hash(&data, *collisions).into();
        loop {
            let name = revision_name(&owner.name, &hash::revision_hash(&data, *collisions));
            let body = self.body(owner, (&name, &labels, &annotations), &data, number);
            match self.create(&owner.namespace, &body).await {
                Err(error) if error.is_already_exists() => {}
                other => return other,
            }
            let existing = self.get(&owner.namespace, &name).await?;
            if existing.get("data").map(go_json).as_deref() == Some(data.as_str()) {
                return Ok(metadata(&existing));
            }
            *collisions = collisions.saturating_add(1);
        }
    }
}

/// The labels of a template as a JSON object.
pub(crate) fn labels_of(template: &Template) -> Value {
    let labels = template.labels.iter();
    Value::Object(labels.map(|(k, v)| (k.to_owned(), v.into())).collect())
}

/// The metadata of an object as a tree.
pub(crate) fn metadata(object: &Value) -> Meta {
    let metadata = object.get("metadata").cloned().unwrap_or_default();
    serde_json::from_value(metadata).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(name: &str, number: i64, data: u64) -> Arc<Revision> {
        let mut revision = Revision {
            revision: number,
            ..Revision::default()
        };
        revision.metadata.name = name.into();
        revision.data.digest = data;
        Arc::new(revision)
    }

    fn decide(revisions: &[Arc<Revision>], digest: u64) -> String {
        match update_revision(revisions, digest) {
            UpdateRevision::Keep(r) => format!("keep {}", r.metadata.name),
            UpdateRevision::Renumber(r, number) => format!("{} is {number}", r.metadata.name),
            UpdateRevision::Create(number) => format!("create {number}"),
        }
    }

    #[test]
    fn newest_equal_revision_is_kept_and_an_older_one_renumbered() {
        let all = [
            revision("a", 1, 10),
            revision("b", 2, 20),
            revision("c", 4, 30),
        ];
        assert_eq!(decide(&all, 30), "keep c");
        assert_eq!(decide(&all, 10), "a is 5");
        assert_eq!(decide(&all, 40), "create 5");
        assert_eq!(decide(&[], 40), "create 1");
        let twice = [
            revision("a", 1, 10),
            revision("b", 2, 10),
            revision("c", 3, 30),
        ];
        assert_eq!(decide(&twice, 10), "b is 4");
    }

    #[test]
    fn revisions_are_sorted_by_number_then_age_then_name() {
        let aged = |name: &str, number: i64, second: i64| {
            let mut revision = Revision::clone(&revision(name, number, 0));
            revision.metadata.creation_timestamp = jiff::Timestamp::from_second(second).ok();
            Arc::new(revision)
        };
        let mut all = vec![
            aged("z", 1, 5),
            aged("b", 2, 7),
            aged("a", 2, 7),
            aged("c", 2, 6),
        ];
        sort(&mut all);
        let names: Vec<_> = all.iter().map(|r| r.metadata.name.as_str()).collect();
        assert_eq!(names, ["z", "c", "a", "b"]);
    }

    #[test]
    fn oldest_unused_revisions_beyond_the_limit_are_surplus() {
        let all: Vec<_> = (1..=5_i64)
            .map(|n| revision(&format!("r{n}"), n, n.unsigned_abs()))
            .collect();
        let names = |limit| -> Vec<String> {
            let live = |r: &Revision| r.metadata.name == "r1" || r.metadata.name == "r5";
            let surplus = surplus(&all, live, limit);
            surplus
                .iter()
                .map(|r| r.metadata.name.to_string())
                .collect()
        };
        assert_eq!(names(3), [""; 0]);
        assert_eq!(names(1), ["r2", "r3"]);
        assert_eq!(names(0), ["r2", "r3", "r4"]);
        assert_eq!(names(-1), [""; 0]);
    }

    #[test]
    fn long_prefixes_of_names_are_cut() {
        assert_eq!(revision_name("web", "abc"), "web-abc");
        assert_eq!(revision_name(&"a".repeat(250), "abc").len(), 227);
    }
}
