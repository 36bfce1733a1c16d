//! The API server's steps around the ownership rules on each write: it names the writer,
//! excludes system fields, stamps changes, limits the number of writers, and migrates
//! from client-side apply.

use std::sync::LazyLock;

use control_types::meta;
use control_types::value::Value;

use crate::managed::{self, Entry, Operation};
use crate::schema::Schema;
use crate::set::Set;
use crate::typed::{self, Duplicates};
use crate::update::{self, Conflict, Versions};

/// More writers than this are joined, the oldest first.
const MAX_UPDATERS: usize = 10;
/// The writer to which old ones are joined.
const OLD_UPDATES: &str = "ancient-changes";
/// The manager of the fields from before the first apply.
const BEFORE_APPLY: &str = "before-first-apply";
/// The one applier that takes over from client-side apply.
const KUBECTL: &str = "kubectl";
/// The longest name of a manager, in bytes.
const NAME: usize = 128;
/// All annotations of an object, in bytes.
const ANNOTATIONS: usize = 256 << 10;

/// The annotation in which client-side apply keeps its last configuration.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// System fields, which have no owner.
static SYSTEM: LazyLock<Set> = LazyLock::new(|| {
    let fields: &[&[&str]] = &[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ];
    fields.iter().copied().collect()
});

/// A write, as far as ownership is concerned.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The name: that of the request's `fieldManager`, else [`name_of_agent`].
    pub name: &'a str,
    /// The version in which the object comes.
    pub api_version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The subresource; empty for the main one.
    pub subresource: &'a str,
    /// Now, RFC 3339 in seconds.
    pub now: &'a str,
}

/// Error that prevents an apply.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// 409: others own fields that it changes.
    #[error("{message}")]
    Conflicts {
        /// All of them as one text.
        message: String,
        /// One cause for each: message and field.
        causes: Vec<(String, String)>,
    },
    /// 400.
    #[error("{0}")]
    BadRequest(String),
    /// 500: the configuration or the object does not fit its type.
    #[error("{0}")]
    Failed(String),
}

/// Returns the manager's name for a `User-Agent`: the printable characters before the
/// first slash, truncated to the limit.
#[must_use]
pub fn name_of_agent(agent: &str) -> String {
    let mut name = String::new();
    for letter in agent.split('/').next().unwrap_or_default().chars() {
        if letter.is_control() || (letter.is_whitespace() && letter != ' ') {
            continue;
        }
        if name.len() + letter.len_utf8() > NAME {
            break;
        }
        name.push(letter);
    }
    name
}

impl Writer<'_> {
    fn entry(&self, operation: Operation) -> Entry {
        let name = match self.name {
            "" => "unknown",
            name => name,
        };
        Entry::new(name, operation, self.api_version, self.subresource)
    }
}

/// Sets the `managedFields` of `new` after a write other than apply. `live` is the former
/// object; [`Versions::empty`] for a new object. Errors only disable tracking.
pub fn update(versions: &dyn Versions, live: &Value, new: &mut Value, writer: &Writer<'_>) {
    let given = take_managed(new);
    let entries = managers_of(live, given, writer.subresource);
    if entries.is_empty() && !meta::uid(live).is_empty() {
        return;
    }
    if let Ok(entries) = write(versions, live, new, writer, entries) {
        set_managed(new, entries);
    }
}

/// Returns the managers from which a write starts: the client's, if they are valid,
/// otherwise those of the object. A client can set them, but not through a subresource.
fn managers_of(live: &Value, given: Option<Value>, subresource: &str) -> Vec<Entry> {
    let stored = managed_of(live);
    // Most clients send back what they read.
    if given.as_ref() == stored {
        return managed::decode_stored(given).unwrap_or_default();
    }
    let of_live = || managed::decode_stored(stored.cloned()).unwrap_or_default();
    if !subresource.is_empty() {
        return of_live();
    }
    if managed::is_reset(given.as_ref()) {
        return Vec::new();
    }
    match managed::decode(given.as_ref()) {
        Ok(entries) if !entries.is_empty() => entries,
        _ => of_live(),
    }
}

