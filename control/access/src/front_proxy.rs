//! Users whom a proxy vouches for in headers.
//!
//! Whether the proxy may, by its certificate, is for the caller to find out; here
//! are its name and the headers looked at.

use crate::user::AUTHENTICATED;
use crate::user::User;

/// The trusted proxies, and the headers that are read. Header names are in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontProxy {
    /// Common names of proxies; none: all that the authority vouches for.
    pub names: Vec<String>,
    /// The user's name.
    pub user: Vec<String>,
    /// The uid.
    pub uid: Vec<String>,
    /// Groups.
    pub group: Vec<String>,
    /// Prefixes of headers with further attributes.
    pub extra: Vec<String>,
}

impl Default for FrontProxy {
    /// The headers that kube-apiserver's own proxy sends.
    fn default() -> Self {
        Self {
            names: Vec::new(),
            user: vec!["x-remote-user".to_owned()],
            uid: vec!["x-remote-uid".to_owned()],
            group: vec!["x-remote-group".to_owned()],
            extra: vec!["x-remote-extra-".to_owned()],
        }
    }
}

impl FrontProxy {
    /// Whether a proxy of that common name is believed.
    #[must_use]
    pub fn believes(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|known| known == name)
    }

    /// The user that headers (name in lower case, value) name; `None` when they
    /// name none. `unescape` undoes `%XX`.
    #[must_use]
    pub fn user(
        &self,
        headers: &[(&str, &str)],
        unescape: impl Fn(&str) -> String,
    ) -> Option<User> {
        let first = |names: &[String]| {
            names.iter().find_map(|name| {
                let (_, value) = headers.iter().find(|(header, _)| header == name)?;
                (!value.is_empty()).then(|| (*value).to_owned())
            })
        };
        let mut user = User {
            name: first(&self.user)?,
            uid: first(&self.uid).unwrap_or_default(),
            ..User::default()
        };
        for name in &self.group {
            let groups = headers
                .iter()
                .filter(|(header, value)| header == name && !value.is_empty());
            user.groups
                .extend(groups.map(|(_, value)| (*value).to_owned()));
        }
        for prefix in &self.extra {
            for (header, value) in headers {
                let Some(key) = header.strip_prefix(&**prefix) else {
                    continue;
                };
                let key = unescape(key);
                match user.extra.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, values)) => values.push((*value).to_owned()),
                    None => user.extra.push((key, vec![(*value).to_owned()])),
                }
            }
        }
        user.join(AUTHENTICATED);
        Some(user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_name_a_user() {
        let headers = [
            ("x-remote-user", "ann"),
            ("x-remote-uid", "7"),
            ("x-remote-group", "dev"),
            ("x-remote-group", "ops"),
            ("x-remote-extra-acme.io%2fteam", "red"),
        ];
        let unescape = |text: &str| text.replace("%2f", "/");
        let proxy = FrontProxy::default();
        let user = proxy.user(&headers, unescape).expect("ann");
        assert_eq!((&*user.name, &*user.uid), ("ann", "7"));
        assert_eq!(user.groups, ["dev", "ops", AUTHENTICATED]);
        assert_eq!(
            user.extra,
            [("acme.io/team".to_owned(), vec!["red".to_owned()])]
        );
        assert!(proxy.user(&headers[1..], unescape).is_none());
        assert!(proxy.believes("anybody"));
        let strict = FrontProxy {
            names: vec!["front-proxy-client".to_owned()],
            ..proxy
        };
        assert!(strict.believes("front-proxy-client") && !strict.believes("eve"));
    }
}
