//! The store in an etcd cluster, for several control-plane nodes.
//!
//! Keys, revisions and rules are etcd's own, so that this is a thin layer:
//!
//! * a write is one transaction: the precondition as its comparison, the change as one
//!   branch, a read of the key as the other;
//! * a watch resumes when a connection or a member fails, and determines its progress
//!   (see `watch`);
//! * keys with a limited lifetime share leases (see `lease`);
//! * watches have connections of their own (see `watch_pool`);
//! * callers may provide connections to members, and observe calls (see `members`);
//! * while no member knows a leader, no request waits for one (see `leader`).
//!
//! [`Store::revision`] is the newest revision that this process knows of. Where other
//! processes write too, [`Store::latest`] asks the cluster.

mod convert;
mod fault;
mod leader;
mod lease;
mod members;
mod watch;
mod watch_pool;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use etcd_client::{
    Certificate, Client, Compare, CompareOp, ConnectOptions, DeleteOptions, GetOptions, Identity,
    KvClient, PutOptions, TlsOptions, Txn, TxnOp, TxnOpResponse, WatchOptions,
};
use futures::future::{BoxFuture, FutureExt};
use tokio::sync::watch as channel;

pub use self::members::{Calls, Dial, Io};

use self::fault::Faults;
use self::leader::LeaderLostSince;
use self::lease::EtcdLeases;
use self::watch_pool::WatchPool;
use crate::txn::GRANTED;
use crate::{
    Error, KeyValue, Outcome, Page, Precondition, Range, Revision, Size, Store, Watch, WatchParts,
    Write,
};

/// How etcd is reached.
#[derive(Clone)]
pub struct EtcdOptions {
    /// URLs of the members' client ports.
    pub endpoints: Vec<String>,
    /// For `https`.
    pub tls: Option<Tls>,
    /// Name and password, where etcd wants them beside or instead of a
    /// certificate.
    pub user: Option<(String, String)>,
    /// A prefix that this process may read: it asks there for the revision.
    pub root: Bytes,
    /// The largest key and value together, in bytes: etcd's own default for
    /// requests (`--max-request-bytes`).
    pub max_entry_bytes: usize,
    /// How long one call may take.
    pub timeout: Duration,
    /// Makes connections to members; this process itself unless set.
    pub dial: Option<Arc<dyn Dial>>,
    /// Observes calls to members; none unless set.
    pub calls: Option<Arc<dyn Calls>>,
}

/// Certificates in PEM.
#[derive(Clone)]
pub struct Tls {
    /// The certificate of the authority that signed the members' certificates.
    pub ca: Vec<u8>,
    /// The client's own certificate and key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// An etcd cluster as a store.
pub struct Etcd {
    client: Client,
    shared: Arc<EtcdShared>,
    leases: EtcdLeases,
    max_entry_bytes: usize,
    /// Watches end when this is dropped.
    alive: channel::Sender<()>,
}

/// State shared by calls and watches.
struct EtcdShared {
    faults: Faults,
    watches: WatchPool,
    root: Bytes,
    timeout: Duration,
    revision: channel::Sender<Revision>,
    compacted: channel::Sender<Revision>,
    /// Whether members report a watch's progress only when it is true.
    progress: bool,
    /// Since when no member has known a leader.
    lost: LeaderLostSince,
}

/// How often a read is tried, and how long to wait in between.
const READ_ATTEMPTS: u32 = 4;
const READ_PAUSE: Duration = Duration::from_millis(100);

/// Timeout for a member to report the size of its file: a metrics scrape waits for it.
const SIZE_TIMEOUT: Duration = Duration::from_secs(1);

/// etcd's limit for requests.
const MAX_REQUEST_BYTES: usize = 1536 * 1024;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);

// === impl Options ===

impl Default for EtcdOptions {
    fn default() -> Self {
        Self {
            endpoints: Vec::new(),
            tls: None,
            user: None,
            root: Bytes::from_static(b"/registry/"),
            max_entry_bytes: MAX_REQUEST_BYTES,
            timeout: Duration::from_secs(10),
            dial: None,
            calls: None,
        }
    }
}

