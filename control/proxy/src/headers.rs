//! Which headers go through, and which are added.

use std::net::IpAddr;

use control_streams::websocket::BEARER;
pub use control_streams::websocket::wants_upgrade;
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue,
    PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Headers of one connection only (RFC 9110, section 7.6.1).
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("keep-alive"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// What a page may not say in the API server's name: who may read it.
const CORS: [&str; 4] = [
    "access-control-allow-credentials",
    "access-control-allow-headers",
    "access-control-allow-methods",
    "access-control-allow-origin",
];

/// The headers of a request as the target gets them. The caller's credentials
/// are for this server and stay here.
#[must_use]
pub fn of_request(from: &HeaderMap, client: Option<IpAddr>) -> HeaderMap {
    let mut headers = from.clone();
    let trailers = from
        .get_all(TE)
        .iter()
        .any(|value| value.as_bytes().eq_ignore_ascii_case(b"trailers"));
    drop_hop_by_hop(&mut headers);
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    drop_credentials(&mut headers);
    forwarded_for(&mut headers, client);
    headers
}

/// The headers of a request for an upgrade: those of the connection stay.
#[must_use]
pub fn of_upgrade(from: &HeaderMap, client: Option<IpAddr>) -> HeaderMap {
    let mut headers = from.clone();
    headers.remove(CONTENT_LENGTH);
    headers.remove(TRANSFER_ENCODING);
    drop_credentials(&mut headers);
    forwarded_for(&mut headers, client);
    headers
}

/// The headers of an answer as the client gets them.
#[must_use]
pub fn of_response(mut headers: HeaderMap) -> HeaderMap {
    drop_hop_by_hop(&mut headers);
    for name in CORS {
        headers.remove(name);
    }
    headers
}

fn drop_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in HOP_BY_HOP.iter().chain(&named) {
        headers.remove(name);
    }
}

/// Headers that say as whom a request is made, to this server or by a proxy
/// that a server behind this one believes.
fn is_identity(name: &str) -> bool {
    let prefixes = ["impersonate-", "x-remote-extra-"];
    prefixes.iter().any(|prefix| name.starts_with(prefix))
        || matches!(name, "x-remote-user" | "x-remote-uid" | "x-remote-group")
}

fn drop_credentials(headers: &mut HeaderMap) {
    headers.remove(AUTHORIZATION);
    let identities: Vec<HeaderName> = headers
        .keys()
        .filter(|name| is_identity(name.as_str()))
        .cloned()
        .collect();
    for name in identities {
        headers.remove(name);
    }
    // Browsers cannot set headers on a WebSocket: they name their token as a
    // subprotocol.
    let protocols: Vec<HeaderValue> = headers
        .get_all(SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|protocol| !protocol.starts_with(BEARER))
        .filter_map(|protocol| HeaderValue::from_str(protocol).ok())
        .collect();
    headers.remove(SEC_WEBSOCKET_PROTOCOL);
    for protocol in protocols {
        headers.append(SEC_WEBSOCKET_PROTOCOL, protocol);
    }
}

fn forwarded_for(headers: &mut HeaderMap, client: Option<IpAddr>) {
    let Some(client) = client else { return };
    let mut all: Vec<String> = headers
        .get_all(FORWARDED_FOR)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .map(str::to_owned)
        .collect();
    all.push(client.to_string());
    if let Ok(value) = HeaderValue::from_str(&all.join(", ")) {
        headers.insert(FORWARDED_FOR, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn credentials_and_connection_stay_here() {
        let sent = headers(&[
            ("authorization", "Bearer secret"),
            ("impersonate-user", "root"),
            ("impersonate-extra-scope", "x"),
            ("connection", "keep-alive, X-Private"),
            ("x-private", "1"),
            ("te", "trailers"),
            ("accept", "text/html"),
            ("x-forwarded-for", "192.0.2.1"),
        ]);
        let passed = of_request(&sent, Some("192.0.2.9".parse().expect("an address")));
        let expected = headers(&[
            ("te", "trailers"),
            ("accept", "text/html"),
            ("x-forwarded-for", "192.0.2.1, 192.0.2.9"),
        ]);
        assert_eq!(passed, expected);
    }

    #[test]
    fn an_upgrade_keeps_what_names_it() {
        let sent = headers(&[
            ("connection", "Upgrade"),
            ("upgrade", "SPDY/3.1"),
            ("x-stream-protocol-version", "v4.channel.k8s.io"),
            ("authorization", "Bearer secret"),
            (
                "sec-websocket-protocol",
                "base64url.bearer.authorization.k8s.io.c2VjcmV0, v4.channel.k8s.io",
            ),
            ("content-length", "0"),
        ]);
        assert!(wants_upgrade(&sent));
        let passed = of_upgrade(&sent, None);
        let expected = headers(&[
            ("connection", "Upgrade"),
            ("upgrade", "SPDY/3.1"),
            ("x-stream-protocol-version", "v4.channel.k8s.io"),
            ("sec-websocket-protocol", "v4.channel.k8s.io"),
        ]);
        assert_eq!(passed, expected);
    }

    #[test]
    fn answers_lose_what_is_for_one_connection_and_who_may_read() {
        let answered = of_response(headers(&[
            ("connection", "close"),
            ("transfer-encoding", "chunked"),
            ("access-control-allow-origin", "*"),
            ("set-cookie", "a=1"),
            ("set-cookie", "b=2"),
        ]));
        assert_eq!(
            answered,
            headers(&[("set-cookie", "a=1"), ("set-cookie", "b=2")])
        );
        assert!(!wants_upgrade(&answered));
    }
}
