//! Parts of an expression, with their costs and sizes.

use super::bounds::Estimate;
use crate::ast::Literal;
use crate::types::Type;

/// The estimates for the items of a list or the entries of a map.
#[derive(Clone, Copy, Debug)]
pub struct Inner {
    pub list: bool,
    pub key: Estimate,
    pub value: Estimate,
}

/// The estimate of a subexpression.
#[derive(Clone, Debug, Default)]
pub struct EstimatedPart {
    pub cost: Option<Estimate>,
    pub size: Option<Estimate>,
    pub inner: Option<Inner>,
    /// Its path in the schema: a variable, then fields, `@items`, `@values`, `@keys`.
    pub path: Vec<String>,
    pub of: Option<Type>,
    /// A literal number.
    pub number: Option<i64>,
    /// How large the schema allows the items of a list to be.
    pub item: Option<Estimate>,
}

impl EstimatedPart {
    pub fn cost(&self) -> Estimate {
        self.cost.unwrap_or(Estimate::fixed(0))
    }

    pub fn size(&self) -> Estimate {
        self.size.unwrap_or(Estimate::UNKNOWN)
    }

    /// Whether it is a list; a map otherwise, where it is a range at all.
    fn is_list(&self) -> bool {
        self.inner
            .map_or(matches!(self.of, Some(Type::List(_))), |inner| inner.list)
    }
}

/// An item of a list, a value of a map.
pub fn item_of(range: &EstimatedPart) -> EstimatedPart {
    stepped(
        range,
        if range.is_list() { "@items" } else { "@values" },
        |inner| inner.value,
    )
}

/// A key of a map, an index of a list.
pub fn key_of(range: &EstimatedPart) -> EstimatedPart {
    stepped(
        range,
        if range.is_list() { "@indices" } else { "@keys" },
        |inner| inner.key,
    )
}

/// Returns the range of a single variable: items of a list, keys of a map.
pub fn single_of(range: &EstimatedPart) -> EstimatedPart {
    if range.is_list() {
        item_of(range)
    } else {
        key_of(range)
    }
}

fn stepped(range: &EstimatedPart, step: &str, size: fn(Inner) -> Estimate) -> EstimatedPart {
    let mut path = range.path.clone();
    path.push(step.to_owned());
    EstimatedPart {
        size: range.inner.map(size),
        path,
        ..EstimatedPart::default()
    }
}

pub fn both(a: Option<Inner>, b: Option<Inner>) -> Option<Inner> {
    let (a, b) = (a?, b?);
    Some(Inner {
        list: a.list,
        key: a.key.union(b.key),
        value: a.value.union(b.value),
    })
}

pub fn sum(parts: &[EstimatedPart]) -> Estimate {
    parts
        .iter()
        .fold(Estimate::fixed(0), |all, part| all.add(part.cost()))
}

pub fn sizes(parts: &[EstimatedPart]) -> Estimate {
    parts
        .iter()
        .map(EstimatedPart::size)
        .reduce(Estimate::union)
        .unwrap_or(Estimate::fixed(0))
}

pub fn is_scalar(of: &Type) -> bool {
    match of {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => {
            true
        }
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}

pub fn literal_part(literal: &Literal) -> EstimatedPart {
    let size = match literal {
        Literal::String(text) => text.chars().count() as u64,
        Literal::Bytes(bytes) => bytes.len() as u64,
        _ => 1,
    };
    EstimatedPart {
        cost: Some(Estimate::fixed(0)),
        size: Some(Estimate::fixed(size)),
        number: match literal {
            Literal::Int(number) => Some(*number),
            _ => None,
        },
        ..EstimatedPart::default()
    }
}
