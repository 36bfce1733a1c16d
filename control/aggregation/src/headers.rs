//! Who asks, told to extension API servers in headers.

use control_access::{MASTERS, User};
use http::header::{HeaderMap, HeaderName, HeaderValue};

const USER: HeaderName = HeaderName::from_static("x-remote-user");
const UID: HeaderName = HeaderName::from_static("x-remote-uid");
const GROUP: HeaderName = HeaderName::from_static("x-remote-group");
const EXTRA: &str = "x-remote-extra-";

/// Names the user in the headers of a request. Whatever the client sent under
/// these names is gone: nobody can say who they are in this way.
pub(super) fn identify(headers: &mut HeaderMap, user: &User) {
    let forged: Vec<HeaderName> = headers
        .keys()
        .filter(|name| **name == USER || **name == UID || **name == GROUP)
        .chain(
            headers
                .keys()
                .filter(|name| name.as_str().starts_with(EXTRA)),
        )
        .cloned()
        .collect();
    for name in forged {
        headers.remove(name);
    }
    let mut add = |name: HeaderName, text: &str| {
        // What cannot stand in a header is nobody's name.
        if let Ok(value) = HeaderValue::from_str(text) {
            headers.append(name, value);
        }
    };
    add(USER, &user.name);
    if !user.uid.is_empty() {
        add(UID, &user.uid);
    }
    for group in &user.groups {
        add(GROUP, group);
    }
    for (key, values) in &user.extra {
        let Ok(name) = format!("{EXTRA}{}", escape(key)).parse::<HeaderName>() else {
            continue;
        };
        for value in values {
            add(name.clone(), value);
        }
    }
}

/// A key as part of a header's name: what may not stand there is written `%XX`.
fn escape(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    for byte in key.bytes() {
        let legal = byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte);
        if legal {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Returns the user of the aggregator's own requests to other servers.
pub(super) fn aggregator() -> User {
    User {
        name: "system:kube-aggregator".to_owned(),
        groups: vec![MASTERS.to_owned()],
        ..User::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_named_and_nobody_names_themselves() {
        let mut sent = HeaderMap::new();
        for (name, value) in [
            ("x-remote-user", "root"),
            ("x-remote-group", "system:masters"),
            ("x-remote-uid", "0"),
            ("x-remote-extra-scopes", "all"),
            ("accept", "*/*"),
        ] {
            sent.append(name, HeaderValue::from_static(value));
        }
        let user = User {
            name: "eve".into(),
            groups: vec!["a".into(), "b".into()],
            extra: vec![("example.org/key one".into(), vec!["1".into(), "2".into()])],
            ..User::default()
        };
        identify(&mut sent, &user);
        let mut told: Vec<String> = sent
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().expect("text")))
            .collect();
        told.sort();
        assert_eq!(
            told,
            [
                "accept: */*",
                "x-remote-extra-example.org%2fkey%20one: 1",
                "x-remote-extra-example.org%2fkey%20one: 2",
                "x-remote-group: a",
                "x-remote-group: b",
                "x-remote-user: eve"
            ]
        );
    }
}
