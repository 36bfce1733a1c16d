//! Operators: arithmetic that overflows with an error, order and equality
//! across the types of numbers.

use std::cmp::Ordering;

use super::error::Error;
use super::meter::Meter;
use super::moment::{self, Moment};
use super::value::{Entries, List, Val};
use crate::schema::ListKind;

type Result<'a> = std::result::Result<Val<'a>, Error>;

fn int_overflow() -> Error {
    Error::failed("integer overflow")
}

fn uint_overflow() -> Error {
    Error::failed("unsigned integer overflow")
}

fn duration_overflow() -> Error {
    Error::failed("duration overflow")
}

fn int<'a>(number: Option<i64>) -> Result<'a> {
    number.map(Val::Int).ok_or_else(int_overflow)
}

fn uint<'a>(number: Option<u64>) -> Result<'a> {
    number.map(Val::Uint).ok_or_else(uint_overflow)
}

fn span<'a>(nanos: Option<i64>) -> Result<'a> {
    nanos.map(Val::Duration).ok_or_else(duration_overflow)
}

pub(crate) fn add<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Int(a), Val::Int(b)] => int(a.checked_add(*b)),
        [Val::Uint(a), Val::Uint(b)] => uint(a.checked_add(*b)),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a + b)),
        [Val::Text(a), Val::Text(b)] => {
            meter.work(a.len() + b.len())?;
            Ok(Val::text([&**a, &**b].concat()))
        }
        [Val::Bytes(a), Val::Bytes(b)] => {
            meter.work(a.len() + b.len())?;
            Ok(Val::Bytes([&**a, &**b].concat().into()))
        }
        [Val::List(a), Val::List(b)] => join(meter, a, b),
        [Val::Duration(a), Val::Duration(b)] => span(a.checked_add(*b)),
        [Val::Timestamp(a), Val::Duration(b)] | [Val::Duration(b), Val::Timestamp(a)] => {
            moment::shift(*a, *b).map(Val::Timestamp)
        }
        _ => Err(Error::NoSuchOverload),
    }
}

/// Concatenates both lists; declared sets and maps only add new items.
fn join<'a>(meter: &mut Meter, a: &List<'a>, b: &List<'a>) -> Result<'a> {
    meter.work(a.len() + b.len())?;
    let kind = match a {
        List::Tree(_, Some(schema)) => schema.list_kind(),
        _ => None,
    };
    let (mut all, more) = (a.to_vec()?, b.to_vec()?);
    match kind {
        Some(ListKind::Set) => {
            meter.work(all.len().saturating_mul(more.len()))?;
            for item in more {
                if !all.iter().any(|one| equal(one, &item)) {
                    all.push(item);
                }
            }
        }
        Some(ListKind::Map(keys)) => {
            meter.work(all.len().saturating_mul(more.len()))?;
            for item in more {
                match all.iter_mut().find(|one| same_keys(one, &item, keys)) {
                    Some(place) => *place = item,
                    None => all.push(item),
                }
            }
        }
        _ => all.extend(more),
    }
    Ok(Val::list(all))
}

fn same_keys(a: &Val<'_>, b: &Val<'_>, keys: &[String]) -> bool {
    let (Val::Map(a), Val::Map(b)) = (a, b) else {
        return false;
    };
    keys.iter()
        .all(|key| match (a.get_text(key), b.get_text(key)) {
            (Some(Ok(a)), Some(Ok(b))) => equal(&a, &b),
            (None, None) => true,
            _ => false,
        })
}