impl EtcdOptions {
    fn connect(&self) -> ConnectOptions {
        let mut options = ConnectOptions::new()
            .with_connect_timeout(CONNECT_TIMEOUT)
            .with_keep_alive(KEEP_ALIVE_INTERVAL, KEEP_ALIVE_TIMEOUT)
            .with_keep_alive_while_idle(true)
            // A member that lost its leader ends its watches, so that they
            // move on to one that has not.
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        if let Some((name, password)) = &self.user {
            options = options.with_user(name, password);
        }
        if let Some(tls) = &self.tls {
            let mut its = TlsOptions::new().ca_certificate(Certificate::from_pem(&tls.ca));
            if let Some((certificate, key)) = &tls.identity {
                its = its.identity(Identity::from_pem(certificate, key));
            }
            options = options.with_tls(its);
        }
        options
    }
}

impl fmt::Debug for EtcdOptions {
    /// Without password and keys.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Options")
            .field("endpoints", &self.endpoints)
            .field("tls", &self.tls.is_some())
            .field("user", &self.user.as_ref().map(|(name, _)| name))
            .finish_non_exhaustive()
    }
}

// === impl Etcd ===

impl Etcd {
    /// Connects and asks where the store stands.
    ///
    /// # Errors
    /// [`Error::Unreachable`] or [`Error::Refused`].
    pub async fn connect(options: EtcdOptions) -> Result<Self, Error> {
        let faults = Faults::new(&options.endpoints);
        let client = members::connect(&options, &options.endpoints)
            .await
            .map_err(|error| faults.operation(error))?;
        let mut shared = EtcdShared {
            faults,
            watches: WatchPool::new(options.clone()),
            root: options.root.clone(),
            timeout: options.timeout,
            revision: channel::Sender::new(0),
            compacted: channel::Sender::new(0),
            progress: false,
            lost: leader::watch(options.clone()),
        };
        shared.latest(&client).await?;
        shared.find_compacted(&client).await?;
        shared.progress = progress_is_true(&options).await;
        let shared = Arc::new(shared);
        Ok(Self {
            leases: EtcdLeases::new(client.lease_client()),
            client,
            shared,
            max_entry_bytes: options.max_entry_bytes,
            alive: channel::Sender::new(()),
        })
    }

    async fn range_once(&self, range: &Range) -> Result<Page, Error> {
        if range.at == Some(0) {
            return self.before_all(0).map(|()| Page::default());
        }
        let mut options = GetOptions::new()
            .with_limit(i64::try_from(range.limit).unwrap_or(i64::MAX))
            .with_revision(convert::signed(range.at.unwrap_or_default()));
        options = if range.end.is_empty() {
            options.with_from_key()
        } else {
            options.with_range(range.end.clone())
        };
        // etcd has no empty key, and no key before this one.
        let start = if range.start.is_empty() {
            Bytes::from_static(b"\0")
        } else {
            range.start.clone()
        };
        let mut answer = self
            .shared
            .read(&self.client, range.at, || (start.clone(), options.clone()))
            .await?;
        let kvs: Vec<_> = answer
            .take_kvs()
            .into_iter()
            .map(convert::key_value)
            .collect();
        let count = convert::unsigned(answer.count());
        Ok(Page {
            more: answer.more(),
            count_remaining: count.saturating_sub(kvs.len() as u64),
            kvs,
            revision: range.at.unwrap_or_else(|| {
                answer
                    .header()
                    .map_or(0, |header| convert::unsigned(header.revision()))
            }),
        })
    }

    /// Revision 0, which etcd takes for the present.
    fn before_all(&self, requested: Revision) -> Result<(), Error> {
        match self.compacted() {
            0 => Ok(()),
            compacted => Err(Error::Compacted {
                requested,
                compacted,
            }),
        }
    }

