//! Options of requests: what stands in the query, and `DeleteOptions` in bodies.

use control_types::status::{Cause, Status, quote};
use control_types::value::Value;

use crate::{pairs, plain_error};

/// `metav1.ListOptions`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// Selector over labels.
    pub label_selector: String,
    /// Selector over fields.
    pub field_selector: String,
    /// Whether bookmarks are wanted.
    pub allow_watch_bookmarks: bool,
    /// Resource version, as text.
    pub resource_version: String,
    /// `Exact`, `NotOlderThan`, or empty.
    pub resource_version_match: String,
    /// How long a watch or list may last, in seconds.
    pub timeout_seconds: Option<u64>,
    /// Most items of a page; 0 for all.
    pub limit: usize,
    /// Token of the next page.
    pub continue_token: String,
    /// Whether a watch begins with all objects.
    pub send_initial_events: Option<bool>,
}

/// What is common to `CreateOptions`, `UpdateOptions` and `PatchOptions`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Nothing is stored.
    pub dry_run: bool,
    /// What becomes of unknown and duplicate fields.
    pub field_validation: FieldValidation,
    /// Name of the manager in `managedFields`.
    pub field_manager: String,
    /// Server-side apply takes fields from other managers.
    pub force: Option<bool>,
}

/// `fieldValidation`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Drop silently.
    Ignore,
    /// Drop and warn (the default).
    #[default]
    Warn,
    /// Refuse.
    Strict,
}

/// `metav1.DeleteOptions`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Seconds until the object may be gone.
    pub grace_period_seconds: Option<i64>,
    /// Only an object of this uid.
    pub uid: Option<String>,
    /// Only an object of this resource version.
    pub resource_version: Option<String>,
    /// Older form of the propagation policy.
    pub orphan_dependents: Option<bool>,
    /// What becomes of dependents.
    pub propagation_policy: Option<String>,
    /// Nothing is stored.
    pub dry_run: bool,
}

const GROUP: &str = "meta.k8s.io";

fn cause(field: &str, reason: &str, message: String) -> Cause {
    Cause {
        reason: reason.into(),
        message,
        field: field.into(),
    }
}

fn forbidden(field: &str, why: &str) -> Cause {
    cause(field, "FieldValueForbidden", format!("Forbidden: {why}"))
}

fn unsupported(field: &str, value: &str, supported: &[&str]) -> Cause {
    let supported: Vec<_> = supported.iter().map(|value| quote(value)).collect();
    cause(
        field,
        "FieldValueNotSupported",
        format!(
            "Unsupported value: {value}: supported values: {}",
            supported.join(", ")
        ),
    )
}

fn finish(kind: &str, causes: Vec<Cause>) -> Result<(), Status> {
    if causes.is_empty() {
        Ok(())
    } else {
        Err(Status::invalid(GROUP, kind, "", causes))
    }
}

fn boolean(value: &str) -> bool {
    !matches!(value.to_ascii_lowercase().as_str(), "false" | "0")
}

/// An integer as Go reads it.
fn integer(value: &str) -> Result<i64, Status> {
    value.parse().map_err(|error| {
        let why = why_no_number(&error);
        Status::bad_request(format!("strconv.ParseInt: parsing {}: {why}", quote(value)))
    })
}

impl ListOptions {
    /// Reads a query.
    ///
    /// # Errors
    /// When a number is none.
    pub fn parse(query: Option<&str>) -> Result<Self, Status> {
        let mut options = Self::default();
        for (key, value) in firsts(query) {
            match key.as_str() {
                "labelSelector" => options.label_selector = value,
                "fieldSelector" => options.field_selector = value,
                "allowWatchBookmarks" => options.allow_watch_bookmarks = boolean(&value),
                "resourceVersion" => options.resource_version = value,
                "resourceVersionMatch" => options.resource_version_match = value,
                "timeoutSeconds" => {
                    options.timeout_seconds =
                        Some(u64::try_from(integer(&value)?).unwrap_or_default());
                }
                "limit" => {
                    options.limit = usize::try_from(integer(&value)?).unwrap_or_default();
                }
                "continue" => options.continue_token = value,
                "sendInitialEvents" => options.send_initial_events = Some(boolean(&value)),
                _ => {}
            }
        }
        Ok(options)
    }

