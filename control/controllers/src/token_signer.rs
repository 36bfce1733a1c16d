//! Signs the tokens of service accounts.

use std::sync::Arc;

/// Signs the token that lies in a Secret: namespace, account's name and uid, and
/// the Secret's name.
pub type Sign = dyn Fn(&str, &str, &str, &str) -> Result<String, control_pki::Error> + Send + Sync;

/// Signs tokens.
#[derive(Clone)]
pub struct TokenSigner(pub Arc<Sign>);

impl std::fmt::Debug for TokenSigner {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("TokenSigner")
            .finish_non_exhaustive()
    }
}