    async fn write_once(
        &self,
        key: &Bytes,
        precondition: Precondition,
        write: &Write,
    ) -> Result<Outcome, Error> {
        self.shared.has_leader()?;
        let limit = self.max_entry_bytes;
        let (size, lease) = match write {
            Write::Put { value, ttl } => {
                let size = key.len() + value.len();
                if size > limit {
                    return Err(Error::TooLarge { size, limit });
                }
                let lease = match ttl {
                    Some(ttl) => self.leases.lease(*ttl, &self.shared).await?,
                    None => 0,
                };
                (size, lease)
            }
            Write::Delete => (key.len(), 0),
        };
        let txn = transaction(key, precondition, write, lease);
        let answer = self
            .shared
            .timed(self.client.kv_client().txn(txn))
            .await
            .map_err(|error| match self.shared.faults.too_large(&error) {
                true => Error::TooLarge { size, limit },
                false => self.shared.faults.operation(error),
            })?;
        let revision = answer
            .header()
            .map_or(0, |header| convert::unsigned(header.revision()));
        self.shared.heard_of(revision);
        let found = answer.op_responses().into_iter().next();
        if !answer.succeeded() {
            let current = match found {
                Some(TxnOpResponse::Get(mut get)) => get.take_kvs().into_iter().next(),
                _ => None,
            };
            return Ok(Outcome::Failed {
                current: current.map(convert::key_value),
                revision,
            });
        }
        let previous = match found {
            Some(TxnOpResponse::Put(mut put)) => put.take_prev_key(),
            Some(TxnOpResponse::Delete(mut delete)) => delete.take_prev_kvs().into_iter().next(),
            _ => None,
        };
        Ok(Outcome::Done {
            revision,
            previous: previous.map(convert::key_value),
        })
    }
}

impl fmt::Debug for Etcd {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Etcd")
            .field("endpoints", &self.shared.faults.endpoints())
            .finish_non_exhaustive()
    }
}

impl Store for Etcd {
    fn get(
        &self,
        key: Bytes,
        at: Option<Revision>,
    ) -> BoxFuture<'_, Result<Option<KeyValue>, Error>> {
        async move {
            if at == Some(0) {
                return self.before_all(0).map(|()| None);
            }
            let options = GetOptions::new().with_revision(convert::signed(at.unwrap_or_default()));
            let mut answer = self
                .shared
                .read(&self.client, at, || (key.clone(), options.clone()))
                .await?;
            Ok(answer.take_kvs().into_iter().next().map(convert::key_value))
        }
        .boxed()
    }

    fn range(&self, range: Range) -> BoxFuture<'_, Result<Page, Error>> {
        async move { self.range_once(&range).await }.boxed()
    }

    fn write(
        &self,
        key: Bytes,
        precondition: Precondition,
        write: Write,
    ) -> BoxFuture<'_, Result<Outcome, Error>> {
        async move {
            match self.write_once(&key, precondition, &write).await {
                // The shared lease ran out or was revoked: nothing happened.
                Err(Error::LeaseNotFound) => {
                    self.leases.forget();
                    self.write_once(&key, precondition, &write).await
                }
                answer => answer,
            }
        }
        .boxed()
    }

    fn watch(&self, prefix: Bytes, after: Revision) -> Watch {
        let (stream, request_progress) = watch::start(
            &self.client,
            &self.shared,
            self.alive.subscribe(),
            prefix,
            after,
        );
        Watch::new(WatchParts {
            stream,
            request_progress,
        })
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), Error>> {
        async move {
            if revision == 0 {
                return Err(Error::Compacted {
                    requested: 0,
                    compacted: self.compacted(),
                });
            }
            let mut kv = self.client.kv_client();
            let call = kv.compact(convert::signed(revision), None);
            match self.shared.timed(call).await {
                Ok(_) => {
                    self.shared.compacted_to(revision);
                    Ok(())
                }
                Err(error) => Err(self.shared.past(&self.client, error, revision).await),
            }
        }
        .boxed()
    }

    fn latest(&self) -> BoxFuture<'_, Result<Revision, Error>> {
        self.shared.latest(&self.client).boxed()
    }

    fn remaining(&self, lease: u64) -> BoxFuture<'_, Result<Option<Duration>, Error>> {
        let mut client = self.client.lease_client();
        async move {
            let id = convert::signed(lease & !GRANTED);
            let asked = self.shared.timed(client.time_to_live(id, None)).await;
            let answer = asked.map_err(|error| self.shared.faults.operation(error))?;
            // -1: no such lease.
            Ok(u64::try_from(answer.ttl()).ok().map(Duration::from_secs))
        }
        .boxed()
    }

    fn size(&self) -> BoxFuture<'_, Option<Size>> {
        let mut member = self.client.maintenance_client();
        async move {
            let asked = tokio::time::timeout(SIZE_TIMEOUT, member.status()).await;
            let status = asked.ok()?.ok()?;
            Some(Size {
                // Named as kube-apiserver names the first one that it gets.
                of: "etcd-0",
                bytes: convert::unsigned(status.db_size()),
            })
        }
        .boxed()
    }

    fn outage(&self) -> Option<Duration> {
        self.shared.lost.borrow().map(|since| since.elapsed())
    }

    fn revision(&self) -> Revision {
        *self.shared.revision.borrow()
    }

    fn compacted(&self) -> Revision {
        *self.shared.compacted.borrow()
    }
}