    /// How many objects a page holds at most; 0 for all. Version "0" is answered
    /// from memory, whole.
    #[must_use]
    pub fn page_size(&self) -> usize {
        if self.resource_version == "0" && self.continue_token.is_empty() {
            0
        } else {
            self.limit
        }
    }

    /// Fills in what a watch without a version of its own asks for: it begins
    /// with all objects (KEP-3157).
    pub fn default_watch(&mut self) {
        let unspecific = matches!(self.resource_version.as_str(), "" | "0");
        if unspecific
            && self.send_initial_events.is_none()
            && self.resource_version_match.is_empty()
        {
            self.send_initial_events = Some(true);
            self.resource_version_match = "NotOlderThan".into();
        }
    }

    /// Checks which options go together.
    ///
    /// # Errors
    /// 422 with the offending fields.
    pub fn validate(&self, watch: bool) -> Result<(), Status> {
        let field = "resourceVersionMatch";
        let matching = self.resource_version_match.as_str();
        let mut causes = Vec::new();
        if watch {
            if self.send_initial_events.is_some() && matching != "NotOlderThan" {
                causes.push(forbidden(
                    field,
                    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                ));
            }
            if !matching.is_empty() {
                if self.send_initial_events.is_none() {
                    causes.push(forbidden(field, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"));
                }
                if matching != "NotOlderThan" {
                    causes.push(unsupported(field, &quote(matching), &["NotOlderThan"]));
                }
                if !self.continue_token.is_empty() {
                    causes.push(forbidden(
                        field,
                        "resourceVersionMatch is forbidden when continue is provided",
                    ));
                }
            }
        } else {
            if !matching.is_empty() {
                if self.resource_version.is_empty() {
                    causes.push(forbidden(
                        field,
                        "resourceVersionMatch is forbidden unless resourceVersion is provided",
                    ));
                }
                if !self.continue_token.is_empty() {
                    causes.push(forbidden(
                        field,
                        "resourceVersionMatch is forbidden when continue is provided",
                    ));
                }
                if !matches!(matching, "Exact" | "NotOlderThan") {
                    causes.push(unsupported(
                        field,
                        &quote(matching),
                        &["Exact", "NotOlderThan", ""],
                    ));
                }
                if matching == "Exact" && self.resource_version == "0" {
                    causes.push(forbidden(
                        field,
                        "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                    ));
                }
            }
            if self.send_initial_events.is_some() {
                causes.push(forbidden(
                    "sendInitialEvents",
                    "sendInitialEvents is forbidden for list",
                ));
            }
        }
        finish("ListOptions", causes)
    }

    /// Refuses what only the feature `WatchList` knows.
    ///
    /// # Errors
    /// 422 when a watch asks for it.
    pub fn refuse_initial_events(&self) -> Result<(), Status> {
        let mut causes = Vec::new();
        if self.send_initial_events.is_some() {
            causes.push(forbidden(
                "sendInitialEvents",
                "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
            ));
        }
        finish("ListOptions", causes)
    }

    /// The resource version of a list as a number; `None` when absent.
    ///
    /// # Errors
    /// 400 when it is no number.
    pub fn revision(&self) -> Result<Option<u64>, Status> {
        let text = self.resource_version.as_str();
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|error| {
            let why = not_a_revision(text, &error);
            Status::bad_request(format!("invalid resource version: resourceVersion: {why}"))
        })
    }
}

/// A resource version as a number; `None` when it is empty.
///
/// # Errors
/// When it is no number: 500 without a reason, since that is how the versioner's
/// error reaches clients of GET and watch.
pub fn parse_revision(text: &str) -> Result<Option<u64>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse()
        .map(Some)
        .map_err(|error| plain_error(format!("resourceVersion: {}", not_a_revision(text, &error))))
}

/// What is wrong with a resource version that is no number.
fn not_a_revision(text: &str, error: &std::num::ParseIntError) -> String {
    let text = quote(text);
    format!(
        "Invalid value: {text}: strconv.ParseUint: parsing {text}: {}",
        why_no_number(error)
    )
}

/// Why Go's `strconv` takes a text for no number.
#[must_use]
pub fn why_no_number(error: &std::num::ParseIntError) -> &'static str {
    match error.kind() {
        std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => {
            "value out of range"
        }
        _ => "invalid syntax",
    }
}

/// The options of a query; of several values of one the first holds.
fn firsts(query: Option<&str>) -> impl Iterator<Item = (String, String)> + '_ {
    let mut seen: Vec<String> = Vec::new();
    pairs(query.unwrap_or_default()).filter(move |(key, _)| {
        let new = !seen.contains(key);
        if new {
            seen.push(key.clone());
        }
        new
    })
}

