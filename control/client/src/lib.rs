//! Clients of the Kubernetes API: lean views, watchers, caches, work queue.
//!
//! A component (scheduler, controller, node agent) declares a [`View`] of each
//! kind that it reads: a struct with only the fields it needs. [`reflect`]
//! keeps a [`Cache`] of those views current, and tells of every [`Change`].
//! The component turns changes into keys of a [`Queue`], and for each key
//! compares desired and present state and writes the difference through
//! [`Client`]. It never learns why it was called: a missed event is healed by
//! the next one, and a relist heals everything.
//!
//! ```text
//! API server ──watch──▶ reflector task ──▶ Cache (snapshots) ──▶ reconcile(key)
//!                        (one writer)  └─▶ Change ─▶ Queue<K> ──▶      │
//!      ▲                                                               │
//!      └──────────────────────────── Client ◀──────────────────────────┘
//! ```
//!
//! The transport is `kube::Client` underneath: over the network with the
//! certificates of a kubeconfig ([`Client::from_kubeconfig`]), or a tower
//! service in the same process ([`Client::in_process`]).

mod backoff;
mod bearer;
pub mod cache;
mod certificate_files;
mod client;
mod error;
pub mod events;
mod expiry;
mod identity;
pub mod lease;
mod meta;
pub mod metrics;
pub mod nulls;
pub mod queue;
pub mod reflector;
mod resource;
mod servers;
pub mod time;
mod transport;
mod updates;
mod wire;

pub use backoff::Backoff;
pub use bearer::BearerToken;
pub use cache::{Cache, Snapshot};
pub use client::{Client, DeleteOptions, Discard, List, Patch, Preconditions, Propagation};
pub use error::{Cause, Details, Error, Status};
pub use identity::{Identity, Uid};
pub use meta::{Meta, Metadata, OwnerReference, StringMap};
pub use queue::Queue;
pub use reflector::{
    Change, Changes, Reflector, Selection, WeakReflector, reflect, reflect_resource,
};
pub use resource::{Object, Resource, View, resources};
pub use transport::{ConnectionError, RequestBody};