/// The comparison, the change, and what to read where the comparison fails.
fn transaction(key: &Bytes, precondition: Precondition, write: &Write, lease: i64) -> Txn {
    let exists = || Compare::version(key.clone(), CompareOp::Greater, 0);
    let mut comparisons = match precondition {
        Precondition::Absent => vec![Compare::version(key.clone(), CompareOp::Equal, 0)],
        Precondition::ModRevision(revision) => vec![
            exists(),
            Compare::mod_revision(key.clone(), CompareOp::Equal, convert::signed(revision)),
        ],
        Precondition::Any => Vec::new(),
    };
    let change = match write {
        Write::Put { value, .. } => {
            let options = PutOptions::new().with_prev_key().with_lease(lease);
            TxnOp::put(key.clone(), value.clone(), Some(options))
        }
        Write::Delete => {
            comparisons.push(exists());
            TxnOp::delete(key.clone(), Some(DeleteOptions::new().with_prev_key()))
        }
    };
    Txn::new()
        .when(comparisons)
        .and_then([change])
        .or_else([TxnOp::get(key.clone(), None)])
}

/// Returns whether all members report progress only after a watch has delivered the
/// events. Older ones may report it earlier (etcd issues 15220 and 17507). Members of
/// unknown version count as old: that is slower, but correct.
async fn progress_is_true(options: &EtcdOptions) -> bool {
    for endpoint in &options.endpoints {
        let asked = async {
            let client = members::connect(options, std::slice::from_ref(endpoint)).await?;
            client.maintenance_client().status().await
        };
        let version = match tokio::time::timeout(CONNECT_TIMEOUT, asked).await {
            Ok(Ok(status)) => status.version().to_owned(),
            _ => String::new(),
        };
        if !version_reports_progress(&version) {
            tracing::info!(
                endpoint,
                version,
                "etcd may report progress too early; watching all keys instead"
            );
            return false;
        }
    }
    true
}

fn version_reports_progress(version: &str) -> bool {
    let mut numbers = version.split(['.', '-', '+']).map(str::parse::<u32>);
    let mut next = || numbers.next().and_then(Result::ok);
    match (next(), next(), next()) {
        (Some(3), Some(4), Some(patch)) => patch >= 31,
        (Some(3), Some(5), Some(patch)) => patch >= 13,
        (Some(3), Some(minor), Some(_)) => minor >= 6,
        (Some(major), _, _) => major > 3,
        _ => false,
    }
}

// === impl Shared ===

impl EtcdShared {
    fn heard_of(&self, revision: Revision) {
        raise(&self.revision, revision);
    }

    fn compacted_to(&self, revision: Revision) {
        raise(&self.compacted, revision);
    }

    /// Applies the timeout, and gives up when the caller is gone.
    async fn timed<T>(
        &self,
        call: impl Future<Output = Result<T, etcd_client::Error>>,
    ) -> Result<T, etcd_client::Error> {
        let mut lost = self.lost.clone();
        tokio::select! {
            answer = tokio::time::timeout(self.timeout, call) => {
                answer.unwrap_or_else(|_| Err(fault::timed_out()))
            }
            Ok(_) = lost.wait_for(Option::is_some) => Err(fault::timed_out()),
        }
    }

    /// Fails if an operation needs a leader and there is none.
    fn has_leader(&self) -> Result<(), Error> {
        let lost = *self.lost.borrow();
        lost.map_or(Ok(()), |since| {
            Err(Error::NoLeader {
                endpoints: self.faults.endpoints().into(),
                seconds: since.elapsed().as_secs(),
            })
        })
    }

