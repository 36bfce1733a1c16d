//! What a request asks for, read from its method, path and query alone.
//!
//! The rules are those of Kubernetes' `RequestInfo`: authorisation, metrics,
//! audit and routing all look at the same answer, so that what was authorised
//! is what is done.

use http::Method;

/// A request's meaning before any table is consulted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// Whether the path names an API resource (`/api/v1/...`, `/apis/g/v/...`).
    pub is_resource: bool,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`,
    /// `deletecollection`; for other paths the method in lower case.
    pub verb: &'static str,
    /// API group; empty for the core group.
    pub group: String,
    /// API version, such as `v1`.
    pub version: String,
    /// Namespace, or empty.
    pub namespace: String,
    /// Plural resource name.
    pub resource: String,
    /// Subresource, or empty.
    pub subresource: String,
    /// Object name, or empty. For list and watch, the name that a
    /// `metadata.name=` field selector asks for (authorisation only).
    pub name: String,
    /// Whether `name` stood in the path.
    pub name_in_path: bool,
    /// What follows the subresource, without the leading slash, as it stood in
    /// the path (proxy requests only).
    pub rest: String,
    /// The whole path.
    pub path: String,
}

impl RequestInfo {
    /// Reads a request line. `query` is the raw query string.
    #[must_use]
    pub fn parse(method: &Method, path: &str, query: Option<&str>) -> Self {
        let mut info = Self {
            path: path.to_owned(),
            verb: plain_verb(method),
            ..Self::default()
        };
        let trimmed = path.trim_matches('/');
        let mut parts: Vec<&str> = if trimmed.is_empty() {
            Vec::new()
        } else {
            trimmed.split('/').collect()
        };
        let skip = match parts.first() {
            // `/api/v1` and `/apis/g/v` alone are discovery, not resources.
            Some(&"api") if parts.len() >= 3 => {
                parts[1].clone_into(&mut info.version);
                2
            }
            Some(&"apis") if parts.len() >= 4 => {
                parts[1].clone_into(&mut info.group);
                parts[2].clone_into(&mut info.version);
                3
            }
            _ => return info,
        };
        parts.drain(..skip);
        info.is_resource = true;
        info.verb = resource_verb(method);

        // The old form `/api/v1/watch/...`.
        let mut watch_prefix = false;
        if parts[0] == "watch" && parts.len() > 1 {
            parts.remove(0);
            watch_prefix = true;
        }
        if parts[0] == "namespaces" && parts.len() > 1 {
            parts[1].clone_into(&mut info.namespace);
            // `namespaces/x/pods` is a resource in x, while
            // `namespaces/x/status` is a subresource of the namespace.
            if parts.len() > 2 && !matches!(parts[2], "status" | "finalize") {
                parts.drain(..2);
            }
        }
        if let Some(resource) = parts.first() {
            (*resource).clone_into(&mut info.resource);
        }
        if let Some(name) = parts.get(1) {
            info.name = percent_decode(name);
            info.name_in_path = !info.name.is_empty();
        }
        if let Some(subresource) = parts.get(2) {
            (*subresource).clone_into(&mut info.subresource);
        }
        if parts.len() > 3 {
            info.rest = rest_of_path(path, skip + usize::from(watch_prefix), &parts, &info);
        } else if path.ends_with('/') && parts.len() == 3 {
            info.rest = String::new();
        }

        if info.name.is_empty() {
            if info.verb == "get" {
                let options = ListVerb::of(query);
                info.verb = if options.watch || watch_prefix {
                    "watch"
                } else {
                    "list"
                };
                info.name = options.name.unwrap_or_default();
            } else if info.verb == "delete" {
                info.verb = "deletecollection";
                info.name = ListVerb::of(query).name.unwrap_or_default();
            }
        } else if info.verb == "get" && watch_prefix {
            info.verb = "watch";
        }
        info
    }

    /// Whether the request may stay open for as long as its client likes.
    #[must_use]
    pub fn is_long_running(&self) -> bool {
        self.verb == "watch"
            || matches!(
                self.subresource.as_str(),
                "exec" | "attach" | "portforward" | "log" | "proxy"
            )
    }

    /// Whether the request only reads.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        matches!(self.verb, "get" | "list" | "watch")
    }

    /// The scope label of metrics: `cluster`, `namespace`, `resource` or empty.
    #[must_use]
    pub fn scope(&self) -> &'static str {
        if !self.is_resource {
            ""
        } else if self.name_in_path {
            "resource"
        } else if self.namespace.is_empty() {
            "cluster"
        } else {
            "namespace"
        }
    }
}

/// The raw path behind the subresource: a proxied path may hold empty
/// segments and escapes that must reach the backend as they came.
fn rest_of_path(path: &str, skip: usize, parts: &[&str], info: &RequestInfo) -> String {
    let namespace_parts = if !info.namespace.is_empty() && info.resource != "namespaces" {
        2
    } else {
        0
    };
    let wanted = skip + namespace_parts + 3;
    path.trim_start_matches('/')
        .splitn(wanted + 1, '/')
        .nth(wanted)
        .map_or_else(|| parts[3..].join("/"), str::to_owned)
}

fn plain_verb(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "get",
        "HEAD" => "head",
        "POST" => "post",
        "PUT" => "put",
        "PATCH" => "patch",
        "DELETE" => "delete",
        "OPTIONS" => "options",
        "CONNECT" => "connect",
        "TRACE" => "trace",
        _ => "other",
    }
}

fn resource_verb(method: &Method) -> &'static str {
    match method.as_str() {
        "POST" => "create",
        "GET" | "HEAD" => "get",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    }
}

struct ListVerb {
    watch: bool,
    name: Option<String>,
}

impl ListVerb {
    fn of(query: Option<&str>) -> Self {
        let mut found = Self {
            watch: false,
            name: None,
        };
        for (key, value) in pairs(query.unwrap_or_default()) {
            match key.as_str() {
                "watch" => {
                    found.watch = !matches!(
                        value.as_str(),
                        "false" | "0" | "False" | "FALSE" | "f" | "F"
                    );
                }
                "fieldSelector" => {
                    found.name = value.split(',').find_map(|term| {
                        let value = term.strip_prefix("metadata.name=")?;
                        let value = value.strip_prefix('=').unwrap_or(value);
                        (!value.is_empty()).then(|| value.to_owned())
                    });
                }
                _ => {}
            }
        }
        found
    }
}

/// The key and value pairs of a query string, decoded.
pub fn pairs(query: &str) -> impl Iterator<Item = (String, String)> + '_ {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (query_decode(key), query_decode(value))
        })
}

/// Decodes `%XX` escapes; anything that is not a valid escape stays as it is.
#[must_use]
pub fn percent_decode(text: &str) -> String {
    decode(text, false)
}

fn query_decode(text: &str) -> String {
    decode(text, true)
}

fn decode(text: &str, plus_is_space: bool) -> String {
    if !text
        .bytes()
        .any(|byte| byte == b'%' || (plus_is_space && byte == b'+'))
    {
        return text.to_owned();
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let mut ahead = bytes.clone();
                let high = ahead
                    .next()
                    .and_then(|digit| char::from(digit).to_digit(16));
                let low = ahead
                    .next()
                    .and_then(|digit| char::from(digit).to_digit(16));
                if let (Some(high), Some(low)) = (high, low) {
                    out.push(u8::try_from(high * 16 + low).unwrap_or(b'%'));
                    bytes = ahead;
                } else {
                    out.push(byte);
                }
            }
            b'+' if plus_is_space => out.push(b' '),
            _ => out.push(byte),
        }
    }
    String::from_utf8(out)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(method: Method, target: &str) -> RequestInfo {
        let (path, query) = target
            .split_once('?')
            .map_or((target, None), |(path, query)| (path, Some(query)));
        RequestInfo::parse(&method, path, query)
    }

    #[test]
    fn discovery_paths_are_no_resources() {
        for path in [
            "/",
            "/api",
            "/api/v1",
            "/apis",
            "/apis/apps",
            "/apis/apps/v1",
            "/healthz",
            "/openapi/v3/apis/apps/v1",
        ] {
            assert!(!info(Method::GET, path).is_resource, "{path}");
        }
    }

    #[test]
    fn namespaced_object_is_read_from_the_path() {
        let info = info(
            Method::GET,
            "/apis/apps/v1/namespaces/a/deployments/web/scale",
        );
        assert!(info.is_resource);
        assert_eq!(
            (
                info.group.as_str(),
                info.version.as_str(),
                info.namespace.as_str(),
                info.resource.as_str(),
                info.name.as_str(),
                info.subresource.as_str(),
                info.verb
            ),
            ("apps", "v1", "a", "deployments", "web", "scale", "get")
        );
    }

    #[test]
    fn namespace_object_is_in_its_own_namespace() {
        let one = info(Method::PUT, "/api/v1/namespaces/a/finalize");
        assert_eq!(
            (
                one.resource.as_str(),
                one.name.as_str(),
                one.namespace.as_str(),
                one.subresource.as_str()
            ),
            ("namespaces", "a", "a", "finalize")
        );
        let one = info(Method::GET, "/api/v1/namespaces/a");
        assert_eq!(
            (
                one.resource.as_str(),
                one.name.as_str(),
                one.namespace.as_str(),
                one.verb
            ),
            ("namespaces", "a", "a", "get")
        );
        let all = info(Method::GET, "/api/v1/namespaces");
        assert_eq!((all.resource.as_str(), all.verb), ("namespaces", "list"));
    }

    #[test]
    fn collection_verbs_follow_method_and_query() {
        assert_eq!(info(Method::GET, "/api/v1/pods").verb, "list");
        assert_eq!(info(Method::GET, "/api/v1/pods?watch=true").verb, "watch");
        assert_eq!(info(Method::GET, "/api/v1/pods?watch=1").verb, "watch");
        assert_eq!(info(Method::GET, "/api/v1/pods?watch=0").verb, "list");
        assert_eq!(info(Method::GET, "/api/v1/watch/pods").verb, "watch");
        assert_eq!(
            info(Method::DELETE, "/api/v1/namespaces/a/pods").verb,
            "deletecollection"
        );
        assert_eq!(
            info(
                Method::GET,
                "/api/v1/pods?fieldSelector=metadata.name%3Dweb"
            )
            .name,
            "web"
        );
    }

    #[test]
    fn proxied_path_keeps_its_escapes_and_empty_segments() {
        let info = info(
            Method::GET,
            "/api/v1/namespaces/a/services/http:web:80/proxy/x//y%2Fz/",
        );
        assert_eq!(
            (
                info.name.as_str(),
                info.subresource.as_str(),
                info.rest.as_str()
            ),
            ("http:web:80", "proxy", "x//y%2Fz/")
        );
        assert!(info.is_long_running());
    }

    #[test]
    fn broken_escapes_stay_as_they_are() {
        assert_eq!(percent_decode("a%2Fb%zz%4"), "a/b%zz%4");
        assert_eq!(
            pairs("a=1+2&b=%3D&c").collect::<Vec<_>>(),
            [
                ("a".into(), "1 2".into()),
                ("b".into(), "=".into()),
                ("c".into(), String::new())
            ]
        );
    }
}
