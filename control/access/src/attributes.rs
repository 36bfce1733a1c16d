//! What is asked for.

use crate::User;

/// A request, as far as deciding about it needs. Built from the path and the
/// method: see the Kubernetes documentation on request attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Who asks.
    pub user: User,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`,
    /// `deletecollection`, `connect`-like verbs as their method maps, or a
    /// special one (`impersonate`, `bind`, `escalate`, `approve`, …). For paths:
    /// the lower-case HTTP method.
    pub verb: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The plural resource name.
    pub resource: String,
    /// The subresource, or empty.
    pub subresource: String,
    /// The namespace, or empty for what has none and for all namespaces.
    pub namespace: String,
    /// The object's name, or empty.
    pub name: String,
    /// The URL's path, for a request that is not about a resource.
    pub path: String,
    /// Whether the request is about a resource.
    pub is_resource_request: bool,
}
