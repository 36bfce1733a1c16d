//! What the client wants to get: media type and shape, from its `Accept`.

use http::header::{ACCEPT, ACCEPT_ENCODING, USER_AGENT};
use http::{HeaderMap, HeaderValue};

use control_types::status::Status;

use crate::pairs;

/// The media types that this server writes, as errors name them.
pub const MEDIA_TYPES: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];

/// The media types of streams of watch events, as errors name them.
pub const STREAM_MEDIA_TYPES: &[&str] = &[
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];

/// How bytes are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Media {
    /// `application/json`
    #[default]
    Json,
    /// `application/yaml`
    Yaml,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
}

impl Media {
    /// All of them; the first is what a client gets that takes anything.
    const ALL: [Self; 3] = [Self::Json, Self::Yaml, Self::Protobuf];

    /// The name in `Content-Type`.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        MEDIA_TYPES[self as usize]
    }

    /// The name of a stream of watch events; nothing where there is none.
    #[must_use]
    pub const fn stream_type(self) -> Option<&'static str> {
        match self {
            Self::Json => Some("application/json"),
            Self::Yaml => None,
            Self::Protobuf => Some("application/vnd.kubernetes.protobuf;stream=watch"),
        }
    }
}

/// What is made of an object or a list before it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shape {
    /// The object as it is.
    #[default]
    Plain,
    /// `meta.k8s.io/v1 Table`
    Table,
    /// `meta.k8s.io/v1 PartialObjectMetadata` or a list of them.
    Metadata,
}

/// How a client wants its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Format {
    /// How bytes are written.
    pub media: Media,
    /// What is written.
    pub shape: Shape,
    /// `v1` or `v1beta1` of `meta.k8s.io`, for other shapes than plain.
    pub shape_version: &'static str,
    /// The shape asked for is that of a list.
    pub of_list: bool,
    /// Indented, for people.
    pub pretty: bool,
    /// The client takes gzip.
    pub gzip: bool,
    /// What a table's rows carry.
    pub include: Include,
}

/// `includeObject` of `meta.k8s.io/v1 TableOptions`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Include {
    /// The object's metadata.
    #[default]
    Metadata,
    /// The whole object.
    Object,
    /// Nothing.
    None,
}

impl Format {
    /// Reads the request's headers and query.
    ///
    /// # Errors
    /// 406 when nothing that the client accepts can be made.
    pub fn negotiate(headers: &HeaderMap, query: Option<&str>) -> Result<Self, Status> {
        Self::among(headers, query, |_| true)
    }

