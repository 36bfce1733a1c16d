//! The names by which a proxied pod, service or node is asked for.

/// `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyName<'a> {
    /// Whether TLS is to be spoken.
    pub https: bool,
    /// The object's name.
    pub name: &'a str,
    /// A number or a port's name; empty for the default.
    pub port: &'a str,
}

impl<'a> ProxyName<'a> {
    /// Reads a name; `None` for what has another form or another scheme than
    /// `http` and `https`.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(':');
        let (first, second, third) = (parts.next()?, parts.next(), parts.next());
        if parts.next().is_some() {
            return None;
        }
        let (scheme, name, port) = match (second, third) {
            (Some(name), Some(port)) => (first, name, port),
            (Some(port), None) => ("", first, port),
            _ => ("", first, ""),
        };
        let known = matches!(scheme, "" | "http" | "https");
        (known && !name.is_empty()).then_some(Self {
            https: scheme == "https",
            name,
            port,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheme_and_port_may_be_left_out() {
        let name = |https, name, port| Some(ProxyName { https, name, port });
        for (text, expected) in [
            ("web", name(false, "web", "")),
            ("web:80", name(false, "web", "80")),
            ("web:http", name(false, "web", "http")),
            (":web:", name(false, "web", "")),
            ("http:web:80", name(false, "web", "80")),
            ("https:web:", name(true, "web", "")),
            ("https:web:tls", name(true, "web", "tls")),
            ("ftp:web:21", None),
            ("", None),
            (":80", None),
            ("https::443", None),
            ("https:web:443:x", None),
        ] {
            assert_eq!(ProxyName::parse(text), expected, "{text}");
        }
    }
}