pub(crate) fn subtract<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Int(a), Val::Int(b)] => int(a.checked_sub(*b)),
        [Val::Uint(a), Val::Uint(b)] => uint(a.checked_sub(*b)),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a - b)),
        [Val::Duration(a), Val::Duration(b)] => span(a.checked_sub(*b)),
        [Val::Timestamp(a), Val::Duration(b)] => {
            let back = b.checked_neg().ok_or_else(duration_overflow)?;
            moment::shift(*a, back).map(Val::Timestamp)
        }
        [Val::Timestamp(a), Val::Timestamp(b)] => {
            let nanos = |m: &Moment| i128::from(m.seconds) * 1_000_000_000 + i128::from(m.nanos);
            span(i64::try_from(nanos(a) - nanos(b)).ok())
        }
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn multiply<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Int(a), Val::Int(b)] => int(a.checked_mul(*b)),
        [Val::Uint(a), Val::Uint(b)] => uint(a.checked_mul(*b)),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a * b)),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn divide<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Int(_), Val::Int(0)] | [Val::Uint(_), Val::Uint(0)] => {
            Err(Error::failed("division by zero"))
        }
        [Val::Int(a), Val::Int(b)] => int(a.checked_div(*b)),
        [Val::Uint(a), Val::Uint(b)] => uint(a.checked_div(*b)),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a / b)),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn remainder<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Int(_), Val::Int(0)] | [Val::Uint(_), Val::Uint(0)] => {
            Err(Error::failed("modulus by zero"))
        }
        [Val::Int(a), Val::Int(b)] => int(a.checked_rem(*b)),
        [Val::Uint(a), Val::Uint(b)] => uint(a.checked_rem(*b)),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn negate<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Int(a)] => int(a.checked_neg()),
        [Val::Double(a)] => Ok(Val::Double(-a)),
        [Val::Duration(a)] => span(a.checked_neg()),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn not<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Bool(truth)] => Ok(Val::Bool(!truth)),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn is_equal<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [a, b] => {
            meter.work(weight(a).min(weight(b)))?;
            opaque(a, b)?;
            Ok(Val::Bool(equal(a, b)))
        }
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn is_unequal<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [a, b] => {
            meter.work(weight(a).min(weight(b)))?;
            Ok(Val::Bool(!equal(a, b)))
        }
        _ => Err(Error::NoSuchOverload),
    }
}

/// Values of the libraries can be compared only among themselves.
fn opaque<'a>(a: &Val<'a>, b: &Val<'a>) -> std::result::Result<(), Error> {
    let same = std::mem::discriminant(a) == std::mem::discriminant(b);
    match a {
        Val::Quantity(_)
        | Val::Url(_)
        | Val::Ip(_)
        | Val::Cidr(..)
        | Val::Semver(_)
        | Val::Format(_)
            if !same && !matches!(b, Val::Null) =>
        {
            Err(Error::NoSuchOverload)
        }
        _ => Ok(()),
    }
}

fn weight(value: &Val<'_>) -> usize {
    match value {
        Val::List(list) => list.len(),
        Val::Map(map) => map.len(),
        _ => 0,
    }
}

/// Returns whether two values are equal; those of different kinds are not, except that
/// numbers compare by value.
pub(crate) fn equal(a: &Val<'_>, b: &Val<'_>) -> bool {
    match (a, b) {
        (Val::Null, Val::Null) => true,
        (Val::Bool(a), Val::Bool(b)) => a == b,
        (Val::Text(a), Val::Text(b)) => **a == **b,
        (Val::Bytes(a), Val::Bytes(b)) => a == b,
        (Val::Duration(a), Val::Duration(b)) => a == b,
        (Val::Timestamp(a), Val::Timestamp(b)) => a == b,
        (Val::Type(a), Val::Type(b)) => a == b,
        (Val::List(a), Val::List(b)) => equal_lists(a, b),
        (Val::Map(a), Val::Map(b)) => equal_maps(a, b),
        (Val::Optional(a), Val::Optional(b)) => match (a, b) {
            (Some(a), Some(b)) => equal(a, b),
            (None, None) => true,
            _ => false,
        },
        (Val::Quantity(a), Val::Quantity(b)) => a == b,
        (Val::Url(a), Val::Url(b)) => a == b,
        (Val::Ip(a), Val::Ip(b)) => a == b,
        (Val::Cidr(a, i), Val::Cidr(b, j)) => a == b && i == j,
        (Val::Semver(a), Val::Semver(b)) => a.same(b),
        (Val::Format(a), Val::Format(b)) => a.name == b.name,
        (Val::Check(a), Val::Check(b)) => std::rc::Rc::ptr_eq(a, b),
        (Val::Object(a), Val::Object(b)) => {
            a.name == b.name
                && a.fields.len() == b.fields.len()
                && a.fields
                    .iter()
                    .all(|(name, value)| b.field(name).is_some_and(|other| equal(value, other)))
        }
        (a, b) => numbers(a, b) == Some(Some(Ordering::Equal)),
    }
}

