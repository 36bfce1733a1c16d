//! What other servers say of users and requests.

mod authenticate;
mod authorize;

use control_access::User;
use control_types::value::Value;

pub(super) use self::authenticate::WebhookTokens;
pub(super) use self::authorize::WebhookAuthorizer;

/// What else is known of a user, as reviews have it.
fn extra(user: &User) -> Value {
    let mut extra = Value::object();
    for (key, values) in &user.extra {
        let values = values.iter().map(|value| value.as_str().into());
        extra.insert(key.as_str(), Value::Array(values.collect()));
    }
    extra
}
