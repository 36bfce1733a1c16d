//! Who may: authentication and authorisation decisions.
//!
//! Nothing here waits or reads files: certificates and tokens come in as bytes,
//! roles, bindings and pods as objects, decisions go out.

mod attributes;
mod bootstrap_token;
mod node;
mod rbac;
mod tokens;
mod user;
mod x509;

pub mod bootstrap;

pub use attributes::{Attributes, Selection};
pub use bootstrap_token::{
    BOOTSTRAP_TOKEN_NAMESPACE, BOOTSTRAP_TOKEN_PREFIX, BOOTSTRAP_TOKEN_TYPE, BOOTSTRAP_USER_PREFIX,
    BOOTSTRAPPERS, BootstrapTokenError, is_bootstrap_group, parse_bootstrap_token,
    user_of_bootstrap_token,
};
pub use node::{NodeGraph, OfNode, POD_PATHS};
pub use rbac::{PolicyKind, Rbac, Rule};
pub use tokens::{
    Bearer, CREDENTIAL_ID, Existing, ISSUER, Reference, TokenError, TokenSpec, Tokens,
};
pub use user::*;
pub use x509::{CertificateError, user_of_certificate};
