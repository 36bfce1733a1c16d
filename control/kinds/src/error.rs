//! Field errors, worded as the Kubernetes API words them, and the paths that
//! name fields.
//!
//! A path lives on the stack while validation descends; it becomes a string
//! only when there is something to report.

use std::fmt;

use control_types::value::Value;

/// The type of a field error, named as in `metav1.CauseType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A reference to something that does not exist.
    NotFound,
    /// A value that must be given was not.
    Required,
    /// A value that must be unique occurs twice.
    Duplicate,
    /// A malformed value.
    Invalid,
    /// A value outside an enumeration.
    NotSupported,
    /// A well-formed value that is not permitted here.
    Forbidden,
    /// A string, or an object, beyond its length.
    TooLong,
    /// A string below its least length.
    TooShort,
    /// A list with too many items.
    TooMany,
    /// A list with too few items.
    TooFew,
    /// A value of the wrong type for its schema.
    TypeInvalid,
    /// An error that is not the caller's.
    Internal,
}

impl ErrorKind {
    /// The machine-readable reason of a `StatusCause`.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooShort => "FieldValueTooShort",
            Self::TooMany => "FieldValueTooMany",
            Self::TooFew => "FieldValueTooFew",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Internal => "InternalError",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooShort => "Too short",
            Self::TooMany => "Too many",
            Self::TooFew => "Too few",
            Self::Internal => "Internal error",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(
            self,
            Self::Required | Self::Forbidden | Self::TooLong | Self::TooShort | Self::Internal
        )
    }
}

/// One refused field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// The type of error.
    pub kind: ErrorKind,
    /// Path of the field, as in `spec.containers[0].name`.
    pub field: String,
    /// The refused value; `None` when the message must not show it.
    pub bad_value: Option<Value>,
    /// The accepted values or an explanation; may be empty.
    pub detail: String,
}

impl FieldError {
    /// Returns the message without the field's name, as in a `StatusCause`.
    #[must_use]
    pub fn body(&self) -> String {
        let mut out = String::from(self.kind.words());
        if let (true, Some(value)) = (self.kind.shows_value(), &self.bad_value) {
            out.push_str(": ");
            match value {
                Value::String(text) => go_quote(text, &mut out),
                other => out.push_str(&compact_json(other)),
            }
        }
        if !self.detail.is_empty() {
            out.push_str(": ");
            out.push_str(&self.detail);
        }
        out
    }

    /// The error as an item of `Status.details.causes`.
    #[must_use]
    pub fn to_cause(&self) -> Value {
        let mut cause = Value::Object(control_types::value::Map::new());
        if let Value::Object(map) = &mut cause {
            map.insert("reason", Value::from(self.kind.reason()));
            map.insert("message", Value::from(self.body()));
            map.insert("field", Value::from(self.field.as_str()));
        }
        cause
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

impl std::error::Error for FieldError {}

/// A value as one line of JSON, for messages; as Go writes it, which escapes what
/// could end a script in a page.
pub(crate) fn compact_json(value: &Value) -> String {
    let text = serde_json::to_string(value).unwrap_or_default();
    if !text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            c => out.push(c),
        }
    }
    out
}

/// Appends `text` quoted by Go's rules (`%q`): printable characters stay.
pub(crate) fn go_quote(text: &str, out: &mut String) {
    use fmt::Write as _;
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\u{b}' => out.push_str("\\v"),
            c if c < ' ' || c == '\u{7f}' => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// `text` in Go's quotes.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    go_quote(text, &mut out);
    out
}

/// The path of the validated value. A segment may contain several names (`a.b`).
#[derive(Clone, Copy)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    segment: Segment<'a>,
}

#[derive(Clone, Copy)]
enum Segment<'a> {
    Name(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// A path that starts at a field of the object itself.
    #[must_use]
    pub const fn new(name: &'a str) -> Self {
        Self {
            parent: None,
            segment: Segment::Name(name),
        }
    }

    /// The field `name` below this one.
    #[must_use]
    pub const fn child<'b>(&'b self, name: &'b str) -> Path<'b>
    where
        'a: 'b,
    {
        Path {
            parent: Some(self),
            segment: Segment::Name(name),
        }
    }

    /// The item at `index`.
    #[must_use]
    pub const fn index<'b>(&'b self, index: usize) -> Path<'b>
    where
        'a: 'b,
    {
        Path {
            parent: Some(self),
            segment: Segment::Index(index),
        }
    }

    /// The value under `key` of a map, or the item that `key` names.
    #[must_use]
    pub const fn key<'b>(&'b self, key: &'b str) -> Path<'b>
    where
        'a: 'b,
    {
        Path {
            parent: Some(self),
            segment: Segment::Key(key),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.segment {
            Segment::Name(name) if self.parent.is_some_and(|p| !p.is_empty()) => {
                write!(f, ".{name}")
            }
            Segment::Name(name) => f.write_str(name),
            Segment::Index(index) => write!(f, "[{index}]"),
            Segment::Key(key) => write!(f, "[{key}]"),
        }
    }
}