    /// Reads the request's headers and query for what can be written in some formats
    /// only.
    ///
    /// # Errors
    /// 406 when nothing that the client accepts can be made.
    pub fn among(
        headers: &HeaderMap,
        query: Option<&str>,
        possible: impl Fn(&Self) -> bool,
    ) -> Result<Self, Status> {
        let mut format = headers.get(ACCEPT).map_or(Ok(Self::default()), |accept| {
            Self::choose(accept.to_str().unwrap_or_default(), possible)
                .ok_or_else(|| Status::not_acceptable(MEDIA_TYPES))
        })?;
        format.gzip = headers
            .get_all(ACCEPT_ENCODING)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|encoding| {
                encoding
                    .split(';')
                    .next()
                    .is_some_and(|name| name.trim() == "gzip")
            });
        format.pretty |= is_pretty(headers, query);
        for (key, value) in pairs(query.unwrap_or_default()) {
            if key.as_str() == "includeObject" && format.shape == Shape::Table {
                format.include = match value.as_str() {
                    "Object" => Include::Object,
                    "None" => Include::None,
                    "Metadata" | "" => Include::Metadata,
                    other => {
                        return Err(Status::bad_request(format!(
                            "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', 'Object', 'None', or empty",
                            control_types::status::quote(other)
                        )));
                    }
                };
            }
        }
        Ok(format)
    }

    /// How an error is written: in the media type that the client accepts, or in
    /// JSON for people when there is none.
    #[must_use]
    pub fn of_error(headers: &HeaderMap, query: Option<&str>) -> Self {
        let mut plain = Self::default();
        let accepted = headers
            .get(ACCEPT)
            .and_then(|accept| accept.to_str().ok())
            .filter(|accept| !accept.trim().is_empty());
        if let Some(accept) = accepted {
            match Self::of_plain(accept) {
                Some(format) => plain.media = format.media,
                None => {
                    plain.pretty = true;
                    return plain;
                }
            }
        }
        plain.pretty = is_pretty(headers, query);
        plain
    }

    fn of_plain(accept: &str) -> Option<Self> {
        Self::choose(accept, |format| format.shape == Shape::Plain)
    }

    /// The first clause, by weight, that asks for what can be made.
    fn choose(accept: &str, allowed: impl Fn(&Self) -> bool) -> Option<Self> {
        if accept.trim().is_empty() {
            return Some(Self::default());
        }
        clauses(accept)
            .iter()
            .find_map(|clause| clause.formats().find(&allowed))
    }

    /// How a document is written that has no other shape: discovery.
    ///
    /// # Errors
    /// 406 when nothing that the client accepts can be made.
    pub fn of_document(headers: &HeaderMap, query: Option<&str>) -> Result<Self, Status> {
        let accept = headers.get(ACCEPT).map(|accept| accept.to_str());
        let accept = accept.and_then(Result::ok).unwrap_or_default();
        let mut format =
            Self::of_plain(accept).ok_or_else(|| Status::not_acceptable(MEDIA_TYPES))?;
        format.pretty |= is_pretty(headers, query);
        Ok(format)
    }

    /// How the whole of discovery is written in one answer, if the client asks
    /// for that, be it after plain forms.
    #[must_use]
    pub fn of_aggregated(headers: &HeaderMap, query: Option<&str>) -> Option<Self> {
        let accept = headers.get(ACCEPT)?.to_str().ok()?;
        let media = clauses(accept).iter().find_map(|clause| {
            let asks = clause.shape == Some("APIGroupDiscoveryList")
                && clause.group == Some("apidiscovery.k8s.io")
                && clause.version == Some("v2");
            let mut known = Media::ALL.into_iter();
            known.find(|media| {
                let name = media.content_type();
                asks && (clause.media == name || matches!(clause.media, "application/*" | "*/*"))
            })
        })?;
        Some(Self {
            media,
            pretty: is_pretty(headers, query),
            ..Self::default()
        })
    }
}

/// The clauses of an `Accept` header, the one that is wanted most first.
fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = accept
        .split(',')
        .map(str::trim)
        .filter(|clause| !clause.is_empty())
        .map(Clause::parse)
        .collect();
    clauses.sort_by(|a, b| {
        b.weight
            .total_cmp(&a.weight)
            .then_with(|| a.media.contains('*').cmp(&b.media.contains('*')))
    });
    clauses
}

/// Whether a resource has anything that the client accepts at all, whatever it asks to
/// be made of it. `streams`: whether it can be watched at this path.
///
/// # Errors
/// 406 in the words of the router of stock servers, which knows no ranges but `*/*`.
pub fn acceptable(headers: &HeaderMap, streams: bool) -> Result<(), Status> {
    let Some(accept) = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()) else {
        return Ok(());
    };
    let known = accept.is_empty()
        || accept.split(',').any(|clause| {
            let media = clause.split(';').next().unwrap_or_default().trim();
            media == "*/*" || MEDIA_TYPES.contains(&media)
        });
    if known {
        return Ok(());
    }
    let mut all = MEDIA_TYPES.to_vec();
    if streams {
        all.extend(STREAM_MEDIA_TYPES);
    }
    Err(Status::no_representation(&all))
}

