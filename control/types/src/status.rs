//! `metav1.Status`: every error that the API gives, worded as Kubernetes words it.
//!
//! Clients decide by `reason` and `code` and show `message`; both are part of the
//! interface (`k8s.io/apimachinery/pkg/api/errors`).

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use crate::object;
use crate::value::{Map, Value};

/// The cause of an answer to a read that named a revision which the server does not have.
const CAUSE_TOO_LARGE: &str = "ResourceVersionTooLarge";

/// A group and a plural (or, for [`Status::invalid`], a kind): `apps`, `deployments`
/// reads `deployments.apps`.
struct QualifiedName<'a>(&'a str, &'a str);

impl fmt::Display for QualifiedName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            ("", name) => f.write_str(name),
            (group, name) => write!(f, "{name}.{group}"),
        }
    }
}

/// A text in Go's `%q` form.
#[must_use]
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            '\u{fffd}' => out.push('\u{fffd}'),
            c if (0x80..0xa0).contains(&(c as u32))
                || matches!(c, '\u{a0}' | '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202f}' | '\u{feff}') =>
            {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// One of several causes of a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// `FieldValueRequired`, `FieldValueInvalid`, …; empty for none.
    pub reason: String,
    /// The problem, without the field.
    pub message: String,
    /// Path of the field, as `spec.containers[0].name`; empty for none.
    pub field: String,
}

/// A `metav1.Status`. Also an error type: its text is `message`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Status {
    /// HTTP status code.
    pub code: u16,
    /// The machine-readable reason, as `NotFound`; empty on success.
    pub reason: Cow<'static, str>,
    /// For people.
    pub message: String,
    /// The object that the answer concerns.
    pub details: Option<Details>,
    /// Continuation token in `metadata` (an expired list provides one that continues
    /// inconsistently).
    pub continue_token: String,
}

/// `metav1.StatusDetails`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// Name of the object.
    pub name: String,
    /// API group.
    pub group: String,
    /// The plural, or for an invalid object the kind.
    pub kind: String,
    /// Unique id of the object.
    pub uid: String,
    /// All causes.
    pub causes: Vec<Cause>,
    /// When to try again, in seconds; 0 for no word about it.
    pub retry_after_seconds: u32,
}

impl Status {
    fn failure(code: u16, reason: &'static str, message: String, details: Option<Details>) -> Self {
        Self {
            code,
            reason: Cow::Borrowed(reason),
            message,
            details,
            continue_token: String::new(),
        }
    }

