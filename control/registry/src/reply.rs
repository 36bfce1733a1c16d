//! Answers: from objects and errors to HTTP responses.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, VARY,
};
use http::{HeaderValue, Response, StatusCode};

use control_types::meta;
use control_types::registry::Resource;
use control_types::status::Status;
use control_types::value::Value;

use control_request::body::{self, Body};
use control_request::negotiate::{Format, MEDIA_TYPES, Media, Shape};
use control_strategy::{ResourceStrategy, protobuf, table};

/// Answers of this size and more are compressed if the client takes it.
pub const GZIP_FROM: usize = 128 * 1024;

/// The span of an answer being made.
pub(crate) const SERIALIZE: &str = "SerializeObject";

pub use control_request::Answer;

/// Bytes of a media type.
#[must_use]
pub fn bytes(code: u16, content_type: &'static str, bytes: impl Into<Bytes>) -> Response<Body> {
    let bytes = bytes.into();
    let length = bytes.len();
    let mut response = Response::new(body::full(bytes));
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// Plain text.
#[must_use]
pub fn text(code: u16, text: impl Into<String>) -> Response<Body> {
    let mut response = bytes(code, "text/plain; charset=utf-8", text.into());
    response.headers_mut().insert(
        "x-content-type-options",
        HeaderValue::from_static("nosniff"),
    );
    response
}

/// JSON.
#[must_use]
pub fn json(code: u16, json: impl Into<Bytes>) -> Response<Body> {
    bytes(code, "application/json", json)
}

/// From this size on, in bytes, an object is sent as it lies in the cache: for who asks
/// and does not read, no copy of it waits.
const SHARED: usize = 16 * 1024;

/// JSON as one line: encoders of the API end each answer with a line break, but
/// not those for people.
#[must_use]
pub fn line(json: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(json.len() + 1);
    out.extend_from_slice(json);
    out.push(b'\n');
    out.into()
}

/// An error in JSON.
#[must_use]
pub fn status(status: &Status) -> Response<Body> {
    failure(status, Format::default())
}

/// An error as the client wants it.
#[must_use]
pub fn failure(status: &Status, format: Format) -> Response<Body> {
    let mut response = match format.media {
        Media::Json if !format.pretty => {
            let mut made = status.to_json();
            made.push(b'\n');
            json(status.code, made)
        }
        _ => value(status.code, &status.to_value(), format),
    };
    if let Some(seconds) = status
        .details
        .as_ref()
        .map(|details| details.retry_after_seconds)
        .filter(|seconds| *seconds > 0)
    {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// A tree in the client's media type.
#[must_use]
pub fn value(code: u16, value: &Value, format: Format) -> Response<Body> {
    let _span = control_tracing::child(SERIALIZE);
    match format.media {
        Media::Json if format.pretty => json(code, value.to_vec_pretty()),
        Media::Json => {
            let mut made = value.to_vec();
            made.push(b'\n');
            compressed(json(code, Bytes::new()), made.into(), format)
        }
        Media::Yaml => bytes(code, "application/yaml", yaml(value)),
        Media::Protobuf => match protobuf::tree(value) {
            Ok(made) => of_protobuf(code, made, format),
            Err(error) => status(&error),
        },
    }
}

fn of_protobuf(code: u16, made: Vec<u8>, format: Format) -> Response<Body> {
    let empty = bytes(code, Media::Protobuf.content_type(), Bytes::new());
    compressed(empty, made.into(), format)
}

/// An object in the shape that the client wants. `json` are its bytes, which
/// are sent as they are if nothing has to be done to them.
///
/// # Errors
/// When the bytes are no JSON.
pub fn object(code: u16, json_bytes: Bytes, kind: &ResourceStrategy, format: Format) -> Answer {
    if format.shape == Shape::Plain && format.media == Media::Json && !format.pretty {
        let _span = control_tracing::child(SERIALIZE);
        if json_bytes.len() >= SHARED && !format.gzip {
            let mut response = json(code, Bytes::new());
            let length = HeaderValue::from(json_bytes.len() + 1);
            response.headers_mut().insert(CONTENT_LENGTH, length);
            *response.body_mut() = body::line(json_bytes);
            return Ok(response);
        }
        return Ok(compressed(
            json(code, Bytes::new()),
            line(&json_bytes),
            format,
        ));
    }
    if format.shape == Shape::Plain && format.media == Media::Protobuf {
        let _span = control_tracing::child(SERIALIZE);
        return Ok(of_protobuf(code, protobuf::object(&json_bytes)?, format));
    }
    let object = Value::from_slice(&json_bytes).map_err(Status::internal)?;
    Ok(value(code, &shaped(object, kind, format), format))
}

/// An object in the shape that the client wants, as a tree.
#[must_use]
pub fn shaped(object: Value, kind: &ResourceStrategy, format: Format) -> Value {
    match format.shape {
        Shape::Plain => object,
        Shape::Metadata => table::partial(object, kind, format),
        Shape::Table if meta::kind(&object) == "Status" => object,
        Shape::Table => {
            let mut metadata = Value::object();
            let revision = meta::resource_version(&object);
            if !revision.is_empty() {
                metadata.insert("resourceVersion", revision);
            }
            table::table(
                kind,
                vec![table::row(kind, object, format)],
                metadata,
                true,
                format,
            )
        }
    }
}

/// 406 for a client that wants a list's metadata of an object, or the other way round.
#[must_use]
pub fn not_acceptable_shape(resource: &Resource, is_list: bool) -> Status {
    not_acceptable_kind(resource.group, resource.kind, is_list)
}

fn not_acceptable_kind(group: &str, kind: &str, is_list: bool) -> Status {
    let (wanted, what, end) = if is_list {
        ("PartialObjectMetadata", "a list", "List")
    } else {
        ("PartialObjectMetadataList", "not a list", "")
    };
    let package = match group {
        "" => "core",
        group => group.split('.').next().unwrap_or(group),
    };
    let mut status = Status::not_acceptable(MEDIA_TYPES);
    status.message = format!(
        "you requested {wanted}, but the requested object is {what} (*{package}.{kind}{end})"
    );
    status
}

/// 406 for a client that wants the metadata of a list where there is one object.
/// It is asked when the object is there: what a request does, it does before.
///
/// # Errors
/// That.
pub fn acceptable_for_one(resource: &Resource, format: Format) -> Result<(), Status> {
    if format.of_list {
        return Err(not_acceptable_shape(resource, false));
    }
    Ok(())
}

/// As [`acceptable_for_one`], for scales.
///
/// # Errors
/// That.
pub fn acceptable_for_scale(format: Format) -> Result<(), Status> {
    if format.of_list {
        return Err(not_acceptable_kind("autoscaling", "Scale", false));
    }
    Ok(())
}

/// Puts bytes into a response, compressed when that is wanted and pays.
fn compressed(mut response: Response<Body>, bytes: Bytes, format: Format) -> Response<Body> {
    let mut length = bytes.len();
    if format.gzip && length >= GZIP_FROM {
        let mut encoder = GzEncoder::new(Vec::with_capacity(length / 6), Compression::fast());
        if encoder.write_all(&bytes).is_ok()
            && let Ok(packed) = encoder.finish()
        {
            length = packed.len();
            *response.body_mut() = body::full(packed);
            response
                .headers_mut()
                .insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            response
                .headers_mut()
                .insert(VARY, HeaderValue::from_static("Accept-Encoding"));
            response
                .headers_mut()
                .insert(CONTENT_LENGTH, HeaderValue::from(length));
            return response;
        }
    }
    *response.body_mut() = body::full(bytes);
    response
        .headers_mut()
        .insert(CONTENT_LENGTH, HeaderValue::from(length));
    response
}

/// A tree as YAML, as the API writes it.
#[must_use]
pub fn yaml(value: &Value) -> String {
    control_types::yaml::to_string(value)
}

/// How many letters all warnings of an answer may have, and each of them when all
/// together have more.
const MOST_WARNED: usize = 4096;
const MOST_OF_ONE: usize = 256;

/// What is told of these warnings: each once, and shortened where they would make
/// the answer's head too large for clients.
fn told(warnings: &[String]) -> Vec<&str> {
    let mut told: Vec<&str> = Vec::with_capacity(warnings.len());
    let mut seen = rustc_hash::FxHashSet::default();
    told.extend(
        warnings
            .iter()
            .map(String::as_str)
            .filter(|text| seen.insert(*text)),
    );
    let letters = |text: &str| text.chars().count();
    if told.iter().map(|text| letters(text)).sum::<usize>() <= MOST_WARNED {
        return told;
    }
    let mut written = 0;
    told.iter()
        .map(|text| {
            let end = text.char_indices().nth(MOST_OF_ONE);
            end.map_or(*text, |(end, _)| &text[..end])
        })
        .take_while(|text| {
            let goes_on = written < MOST_WARNED;
            written += letters(text);
            goes_on
        })
        .collect()
}

/// What reading YAML found wrong is told line by line.
fn of_yaml(text: &str) -> Vec<String> {
    const BEFORE: &str = "yaml: unmarshal errors:\n";
    let inner = text.strip_prefix("error converting YAML to JSON: ");
    let Some(found) = inner.unwrap_or(text).strip_prefix(BEFORE) else {
        return vec![text.to_owned()];
    };
    found
        .split('\n')
        .map(|line| line.trim().to_owned())
        .collect()
}

/// Adds `Warning` headers.
pub fn warn(response: &mut Response<Body>, warnings: &[String]) {
    if warnings.is_empty() {
        return;
    }
    let lines: Vec<String> = warnings.iter().flat_map(|text| of_yaml(text)).collect();
    for warning in told(&lines) {
        if warning.chars().any(char::is_control) {
            // Go refuses to make a header of it.
            continue;
        }
        let escaped: String = warning
            .chars()
            .flat_map(|letter| {
                if matches!(letter, '"' | '\\') {
                    vec!['\\', letter]
                } else {
                    vec![letter]
                }
            })
            .collect();
        if let Ok(header) = HeaderValue::from_str(&format!("299 - \"{escaped}\"")) {
            response.headers_mut().append(http::header::WARNING, header);
        }
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn warnings_are_quoted_and_said_once() {
        let mut response = text(200, "ok");
        warn(
            &mut response,
            &[
                "unknown field \"a\"".into(),
                "b".into(),
                "b".into(),
                "yaml: unmarshal errors:\n  line 2: c\n  line 3: d".into(),
                "no\nheader".into(),
            ],
        );
        let said: Vec<_> = response
            .headers()
            .get_all("warning")
            .iter()
            .map(|header| header.to_str().expect("text").to_owned())
            .collect();
        let wanted = [r#"unknown field \"a\""#, "b", "line 2: c", "line 3: d"];
        assert_eq!(said, wanted.map(|text| format!("299 - \"{text}\"")));
    }

    #[test]
    fn many_warnings_are_shortened() {
        let few: Vec<String> = (0..8)
            .map(|at| format!("{at}{}", "ü".repeat(500)))
            .collect();
        assert!(told(&few).iter().all(|text| text.chars().count() == 501));
        let many: Vec<String> = (0..70)
            .map(|at| format!("{at}{}", "ü".repeat(500)))
            .collect();
        let told = told(&many);
        assert_eq!(told.len(), 16);
        assert!(told.iter().all(|text| text.chars().count() == 256));
    }

    #[test]
    fn yaml_is_sorted() {
        assert_eq!(
            yaml(&value!({"b": [1], "a": {"d": "x", "c": null}}))
                .lines()
                .next(),
            Some("a:")
        );
    }

    #[tokio::test]
    async fn large_answers_are_compressed_on_request_only() {
        let big = Bytes::from(format!("\"{}\"", "x".repeat(GZIP_FROM)));
        for gzip in [true, false] {
            let format = Format {
                gzip,
                ..Format::default()
            };
            let answer = object(
                200,
                big.clone(),
                &ResourceStrategy::from(&control_kinds::GENERIC),
                format,
            )
            .expect("valid");
            assert_eq!(answer.headers().contains_key(CONTENT_ENCODING), gzip);
            let length = answer.headers()[CONTENT_LENGTH]
                .to_str()
                .expect("text")
                .parse::<usize>()
                .expect("number");
            assert_eq!(
                body::read(answer.into_body()).await.expect("body").len(),
                length
            );
        }
    }
}
