//! Bootstrap tokens: the credentials of a joining machine before it has a certificate
//! (`ID.SECRET`; the Secret `bootstrap-token-ID` of `kube-system` proves it). Format and
//! rules are those of Kubernetes, so that tokens of kubeadm work as well.

use control_types::meta;
use control_types::value::Value;

use crate::user::AUTHENTICATED;
use crate::user::User;

/// The group of all who come with such a token.
pub const BOOTSTRAPPERS: &str = "system:bootstrappers";
/// The prefix of the user's name; the token's id follows.
pub const BOOTSTRAP_USER_PREFIX: &str = "system:bootstrap:";
/// The type of the Secrets.
pub const BOOTSTRAP_TOKEN_TYPE: &str = "bootstrap.kubernetes.io/token";
/// The prefix of the Secrets' names; the token's id follows.
pub const BOOTSTRAP_TOKEN_PREFIX: &str = "bootstrap-token-";
/// The namespace of the Secrets.
pub const BOOTSTRAP_TOKEN_NAMESPACE: &str = "kube-system";

/// Reason why a Secret does not validate a token. For the server's log: the caller only
/// learns that it is not authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BootstrapTokenError {
    /// The Secret is being deleted.
    #[error("is deleted and awaiting removal")]
    Deleted,
    /// The Secret is of another type.
    #[error("is not of the type bootstrap.kubernetes.io/token")]
    Type,
    /// The secret part is another one.
    #[error("has another token-secret")]
    Secret,
    /// The id is not the one in the Secret's name.
    #[error("has another token-id")]
    Id,
    /// Its time is over, or cannot be read.
    #[error("has expired, or its expiration is no RFC 3339 time")]
    Expired,
    /// It may not be used for authentication.
    #[error("is not marked usage-bootstrap-authentication=true")]
    Usage,
    /// A group that such a token may not give.
    #[error("has a group in auth-extra-groups that does not begin with system:bootstrappers:")]
    Groups,
}

/// Id and secret of a text that has the form of a bootstrap token:
/// six and sixteen small letters or digits, with a dot between.
#[must_use]
pub fn parse_bootstrap_token(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let right = |text: &str, length: usize| {
        text.len() == length
            && text
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    (right(id, 6) && right(secret, 16)).then_some((id, secret))
}

/// Returns the user of a bootstrap token from its Secret. `data` looks up a key of the Secret and
/// returns its decoded value; `now` is in seconds since the Unix epoch.
///
/// # Errors
/// [`BootstrapTokenError`].
pub fn user_of_bootstrap_token(
    (id, secret): (&str, &str),
    object: &Value,
    data: impl Fn(&str) -> Option<String>,
    now: i64,
) -> Result<User, BootstrapTokenError> {
    if meta::is_deleting(object) {
        return Err(BootstrapTokenError::Deleted);
    }
    if object.str_at(&["type"]) != Some(BOOTSTRAP_TOKEN_TYPE) {
        return Err(BootstrapTokenError::Type);
    }
    let text = |key: &str| data(key).unwrap_or_default();
    if !same(text("token-secret").as_bytes(), secret.as_bytes()) {
        return Err(BootstrapTokenError::Secret);
    }
    if text("token-id") != id {
        return Err(BootstrapTokenError::Id);
    }
    let expiration = text("expiration");
    if !expiration.is_empty() {
        let ends = control_types::time::parse(&expiration);
        if ends.is_none_or(|ends| ends.as_second() < now) {
            return Err(BootstrapTokenError::Expired);
        }
    }
    if text("usage-bootstrap-authentication") != "true" {
        return Err(BootstrapTokenError::Usage);
    }
    let mut user = User {
        name: format!("{BOOTSTRAP_USER_PREFIX}{id}"),
        groups: vec![BOOTSTRAPPERS.to_owned()],
        ..User::default()
    };
    let extra = text("auth-extra-groups");
    for group in extra.split(',').filter(|group| !group.is_empty()) {
        if !is_bootstrap_group(group) {
            return Err(BootstrapTokenError::Groups);
        }
        user.join(group);
    }
    user.join(AUTHENTICATED);
    Ok(user)
}

/// Whether a token may give this group: `system:bootstrappers:` and words of
/// small letters, digits, dashes and colons that end with a letter or digit.
#[must_use]
pub fn is_bootstrap_group(group: &str) -> bool {
    let Some(rest) = group.strip_prefix("system:bootstrappers:") else {
        return false;
    };
    let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    rest.len() <= 256
        && rest.bytes().all(|b| letter(b) || matches!(b, b'-' | b':'))
        && rest.bytes().last().is_some_and(letter)
}

/// Compares in a time that does not tell where the texts differ.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (x, y)| all | (x ^ y)) == 0
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    const TOKEN: (&str, &str) = ("abcdef", "0123456789abcdef");
    const NOW: i64 = 1_800_000_000;

    fn ask(change: &[(&str, &str)]) -> Result<User, BootstrapTokenError> {
        let secret = value!({
            "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"},
            "type": "bootstrap.kubernetes.io/token"
        });
        let data = |key: &str| {
            let changed = change.iter().find(|(name, _)| *name == key);
            let usual = || match key {
                "token-id" => Some("abcdef"),
                "token-secret" => Some("0123456789abcdef"),
                "usage-bootstrap-authentication" => Some("true"),
                "auth-extra-groups" => Some("system:bootstrappers:kubeadm:default-node-token"),
                _ => None,
            };
            changed
                .map(|(_, value)| *value)
                .or_else(usual)
                .map(str::to_owned)
        };
        user_of_bootstrap_token(TOKEN, &secret, data, NOW)
    }

    #[test]
    fn a_token_stands_for_a_user_of_its_id_in_its_groups() {
        let user = ask(&[]).expect("a user");
        assert_eq!(user.name, "system:bootstrap:abcdef");
        assert_eq!(
            user.groups,
            [
                "system:bootstrappers",
                "system:bootstrappers:kubeadm:default-node-token",
                "system:authenticated"
            ]
        );
    }

    #[test]
    fn each_flaw_of_the_secret_refuses_the_token() {
        use BootstrapTokenError as E;
        for (key, value, error) in [
            ("token-secret", "0123456789abcdeg", E::Secret),
            ("token-secret", "", E::Secret),
            ("token-id", "abcdeg", E::Id),
            ("expiration", "2020-01-01T00:00:00Z", E::Expired),
            ("expiration", "tomorrow", E::Expired),
            ("usage-bootstrap-authentication", "false", E::Usage),
            ("auth-extra-groups", "system:masters", E::Groups),
            ("auth-extra-groups", "system:bootstrappers:a,x", E::Groups),
        ] {
            assert_eq!(ask(&[(key, value)]).expect_err(key), error, "{key}={value}");
        }
        assert!(ask(&[("expiration", "2099-01-01T00:00:00Z")]).is_ok());
        let other = value!({"type": "Opaque"});
        assert_eq!(
            user_of_bootstrap_token(TOKEN, &other, |_| None, NOW),
            Err(E::Type)
        );
    }

    #[test]
    fn only_the_exact_form_is_a_token() {
        assert_eq!(
            parse_bootstrap_token("abcdef.0123456789abcdef"),
            Some(TOKEN)
        );
        for no in [
            "",
            ".",
            "abcdef",
            "ABCDEF.0123456789abcdef",
            "abcdef.0123456789abcde",
            "abcdef.0123456789abcdef.x",
            "é.0123456789abcdef",
        ] {
            assert_eq!(parse_bootstrap_token(no), None, "{no}");
        }
    }
}
