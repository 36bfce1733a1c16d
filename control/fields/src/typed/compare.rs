//! Compares two trees of one type in one walk.

use control_types::value::{Map, Value};

use super::items::{element_of, find, items, members};
use super::problem::Problems;
use super::validate::scalar_problem;
use crate::element::{Element, same};
use crate::filter::Filter;
use crate::schema::{Kind, ListAtom, MapAtom, Relation, Schema};
use crate::set::Set;

const ADDED: u8 = 1;
const MODIFIED: u8 = 2;
const REMOVED: u8 = 4;

/// The differences between two trees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Paths that only the second has.
    pub added: Set,
    /// Paths that both have, with other values.
    pub modified: Set,
    /// Paths that only the first has.
    pub removed: Set,
}

impl Comparison {
    /// Returns the comparison without what the filter drops.
    #[must_use]
    pub fn filtered(self, filter: Option<&Filter>) -> Self {
        match filter {
            Some(filter) => Self {
                added: filter.apply(self.added),
                modified: filter.apply(self.modified),
                removed: filter.apply(self.removed),
            },
            None => self,
        }
    }

    /// Returns the added and modified paths of the second tree.
    #[must_use]
    pub fn brought(&self) -> Set {
        self.modified.union(&self.added)
    }

    /// As [`Comparison::brought`], of a comparison that is no longer needed.
    #[must_use]
    pub fn into_brought(self) -> Set {
        let mut brought = self.added;
        brought.extend(self.modified);
        brought
    }

    /// Takes the nodes of one level apart.
    fn take(&mut self, nodes: Vec<ComparedNode>) {
        for ComparedNode { element, level } in nodes {
            let mut below = Self::default();
            below.take(level.nodes);
            let marks = level.marks | level.below;
            let mut left = Some(element);
            let mut kinds = [ADDED, MODIFIED, REMOVED]
                .into_iter()
                .filter(|mark| marks & mark != 0)
                .peekable();
            while let Some(mark) = kinds.next() {
                let (set, below) = match mark {
                    ADDED => (&mut self.added, &mut below.added),
                    MODIFIED => (&mut self.modified, &mut below.modified),
                    _ => (&mut self.removed, &mut below.removed),
                };
                // The last that needs the element gets it.
                let element = match kinds.peek() {
                    Some(_) => left.clone(),
                    None => left.take(),
                };
                if let Some(element) = element {
                    set.push(element, level.marks & mark != 0, std::mem::take(below));
                }
            }
        }
        self.added.sort();
        self.modified.sort();
        self.removed.sort();
    }
}

/// Compares two trees.
///
/// # Errors
/// When a value fits the type in neither tree, or an item of a list map or set has no
/// unique identity.
pub fn compare(schema: Schema<'_>, old: &Value, new: &Value) -> Result<Comparison, Problems> {
    let mut problems = Problems::default();
    let level = walk(schema, Some(old), Some(new), &mut problems);
    let mut comparison = Comparison::default();
    comparison.take(level.nodes);
    problems.or(comparison)
}

/// The differences of a value and below it.
#[derive(Default)]
struct Level {
    marks: u8,
    nodes: Vec<ComparedNode>,
    /// Flags of all nodes, to skip subtrees without a kind of difference.
    below: u8,
}

struct ComparedNode {
    element: Element,
    level: Level,
}

impl Level {
    fn push(&mut self, element: Element, level: Level) {
        let marks = level.marks | level.below;
        if marks != 0 {
            self.below |= marks;
            self.nodes.push(ComparedNode { element, level });
        }
    }
}

fn walk(
    schema: Schema<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    problems: &mut Problems,
) -> Level {
    let atom = schema.atom();
    let (left, right) = (atom.narrow_to(old), atom.narrow_to(new));
    let mut level = Level::default();
    let leaf = match (old, new) {
        (None, None) => return level,
        (_, None) => handle(left.kind(), old, new, &mut level, problems),
        (None, _) => handle(right.kind(), old, new, &mut level, problems),
        _ if left.alike(&right) => handle(right.kind(), old, new, &mut level, problems),
        // The value changed its kind: both kinds have their say.
        _ => {
            handle(left.kind(), old, new, &mut level, problems);
            handle(right.kind(), old, new, &mut level, problems)
        }
    };
    if !leaf {
        match (old, new) {
            (None, _) => level.marks |= ADDED,
            (_, None) => level.marks |= REMOVED,
            _ => {}
        }
    }
    level
}

