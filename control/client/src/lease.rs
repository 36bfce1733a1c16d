//! Leases: who leads, and which nodes live (`coordination.k8s.io/v1`).
//!
//! Times in a lease are never compared with our clock, which may differ from
//! the holder's: what counts is for how long, by our own clock, the lease did
//! not change.

mod observed;

use std::time::Duration;

use compact_str::CompactString;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::client::{Client, Discard};
use crate::error::Error;
use crate::meta::{Meta, Metadata};
use crate::resource::{Resource, View, resources};
use crate::time;

pub use self::observed::ObservedLease;

/// The view of a lease.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Lease {
    /// The object's metadata.
    pub metadata: Meta,
    /// The holder, and since when.
    #[serde(default)]
    pub spec: LeaseSpec,
}

/// `coordination.k8s.io/v1` LeaseSpec.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseSpec {
    /// The holder; empty or absent when it was released.
    pub holder_identity: Option<CompactString>,
    /// After this many seconds without renewal anyone may take it.
    pub lease_duration_seconds: Option<i64>,
    /// When the holder took it.
    pub acquire_time: Option<CompactString>,
    /// When the holder renewed it last.
    pub renew_time: Option<CompactString>,
    /// How often the holder changed.
    pub lease_transitions: Option<i64>,
}

impl View for Lease {
    const RESOURCE: Resource = resources::LEASES;

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// An election: of all that hold it, one at a time leads.
#[derive(Clone, Debug)]
pub struct Election {
    /// Namespace of the lease, such as `kube-system`.
    pub namespace: String,
    /// Name of the lease, such as `kube-scheduler`.
    pub name: String,
    /// The identity of this candidate, unique among all candidates.
    pub identity: String,
    /// A leader that did not renew for this long may be replaced.
    pub lease_duration: Duration,
    /// A leader that could not renew for this long steps down. Less than
    /// `lease_duration`, or two may lead.
    pub renew_deadline: Duration,
    /// How often to try.
    pub retry_period: Duration,
}

/// How leading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeadershipEnd {
    /// The work ended by itself.
    Finished,
    /// The lease was lost; the work was cancelled.
    Lost,
    /// Shutdown. The lease, if it was held, was released unless the work had to be dropped.
    Shutdown,
}

impl Election {
    /// An election with the times of the stock components: 15 s, 10 s, 2 s.
    #[must_use]
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }

    /// Returns how long after the start of a renewal the work is dropped at the latest. It
    /// is before the lease expires, by a fifth of the time between the renew deadline and
    /// the expiry.
    fn work_end(&self) -> Duration {
        let margin = self.lease_duration.saturating_sub(self.renew_deadline);
        self.lease_duration.saturating_sub(margin / 5)
    }

    /// Waits until this candidate leads, then runs `work` until it ends, the
    /// lease is lost, or `shutdown`. `work` gets a token that is cancelled in
    /// the latter two cases. It may finish while the lease is valid, and is dropped after
    /// that.
    pub async fn lead<F, Fut>(
        &self,
        client: &Client,
        shutdown: &CancellationToken,
        work: F,
    ) -> LeadershipEnd
    where
        F: FnOnce(CancellationToken) -> Fut,
        Fut: Future<Output = ()>,
    {
        let mut candidate = Candidate {
            election: self,
            client,
            seen: None,
            renewed: Instant::now(),
        };
        // campaign
        loop {
            candidate.renewed = Instant::now();
            let held = tokio::time::timeout(self.renew_deadline / 2, candidate.try_to_hold());
            match held.await {
                Ok(Ok(true)) => break,
                Ok(Ok(false)) => {}
                Err(_) => tracing::debug!(lease = self.name, "lease read timed out"),
                Ok(Err(error)) => {
                    tracing::debug!(
                        lease = self.name,
                        error = error.chain(),
                        "failed to acquire the lease"
                    );
                }
            }
            let pause = self.retry_period.mul_f64(rand::random_range(1.0..2.2));
            tokio::select! {
                () = shutdown.cancelled() => return LeadershipEnd::Shutdown,
                () = tokio::time::sleep(pause) => {}
            }
        }
        tracing::info!(lease = self.name, identity = self.identity, "leading");

        let stop = shutdown.child_token();
        let mut work = std::pin::pin!(work(stop.clone()));
        let led = tokio::select! {
            () = &mut work => LeadershipEnd::Finished,
            () = candidate.renew() => LeadershipEnd::Lost,
            () = shutdown.cancelled() => LeadershipEnd::Shutdown,
        };
        stop.cancel();
        if led != LeadershipEnd::Finished {
            // The lease is no longer renewed: others may lead once it expires.
            let end = candidate.renewed + self.work_end();
            if tokio::time::timeout_at(end, work).await.is_err() {
                tracing::error!(lease = self.name, "work outlived the lease, aborting it");
                // The lease is not released: it expires by itself.
                return led;
            }
        }
        if led == LeadershipEnd::Lost {
            tracing::warn!(lease = self.name, "lease lost");
        } else {
            candidate.release().await;
        }
        led
    }
}

