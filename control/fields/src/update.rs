//! The ownership rules of KEP-555: which fields a write takes from other managers, and
//! which unowned fields an apply removes.

use control_types::value::Value;

use crate::element::same;
use crate::filter::Filter;
use crate::managed::Entry;
use crate::schema::{Kind, Relation, Schema};
use crate::set::Set;
use crate::typed::{Comparison, Problems, compare, field_set, merge, remove};

/// The type information of an object's kind: its types in the served versions, and
/// conversion between them.
pub trait Versions {
    /// The type in an `apiVersion`; nothing when it is not served there.
    fn schema(&self, version: &str) -> Option<Schema<'_>>;

    /// The object in another version; nothing when it cannot be had there.
    fn convert(&self, object: &Value, from: &str, to: &str) -> Option<Value>;

    /// Returns the fields that the strategy resets in a version.
    fn filter(&self, version: &str) -> Option<&Filter>;

    /// An object of the kind in which nothing is set yet, as Go holds it: fields
    /// that are always written have their zero values.
    fn empty(&self) -> Value;
}

/// A field that another manager owns.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    /// The owner's identity.
    pub owner: Entry,
    /// The field.
    pub path: crate::Path,
}

/// Error that prevents an apply.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Others own fields that it changes.
    #[error("{} conflicts", .0.len())]
    Conflicts(Vec<Conflict>),
    /// The trees do not fit together.
    #[error("{doing}: {problems}")]
    Problems {
        /// The operation.
        doing: &'static str,
        /// The problems.
        problems: Problems,
    },
}

impl Error {
    fn when(doing: &'static str) -> impl Fn(Problems) -> Self {
        move |problems| Self::Problems { doing, problems }
    }
}

/// Compares two states in all versions that managers know.
struct Comparisons<'a> {
    versions: &'a dyn Versions,
    old: &'a Value,
    new: &'a Value,
    version: &'a str,
    /// Comparisons by version; `None` for versions that no longer exist.
    done: Vec<(String, Option<Comparison>)>,
}

impl<'a> Comparisons<'a> {
    fn start(
        versions: &'a dyn Versions,
        old: &'a Value,
        new: &'a Value,
        version: &'a str,
    ) -> Result<Self, Problems> {
        let schema = versions.schema(version).unwrap_or(Schema::Deduced);
        let first = compare(schema, old, new)?.filtered(versions.filter(version));
        Ok(Self {
            versions,
            old,
            new,
            version,
            done: vec![(version.to_owned(), Some(first))],
        })
    }

    fn get(&mut self, version: &str) -> Result<Option<&Comparison>, Problems> {
        let at = match self.done.iter().position(|(known, _)| known == version) {
            Some(at) => at,
            None => {
                let made = self.make(version)?;
                self.done.push((version.to_owned(), made));
                self.done.len() - 1
            }
        };
        Ok(self.done[at].1.as_ref())
    }

    fn make(&self, version: &str) -> Result<Option<Comparison>, Problems> {
        let Some(schema) = self.versions.schema(version) else {
            return Ok(None);
        };
        let convert = |object| self.versions.convert(object, self.version, version);
        let (Some(old), Some(new)) = (convert(self.old), convert(self.new)) else {
            return Ok(None);
        };
        Ok(Some(
            compare(schema, &old, &new)?.filtered(self.versions.filter(version)),
        ))
    }

    fn into_first(self) -> Comparison {
        self.done
            .into_iter()
            .next()
            .and_then(|(_, first)| first)
            .unwrap_or_default()
    }
}

