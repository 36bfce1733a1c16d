//! Watches of the same objects through several servers, and whether each of them told every
//! change once and in its order.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use control_client::Client;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Error, Resource,
    api::{Api, ListParams, WatchEvent, WatchParams},
};
use serde::de::DeserializeOwned;
use tokio::{runtime::Runtime, task::JoinHandle};

use crate::{Failure, ensure};

/// The HTTP status of a watch whose past is forgotten.
const EXPIRED: u16 = 410;
/// Pause before a watch that broke off goes on.
const PAUSE: Duration = Duration::from_millis(50);

/// A change that a watch told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The object's name.
    pub name: String,
    /// The revision of the change.
    pub revision: u64,
    /// The object's value; `None` once it is deleted.
    pub value: Option<u64>,
}

/// All that one watch told.
#[derive(Debug, Default)]
pub struct Record {
    events: Vec<Event>,
    /// The last revision of an event or a bookmark.
    last: u64,
    /// Events and bookmarks that came after a newer one, or twice.
    disorder: Vec<String>,
    /// How often the watch was told that its past is forgotten, and began anew.
    expired: usize,
}

/// Watches that run until they are dropped.
pub struct Watches {
    records: Vec<(String, Arc<Mutex<Record>>)>,
    tasks: Vec<JoinHandle<()>>,
}

// === impl Record ===

impl Record {
    /// Takes an event down.
    pub fn event(&mut self, event: Event) {
        if event.revision <= self.last {
            self.disorder
                .push(format!("{event:?} after revision {}", self.last));
        }
        self.last = self.last.max(event.revision);
        self.events.push(event);
    }

    /// Takes a bookmark down, which promises that nothing older comes.
    pub fn bookmark(&mut self, revision: u64) {
        if revision < self.last {
            self.disorder.push(format!(
                "a bookmark of revision {revision} after revision {}",
                self.last
            ));
        }
        self.last = self.last.max(revision);
    }

    /// Takes down that changes were missed by permission: the watch begins anew at `revision`.
    pub fn expired(&mut self, revision: u64) {
        self.expired += 1;
        self.last = self.last.max(revision);
    }

    /// The number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there are no events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Removes what was told up to a revision, and returns it.
    fn take(&mut self, until: u64) -> Self {
        let (taken, left) = std::mem::take(&mut self.events)
            .into_iter()
            .partition(|event| event.revision <= until);
        self.events = left;
        Self {
            events: taken,
            last: until,
            disorder: std::mem::take(&mut self.disorder),
            expired: std::mem::take(&mut self.expired),
        }
    }
}

/// Checks that each watch told every acknowledged write once, in the order of revisions, and that
/// all of them told the same.
///
/// # Errors
/// The first gap, repetition or difference.
pub fn check(records: &[(String, Record)], acknowledged: &[Event]) -> Result<(), Failure> {
    for (watch, record) in records {
        if let Some(first) = record.disorder.first() {
            return Err(format!("the watch of {watch} went back: {first}").into());
        }
        ensure(
            record.expired == 0,
            format!(
                "the watch of {watch} lost its past {} times",
                record.expired
            ),
        )?;
        let told: BTreeMap<u64, &Event> =
            record.events.iter().map(|it| (it.revision, it)).collect();
        let missed = acknowledged
            .iter()
            .find(|write| told.get(&write.revision) != Some(write));
        ensure(
            missed.is_none(),
            format!("the watch of {watch} did not tell {missed:?}"),
        )?;
    }
    let Some(((first, one), others)) = records.split_first() else {
        return Ok(());
    };
    for (watch, other) in others {
        let differs = (0..one.len().max(other.len()))
            .map(|at| (one.events.get(at), other.events.get(at)))
            .find(|(a, b)| a != b);
        ensure(
            differs.is_none(),
            format!("the watches of {first} and {watch} differ: {differs:?}"),
        )?;
    }
    Ok(())
}

// === impl Watches ===

impl Watches {
    /// Watches ConfigMaps of a namespace from a revision on, once through each kubeconfig.
    ///
    /// # Errors
    /// A kubeconfig that cannot be used.
    pub fn start(
        runtime: &Runtime,
        kubeconfigs: &[(String, PathBuf)],
        namespace: &str,
        revision: u64,
    ) -> Result<Self, Failure> {
        let mut watches = Self {
            records: Vec::new(),
            tasks: Vec::new(),
        };
        for (name, path) in kubeconfigs {
            let record = Arc::<Mutex<Record>>::default();
            lock(&record).last = revision;
            let client = runtime.block_on(Client::from_kubeconfig(path))?;
            let api = Api::namespaced(client.kube().clone(), namespace);
            let own = Arc::clone(&record);
            let task = follow(api, revision, move |told| take_down(&own, told));
            watches.tasks.push(runtime.spawn(task));
            watches.records.push((name.clone(), record));
        }
        Ok(watches)
    }

