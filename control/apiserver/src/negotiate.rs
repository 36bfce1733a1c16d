//! What the client wants to get: media type and shape, from its `Accept`.

use http::HeaderMap;
use http::header::{ACCEPT, ACCEPT_ENCODING, USER_AGENT};

use control_types::status::Status;

use crate::request::pairs;

/// The media types that this server writes, as errors name them.
pub const MEDIA_TYPES: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];

/// How bytes are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Media {
    /// `application/json`
    #[default]
    Json,
    /// `application/yaml`
    Yaml,
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
    pub fn of(headers: &HeaderMap, query: Option<&str>) -> Result<Self, Status> {
        let mut format = headers.get(ACCEPT).map_or(Ok(Self::default()), |accept| {
            Self::of_accept(accept.to_str().unwrap_or_default())
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
        let agent = headers
            .get(USER_AGENT)
            .and_then(|agent| agent.to_str().ok())
            .unwrap_or_default();
        format.pretty = ["curl", "Wget", "Mozilla/5.0"]
            .iter()
            .any(|known| agent.starts_with(known));
        for (key, value) in pairs(query.unwrap_or_default()) {
            match key.as_str() {
                "pretty" => format.pretty = !matches!(value.as_str(), "false" | "0"),
                "includeObject" => {
                    format.include = match value.as_str() {
                        "Object" => Include::Object,
                        "None" => Include::None,
                        "Metadata" | "" => Include::Metadata,
                        other => {
                            return Err(Status::bad_request(format!(
                                "unrecognized includeObject value: {}",
                                control_types::status::quote(other)
                            )));
                        }
                    };
                }
                _ => {}
            }
        }
        Ok(format)
    }

    fn of_accept(accept: &str) -> Option<Self> {
        if accept.trim().is_empty() {
            return Some(Self::default());
        }
        let mut clauses: Vec<(f32, Option<Self>)> = accept
            .split(',')
            .filter(|clause| !clause.trim().is_empty())
            .map(clause)
            .collect();
        clauses.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        clauses.into_iter().find_map(|(_, format)| format)
    }
}

/// One clause of an `Accept` header: its weight, and what it asks for if that
/// can be made.
fn clause(text: &str) -> (f32, Option<Format>) {
    let mut parts = text.split(';').map(str::trim);
    let media = match parts.next().unwrap_or_default() {
        "application/json" | "*/*" | "application/*" => Some(Media::Json),
        "application/yaml" => Some(Media::Yaml),
        _ => None,
    };
    let (mut weight, mut shape, mut version, mut group) = (1.0, None, "", "");
    for (key, value) in parts.filter_map(|part| part.split_once('=')) {
        match key.trim() {
            "q" => weight = value.trim().parse().unwrap_or(1.0),
            "as" => shape = Some(value.trim()),
            "v" => version = value.trim(),
            "g" => group = value.trim(),
            _ => {}
        }
    }
    let format = media.and_then(|media| {
        let shape = match shape {
            None => Shape::Plain,
            Some(_) if group != "meta.k8s.io" => return None,
            Some("Table") => Shape::Table,
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") => Shape::Metadata,
            Some(_) => return None,
        };
        let shape_version = match version {
            _ if shape == Shape::Plain => "",
            "v1" => "v1",
            "v1beta1" => "v1beta1",
            _ => return None,
        };
        Some(Format {
            media,
            shape,
            shape_version,
            ..Format::default()
        })
    });
    (weight, format)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(text: &str) -> Option<(Media, Shape)> {
        Format::of_accept(text).map(|format| (format.media, format.shape))
    }

    #[test]
    fn first_clause_that_can_be_made_wins() {
        assert_eq!(accept("text/html, */*"), Some((Media::Json, Shape::Plain)));
        assert_eq!(accept("text/html"), None);
        assert_eq!(
            accept("application/vnd.kubernetes.protobuf,application/json"),
            Some((Media::Json, Shape::Plain))
        );
        assert_eq!(
            accept("application/json;q=0.5, application/yaml"),
            Some((Media::Yaml, Shape::Plain))
        );
        assert_eq!(accept(""), Some((Media::Json, Shape::Plain)));
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
    }
}