/// The managers after a write.
fn write(
    versions: &dyn Versions,
    live: &Value,
    new: &Value,
    writer: &Writer<'_>,
    mut entries: Vec<Entry>,
) -> Result<Vec<Entry>, update::Error> {
    let own = update::update(versions, live, new, writer.api_version, &mut entries)?;
    let mut own = own;
    own.subtract(&SYSTEM, false);
    if !own.is_empty() {
        let mut entry = writer.entry(Operation::Update);
        let at = match entries.iter().position(|known| known.is_same(&entry)) {
            Some(at) => at,
            None => {
                entry.set_set(Set::new());
                entries.push(entry);
                entries.len() - 1
            }
        };
        let entry = &mut entries[at];
        let mut all = own;
        all.extend(entry.set().clone());
        entry.set_set(all);
        entry.time = Some(writer.now.into());
    }
    join_oldest(&mut entries);
    Ok(entries)
}

/// Joins the oldest writers of each version until there are few enough.
fn join_oldest(entries: &mut Vec<Entry>) {
    let mut updaters: Vec<Entry> = entries
        .iter()
        .filter(|entry| !entry.is_applied())
        .cloned()
        .collect();
    let mut left = updaters.len();
    if left <= MAX_UPDATERS {
        return;
    }
    updaters.sort_by_cached_key(|entry| {
        (
            entry.time.clone().unwrap_or_default(),
            entry.identity_json(),
        )
    });
    let mut first_of: Vec<Entry> = Vec::new();
    for entry in updaters {
        if left <= MAX_UPDATERS {
            return;
        }
        let Some(first) = first_of
            .iter()
            .find(|first| first.api_version == entry.api_version)
        else {
            first_of.push(entry);
            continue;
        };
        let mut bucket = Entry::new(OLD_UPDATES, Operation::Update, &entry.api_version, "");
        if !entries.iter().any(|known| known.is_same(&bucket))
            && let Some(at) = entries.iter().position(|known| known.is_same(first))
        {
            let first = entries.remove(at);
            bucket.set_set(first.set().clone());
            entries.push(bucket.clone());
        }
        entries.retain(|known| !known.is_same(&entry) || known.is_same(&bucket));
        if let Some(known) = entries.iter_mut().find(|known| known.is_same(&bucket)) {
            known.set_set(known.set().union(entry.set()));
            known.time.clone_from(&entry.time);
        }
        left -= 1;
    }
}

/// Applies a configuration to `live` ([`Versions::empty`] for a new object) and
/// answers the object that results, with its `managedFields`. It still needs to
/// be brought into the form of its type.
///
/// # Errors
/// Conflicts unless `force`, and whatever is wrong with the configuration.
pub fn apply(
    versions: &dyn Versions,
    live: &Value,
    config: &Value,
    writer: &Writer<'_>,
    force: bool,
) -> Result<Value, ApplyError> {
    let entries = managed::decode(managed_of(live))
        .map_err(|error| ApplyError::Failed(format!("failed to decode managed fields: {error}")))?;
    let (version, kind) = (meta::api_version(config), meta::kind(config));
    if (version, kind) != (writer.api_version, writer.kind) {
        let shown = gvk(version, kind);
        return Err(ApplyError::BadRequest(format!(
            "invalid object type: {shown}"
        )));
    }
    let mut bare = live.clone();
    take_managed(&mut bare);
    let (mut object, entries) =
        match attempt(versions, &bare, config, writer, entries.clone(), force) {
            Err(Failure::Conflicts(conflicts)) if writer.name == KUBECTL => {
                match take_over(versions, &bare, writer, conflicts) {
                    TakeOver::Allowed => attempt(versions, &bare, config, writer, entries, true),
                    TakeOver::Refused(conflicts) => Err(Failure::Conflicts(conflicts)),
                }
            }
            other => other,
        }
        .map_err(Failure::into_error)?;
    if writer.name == KUBECTL
        && meta::annotation(&object, LAST_APPLIED).is_some_and(|text| !text.is_empty())
    {
        set_last_applied(&mut object, config);
    }
    set_managed(&mut object, entries);
    Ok(object)
}

