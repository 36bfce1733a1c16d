//! Users whom other issuers vouch for: OpenID Connect ID tokens, as flags or an
//! `AuthenticationConfiguration` want them read. Keys are fetched elsewhere.

mod distributed;
mod keys;
mod user;

use control_cel::{Object, Program, Type};

use crate::configuration::egress::Kind;

pub use self::distributed::Source;
pub use self::keys::{ALGORITHMS, Keys, KeysError};
pub use self::user::{IdTokenClaims, OidcError};

/// An issuer, and the mapping of its claims.
#[derive(Debug)]
pub struct Issuer {
    /// Its name: the claim `iss`, and where it is found unless `discovery_url` is set.
    pub url: String,
    /// The URL of its discovery document.
    pub discovery_url: Option<String>,
    /// The authorities of its server, PEM; those of the machine if unset.
    pub authority: Option<String>,
    /// The egress for its server; direct if unset.
    pub egress: Option<Kind>,
    /// The audiences, one of which a token must have.
    pub audiences: Vec<String>,
    /// The accepted signing algorithms.
    pub algorithms: Vec<String>,
    /// Claims that must have a value.
    pub required: Vec<(String, String)>,
    /// Rules that the claims must satisfy.
    pub claim_rules: Vec<Expression>,
    /// The user's name.
    pub username: Mapping,
    /// The user's groups.
    pub groups: Option<Mapping>,
    /// The user's uid.
    pub uid: Option<Mapping>,
    /// Further attributes of the user.
    pub extra: Vec<(String, Expression)>,
    /// Rules that the user must satisfy.
    pub user_rules: Vec<Expression>,
}

/// The source of a user's property.
#[derive(Debug)]
pub enum Mapping {
    /// A claim, and the prefix of its value.
    Claim(String, String),
    /// An expression over `claims`.
    Expression(Expression),
}

/// A compiled expression with its text.
#[derive(Debug)]
pub struct Expression {
    /// As it was written.
    pub text: String,
    /// The message if it is false.
    pub message: String,
    /// As it runs.
    pub program: Program,
}

/// `user` in expressions.
pub(crate) static USER_INFO: Object = Object {
    name: "kubernetes.UserInfo",
    fields: &[
        ("username", || Type::String),
        ("uid", || Type::String),
        ("groups", || Type::list(Type::String)),
        ("extra", || Type::map(Type::list(Type::String))),
    ],
};

impl Default for Mapping {
    fn default() -> Self {
        Self::Claim("sub".to_owned(), String::new())
    }
}

impl Default for Issuer {
    fn default() -> Self {
        Self {
            url: String::new(),
            discovery_url: None,
            authority: None,
            egress: None,
            audiences: Vec::new(),
            algorithms: vec!["RS256".to_owned()],
            required: Vec::new(),
            claim_rules: Vec::new(),
            username: Mapping::default(),
            groups: None,
            uid: None,
            extra: Vec::new(),
            user_rules: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
