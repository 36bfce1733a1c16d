//! What other servers say of users and requests.

mod authenticate;
mod authorize;

pub use self::authenticate::WebhookSettings;
pub(super) use self::authenticate::WebhookTokens;
pub(super) use self::authorize::WebhookAuthorizer;