    fn about(group: &str, kind: &str, name: &str) -> Option<Details> {
        Some(Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            ..Details::default()
        })
    }

    /// 404: no object of that name.
    #[must_use]
    pub fn not_found(group: &str, plural: &str, name: &str) -> Self {
        let message = format!("{} {} not found", QualifiedName(group, plural), quote(name));
        Self::failure(404, "NotFound", message, Self::about(group, plural, name))
    }

    /// 404: no such path or resource.
    #[must_use]
    pub fn unknown_path() -> Self {
        Self::failure(
            404,
            "NotFound",
            "the server could not find the requested resource".into(),
            Some(Details::default()),
        )
    }

    /// 409: an object of that name is there.
    #[must_use]
    pub fn already_exists(group: &str, plural: &str, name: &str) -> Self {
        let message = format!(
            "{} {} already exists",
            QualifiedName(group, plural),
            quote(name)
        );
        Self::failure(
            409,
            "AlreadyExists",
            message,
            Self::about(group, plural, name),
        )
    }

    /// 409: no free name was found for a `generateName`.
    #[must_use]
    pub fn generate_name_conflict(group: &str, plural: &str, name: &str) -> Self {
        let message = format!(
            "{} {} already exists, the server was not able to generate a unique name for the object",
            QualifiedName(group, plural),
            quote(name)
        );
        let mut status = Self::failure(
            409,
            "AlreadyExists",
            message,
            Self::about(group, plural, name),
        );
        status = status.retry_after(1);
        status
    }

    /// 409: the write contradicts the object's state; `why` is a sentence.
    #[must_use]
    pub fn conflict(group: &str, plural: &str, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {}: {why}",
            QualifiedName(group, plural),
            quote(name)
        );
        Self::failure(409, "Conflict", message, Self::about(group, plural, name))
    }

    /// 409: the object changed since the client read it.
    #[must_use]
    pub fn modified(group: &str, plural: &str, name: &str) -> Self {
        Self::conflict(
            group,
            plural,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 409: a server-side apply met fields of other managers.
    #[must_use]
    pub fn apply_conflict(causes: Vec<Cause>, message: String) -> Self {
        Self::failure(
            409,
            "Conflict",
            message,
            Some(Details {
                causes,
                ..Details::default()
            }),
        )
    }

    /// 422: the object breaks rules. The message lists the causes as Go's error
    /// aggregate does: one alone, several in brackets, repeated ones once.
    #[must_use]
    pub fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        let mut texts: Vec<String> = Vec::new();
        for cause in &causes {
            let text = if cause.field.is_empty() {
                cause.message.clone()
            } else {
                format!("{}: {}", cause.field, cause.message)
            };
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let mut message = format!("{} {} is invalid", QualifiedName(group, kind), quote(name));
        match texts.as_slice() {
            [] => {}
            [one] => {
                let _ = write!(message, ": {one}");
            }
            many => {
                let _ = write!(message, ": [{}]", many.join(", "));
            }
        }
        let details = Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            causes,
            ..Details::default()
        };
        Self::failure(422, "Invalid", message, Some(details))
    }

    /// 400: the request makes no sense.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, "BadRequest", message.into(), None)
    }

    /// 401: the caller is not authenticated.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::failure(401, "Unauthorized", "Unauthorized".into(), None)
    }

    /// 403: the caller may not; with neither group nor plural it is about a path.
    #[must_use]
    pub fn forbidden(group: &str, plural: &str, name: &str, why: &str) -> Self {
        let message = if group.is_empty() && plural.is_empty() {
            format!("forbidden: {why}")
        } else if name.is_empty() {
            format!("{} is forbidden: {why}", QualifiedName(group, plural))
        } else {
            format!(
                "{} {} is forbidden: {why}",
                QualifiedName(group, plural),
                quote(name)
            )
        };
        Self::failure(403, "Forbidden", message, Self::about(group, plural, name))
    }

    /// 405: the resource does not know this action (`create`, `update`, …).
    #[must_use]
    pub fn method_not_supported(group: &str, plural: &str, action: &str) -> Self {
        let message = format!(
            "{action} is not supported on resources of kind {}",
            quote(&QualifiedName(group, plural).to_string())
        );
        Self::failure(
            405,
            "MethodNotAllowed",
            message,
            Self::about(group, plural, ""),
        )
    }

    /// 405 as the request router gives it, where no action is known.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        Self::failure(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource".into(),
            Some(Details::default()),
        )
    }

    /// 406: none of the media types the client accepts can be made.
    #[must_use]
    pub fn not_acceptable(supported: &[&str]) -> Self {
        let message = format!(
            "only the following media types are accepted: {}",
            supported.join(", ")
        );
        Self::failure(406, "NotAcceptable", message, None)
    }

    /// 406 of a path that is written in these media types and no other.
    #[must_use]
    pub fn no_representation(available: &[&str]) -> Self {
        let available = available.join(", ");
        let message = format!("406: Not Acceptable\n\nAvailable representations: {available}");
        Self::failure(406, "NotAcceptable", message, Some(Details::default()))
    }

    /// 415: the body's media type is not read here.
    #[must_use]
    pub fn unsupported_media_type(supported: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            supported.join(", ")
        );
        Self::failure(415, "UnsupportedMediaType", message, None)
    }

    /// 410: the resource version is gone, and no continuation is possible.
    #[must_use]
    pub fn gone(message: impl Into<String>) -> Self {
        Self::failure(410, "Gone", message.into(), None)
    }

    /// 410: a resource version or continuation token is too old.
    #[must_use]
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(410, "Expired", message.into(), None)
    }

    /// 410: a watch asked for a revision that is no longer kept.
    #[must_use]
    pub fn too_old_resource_version(asked: u64, oldest: u64) -> Self {
        Self::expired(format!("too old resource version: {asked} ({oldest})"))
    }

    /// 413: the body is larger than `limit` bytes.
    #[must_use]
    pub fn request_entity_too_large(limit: usize) -> Self {
        Self::failure(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {limit}"),
            None,
        )
    }

    /// 429: the server has too much to do; the client waits that many seconds.
    #[must_use]
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        let details = Details {
            retry_after_seconds,
            ..Details::default()
        };
        Self::failure(429, "TooManyRequests", message.into(), Some(details))
    }

    /// 500: our fault.
    #[must_use]
    pub fn internal(error: impl fmt::Display) -> Self {
        let error = error.to_string();
        let message = format!("Internal error occurred: {error}");
        let cause = Cause {
            reason: String::new(),
            message: error,
            field: String::new(),
        };
        let details = Details {
            causes: vec![cause],
            ..Details::default()
        };
        Self::failure(500, "InternalError", message, Some(details))
    }

    /// 500: could not be done now; the client tries again.
    #[must_use]
    pub fn server_timeout(group: &str, plural: &str, operation: &str, retry_after: u32) -> Self {
        let message = format!(
            "The {operation} operation against {} could not be completed at this time, please try again.",
            QualifiedName(group, plural)
        );
        Self::failure(
            500,
            "ServerTimeout",
            message,
            Self::about(group, plural, operation),
        )
        .retry_after(retry_after)
    }

    /// 503: not able to serve, as while starting.
    #[must_use]
    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Self::failure(503, "ServiceUnavailable", message.into(), None)
    }

    /// 504: it took too long and may still happen.
    #[must_use]
    pub fn timeout(message: impl fmt::Display, retry_after_seconds: u32) -> Self {
        let details = Details {
            retry_after_seconds,
            ..Details::default()
        };
        Self::failure(504, "Timeout", format!("Timeout: {message}"), Some(details))
    }

    /// 504: a read wanted a revision that the server has not reached.
    #[must_use]
    pub fn too_large_resource_version(asked: u64, current: u64) -> Self {
        let mut status = Self::timeout(
            format_args!("Too large resource version: {asked}, current: {current}"),
            1,
        );
        if let Some(details) = &mut status.details {
            details.causes.push(Cause {
                reason: CAUSE_TOO_LARGE.into(),
                message: "Too large resource version".into(),
                field: String::new(),
            });
        }
        status
    }

    /// 410: a watch begins at a revision that the store does not have, such as one from
    /// before a restore.
    #[must_use]
    pub fn future_resource_version(asked: u64, current: u64) -> Self {
        let mut status = Self::expired(format!(
            "Too large resource version: {asked}, current: {current}"
        ));
        let details = status.details.get_or_insert_default();
        details.causes.push(Cause {
            reason: CAUSE_TOO_LARGE.into(),
            message: "Too large resource version".into(),
            field: String::new(),
        });
        status
    }

    /// 200: done; the answer to a deletion.
    #[must_use]
    pub fn success(group: &str, plural: &str, name: &str, uid: &str) -> Self {
        let details = Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: plural.to_owned(),
            uid: uid.to_owned(),
            ..Details::default()
        };
        Self::failure(200, "", String::new(), Some(details))
    }

    /// The same with a time to wait, in seconds.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }

    /// Whether this reports a success.
    #[must_use]
    pub const fn is_success(&self) -> bool {
        self.code < 400
    }

    /// Reads what another server answered.
    #[must_use]
    pub fn from_value(status: &Value) -> Self {
        let text = |value: &Value, path: &[&str]| value.str_at(path).unwrap_or_default().to_owned();
        let code = status.i64_at(&["code"]).unwrap_or_default();
        let details = status
            .get("details")
            .filter(|details| !details.is_null())
            .map(|details| Details {
                name: text(details, &["name"]),
                group: text(details, &["group"]),
                kind: text(details, &["kind"]),
                uid: text(details, &["uid"]),
                causes: details
                    .items_at(&["causes"])
                    .iter()
                    .map(|cause| Cause {
                        reason: text(cause, &["reason"]),
                        message: text(cause, &["message"]),
                        field: text(cause, &["field"]),
                    })
                    .collect(),
                retry_after_seconds: details
                    .i64_at(&["retryAfterSeconds"])
                    .and_then(|seconds| u32::try_from(seconds).ok())
                    .unwrap_or_default(),
            });
        Self {
            code: u16::try_from(code).unwrap_or_default(),
            reason: text(status, &["reason"]).into(),
            message: text(status, &["message"]),
            details,
            continue_token: text(status, &["metadata", "continue"]),
        }
    }

    /// The object as the API sends it.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut out = object!({"kind": "Status", "apiVersion": "v1", "metadata": {}});
        if !self.continue_token.is_empty() {
            out.object_mut("metadata")
                .insert("continue", self.continue_token.as_str());
        }
        out.insert(
            "status",
            if self.is_success() {
                "Success"
            } else {
                "Failure"
            },
        );
        insert_text(&mut out, "message", &self.message);
        insert_text(&mut out, "reason", &self.reason);
        if let Some(details) = &self.details {
            let mut map = Map::new();
            insert_text(&mut map, "name", &details.name);
            insert_text(&mut map, "group", &details.group);
            insert_text(&mut map, "kind", &details.kind);
            insert_text(&mut map, "uid", &details.uid);
            if !details.causes.is_empty() {
                let causes = details.causes.iter().map(|cause| {
                    let mut map = Map::new();
                    insert_text(&mut map, "reason", &cause.reason);
                    insert_text(&mut map, "message", &cause.message);
                    insert_text(&mut map, "field", &cause.field);
                    map
                });
                map.insert("causes", causes.collect::<Value>());
            }
            if details.retry_after_seconds > 0 {
                map.insert("retryAfterSeconds", details.retry_after_seconds);
            }
            out.insert("details", map);
        }
        // A successful deletion carries no code.
        if !self.is_success() {
            out.insert("code", self.code);
        }
        Value::Object(out)
    }

    /// The object as JSON.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        self.to_value().to_vec()
    }
}