fn equal_lists(a: &List<'_>, b: &List<'_>) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let (Ok(items), Ok(others)) = (a.to_vec(), b.to_vec()) else {
        return false;
    };
    let kind = match a {
        List::Tree(_, Some(schema)) => schema.list_kind(),
        _ => None,
    };
    match kind {
        Some(ListKind::Set) => items
            .iter()
            .all(|item| others.iter().any(|one| equal(item, one))),
        Some(ListKind::Map(keys)) => items.iter().all(|item| {
            others
                .iter()
                .any(|one| same_keys(item, one, keys) && equal(item, one))
        }),
        _ => items.iter().zip(&others).all(|(a, b)| equal(a, b)),
    }
}

fn equal_maps(a: &Entries<'_>, b: &Entries<'_>) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let Ok(pairs) = a.pairs() else { return false };
    pairs.iter().all(|(key, value)| {
        super::value::Key::from_value(key)
            .and_then(|key| match &key {
                super::value::Key::Text(text) => b.get_text(text),
                _ => b.pairs().ok().and_then(|all| {
                    all.into_iter()
                        .find(|(other, _)| {
                            super::value::Key::from_value(other).as_ref() == Some(&key)
                        })
                        .map(|(_, value)| Ok(value))
                }),
            })
            .is_some_and(|other| other.is_ok_and(|other| equal(value, &other)))
    })
}

/// The order of two numbers; `Some(None)` when one is no number in the sense
/// of IEEE 754, `None` when they are not both numbers.
fn numbers(a: &Val<'_>, b: &Val<'_>) -> Option<Option<Ordering>> {
    fn whole(value: &Val<'_>) -> Option<i128> {
        match value {
            Val::Int(number) => Some(i128::from(*number)),
            Val::Uint(number) => Some(i128::from(*number)),
            _ => None,
        }
    }
    // a double and an integer: beyond the range of the integers the double
    // decides, within it both are compared as doubles
    fn mixed(double: f64, integer: &Val<'_>) -> Option<Option<Ordering>> {
        let (least, most) = match integer {
            Val::Int(_) => (i64::MIN as f64, i64::MAX as f64),
            _ => (0.0, u64::MAX as f64),
        };
        let integer = whole(integer)? as f64;
        Some(if double < least {
            Some(Ordering::Less)
        } else if double > most {
            Some(Ordering::Greater)
        } else {
            double.partial_cmp(&integer)
        })
    }
    match (a, b) {
        (Val::Double(a), Val::Double(b)) => Some(a.partial_cmp(b)),
        (Val::Double(a), b) => mixed(*a, b),
        (a, Val::Double(b)) => mixed(*b, a).map(|order| order.map(Ordering::reverse)),
        (a, b) => Some(Some(whole(a)?.cmp(&whole(b)?))),
    }
}

/// The order of two values.
///
/// # Errors
/// When they have none.
pub(crate) fn order(a: &Val<'_>, b: &Val<'_>) -> std::result::Result<Ordering, Error> {
    Ok(match (a, b) {
        (Val::Bool(a), Val::Bool(b)) => a.cmp(b),
        (Val::Text(a), Val::Text(b)) => (**a).cmp(&**b),
        (Val::Bytes(a), Val::Bytes(b)) => a.cmp(b),
        (Val::Duration(a), Val::Duration(b)) => a.cmp(b),
        (Val::Timestamp(a), Val::Timestamp(b)) => a.cmp(b),
        (a, b) => match numbers(a, b) {
            Some(Some(order)) => order,
            Some(None) => return Err(Error::failed("NaN values cannot be ordered")),
            None => return Err(Error::NoSuchOverload),
        },
    })
}

macro_rules! ordering {
    ($($name:ident $test:ident),*) => {$(
        pub(crate) fn $name<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
            match args {
                [a, b] => Ok(Val::Bool(order(a, b)?.$test())),
                _ => Err(Error::NoSuchOverload),
            }
        }
    )*};
}
ordering!(less is_lt, less_equal is_le, greater is_gt, greater_equal is_ge);

pub(crate) fn within<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [item, Val::List(list)] => {
            meter.work(list.len())?;
            for i in 0..list.len() {
                if let Some(one) = list.get(i)
                    && equal(&one?, item)
                {
                    return Ok(Val::Bool(true));
                }
            }
            Ok(Val::Bool(false))
        }
        [key, Val::Map(map)] => {
            let key = super::value::Key::from_value(key);
            Ok(Val::Bool(key.is_some_and(|key| map.contains(&key))))
        }
        _ => Err(Error::NoSuchOverload),
    }
}