    /// Waits until each watch told of a revision, or of a newer one.
    ///
    /// # Errors
    /// The watch that did not in time.
    pub fn wait_for(&self, revision: u64, patience: Duration) -> Result<(), Failure> {
        let until = Instant::now() + patience;
        for (name, record) in &self.records {
            while lock(record).last < revision {
                let last = lock(record).last;
                ensure(
                    Instant::now() < until,
                    format!("the watch of {name} stands at {last}, {revision} was written"),
                )?;
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        Ok(())
    }

    /// Removes what was told up to a revision, and returns it.
    #[must_use]
    pub fn take(&self, until: u64) -> Vec<(String, Record)> {
        let records = self.records.iter();
        records
            .map(|(name, record)| (name.clone(), lock(record).take(until)))
            .collect()
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

fn lock(record: &Mutex<Record>) -> MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a watch says.
#[derive(Debug)]
pub enum Told<K> {
    /// An object was made or changed.
    Changed(K),
    /// An object was deleted; its last state.
    Deleted(K),
    /// Everything up to this revision was told.
    Bookmark(u64),
    /// The past is forgotten: the watch begins anew at this revision, with these objects.
    Expired(u64, Vec<K>),
}

/// Watches from a revision on, and goes on from the last event where the watch breaks off; never
/// returns.
pub async fn follow<K>(api: Api<K>, mut revision: u64, mut tell: impl FnMut(Told<K>))
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let parameters = WatchParams::default().timeout(60);
    loop {
        let mut is_expired = false;
        match api.watch(&parameters, &revision.to_string()).await {
            Ok(stream) => {
                let mut stream = stream.boxed();
                while let Some(Ok(event)) = stream.next().await {
                    let told = match event {
                        WatchEvent::Error(status) => {
                            is_expired = status.code == EXPIRED;
                            break;
                        }
                        WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                            revision = revision.max(revision_of(&object));
                            Told::Changed(object)
                        }
                        WatchEvent::Deleted(object) => {
                            revision = revision.max(revision_of(&object));
                            Told::Deleted(object)
                        }
                        WatchEvent::Bookmark(bookmark) => {
                            let at = number(Some(&bookmark.metadata.resource_version));
                            revision = revision.max(at);
                            Told::Bookmark(at)
                        }
                    };
                    tell(told);
                }
            }
            Err(Error::Api(status)) => is_expired = status.code == EXPIRED,
            Err(_) => {}
        }
        if is_expired && let Ok(list) = api.list(&ListParams::default()).await {
            revision = number(list.metadata.resource_version.as_deref());
            tell(Told::Expired(revision, list.items));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Takes down what a watch of registers says.
fn take_down(record: &Mutex<Record>, told: Told<ConfigMap>) {
    let event = |object: ConfigMap, is_there: bool| {
        let value = || object.data.as_ref()?.get("value")?.parse().ok();
        Event {
            value: if is_there { value() } else { None },
            revision: revision_of(&object),
            name: object.metadata.name.unwrap_or_default(),
        }
    };
    let mut record = lock(record);
    match told {
        Told::Changed(object) => record.event(event(object, true)),
        Told::Deleted(object) => record.event(event(object, false)),
        Told::Bookmark(revision) => record.bookmark(revision),
        Told::Expired(revision, _) => record.expired(revision),
    }
}

fn revision_of(object: &impl Resource) -> u64 {
    number(object.meta().resource_version.as_deref())
}

fn number(revision: Option<&str>) -> u64 {
    revision.and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(revision: u64) -> Event {
        Event {
            name: "a".to_owned(),
            revision,
            value: Some(revision * 10),
        }
    }

    fn record(revisions: &[u64]) -> Record {
        let mut record = Record::default();
        for revision in revisions {
            record.event(event(*revision));
        }
        record
    }

    fn judge(records: Vec<Record>, acknowledged: &[u64]) -> Result<(), String> {
        let records: Vec<_> = records
            .into_iter()
            .zip(["one", "two", "three"])
            .map(|(record, name)| (name.to_owned(), record))
            .collect();
        let writes: Vec<_> = acknowledged.iter().map(|at| event(*at)).collect();
        check(&records, &writes).map_err(|error| error.to_string())
    }

    #[test]
    fn watches_that_tell_the_same_in_order_pass() {
        assert_eq!(
            judge(vec![record(&[1, 2, 5]), record(&[1, 2, 5])], &[1, 5]),
            Ok(())
        );
        assert_eq!(judge(Vec::new(), &[]), Ok(()));
    }

    #[test]
    fn a_gap_is_found_whether_the_write_was_acknowledged_or_not() {
        let missed = judge(vec![record(&[1, 5]), record(&[1, 5])], &[2]);
        assert!(missed.is_err_and(|error| error.contains("revision: 2")));
        let of_one = judge(vec![record(&[1, 2, 5]), record(&[1, 5])], &[1, 5]);
        assert!(of_one.is_err_and(|error| error.contains("one and two differ")));
        let last = judge(vec![record(&[1, 2]), record(&[1])], &[]);
        assert!(last.is_err());
    }

    #[test]
    fn repetitions_wrong_values_and_broken_bookmarks_are_found() {
        let twice = judge(vec![record(&[1, 2, 2])], &[]);
        assert!(twice.is_err_and(|error| error.contains("went back")));
        let back = judge(vec![record(&[2, 1])], &[]);
        assert!(back.is_err());
        let mut wrong = record(&[1]);
        wrong.events[0].value = Some(7);
        assert!(judge(vec![wrong], &[1]).is_err());
        let mut late = record(&[1]);
        late.bookmark(4);
        late.event(event(3));
        assert!(judge(vec![late], &[]).is_err());
        let mut fine = record(&[1]);
        fine.bookmark(4);
        fine.event(event(5));
        assert_eq!(judge(vec![fine], &[1, 5]), Ok(()));
        let mut lost = record(&[1]);
        lost.expired(4);
        assert!(judge(vec![lost], &[]).is_err_and(|error| error.contains("lost its past")));
    }

    #[test]
    fn what_is_taken_ends_at_a_revision() {
        let mut all = record(&[1, 2, 5]);
        let taken = all.take(2);
        assert_eq!((taken.len(), all.len()), (2, 1));
        assert!(!all.is_empty());
        all.event(event(6));
        assert!(judge(vec![all], &[5, 6]).is_ok());
    }
}