impl Election {
    /// Runs `work` whenever this candidate leads, until `shutdown` or until a run ends by
    /// itself; returns the result of the last run.
    ///
    /// Losing the lease ends a run as [`Election::lead`] describes, and the candidate
    /// campaigns again. So an API server that is temporarily unreachable or slow only
    /// pauses the work.
    pub async fn lead_repeatedly<F, Fut, T>(
        &self,
        client: &Client,
        shutdown: &CancellationToken,
        mut work: F,
    ) -> Option<T>
    where
        F: FnMut(CancellationToken) -> Fut,
        Fut: Future<Output = T>,
    {
        loop {
            let mut result = None;
            let led = self
                .lead(client, shutdown, |stop| {
                    let run = work(stop);
                    let result = &mut result;
                    async move { *result = Some(run.await) }
                })
                .await;
            if led != LeadershipEnd::Lost {
                return result;
            }
        }
    }
}

/// A candidate in an election.
struct Candidate<'a> {
    election: &'a Election,
    client: &'a Client,
    /// The lease as seen last, and when it was first seen like that.
    seen: Option<(Lease, Instant)>,
    /// The start of the last request that acquired or renewed the lease. Other candidates
    /// count from when they see the change, which is later.
    renewed: Instant,
}

impl Candidate<'_> {
    /// Takes or renews the lease; whether it is held now.
    async fn try_to_hold(&mut self) -> Result<bool, Error> {
        let election = self.election;
        let lease = match self
            .client
            .get::<Lease>(&resources::LEASES, &election.namespace, &election.name)
            .await
        {
            Ok(lease) => lease,
            Err(error) if error.is_not_found() => {
                let now = time::micros(jiff::Timestamp::now());
                let body = self.body(None, &now, &now, 0);
                let made = self
                    .client
                    .create::<Lease>(&resources::LEASES, &election.namespace, &body)
                    .await;
                return match made {
                    Ok(lease) => {
                        self.see(lease);
                        Ok(true)
                    }
                    Err(error) if error.is_already_exists() => Ok(false),
                    Err(error) => Err(error),
                };
            }
            Err(error) => return Err(error),
        };
        let since = self.see(lease.clone());
        let holder = lease.spec.holder_identity.as_deref().unwrap_or("");
        let ours = holder == election.identity;
        if !ours && !holder.is_empty() {
            let seconds = lease.spec.lease_duration_seconds.unwrap_or(0).max(0);
            let valid = Duration::from_secs(seconds.unsigned_abs());
            if since.elapsed() < valid {
                return Ok(false);
            }
        }
        let now = time::micros(jiff::Timestamp::now());
        let transitions = lease.spec.lease_transitions.unwrap_or(0);
        let (acquired, transitions) = match (&lease.spec.acquire_time, ours) {
            (Some(acquired), true) => (acquired.as_str(), transitions),
            (None, true) => (now.as_str(), transitions),
            (_, false) => (now.as_str(), transitions + 1),
        };
        let body = self.body(
            Some(&lease.metadata.resource_version),
            acquired,
            &now,
            transitions,
        );
        let updated = self
            .client
            .update::<Lease>(
                &resources::LEASES,
                &election.namespace,
                &election.name,
                &body,
            )
            .await;
        match updated {
            Ok(lease) => {
                self.see(lease);
                Ok(true)
            }
            // another candidate was faster
            Err(error) if error.is_conflict() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Renews until it is no longer possible.
    async fn renew(&mut self) {
        let deadline = self.election.renew_deadline;
        let mut pause = self.election.retry_period;
        loop {
            // The sleep must not outlast the renew deadline.
            tokio::time::sleep_until((Instant::now() + pause).min(self.renewed + deadline)).await;
            pause = self.election.retry_period;
            let began = Instant::now();
            let left = deadline.saturating_sub(began - self.renewed);
            if left.is_zero() {
                return;
            }
            // One that gets no answer leaves time for another.
            let patience = left.min(deadline / 2);
            match tokio::time::timeout(patience, self.try_to_hold()).await {
                Ok(Ok(true)) => self.renewed = began,
                Ok(Ok(false)) => {
                    // a conflict with our own earlier write is no loss
                    let held = self.seen.as_ref().is_some_and(|(lease, _)| {
                        lease.spec.holder_identity.as_deref() == Some(&self.election.identity)
                    });
                    if !held {
                        return;
                    }
                }
                Ok(Err(error)) => {
                    tracing::warn!(
                        lease = self.election.name,
                        error = error.chain(),
                        "failed to renew the lease"
                    );
                }
                Err(_) => {
                    tracing::warn!(
                        lease = self.election.name,
                        waited = ?patience,
                        "lease renewal timed out"
                    );
                    pause = Duration::ZERO;
                }
            }
        }
    }

    /// Releases the lease, so that the next candidate can lead immediately.
    async fn release(&self) {
        let Some((lease, _)) = &self.seen else { return };
        let now = time::micros(jiff::Timestamp::now());
        let body = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": self.election.name,
                "namespace": self.election.namespace,
                "resourceVersion": lease.metadata.resource_version,
            },
            "spec": {
                "holderIdentity": "",
                "leaseDurationSeconds": 1,
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": lease.spec.lease_transitions.unwrap_or(0),
            },
        });
        let resource = resources::LEASES;
        let released = self.client.update::<Discard>(
            &resource,
            &self.election.namespace,
            &self.election.name,
            &body,
        );
        match tokio::time::timeout(Duration::from_secs(5), released).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::debug!(
                    lease = self.election.name,
                    error = error.chain(),
                    "failed to release the lease"
                );
            }
            Err(_) => tracing::debug!(
                lease = self.election.name,
                "releasing the lease took too long"
            ),
        }
    }

    /// Remembers the lease; since when it has been as it is.
    fn see(&mut self, lease: Lease) -> Instant {
        match &self.seen {
            Some((known, since)) if known.spec == lease.spec => {
                let since = *since;
                self.seen = Some((lease, since));
                since
            }
            _ => {
                let since = Instant::now();
                self.seen = Some((lease, since));
                since
            }
        }
    }

    fn body(
        &self,
        resource_version: Option<&str>,
        acquired: &str,
        renewed: &str,
        transitions: i64,
    ) -> serde_json::Value {
        let mut body = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.election.name, "namespace": self.election.namespace},
            "spec": {
                "holderIdentity": self.election.identity,
                "leaseDurationSeconds": self.election.lease_duration.as_secs(),
                "acquireTime": acquired,
                "renewTime": renewed,
                "leaseTransitions": transitions,
            },
        });
        if let Some(version) = resource_version
            && let Some(metadata) = body.get_mut("metadata")
        {
            metadata["resourceVersion"] = json!(version);
        }
        body
    }
}