impl WriteOptions {
    /// Reads a query; `kind` is `CreateOptions`, `UpdateOptions` or `PatchOptions`.
    ///
    /// # Errors
    /// 422 with the offending fields.
    pub fn parse(query: Option<&str>, kind: &str, apply: bool) -> Result<Self, Status> {
        let mut options = Self::default();
        let mut dry_run = Vec::new();
        let mut causes = Vec::new();
        let mut validation = None;
        let mut manager = None;
        for (key, value) in pairs(query.unwrap_or_default()) {
            match key.as_str() {
                "dryRun" => dry_run.push(value),
                // Of several values the first holds.
                "fieldManager" => _ = manager.get_or_insert(value),
                "fieldValidation" => _ = validation.get_or_insert(value),
                "force" => _ = options.force.get_or_insert(boolean(&value)),
                _ => {}
            }
        }
        options.field_manager = manager.unwrap_or_default();
        if kind == "PatchOptions" {
            if apply && options.field_manager.is_empty() {
                causes.push(cause(
                    "fieldManager",
                    "FieldValueRequired",
                    "Required value: is required for apply patch".into(),
                ));
            }
            if !apply && options.force.is_some() {
                causes.push(forbidden(
                    "force",
                    "may not be specified for non-apply patch",
                ));
            }
        }
        if options.field_manager.len() > 128 {
            causes.push(cause(
                "fieldManager",
                "FieldValueTooLong",
                "Too long: may not be more than 128 bytes".into(),
            ));
        }
        if let Some(bad) = unprintable(&options.field_manager) {
            causes.push(bad);
        }
        options.dry_run = read_dry_run(&dry_run, &mut causes);
        options.field_validation = match validation.as_deref() {
            None | Some("" | "Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                causes.push(unsupported(
                    "fieldValidation",
                    &quote(other),
                    &["", "Ignore", "Strict", "Warn"],
                ));
                FieldValidation::Warn
            }
        };
        finish(kind, causes)?;
        Ok(options)
    }
}

/// The first character of a manager's name that cannot be printed. Positions
/// are in bytes, as Go counts them.
fn unprintable(manager: &str) -> Option<Cause> {
    let (at, letter) = manager
        .char_indices()
        .find(|(_, letter)| letter.is_control())?;
    Some(cause(
        "fieldManager",
        "FieldValueInvalid",
        format!(
            "Invalid value: {}: invalid character U+{:04X} (at position {at})",
            quote(manager),
            u32::from(letter)
        ),
    ))
}

fn read_dry_run(values: &[String], causes: &mut Vec<Cause>) -> bool {
    if values.iter().any(|value| value != "All") {
        let shown: Vec<_> = values.iter().map(|value| quote(value)).collect();
        causes.push(unsupported(
            "dryRun",
            &format!("[{}]", shown.join(",")),
            &["All"],
        ));
    }
    !values.is_empty()
}