enum Failure {
    Conflicts(Vec<Conflict>),
    Other(ApplyError),
}

impl Failure {
    fn into_error(self) -> ApplyError {
        match self {
            Self::Conflicts(conflicts) => of_conflicts(conflicts),
            Self::Other(error) => error,
        }
    }
}

/// One try of an apply: the object and its managers.
fn attempt(
    versions: &dyn Versions,
    live: &Value,
    config: &Value,
    writer: &Writer<'_>,
    mut entries: Vec<Entry>,
    force: bool,
) -> Result<(Value, Vec<Entry>), Failure> {
    let failed = |text: String| Failure::Other(ApplyError::Failed(text));
    if entries.is_empty() {
        // All existing fields get an owner from now on.
        let before = Writer {
            name: BEFORE_APPLY,
            ..*writer
        };
        entries = write(versions, &versions.empty(), live, &before, entries).map_err(|error| {
            failed(format!(
                "failed to create manager for existing fields: failed to update ManagedFields ({}): {error}",
                identity(live)
            ))
        })?;
    }
    if config
        .path(&["metadata", "managedFields"])
        .is_some_and(|list| list.as_array().is_some())
    {
        return Err(Failure::Other(ApplyError::BadRequest(
            "metadata.managedFields must be nil".into(),
        )));
    }
    let schema = versions
        .schema(writer.api_version)
        .unwrap_or(Schema::Deduced);
    typed::validate(schema, config, Duplicates::Refused).map_err(|problems| {
        failed(format!(
            "failed to create typed patch object ({}): {problems}",
            identity(config)
        ))
    })?;
    typed::validate(schema, live, Duplicates::Allowed).map_err(|problems| {
        failed(format!(
            "failed to create typed live object ({}): {problems}",
            identity(live)
        ))
    })?;
    let own = writer.entry(Operation::Apply);
    let new = update::apply(
        versions,
        live,
        config,
        writer.api_version,
        &mut entries,
        &own,
        force,
    )
    .map_err(|error| match error {
        update::Error::Conflicts(conflicts) => Failure::Conflicts(conflicts),
        problems @ update::Error::Problems { .. } => failed(problems.to_string()),
    })?;
    if let Some(at) = entries.iter().position(|entry| entry.is_same(&own)) {
        let left = entries[at].set().difference(&SYSTEM);
        entries[at].set_set(left);
        if new.is_some() {
            entries[at].time = Some(writer.now.into());
        }
        if entries[at].set().is_empty() {
            entries.remove(at);
        }
    }
    Ok((new.unwrap_or_else(|| live.clone()), entries))
}

enum TakeOver {
    Allowed,
    Refused(Vec<Conflict>),
}

/// Returns whether all conflicts are about fields that client-side apply set and that are
/// unchanged since: the applier already owns these.
fn take_over(
    versions: &dyn Versions,
    live: &Value,
    writer: &Writer<'_>,
    conflicts: Vec<Conflict>,
) -> TakeOver {
    let Some(allowed) = client_side_set(versions, live, writer) else {
        return TakeOver::Refused(conflicts);
    };
    let refused: Vec<_> = conflicts
        .into_iter()
        .filter(|conflict| !allowed.has(&conflict.path.0))
        .collect();
    if refused.is_empty() {
        TakeOver::Allowed
    } else {
        TakeOver::Refused(refused)
    }
}