/// The namespace of the nodes' leases.
pub const NODE_LEASES: &str = "kube-node-lease";

/// A node's heartbeat: its lease is renewed every quarter of its duration.
#[derive(Clone, Debug)]
pub struct NodeLease {
    /// The node's name.
    pub node: String,
    /// After this long without renewal the node counts as not ready; 40 s with
    /// a stock kubelet.
    pub duration: Duration,
}

impl NodeLease {
    /// The heartbeat of `node`, with the stock duration.
    #[must_use]
    pub fn new(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            duration: Duration::from_secs(40),
        }
    }

    /// Keeps the lease renewed until `shutdown`. The node object should exist: it owns
    /// the lease, which is deleted with it.
    ///
    /// Three of four renewals may fail to get a response: none is waited for longer than
    /// until the next is due, as in the kubelet's client for heartbeats.
    pub async fn keep(&self, client: &Client, shutdown: &CancellationToken) {
        let period = self.duration / 4;
        let mut known: Option<Lease> = None;
        let mut failures = 0u32;
        let mut backoff = Backoff::new(Duration::from_millis(400), period * 7 / 10);
        loop {
            let renewed = tokio::time::timeout(period, self.renew(client, known.take()));
            let renewed = renewed.await.unwrap_or_else(|_| {
                Err(Error::NoAnswer {
                    request: format!("renewal of lease {NODE_LEASES}/{}", self.node),
                    after: period,
                })
            });
            let pause = match renewed {
                Ok(lease) => {
                    known = Some(lease);
                    failures = 0;
                    backoff.reset();
                    // so that the nodes of a cluster do not beat together
                    period.mul_f64(rand::random_range(0.96..1.04))
                }
                Err(error) => {
                    failures += 1;
                    tracing::warn!(
                        node = self.node,
                        failures,
                        error = error.chain(),
                        "failed to renew the node's lease"
                    );
                    backoff.after(&error)
                }
            };
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    async fn renew(&self, client: &Client, known: Option<Lease>) -> Result<Lease, Error> {
        let known = match known {
            Some(lease) => Some(lease),
            None => match client
                .get::<Lease>(&resources::LEASES, NODE_LEASES, &self.node)
                .await
            {
                Ok(lease) => Some(lease),
                Err(error) if error.is_not_found() => None,
                Err(error) => return Err(error),
            },
        };
        let mut metadata = json!({"name": self.node, "namespace": NODE_LEASES});
        match &known {
            Some(lease) => {
                metadata["resourceVersion"] = json!(lease.metadata.resource_version);
                metadata["ownerReferences"] = json!(lease.metadata.owner_references);
            }
            None => {
                if let Some(owner) = self.owner(client).await? {
                    metadata["ownerReferences"] = json!([owner]);
                }
            }
        }
        let body = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": {
                "holderIdentity": self.node,
                "leaseDurationSeconds": self.duration.as_secs(),
                "renewTime": time::micros(jiff::Timestamp::now()),
            },
        });
        match known {
            Some(_) => {
                client
                    .update(&resources::LEASES, NODE_LEASES, &self.node, &body)
                    .await
            }
            None => client.create(&resources::LEASES, NODE_LEASES, &body).await,
        }
    }

    async fn owner(&self, client: &Client) -> Result<Option<serde_json::Value>, Error> {
        match client
            .get::<Metadata>(&resources::NODES, "", &self.node)
            .await
        {
            Ok(node) => Ok(Some(json!({
                "apiVersion": "v1",
                "kind": "Node",
                "name": self.node,
                "uid": node.metadata.uid,
            }))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