/// Takes from all managers but `own` what `new` changes of `old`.
fn take(
    comparisons: &mut Comparisons<'_>,
    managers: &mut Vec<Entry>,
    own: Option<&Entry>,
    force: bool,
) -> Result<(), Error> {
    let comparing = Error::when("failed to compare objects");
    let mut conflicts = Vec::new();
    let mut kept = Vec::with_capacity(managers.len());
    for mut entry in managers.drain(..) {
        if own.is_some_and(|own| own.is_same(&entry)) {
            kept.push(entry);
            continue;
        }
        let Some(changed) = comparisons.get(&entry.api_version).map_err(&comparing)? else {
            continue;
        };
        if !force {
            for brought in [&changed.modified, &changed.added] {
                if !entry.overlaps(brought) {
                    continue;
                }
                conflicts.extend(entry.set().intersection(brought).paths().into_iter().map(
                    |path| Conflict {
                        owner: entry.identity(),
                        path,
                    },
                ));
            }
        }
        for gone in [&changed.modified, &changed.added, &changed.removed] {
            if entry.overlaps(gone) {
                let left = entry.set().difference(gone);
                entry.set_set(left);
            }
        }
        if !entry.is_empty() {
            kept.push(entry);
        }
    }
    *managers = kept;
    if conflicts.is_empty() {
        Ok(())
    } else {
        Err(Error::Conflicts(conflicts))
    }
}

/// Updates ownership after a write: what it changes is taken from all managers. Returns
/// the writer's fields.
///
/// # Errors
/// When the trees do not fit the type.
pub fn update(
    versions: &dyn Versions,
    live: &Value,
    new: &Value,
    version: &str,
    managers: &mut Vec<Entry>,
) -> Result<Set, Error> {
    // Sets that this write does not touch stay as they were written.
    reconcile(versions, managers, Entry::is_read);
    let mut comparisons = Comparisons::start(versions, live, new, version)
        .map_err(Error::when("failed to compare objects"))?;
    take(&mut comparisons, managers, None, true)?;
    let changed = comparisons.into_first();
    Ok(changed.into_brought())
}

/// Applies a configuration by the manager `own`. Returns the resulting object, or `None`
/// if it is unchanged.
///
/// # Errors
/// Conflicts unless forced, and values that do not fit the type.
pub fn apply(
    versions: &dyn Versions,
    live: &Value,
    config: &Value,
    version: &str,
    managers: &mut Vec<Entry>,
    own: &Entry,
    force: bool,
) -> Result<Option<Value>, Error> {
    reconcile(versions, managers, |_| true);
    let schema = versions.schema(version).unwrap_or(Schema::Deduced);
    let merged = merge(schema, live, config).map_err(Error::when("failed to merge config"))?;
    let mut set = field_set(schema, config).map_err(Error::when("failed to get field set"))?;
    if let Some(filter) = versions.filter(version) {
        set = filter.apply(set);
    }
    let last = managers
        .iter()
        .position(|entry| entry.is_same(own))
        .map(|at| managers.remove(at));
    let mut entry = own.clone();
    entry.api_version = version.into();
    entry.time = last.as_ref().and_then(|last| last.time.clone());
    entry.set_set(set);
    managers.push(entry);
    let new = match last {
        Some(last) if !last.set().is_empty() => prune(versions, merged, version, managers, &last)
            .map_err(Error::when("failed to prune fields"))?,
        _ => merged,
    };
    let mut comparisons = Comparisons::start(versions, live, &new, version)
        .map_err(Error::when("failed to compare objects"))?;
    take(&mut comparisons, managers, Some(own), force)?;
    managers.retain(|entry| !entry.is_empty());
    Ok((!same(live, &new)).then_some(new))
}