/// Custom objects have no protobuf: what asks for it is taken out of `Accept`, as
/// long as something is left. Tables and the like have it.
pub fn without_protobuf(headers: &mut HeaderMap) {
    let Some(accept) = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()) else {
        return;
    };
    let is_protobuf = |clause: &&str| {
        let mut parts = clause.split(';').map(str::trim);
        parts.next() == Some("application/vnd.kubernetes.protobuf")
            && !parts.any(|part| part.starts_with("as="))
    };
    if !accept
        .split(',')
        .map(str::trim)
        .any(|clause| is_protobuf(&clause))
    {
        return;
    }
    let rest: Vec<&str> = accept
        .split(',')
        .map(str::trim)
        .filter(|clause| !is_protobuf(clause))
        .collect();
    let rest = if rest.is_empty() {
        // The same, but nothing that there is.
        "application/vnd.kubernetes.protobuf;as=none".to_owned()
    } else {
        rest.join(",")
    };
    if let Ok(rest) = HeaderValue::from_str(&rest) {
        headers.insert(ACCEPT, rest);
    }
}

/// Whether the answer is made for people.
fn is_pretty(headers: &HeaderMap, query: Option<&str>) -> bool {
    let asked = pairs(query.unwrap_or_default())
        .find(|(key, value)| key == "pretty" && !value.is_empty())
        .map(|(_, value)| value);
    if let Some(asked) = asked {
        return matches!(asked.as_str(), "1" | "t" | "T" | "TRUE" | "true" | "True");
    }
    let agent = headers
        .get(USER_AGENT)
        .and_then(|agent| agent.to_str().ok())
        .unwrap_or_default();
    ["curl", "Wget", "Mozilla/5.0"]
        .iter()
        .any(|known| agent.starts_with(known))
}

