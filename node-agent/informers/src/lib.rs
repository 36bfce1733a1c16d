//! Shared informers of a node agent: one watch, one cache and one lean view per kind.
//!
//! ```text
//! API ──watch of Services───▶ cache ─┬─▶ services ──▶ plan
//!     ──watch of Nodes──────▶ cache  ├─▶ network, policy
//!     ──…                            ├─▶ dns, announcer
//!                                    └─▶ pods, volumes
//! ```
//!
//! Each part of the agent subscribes to the kinds that it reads. The first subscriber of a
//! kind opens its watch, and the last one that leaves closes it, so that a part that is
//! switched off costs nothing. All subscribers share the objects, and receive the same
//! changes in the same order, after the cache shows them.
//!
//! A view has what any part reads of the kind; what only one part makes of it belongs to
//! that part.

/// Of these there are tens of thousands: of their metadata only the identity is kept.
macro_rules! objects {
    ($view:ident of $resource:expr) => {
        impl Object for $view {
            const RESOURCE: Resource = $resource;

            fn namespace(&self) -> &str {
                &self.identity.namespace
            }

            fn name(&self) -> &str {
                &self.identity.name
            }

            fn resource_version(&self) -> &str {
                &self.identity.resource_version
            }

            fn has_uid_of(&self, other: &Self) -> bool {
                self.identity.uid == other.identity.uid
            }
        }
    };
}

mod node;
mod service;
mod slice;

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use control_client::{
    Cache, Changes, Client, Object, Reflector, Resource, Selection, WeakReflector, reflect_resource,
};

pub use node::{Node, NodeAddress};
pub use service::{LoadBalancer, Service, ServicePort};
pub use slice::{EndpointSlice, Host};

/// A view of a kind that the parts of an agent share.
pub trait SharedView: Object {
    /// The resource to watch, where it is not the one of which this is a view.
    const WATCHED: Resource = Self::RESOURCE;

    /// Selects the objects that the agent of `node` follows; all unless overridden.
    #[must_use]
    fn selection(_node: &str) -> Selection {
        Selection::all()
    }
}

/// The informers of one agent. Cloning is cheap.
#[derive(Clone)]
pub struct Informers {
    client: Client,
    node: Arc<str>,
    node_scope: NodeScope,
    running: Arc<Mutex<Vec<RunningInformer>>>,
}

/// Which Nodes an agent follows in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeScope {
    /// All, to connect their pods.
    All,
    /// Its own.
    Own,
}

struct RunningInformer {
    resource: Resource,
    selection: Selection,
    /// A [`WeakReflector`] of the view.
    reflector: Box<dyn Any + Send>,
}

/// The agent's own Node.
#[derive(Clone)]
pub struct OwnNode {
    name: Arc<str>,
    nodes: Reflector<Node>,
}

// === impl Informers ===

impl Informers {
    /// Makes the informers of the agent of `node`, which watch through `client`.
    #[must_use]
    pub fn new(client: Client, node: &str, node_scope: NodeScope) -> Self {
        Self {
            client: client.named("orlop-node-agent"),
            node: node.into(),
            node_scope,
            running: Arc::default(),
        }
    }

    /// Subscribes to a kind: opens its watch unless another subscriber has. Must be called
    /// within a tokio runtime.
    #[must_use]
    pub fn subscribe<V: SharedView>(&self) -> Reflector<V> {
        self.shared(V::WATCHED, V::selection(&self.node))
    }

    /// Subscribes to the agent's own Node, which is among all Nodes where the agent follows
    /// these in any case. Must be called within a tokio runtime.
    #[must_use]
    pub fn own_node(&self) -> OwnNode {
        let selection = match self.node_scope {
            NodeScope::All => Node::selection(&self.node),
            NodeScope::Own => Selection::all().fields(format!("metadata.name={}", self.node)),
        };
        OwnNode {
            name: Arc::clone(&self.node),
            nodes: self.shared(Node::WATCHED, selection),
        }
    }

    fn shared<V: Object>(&self, resource: Resource, selection: Selection) -> Reflector<V> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let mut of_kind = running
            .iter()
            .filter(|it| it.resource == resource && it.selection == selection)
            .filter_map(|it| it.reflector.downcast_ref::<WeakReflector<V>>()?.upgrade());
        if let Some(reflector) = of_kind.next() {
            return reflector;
        }
        drop(of_kind);
        running.retain(|it| it.resource != resource || it.selection != selection);
        let reflector = reflect_resource(&self.client, resource.clone(), selection.clone());
        running.push(RunningInformer {
            resource,
            selection,
            reflector: Box::new(reflector.downgrade()),
        });
        reflector
    }
}

// === impl OwnNode ===

impl OwnNode {
    /// The cache that has the Node, and may have others.
    #[must_use]
    pub fn cache(&self) -> Cache<Node> {
        self.nodes.cache()
    }

    /// Returns the Node as an addition, if there is one, and then each of its changes.
    #[must_use]
    pub fn changes(&self) -> Changes<Node> {
        let name = Arc::clone(&self.name);
        let is_own = move |node: &Arc<Node>| node.name() == &*name;
        self.nodes
            .changes_where(move |change| change.latest().is_some_and(&is_own))
    }

    /// Waits until it is known whether there is a Node.
    pub async fn synced(&self) {
        self.nodes.synced().await;
    }

    /// Whether it is known whether there is a Node.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.nodes.is_synced()
    }
}

#[cfg(test)]
mod tests;
