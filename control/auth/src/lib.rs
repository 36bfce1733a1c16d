//! Authentication and authorization of requests.
//!
//! The request chain calls [`Access`] to authenticate the sender of a request, to impersonate
//! another user and to authorize the request. [`ClusterAccess`] answers for a cluster: from
//! certificates, tokens, other servers and the roles in the caches; what each of these means is
//! decided by `control-access`. [`reviews`] and [`token_request`] serve the same to clients,
//! [`oidc`] to verifiers of tokens.

mod access;
mod ask;
mod authorize;
mod cluster_access;
mod counts;
mod error;
mod existing;
mod follow;
mod impersonate;
mod issuers;
mod legacy;
pub mod oidc;
mod review_user;
pub mod reviews;
mod settings;
pub mod token_request;

pub use access::{Access, Authorities, Impersonation, Notes};
pub use ask::WebhookSettings;
pub use cluster_access::ClusterAccess;
pub use counts::{AccessCounts, DecisionCount};
pub use error::{BearerError, SettingsError, TokenRefusal};
pub use settings::Settings;