/// Compares values of one kind; tells whether they were taken as one.
fn handle(
    kind: Kind<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    level: &mut Level,
    problems: &mut Problems,
) -> bool {
    match kind {
        Kind::Scalar(scalar) => {
            if let (Some(left), Some(right)) =
                (scalar_problem(scalar, old), scalar_problem(scalar, new))
            {
                problems.add(format!("lhs: {left}"));
                problems.add(format!("rhs: {right}"));
                return false;
            }
            leaf(old, new, level);
            true
        }
        Kind::List(list) => {
            let (left, right) = (items(old), items(new));
            let empty = left.is_none_or(Vec::is_empty) && right.is_none_or(Vec::is_empty);
            if list.relation == Relation::Atomic || empty {
                leaf(old, new, level);
                return true;
            }
            match (left, right) {
                (Some(left), Some(right))
                    if left.len() == right.len()
                        && left.iter().zip(right).all(|(a, b)| same(a, b)) => {}
                _ => lists(
                    &list,
                    left.map_or(&[], Vec::as_slice),
                    right.map_or(&[], Vec::as_slice),
                    level,
                    problems,
                ),
            }
            false
        }
        Kind::Map(map) => {
            let (left, right) = (members(old), members(new));
            let empty = left.is_none_or(Map::is_empty) && right.is_none_or(Map::is_empty);
            if map.atomic || empty {
                leaf(old, new, level);
                return true;
            }
            maps(&map, left, right, level, problems);
            false
        }
    }
}

fn leaf(old: Option<&Value>, new: Option<&Value>, level: &mut Level) {
    match (old, new) {
        (None, _) => level.marks |= ADDED,
        (_, None) => level.marks |= REMOVED,
        (Some(old), Some(new)) => {
            if !same(old, new) {
                level.marks |= MODIFIED;
            }
        }
    }
}

fn maps(
    map: &MapAtom<'_>,
    old: Option<&Map>,
    new: Option<&Map>,
    level: &mut Level,
    problems: &mut Problems,
) {
    let mut each = |key: &control_types::value::Key, left, right| {
        let Some(schema) = map.member(key) else {
            return;
        };
        let mut inner = Problems::default();
        let below = walk(schema, left, right, &mut inner);
        if !inner.is_empty() {
            problems.below(&Element::Field(key.clone()), inner);
        }
        if (below.marks | below.below) != 0 {
            level.push(Element::Field(key.clone()), below);
        }
    };
    let empty = Map::new();
    let (old, new) = (old.unwrap_or(&empty), new.unwrap_or(&empty));
    let mut hint = 0;
    for (key, left) in old {
        let right = find(new, key, hint);
        hint += usize::from(right.is_some());
        each(key, Some(left), right);
    }
    for (at, (key, right)) in new.iter().enumerate() {
        if find(old, key, at).is_none() {
            each(key, None, Some(right));
        }
    }
}

/// Items of one list by element, in the order of their first appearance.
fn index<'a>(
    list: &ListAtom<'_>,
    items: &'a [Value],
    problems: &mut Problems,
) -> Vec<(Element, Vec<&'a Value>)> {
    let mut found: Vec<(Element, Vec<&Value>)> = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        match element_of(list, item) {
            Ok(element) => found.push((element, vec![item])),
            Err(why) => problems.add(format!("element {at}: {why}")),
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found.dedup_by(|later, first| {
        let equal = later.0 == first.0;
        if equal {
            first.1.append(&mut later.1);
        }
        equal
    });
    found
}

fn lists(
    list: &ListAtom<'_>,
    old: &[Value],
    new: &[Value],
    level: &mut Level,
    problems: &mut Problems,
) {
    let old = index(list, old, problems);
    let new = index(list, new, problems);
    let (mut left, mut right) = (old.into_iter().peekable(), new.into_iter().peekable());
    loop {
        let order = match (left.peek(), right.peek()) {
            (Some(a), Some(b)) => a.0.cmp(&b.0),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => return,
        };
        let (mut element, mut before, mut after) = (None, Vec::new(), Vec::new());
        if order.is_le()
            && let Some((of, items)) = left.next()
        {
            (element, before) = (Some(of), items);
        }
        if order.is_ge()
            && let Some((of, items)) = right.next()
        {
            (element, after) = (Some(of), items);
        }
        let Some(element) = element else { return };
        let mut inner = Problems::default();
        let below = item(list, &before, &after, &mut inner);
        if !inner.is_empty() {
            problems.below(&element, inner);
        }
        level.push(element, below);
    }
}

/// Compares the items of one element; items that come twice are taken as one.
fn item(list: &ListAtom<'_>, old: &[&Value], new: &[&Value], problems: &mut Problems) -> Level {
    match (old, new) {
        ([] | [_], [] | [_]) => walk(
            list.item,
            old.first().copied(),
            new.first().copied(),
            problems,
        ),
        ([_, _, ..], [_, _, ..]) => {
            let equal =
                old.len() == new.len() && old.iter().zip(new).all(|(old, new)| same(old, new));
            Level {
                marks: if equal { 0 } else { MODIFIED },
                ..Level::default()
            }
        }
        ([_, _, ..], _) => {
            let mut level = match new.first() {
                Some(new) => walk(list.item, None, Some(new), problems),
                None => Level::default(),
            };
            level.marks |= REMOVED;
            level
        }
        (_, [_, _, ..]) => {
            let mut level = match old.first() {
                Some(old) => walk(list.item, Some(old), None, problems),
                None => Level::default(),
            };
            level.marks |= ADDED;
            level
        }
    }
}
