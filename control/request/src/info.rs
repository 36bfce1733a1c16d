//! What a request asks for, read from its method, path and query alone.
//!
//! The rules are those of Kubernetes' `RequestInfo`: authorisation, metrics,
//! audit and routing all look at the same answer, so that what was authorised
//! is what is done.

use control_types::fields::FieldSelector;
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
    /// The field selector of a request about a collection, as it was sent.
    pub field_selector: String,
    /// The label selector of a request about a collection, as it was sent.
    pub label_selector: String,
    /// Whether the path has the old form `/api/v1/watch/…`.
    pub watch_prefix: bool,
    /// Whether that is all of the path: there is no telling what it is about.
    pub of_nothing: bool,
    /// Whether `name` stood in the path.
    pub name_in_path: bool,
    /// What follows the subresource, without the leading slash, as it stood in
    /// the path (proxy requests only).
    pub rest: String,
    /// The whole path, without escapes.
    pub path: String,
}

impl RequestInfo {
    /// Reads a request line. `query` is the raw query string.
    ///
    /// Escapes in the path are undone first, those of slashes too: what is
    /// authorised and what is found must be the same words.
    #[must_use]
    pub fn parse(method: &Method, raw_path: &str, query: Option<&str>) -> Self {
        let path = percent_decode(raw_path);
        let mut info = Self {
            verb: plain_verb(method),
            ..Self::default()
        };
        info.read(method, &path, raw_path, query);
        info.path = path;
        info
    }

    fn read(&mut self, method: &Method, path: &str, raw_path: &str, query: Option<&str>) {
        let trimmed = path.trim_matches('/');
        let parts: Vec<&str> = trimmed.split('/').collect();
        let skip = match parts.first() {
            // `/api/v1` and `/apis/g/v` alone are discovery, not resources.
            Some(&"api") if parts.len() >= 3 => {
                parts[1].clone_into(&mut self.version);
                2
            }
            Some(&"apis") if parts.len() >= 4 => {
                parts[1].clone_into(&mut self.group);
                parts[2].clone_into(&mut self.version);
                3
            }
            _ => return,
        };
        let mut parts = &parts[skip..];
        self.is_resource = true;
        self.verb = resource_verb(method);
        // The old forms `/api/v1/watch/...` and `/api/v1/proxy/...`; nothing is
        // proxied by the latter any more, but it is refused under its own verb.
        let mut special = false;
        if matches!(parts[0], "watch" | "proxy") {
            if parts.len() == 1 {
                self.of_nothing = true;
                return;
            }
            self.watch_prefix = parts[0] == "watch";
            self.verb = if self.watch_prefix { "watch" } else { "proxy" };
            parts = &parts[1..];
            special = true;
        }
        let mut in_namespace = false;
        if parts[0] == "namespaces" && parts.len() > 1 {
            parts[1].clone_into(&mut self.namespace);
            // `namespaces/x/pods` is a resource in x, while
            // `namespaces/x/status` is a subresource of the namespace.
            if parts.len() > 2 && !matches!(parts[2], "status" | "finalize") {
                parts = &parts[2..];
                in_namespace = true;
            }
        }
        parts[0].clone_into(&mut self.resource);
        if let Some(name) = parts.get(1) {
            (*name).clone_into(&mut self.name);
            self.name_in_path = !self.name.is_empty();
        }
        if let Some(subresource) = parts.get(2)
            && self.verb != "proxy"
        {
            (*subresource).clone_into(&mut self.subresource);
        }
        if parts.len() > 3 {
            let before = skip + usize::from(special) + if in_namespace { 2 } else { 0 } + 3;
            self.rest = rest_of_path(raw_path, before);
        }
        if self.name.is_empty() {
            self.read_collection(query);
        }
    }