/// The fields of the last client-side apply that are still as it set them.
fn client_side_set(versions: &dyn Versions, live: &Value, writer: &Writer<'_>) -> Option<Set> {
    let text = meta::annotation(live, LAST_APPLIED).filter(|text| !text.is_empty())?;
    let schema = versions.schema(writer.api_version)?;
    typed::validate(schema, live, Duplicates::Refused).ok()?;
    let applied = Value::from_slice(text.as_bytes()).ok()?;
    if meta::api_version(&applied) != writer.api_version {
        return None;
    }
    typed::validate(schema, &applied, Duplicates::Refused).ok()?;
    let set = typed::field_set(schema, &applied).ok()?;
    let changed = typed::compare(schema, &applied, live).ok()?;
    Some(
        set.difference(&changed.modified)
            .difference(&changed.added)
            .difference(&changed.removed),
    )
}

/// Updates the annotation of client-side apply.
fn set_last_applied(object: &mut Value, config: &Value) {
    let mut config = config.clone();
    if let Some(annotations) = config.path_mut(&["metadata", "annotations"]) {
        annotations.remove(LAST_APPLIED);
    }
    sort(&mut config);
    let mut text = config.to_vec();
    text.push(b'\n');
    let text = String::from_utf8_lossy(&text);
    meta::set_annotation(object, LAST_APPLIED, &text);
    let size: usize = meta::annotations(object)
        .map(|(key, value)| key.len() + value.len())
        .sum();
    if size > ANNOTATIONS
        && let Some(annotations) = object.path_mut(&["metadata", "annotations"])
    {
        annotations.remove(LAST_APPLIED);
    }
}

/// Orders all keys, as Go prints maps.
fn sort(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(sort),
        Value::Object(map) => {
            map.sort();
            map.values_mut().for_each(sort);
        }
        _ => {}
    }
}

fn of_conflicts(mut conflicts: Vec<Conflict>) -> ApplyError {
    conflicts.sort_by_cached_key(|conflict| conflict.owner.identity_json());
    let causes = conflicts
        .iter()
        .map(|conflict| {
            (
                format!("conflict with {}", conflict.owner.shown()),
                conflict.path.to_string(),
            )
        })
        .collect();
    let message = if let [one] = conflicts.as_slice() {
        format!(
            "Apply failed with 1 conflict: conflict with {}: {}",
            one.owner.shown(),
            one.path
        )
    } else {
        let mut lines = Vec::with_capacity(conflicts.len() + 1);
        let mut last: Option<&Entry> = None;
        for conflict in &conflicts {
            if last != Some(&conflict.owner) {
                lines.push(format!("conflicts with {}:", conflict.owner.shown()));
                last = Some(&conflict.owner);
            }
            lines.push(format!("- {}", conflict.path));
        }
        format!(
            "Apply failed with {} conflicts: {}",
            conflicts.len(),
            lines.join("\n")
        )
    };
    ApplyError::Conflicts { message, causes }
}

/// Group, version and kind as Go prints them.
fn gvk(api_version: &str, kind: &str) -> String {
    let (group, version) = meta::split_api_version(api_version);
    format!("{group}/{version}, Kind={kind}")
}

/// An object as errors name it: namespace, name, group, version and kind.
#[must_use]
pub fn identity(object: &Value) -> String {
    format!(
        "{}/{}; {}",
        meta::namespace(object),
        meta::name(object),
        gvk(meta::api_version(object), meta::kind(object))
    )
}

/// `metadata.managedFields`
fn managed_of(object: &Value) -> Option<&Value> {
    object.path(&["metadata", "managedFields"])
}

/// Takes `metadata.managedFields` away.
fn take_managed(object: &mut Value) -> Option<Value> {
    object
        .get_mut("metadata")
        .and_then(|metadata| metadata.remove("managedFields"))
}

fn set_managed(object: &mut Value, entries: Vec<Entry>) {
    if let Some(list) = managed::encode(entries) {
        meta::metadata_mut(object).insert("managedFields", list);
    }
}

#[cfg(test)]
mod tests;
