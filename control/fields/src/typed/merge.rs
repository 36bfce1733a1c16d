//! A configuration laid over an object.

use std::collections::BTreeMap;

use control_types::value::{Map, Value};

use super::items::{element_of, find, items, members};
use super::problem::Problems;
use super::validate::scalar_problem;
use crate::element::Element;
use crate::schema::{Kind, ListAtom, MapAtom, Relation, Schema};

/// Merges `config` over `live`. Nothing is removed; leaves of `config` win. Lists that
/// are maps or sets keep the order of `live` for items only in `live`, and take that of
/// `config` for the rest.
///
/// # Errors
/// When a value fits the type in neither tree, or an item of a list map or set has no
/// unique identity or occurs twice in `config`.
pub fn merge(schema: Schema<'_>, live: &Value, config: &Value) -> Result<Value, Problems> {
    let mut problems = Problems::default();
    let merged = walk(schema, Some(live), Some(config), &mut problems);
    problems.or(merged.unwrap_or_default())
}

fn walk(
    schema: Schema<'_>,
    live: Option<&Value>,
    config: Option<&Value>,
    problems: &mut Problems,
) -> Option<Value> {
    let atom = schema.atom();
    let (left, right) = (atom.narrow_to(live), atom.narrow_to(config));
    match (live, config) {
        (None, None) => None,
        (_, None) => handle(left.kind(), live, config, problems),
        (None, _) => handle(right.kind(), live, config, problems),
        _ => {
            if !left.alike(&right) {
                // Only errors of the first kind count.
                handle(left.kind(), live, config, problems);
            }
            handle(right.kind(), live, config, problems)
        }
    }
}

/// The value that wins where values are taken as one.
fn leaf(live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
    config.or(live).cloned()
}

fn handle(
    kind: Kind<'_>,
    live: Option<&Value>,
    config: Option<&Value>,
    problems: &mut Problems,
) -> Option<Value> {
    match kind {
        Kind::Scalar(scalar) => {
            if let (Some(left), Some(right)) =
                (scalar_problem(scalar, live), scalar_problem(scalar, config))
            {
                problems.add(format!("lhs: {left}"));
                problems.add(format!("rhs: {right}"));
                return None;
            }
            leaf(live, config)
        }
        Kind::List(list) => {
            let (left, right) = (items(live), items(config));
            let empty = left.is_none_or(Vec::is_empty) && right.is_none_or(Vec::is_empty);
            if list.relation == Relation::Atomic || empty {
                return leaf(live, config);
            }
            lists(
                &list,
                left.map_or(&[], Vec::as_slice),
                right.map_or(&[], Vec::as_slice),
                problems,
            )
        }
        Kind::Map(map) => {
            let (left, right) = (members(live), members(config));
            let empty = left.is_none_or(Map::is_empty) && right.is_none_or(Map::is_empty);
            if map.atomic || empty {
                return leaf(live, config);
            }
            maps(&map, left, right, problems)
        }
    }
}

fn maps(
    map: &MapAtom<'_>,
    live: Option<&Map>,
    config: Option<&Map>,
    problems: &mut Problems,
) -> Option<Value> {
    let empty = Map::new();
    let (live, config) = (live.unwrap_or(&empty), config.unwrap_or(&empty));
    let mut merged = Map::with_capacity(live.len().max(config.len()));
    let mut each = |key: &control_types::value::Key, left, right| {
        let mut inner = Problems::default();
        let schema = map.member(key).unwrap_or(Schema::Deduced);
        if let Some(value) = walk(schema, left, right, &mut inner) {
            merged.push_unchecked(key.clone(), value);
        }
        if !inner.is_empty() {
            problems.below(&Element::Field(key.clone()), inner);
        }
    };
    for (at, (key, left)) in live.iter().enumerate() {
        each(key, Some(left), find(config, key, at));
    }
    for (at, (key, right)) in config.iter().enumerate() {
        if find(live, key, at).is_none() {
            each(key, None, Some(right));
        }
    }
    (!merged.is_empty()).then_some(Value::Object(merged))
}

/// Returns the items of a list with their elements. `None` stands for a duplicate item:
/// such are not merged.
fn index<'a>(
    list: &ListAtom<'_>,
    items: &'a [Value],
    twice: bool,
    problems: &mut Problems,
) -> (
    Vec<(Element, &'a Value)>,
    BTreeMap<Element, Option<&'a Value>>,
) {
    let mut order = Vec::with_capacity(items.len());
    let mut found = BTreeMap::new();
    for (at, item) in items.iter().enumerate() {
        let element = match element_of(list, item) {
            Ok(element) => element,
            Err(why) => {
                problems.add(format!("element {at}: {why}"));
                continue;
            }
        };
        if found.contains_key(&element) {
            if !twice {
                problems.add(format!("duplicate entries for key {element}"));
                continue;
            }
            found.insert(element.clone(), None);
        } else {
            found.insert(element.clone(), Some(item));
        }
        order.push((element, item));
    }
    (order, found)
}

fn lists(
    list: &ListAtom<'_>,
    live: &[Value],
    config: &[Value],
    problems: &mut Problems,
) -> Option<Value> {
    let mut wrong = Problems::default();
    let (right, in_config) = index(list, config, false, &mut wrong);
    let (left, in_live) = index(list, live, true, &mut wrong);
    if !wrong.is_empty() {
        problems.0.append(&mut wrong.0);
        return None;
    }
    let mut out = Vec::with_capacity(left.len().max(right.len()));
    let mut take = |left: Option<&Value>, right: Option<&Value>| {
        // Errors below an item do not keep the list from being merged.
        let merged = walk(list.item, left, right, &mut Problems::default());
        out.extend(merged);
    };
    // Common items keep the order of `config`; this is the next of them.
    let mut shared = right
        .iter()
        .map(|(element, _)| element)
        .filter(|element| in_live.contains_key(element));
    let mut next = shared.next();
    let mut merged: BTreeMap<&Element, ()> = BTreeMap::new();
    let null = Value::Null;
    let of_live = |element: &Element| match in_live.get(element) {
        Some(item) => Some(item.unwrap_or(&null)),
        None => None,
    };
    let (mut l, mut r) = (0, 0);
    while l < left.len() || r < right.len() {
        if let (Some((a, _)), Some((b, item))) = (left.get(l), right.get(r)) {
            if a == b {
                merged.insert(a, ());
                take(of_live(a), Some(item));
                l += 1;
                r += 1;
                next = shared.next();
                continue;
            }
            if in_config.contains_key(a) && next.is_some_and(|next| next != a) {
                // Shared, but another one is to come first.
                l += 1;
                continue;
            }
        }
        if let Some((a, item)) = left.get(l) {
            if !in_config.contains_key(a) {
                take(Some(item), None);
                l += 1;
                continue;
            }
            if merged.contains_key(a) {
                l += 1;
            }
        }
        if let Some((b, item)) = right.get(r) {
            merged.insert(b, ());
            take(of_live(b), Some(item));
            r += 1;
            if next == Some(b) {
                next = shared.next();
            }
        }
    }
    (!out.is_empty()).then_some(Value::Array(out))
}