fn insert_text(map: &mut Map, key: &'static str, text: &str) {
    if !text.is_empty() {
        map.insert(key, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_server_answered_is_read_back() {
        let mut status = Status::not_found("apps", "deployments", "x").retry_after(3);
        status.reason =
            "OutOfCheese, and nobody has gone to the shop to get more of any of the kinds".into();
        status.details.get_or_insert_default().causes.push(Cause {
            reason: "r".into(),
            message: "m".into(),
            field: "f".into(),
        });
        assert_eq!(Status::from_value(&status.to_value()), status);
        let bare = Status::from_value(&crate::value!({"message": "no"}));
        assert_eq!((bare.code, &*bare.reason, &*bare.message), (0, "", "no"));
    }

    #[test]
    fn messages_name_the_qualified_resource() {
        assert_eq!(
            Status::not_found("", "pods", "x").message,
            "pods \"x\" not found"
        );
        assert_eq!(
            Status::not_found("apps", "deployments", "x").message,
            "deployments.apps \"x\" not found"
        );
        assert_eq!(
            Status::method_not_supported("", "pods", "create").message,
            "create is not supported on resources of kind \"pods\""
        );
    }

    #[test]
    fn causes_are_listed_once_and_in_brackets_when_several() {
        let cause = |field: &str| Cause {
            reason: "FieldValueRequired".into(),
            message: "Required value".into(),
            field: field.into(),
        };
        assert_eq!(
            Status::invalid("", "Pod", "x", vec![cause("spec.a")]).message,
            "Pod \"x\" is invalid: spec.a: Required value"
        );
        let status = Status::invalid("apps", "X", "x", vec![cause("a"), cause("b"), cause("a")]);
        assert_eq!(
            status.message,
            "X.apps \"x\" is invalid: [a: Required value, b: Required value]"
        );
        assert_eq!(status.details.unwrap().causes.len(), 3);
    }

    #[test]
    fn the_object_is_as_the_api_sends_it() {
        assert_eq!(
            String::from_utf8(Status::not_found("", "pods", "x").to_json()).unwrap(),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods \"x\" not found","reason":"NotFound","details":{"name":"x","kind":"pods"},"code":404}"#
        );
        assert_eq!(
            String::from_utf8(Status::success("apps", "deployments", "x", "u").to_json()).unwrap(),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"x","group":"apps","kind":"deployments","uid":"u"}}"#
        );
    }
}