/// Removes fields that the applier owned, no longer applies, and no other manager owns.
fn prune(
    versions: &dyn Versions,
    merged: Value,
    version: &str,
    managers: &[Entry],
    last: &Entry,
) -> Result<Value, Problems> {
    let last_version = last.api_version.as_str();
    let (Some(schema), Some(object)) = (
        versions.schema(last_version),
        convert(versions, &merged, version, last_version),
    ) else {
        return Ok(merged);
    };
    let mut pruned = remove(schema, &object, &last.set().with_named_fields(Some(schema)));
    // Owned fields are restored, first those in the version of the removal.
    let mut owned: Vec<(&str, Set)> = Vec::new();
    for entry in managers {
        match owned
            .iter_mut()
            .find(|(version, _)| *version == entry.api_version)
        {
            Some((_, set)) => *set = set.union(entry.set()),
            None => owned.push((&entry.api_version, entry.set().clone())),
        }
    }
    owned.sort_by_key(|(version, _)| *version != last_version);
    let mut whole = object.clone();
    let mut at = last_version;
    for (next, set) in &owned {
        let Some(schema) = versions.schema(next) else {
            continue;
        };
        let (Some(there), Some(less)) = (
            convert(versions, &whole, at, next),
            convert(versions, &pruned, at, next),
        ) else {
            continue;
        };
        let all = field_set(schema, &there)?.with_named_fields(Some(schema));
        let left = field_set(schema, &less)?.with_named_fields(Some(schema));
        let wanted = left.union(&set.with_named_fields(Some(schema)));
        pruned = remove(schema, &there, &all.difference(&wanted));
        whole = there;
        at = next;
    }
    // Fields that the applier never owned are restored, too.
    let Some(pruned) = convert(versions, &pruned, at, last_version) else {
        return Ok(merged);
    };
    let left = field_set(schema, &pruned)?.with_named_fields(Some(schema));
    let all = field_set(schema, &object)?.with_named_fields(Some(schema));
    let own = last.set().with_named_fields(Some(schema));
    let pruned = remove(schema, &object, &all.difference(&left).intersection(&own));
    Ok(convert(versions, &pruned, last_version, version).unwrap_or(merged))
}

fn convert(versions: &dyn Versions, object: &Value, from: &str, to: &str) -> Option<Value> {
    if from == to {
        return Some(object.clone());
    }
    versions.convert(object, from, to)
}

/// Adapts sets that were written when a type was granular: the owner of a part of a value
/// that is now atomic owns all of it.
fn reconcile(
    versions: &dyn Versions,
    managers: &mut Vec<Entry>,
    looked_at: impl Fn(&Entry) -> bool,
) {
    managers.retain_mut(|entry| {
        let Some(schema) = versions.schema(&entry.api_version) else {
            return false;
        };
        if looked_at(entry) && has_parts_of_atoms(schema, entry.set()) {
            let mut set = entry.set().clone();
            join_atoms(schema, &mut set);
            entry.set_set(set);
        }
        true
    });
}

/// The type below an element, unless nothing is known there.
fn below<'a>(kind: &Kind<'a>, element: &crate::Element) -> Option<Schema<'a>> {
    match (kind, element) {
        (Kind::List(list), _) => Some(list.item),
        (Kind::Map(map), crate::Element::Field(name)) => map.member(name),
        (Kind::Map(map), _) => map.element,
        (Kind::Scalar(_), _) => None,
    }
}

fn is_atomic(kind: &Kind<'_>) -> bool {
    match kind {
        Kind::List(list) => list.relation == Relation::Atomic,
        Kind::Map(map) => map.atomic,
        Kind::Scalar(_) => false,
    }
}

fn has_parts_of_atoms(schema: Schema<'_>, set: &Set) -> bool {
    if schema.is_deduced() {
        return false;
    }
    let kind = schema.atom().kind();
    set.nodes.iter().any(|node| {
        !node.children.nodes.is_empty()
            && below(&kind, &node.element).is_some_and(|schema| {
                !schema.is_deduced()
                    && (is_atomic(&schema.atom().kind())
                        || has_parts_of_atoms(schema, &node.children))
            })
    })
}

fn join_atoms(schema: Schema<'_>, set: &mut Set) {
    let kind = schema.atom().kind();
    for node in &mut set.nodes {
        if node.children.nodes.is_empty() {
            continue;
        }
        let Some(schema) = below(&kind, &node.element).filter(|schema| !schema.is_deduced()) else {
            continue;
        };
        if is_atomic(&schema.atom().kind()) {
            node.member = true;
            node.children = Set::new();
        } else {
            join_atoms(schema, &mut node.children);
        }
    }
}