/// One clause of an `Accept` header.
#[derive(Debug, Default)]
struct Clause<'a> {
    media: &'a str,
    weight: f32,
    shape: Option<&'a str>,
    version: Option<&'a str>,
    group: Option<&'a str>,
    stream: &'a str,
    server_version: &'a str,
    pretty: bool,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let mut clause = Self {
            media: parts.next().unwrap_or_default(),
            weight: 1.0,
            ..Self::default()
        };
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            let value = value.trim();
            match key.trim() {
                "q" => clause.weight = value.parse().unwrap_or(1.0),
                "as" => clause.shape = Some(value),
                "v" => clause.version = Some(value),
                "g" => clause.group = Some(value),
                "stream" => clause.stream = value,
                "sv" => clause.server_version = value,
                "pretty" => clause.pretty = value == "1",
                _ => {}
            }
        }
        clause
    }

    /// What the clause can be answered with, the best first.
    fn formats(&self) -> impl Iterator<Item = Format> {
        let (kind, subtype) = self.media.split_once('/').unwrap_or((self.media, "*"));
        Media::ALL.into_iter().filter_map(move |media| {
            let name = media.content_type().strip_prefix("application/")?;
            let fits = matches!(kind, "application" | "*") && (subtype == name || subtype == "*");
            if !fits
                || !matches!(self.stream, "" | "watch")
                || (self.stream == "watch" && media.stream_type().is_none())
                || !matches!(self.server_version, "" | "v1")
            {
                return None;
            }
            let converts = self.shape.is_some() || self.version.is_some() || self.group.is_some();
            let (shape, shape_version) = if converts {
                let version = match (self.group, self.version) {
                    (Some("meta.k8s.io"), Some("v1")) => "v1",
                    (Some("meta.k8s.io"), Some("v1beta1")) => "v1beta1",
                    _ => return None,
                };
                let shape = match self.shape {
                    // A table has no form in protobuf.
                    Some("Table") if media != Media::Protobuf => Shape::Table,
                    Some("PartialObjectMetadata" | "PartialObjectMetadataList") => Shape::Metadata,
                    _ => return None,
                };
                (shape, version)
            } else {
                (Shape::Plain, "")
            };
            Some(Format {
                media,
                shape,
                shape_version,
                of_list: self.shape == Some("PartialObjectMetadataList"),
                pretty: self.pretty,
                ..Format::default()
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(text: &str) -> Option<(Media, Shape)> {
        Format::choose(text, |_| true).map(|format| (format.media, format.shape))
    }

    #[test]
    fn first_clause_that_can_be_made_wins() {
        assert_eq!(accept("text/html, */*"), Some((Media::Json, Shape::Plain)));
        assert_eq!(accept("text/html"), None);
        assert_eq!(
            accept("application/vnd.kubernetes.protobuf,application/json"),
            Some((Media::Protobuf, Shape::Plain))
        );
        assert_eq!(
            accept("application/vnd.kubernetes.protobuf;stream=watch"),
            Some((Media::Protobuf, Shape::Plain))
        );
        assert_eq!(
            accept("*/*, application/vnd.kubernetes.protobuf"),
            Some((Media::Protobuf, Shape::Plain))
        );
        assert_eq!(accept("application/yaml;stream=watch"), None);
        assert_eq!(accept("application/cbor"), None);
        assert_eq!(
            accept("application/json;q=0.5, application/yaml"),
            Some((Media::Yaml, Shape::Plain))
        );
        assert_eq!(accept(""), Some((Media::Json, Shape::Plain)));
    }

    #[test]
    fn ranges_are_no_names() {
        let of = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            acceptable(&headers, false).map_err(|status| (status.code, status.message))
        };
        for accept in ["*/*", "text/html, */*;q=0.1", "application/yaml;q=1", ""] {
            assert_eq!(of(accept), Ok(()), "{accept}");
        }
        assert_eq!(
            of("application/*"),
            Err((406, "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf".into()))
        );
    }

    #[test]
    fn shapes_are_recognised_with_group_and_version() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(accept(kubectl), Some((Media::Json, Shape::Table)));
        assert_eq!(
            accept("application/json;as=Table;v=v9;g=meta.k8s.io,application/json"),
            Some((Media::Json, Shape::Plain))
        );
        assert_eq!(
            accept("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
            Some((Media::Json, Shape::Metadata))
        );
        assert_eq!(accept("application/json;as=Pie;v=v1;g=meta.k8s.io"), None);
        let informer = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
        assert_eq!(accept(informer), Some((Media::Protobuf, Shape::Metadata)));
        let table = "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1";
        assert_eq!(accept(table), None);
        assert_eq!(
            accept(&format!(
                "{table},application/json;as=Table;g=meta.k8s.io;v=v1"
            )),
            Some((Media::Json, Shape::Table))
        );
    }

    #[test]
    fn errors_are_plain_whatever_shape_was_asked_for() {
        let of = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            let format = Format::of_error(&headers, None);
            (format.media, format.pretty)
        };
        assert_eq!(
            of("application/vnd.kubernetes.protobuf"),
            (Media::Protobuf, false)
        );
        assert_eq!(
            of("application/json;as=Table;g=meta.k8s.io;v=v1,application/yaml"),
            (Media::Yaml, false)
        );
        assert_eq!(
            of("application/json;as=Table;g=meta.k8s.io;v=v1"),
            (Media::Json, true)
        );
        assert_eq!(of("text/html"), (Media::Json, true));
    }

    #[test]
    fn the_whole_of_discovery_is_found_behind_other_clauses() {
        let of = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().expect("a header"));
            Format::of_aggregated(&headers, None).map(|format| format.media)
        };
        let whole = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        assert_eq!(of(&format!("application/json;{whole}")), Some(Media::Json));
        let second = format!("application/json,application/yaml;{whole}");
        assert_eq!(of(&second), Some(Media::Yaml));
        let protobuf = format!("application/vnd.kubernetes.protobuf;{whole},application/json");
        assert_eq!(of(&protobuf), Some(Media::Protobuf));
        assert_eq!(of(&second.replace("v=v2", "v=v2beta1")), None);
        assert_eq!(of("application/json"), None);
    }
}