    /// A request about a collection: which verb, which part of it.
    fn read_collection(&mut self, query: Option<&str>) {
        match self.verb {
            "get" => {
                let options = ListVerb::of(query);
                self.verb = if options.watch { "watch" } else { "list" };
                self.name = options.name.unwrap_or_default();
            }
            "delete" => self.verb = "deletecollection",
            _ => {}
        }
        if !self.watch_prefix && matches!(self.verb, "list" | "watch" | "deletecollection") {
            self.field_selector = first(query, "fieldSelector").unwrap_or_default();
            self.label_selector = first(query, "labelSelector").unwrap_or_default();
        }
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

/// What follows the first `before` segments of a path, as it was sent: a proxied
/// path may hold empty segments and escapes that must reach the backend as they
/// came. An escaped slash separates as a slash does.
fn rest_of_path(path: &str, before: usize) -> String {
    let mut rest = path.trim_start_matches('/');
    for _ in 0..before {
        let plain = rest.find('/').map(|at| (at, 1));
        let escaped = rest
            .find("%2F")
            .into_iter()
            .chain(rest.find("%2f"))
            .min()
            .map(|at| (at, 3));
        let Some((at, length)) = plain.into_iter().chain(escaped).min() else {
            return String::new();
        };
        rest = &rest[at + length..];
    }
    rest.to_owned()
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
        let watch = first(query, "watch")
            .is_some_and(|value| !matches!(value.to_lowercase().as_str(), "false" | "0"));
        // A selector that cannot be read selects no name: the list refuses it.
        let name = first(query, "fieldSelector")
            .and_then(|text| FieldSelector::parse(&text).ok())
            .and_then(|selector| selector.exact("metadata.name").map(str::to_owned))
            .filter(|name| is_segment(name));
        Self { watch, name }
    }
}

/// Whether a name can stand in a path.
fn is_segment(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '%'])
}

/// The first value of a key: of several, everybody looks at the first.
fn first(query: Option<&str>, wanted: &str) -> Option<String> {
    let query = query?;
    pairs(query)
        .find(|(key, _)| key == wanted)
        .map(|(_, value)| value)
}

/// The key and value pairs of a query string, decoded.
pub fn pairs(query: &str) -> impl Iterator<Item = (String, String)> + '_ {
    query
        .split('&')
        // What cannot be read is left out, as Go does.
        .filter(|pair| !pair.is_empty() && is_readable(pair))
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (query_decode(key), query_decode(value))
        })
}

/// Whether every `%` begins an escape, and nothing is separated the older way.
fn is_readable(pair: &str) -> bool {
    let escape = |rest: &str| {
        let mut digits = rest.bytes();
        let mut digit = || digits.next().is_some_and(|digit| digit.is_ascii_hexdigit());
        digit() && digit()
    };
    !pair.contains(';') && pair.split('%').skip(1).all(escape)
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
        assert!(info(Method::GET, "/api/v1/watch").of_nothing);
        assert!(!info(Method::GET, "/api/v1/watch/pods").of_nothing);
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
    fn escapes_change_nothing_of_what_is_authorised() {
        let plain = info(Method::GET, "/api/v1/namespaces/kube-system/secrets/a");
        for sent in [
            "/api/v1/namespaces/kube%2Dsystem/secrets/a",
            "/api/v1/namespaces%2Fkube-system%2fsecrets/a",
            "/%61pi/v1/namespaces/kube-system/%73ecrets/a",
        ] {
            assert_eq!(info(Method::GET, sent), plain, "{sent}");
        }
        let other = info(Method::GET, "/api/v1/namespaces/a/pods/x%2Flog");
        assert_eq!((&*other.name, &*other.subresource), ("x", "log"));
        // Undone once: what is escaped twice is a name with an escape in it.
        let twice = info(Method::GET, "/api/v1/namespaces/a/pods/x%252Flog");
        assert_eq!((&*twice.name, &*twice.subresource), ("x%2Flog", ""));
    }

    #[test]
    fn of_several_values_the_first_counts() {
        let twice =
            "?fieldSelector=metadata.name%3Da&fieldSelector=metadata.name%3Db&watch=0&watch=1";
        let list = info(Method::GET, &format!("/api/v1/pods{twice}"));
        assert_eq!((list.verb, &*list.name), ("list", "a"));
        let empty = "/api/v1/pods?fieldSelector=&fieldSelector=metadata.name%3Da";
        assert_eq!(info(Method::GET, empty).name, "");
        for none in [
            "metadata.name%3D..",
            "metadata.name!%3Da",
            "metadata.name%3Da%2Fb",
        ] {
            let path = format!("/api/v1/pods?fieldSelector={none}");
            assert_eq!(info(Method::GET, &path).name, "", "{none}");
        }
        // Rules for names do not open collections to be deleted.
        let delete = "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Da";
        assert_eq!(info(Method::DELETE, delete).name, "");
    }

    #[test]
    fn the_old_form_of_a_watch_is_a_watch_whatever_the_method() {
        for method in [Method::GET, Method::DELETE, Method::PUT] {
            let info = info(method, "/api/v1/watch/namespaces/a/pods/x");
            assert_eq!((info.verb, &*info.name), ("watch", "x"));
            assert!(info.watch_prefix);
        }
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