impl DeleteOptions {
    /// Reads the body if there is one, else the query.
    ///
    /// # Errors
    /// When the body or a number cannot be read, or options contradict.
    pub fn parse(query: Option<&str>, body: Option<&Value>) -> Result<Self, Status> {
        let mut options = Self::default();
        let mut dry_run: Vec<String> = Vec::new();
        if let Some(body) = body {
            options.grace_period_seconds = body.i64_at(&["gracePeriodSeconds"]);
            options.uid = body.str_at(&["preconditions", "uid"]).map(str::to_owned);
            options.resource_version = body
                .str_at(&["preconditions", "resourceVersion"])
                .map(str::to_owned);
            options.orphan_dependents = body.bool_at(&["orphanDependents"]);
            options.propagation_policy = body.str_at(&["propagationPolicy"]).map(str::to_owned);
            dry_run.extend(
                body.items_at(&["dryRun"])
                    .iter()
                    .filter_map(Value::as_str)
                    .map(str::to_owned),
            );
        } else {
            for (key, value) in pairs(query.unwrap_or_default()) {
                match key.as_str() {
                    "gracePeriodSeconds" => {
                        options.grace_period_seconds = Some(integer(&value)?);
                    }
                    "orphanDependents" => {
                        options.orphan_dependents = Some(boolean(&value));
                    }
                    "propagationPolicy" => {
                        options.propagation_policy = Some(value);
                    }
                    "dryRun" => dry_run.push(value),
                    "uid" if !value.is_empty() => options.uid = Some(value),
                    "resourceVersion" if !value.is_empty() => {
                        options.resource_version = Some(value);
                    }
                    _ => {}
                }
            }
        }
        let mut causes = Vec::new();
        if let Some(policy) = &options.propagation_policy {
            if options.orphan_dependents.is_some() {
                let message = format!(
                    "Invalid value: {}: orphanDependents and deletionPropagation cannot be both set",
                    quote(policy)
                );
                causes.push(cause("propagationPolicy", "FieldValueInvalid", message));
            } else if !matches!(policy.as_str(), "Foreground" | "Background" | "Orphan") {
                causes.push(unsupported(
                    "propagationPolicy",
                    &quote(policy),
                    &["Foreground", "Background", "Orphan", "nil"],
                ));
            }
        }
        options.dry_run = read_dry_run(&dry_run, &mut causes);
        finish("DeleteOptions", causes)?;
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn list_options_are_read_and_checked() {
        let options = ListOptions::parse(Some("limit=2&resourceVersion=5&resourceVersionMatch=Exact&labelSelector=a%3Db&allowWatchBookmarks=true")).expect("valid");
        assert_eq!(
            (
                options.limit,
                options.revision(),
                options.label_selector.as_str(),
                options.allow_watch_bookmarks
            ),
            (2, Ok(Some(5)), "a=b", true)
        );
        assert!(options.validate(false).is_ok());
        assert!(options.validate(true).is_err());
        let bad = ListOptions {
            resource_version_match: "Maybe".into(),
            resource_version: "1".into(),
            ..ListOptions::default()
        };
        assert_eq!(
            bad.validate(false).expect_err("unsupported").message,
            r#"ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Unsupported value: "Maybe": supported values: "Exact", "NotOlderThan", """#
        );
    }

    #[test]
    fn numbers_that_are_none_are_refused_as_go_words_it() {
        assert_eq!(
            ListOptions::parse(Some("limit=x"))
                .expect_err("no number")
                .message,
            r#"strconv.ParseInt: parsing "x": invalid syntax"#
        );
        assert!(parse_revision("abc").is_err());
    }

    #[test]
    fn write_options_know_their_values() {
        let options = WriteOptions::parse(
            Some("dryRun=All&fieldValidation=Strict&fieldManager=me"),
            "CreateOptions",
            false,
        )
        .expect("valid");
        assert_eq!(
            (
                options.dry_run,
                options.field_validation,
                options.field_manager.as_str()
            ),
            (true, FieldValidation::Strict, "me")
        );
        let error = WriteOptions::parse(Some("dryRun=Some"), "CreateOptions", false)
            .expect_err("unsupported");
        assert_eq!(
            error.message,
            r#"CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All""#
        );
    }

    #[test]
    fn delete_options_come_from_body_or_query() {
        let body = value!({"gracePeriodSeconds": 3, "propagationPolicy": "Orphan", "preconditions": {"uid": "u"}});
        let options =
            DeleteOptions::parse(Some("gracePeriodSeconds=9"), Some(&body)).expect("valid");
        assert_eq!(
            (options.grace_period_seconds, options.uid.as_deref()),
            (Some(3), Some("u"))
        );
        assert_eq!(
            DeleteOptions::parse(Some("gracePeriodSeconds=9"), None)
                .expect("valid")
                .grace_period_seconds,
            Some(9)
        );
        let both = value!({"propagationPolicy": "Orphan", "orphanDependents": true});
        assert!(DeleteOptions::parse(None, Some(&both)).is_err());
    }
}