impl Path<'_> {
    fn is_empty(&self) -> bool {
        self.parent.is_none() && matches!(self.segment, Segment::Name(""))
    }
}

/// The errors found so far, in the order in which they were found.
#[derive(Debug, Default)]
pub struct Errors(Vec<FieldError>);

impl Errors {
    /// No errors yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns the errors.
    #[must_use]
    pub fn into_vec(self) -> Vec<FieldError> {
        self.0
    }

    /// Returns the errors so far.
    pub fn iter(&self) -> impl Iterator<Item = &FieldError> {
        self.0.iter()
    }

    /// How many were found; a later count that is greater means "new errors".
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds all of `more`.
    pub fn extend(&mut self, more: impl IntoIterator<Item = FieldError>) {
        self.0.extend(more);
    }

    pub(crate) fn add(
        &mut self,
        kind: ErrorKind,
        path: &Path<'_>,
        bad_value: Option<Value>,
        detail: impl Into<String>,
    ) {
        self.0.push(FieldError {
            kind,
            field: path.to_string(),
            bad_value,
            detail: detail.into(),
        });
    }

    pub(crate) fn required(&mut self, path: &Path<'_>, detail: impl Into<String>) {
        self.add(ErrorKind::Required, path, None, detail);
    }

    pub(crate) fn invalid(
        &mut self,
        path: &Path<'_>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) {
        self.add(ErrorKind::Invalid, path, Some(value.into()), detail);
    }

    /// One `invalid` per message.
    pub(crate) fn invalid_each<M: Into<String>>(
        &mut self,
        path: &Path<'_>,
        value: &str,
        messages: impl IntoIterator<Item = M>,
    ) {
        for message in messages {
            self.invalid(path, value, message);
        }
    }

    pub(crate) fn forbidden(&mut self, path: &Path<'_>, detail: impl Into<String>) {
        self.add(ErrorKind::Forbidden, path, None, detail);
    }

    pub(crate) fn duplicate(&mut self, path: &Path<'_>, value: impl Into<Value>) {
        self.add(ErrorKind::Duplicate, path, Some(value.into()), "");
    }

    pub(crate) fn not_found(&mut self, path: &Path<'_>, value: impl Into<Value>) {
        self.add(ErrorKind::NotFound, path, Some(value.into()), "");
    }

    pub(crate) fn not_supported(
        &mut self,
        path: &Path<'_>,
        value: impl Into<Value>,
        supported: &[&str],
    ) {
        let mut detail = String::new();
        for (i, one) in supported.iter().enumerate() {
            detail.push_str(if i == 0 { "supported values: " } else { ", " });
            go_quote(one, &mut detail);
        }
        self.add(ErrorKind::NotSupported, path, Some(value.into()), detail);
    }

    pub(crate) fn too_long(&mut self, path: &Path<'_>, max: usize) {
        let unit = if max == 1 { "byte" } else { "bytes" };
        self.add(
            ErrorKind::TooLong,
            path,
            None,
            format!("may not be more than {max} {unit}"),
        );
    }

    pub(crate) fn too_many(&mut self, path: &Path<'_>, actual: usize, max: usize) {
        let unit = if max == 1 { "item" } else { "items" };
        let actual = i64::try_from(actual).unwrap_or(i64::MAX);
        self.add(
            ErrorKind::TooMany,
            path,
            Some(Value::Int(actual)),
            format!("must have at most {max} {unit}"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_joins_names_indexes_and_keys() {
        let spec = Path::new("spec");
        let containers = spec.child("containers");
        let first = containers.index(0);
        assert_eq!(first.child("name").to_string(), "spec.containers[0].name");
        assert_eq!(Path::new("data").key("a.b").to_string(), "data[a.b]");
    }

    #[test]
    fn messages_are_worded_as_the_api_words_them() {
        let mut errors = Errors::new();
        let at = Path::new("spec.x");
        errors.required(&at, "");
        errors.invalid(&at, -1, "must be greater than or equal to 0");
        errors.not_supported(&at, "Bogus", &["A", "B"]);
        errors.too_long(&at, 63);
        errors.duplicate(&at, "a\"b");
        let text: Vec<_> = errors.into_vec().iter().map(ToString::to_string).collect();
        assert_eq!(
            text,
            [
                "spec.x: Required value",
                "spec.x: Invalid value: -1: must be greater than or equal to 0",
                "spec.x: Unsupported value: \"Bogus\": supported values: \"A\", \"B\"",
                "spec.x: Too long: may not be more than 63 bytes",
                "spec.x: Duplicate value: \"a\\\"b\"",
            ]
        );
    }
}
