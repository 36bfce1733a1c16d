//! Authentication and authorization decisions.
//!
//! Nothing here waits or reads files: the inputs are certificates and tokens as bytes,
//! and roles, bindings and pods as objects; the outputs are decisions.

mod abac;
mod attributes;
mod bootstrap_token;
mod front_proxy;
mod node;
mod rbac;
mod token_file;
mod tokens;
mod user;
mod x509;

pub mod bootstrap;
pub mod configuration;
pub mod oidc;

pub use abac::{Abac, AbacError};
pub use attributes::{Attributes, Selection};
pub use bootstrap_token::{
    BOOTSTRAP_TOKEN_NAMESPACE, BOOTSTRAP_TOKEN_PREFIX, BOOTSTRAP_TOKEN_TYPE, BOOTSTRAP_USER_PREFIX,
    BOOTSTRAPPERS, BootstrapTokenError, is_bootstrap_group, parse_bootstrap_token,
    user_of_bootstrap_token,
};
pub use front_proxy::FrontProxy;
pub use node::{NodeDenial, NodeGraph, OfNode, POD_PATHS};
pub use rbac::{MissingRole, PolicyKind, Rbac, RbacDenial, Rule};
pub use token_file::{TokenFile, TokenFileError};
pub use tokens::{
    Bearer, BoundObjectState, CREDENTIAL_ID, FoundSecret, ISSUER, LAST_USED, LegacyUse, Reference,
    ServiceAccountTokenGetter, TokenError, TokenSpec, Tokens,
};
pub use user::*;
pub use x509::{CertificateError, user_of_certificate};