    /// Reads, and retries when a member does not answer: the next attempt may go to
    /// another one.
    async fn read(
        &self,
        client: &Client,
        at: Option<Revision>,
        question: impl Fn() -> (Bytes, GetOptions),
    ) -> Result<etcd_client::GetResponse, Error> {
        let mut attempt = 1;
        loop {
            self.has_leader()?;
            let (key, options) = question();
            let mut kv = reader(client);
            match self.timed(kv.get(key, Some(options))).await {
                Ok(answer) => {
                    if let Some(header) = answer.header() {
                        self.heard_of(convert::unsigned(header.revision()));
                    }
                    return Ok(answer);
                }
                Err(error) if attempt < READ_ATTEMPTS && fault::may_pass(&error) => {
                    tracing::debug!(%error, attempt, "etcd did not answer a read");
                    tokio::time::sleep(READ_PAUSE * attempt).await;
                    attempt += 1;
                }
                Err(error) => {
                    return Err(match at {
                        Some(at) => self.past(client, error, at).await,
                        None => self.faults.operation(error),
                    });
                }
            }
        }
    }

    /// The revision of the cluster, agreed by its majority.
    async fn latest(&self, client: &Client) -> Result<Revision, Error> {
        let options = GetOptions::new().with_count_only();
        let answer =
            Box::pin(self.read(client, None, || (self.root.clone(), options.clone()))).await?;
        Ok(answer
            .header()
            .map_or(0, |header| convert::unsigned(header.revision())))
    }

    /// Finds the compacted revision. etcd says only that a revision is compacted, until a
    /// watch asks for it. (Whether the empty store of revision 1 is compacted cannot be
    /// seen, and does not matter.)
    async fn find_compacted(&self, client: &Client) -> Result<Revision, Error> {
        let first = GetOptions::new().with_count_only().with_revision(1);
        let mut kv = client.kv_client();
        let asked = match self.timed(kv.get(self.root.clone(), Some(first))).await {
            Err(error) if fault::time(&error) == Some(fault::Time::Compacted) => {
                self.timed(watch_the_first(client, self.root.clone())).await
            }
            Err(error) => Err(error),
            Ok(_) => Ok(0),
        };
        let compacted = asked.map_err(|error| self.faults.operation(error))?;
        self.compacted_to(convert::unsigned(compacted));
        Ok(*self.compacted.borrow())
    }

    /// The error for a question about the past.
    async fn past(&self, client: &Client, error: etcd_client::Error, requested: Revision) -> Error {
        match fault::time(&error) {
            Some(fault::Time::Compacted) => match Box::pin(self.find_compacted(client)).await {
                Ok(compacted) => Error::Compacted {
                    requested,
                    compacted,
                },
                Err(error) => error,
            },
            Some(fault::Time::Future) => Error::FutureRevision {
                requested,
                current: *self.revision.borrow(),
            },
            None => self.faults.operation(error),
        }
    }
}

/// Returns the compacted revision that a watch from the first revision reports.
async fn watch_the_first(client: &Client, key: Bytes) -> Result<i64, etcd_client::Error> {
    let options = WatchOptions::new().with_start_revision(1);
    let mut watch = client.watch_client().watch(key, Some(options)).await?;
    while let Some(answer) = watch.message().await? {
        if answer.compact_revision() > 0 {
            return Ok(answer.compact_revision());
        }
    }
    Err(fault::timed_out())
}

/// A client that takes answers of any size: a list may be large.
fn reader(client: &Client) -> KvClient {
    client.kv_client().max_decoding_message_size(usize::MAX)
}

fn raise(channel: &channel::Sender<Revision>, revision: Revision) {
    channel.send_if_modified(|known| {
        let newer = revision > *known;
        *known = revision.max(*known);
        newer
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_report_progress_too_early_are_known() {
        for (version, reports) in [
            ("3.4.23", false),
            ("3.4.31", true),
            ("3.5.12", false),
            ("3.5.13", true),
            ("3.6.0", true),
            ("3.7.3-rc.0", true),
            ("4.0.0", true),
            ("2.3.8", false),
            ("", false),
            ("not a version", false),
        ] {
            assert_eq!(version_reports_progress(version), reports, "{version}");
        }
    }
}
