//! Lists and sets.

use std::cmp::Ordering;

use super::error::Error;
use super::meter::Meter;
use super::operators::{equal, order};
use super::value::{List, Val};

type Result<'a> = std::result::Result<Val<'a>, Error>;

fn list<'b, 'a>(args: &'b [Val<'a>]) -> std::result::Result<&'b List<'a>, Error> {
    match args.first() {
        Some(Val::List(list)) => Ok(list),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn size<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [value @ (Val::Text(_) | Val::Bytes(_) | Val::List(_) | Val::Map(_))] => {
            Ok(Val::Int(i64::try_from(value.size()).unwrap_or(i64::MAX)))
        }
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn is_sorted<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    let all = list(args)?.to_vec()?;
    meter.work(all.len())?;
    for pair in all.windows(2) {
        if let [a, b] = pair
            && order(a, b)?.is_gt()
        {
            return Ok(Val::Bool(false));
        }
    }
    Ok(Val::Bool(true))
}

pub(crate) fn sum<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    let mut all = list(args)?.to_vec()?.into_iter();
    meter.work(all.len())?;
    let Some(mut total) = all.next() else {
        return Ok(Val::Int(0));
    };
    for item in all {
        total = super::operators::add(meter, &[total, item])?;
    }
    Ok(total)
}

fn extreme<'a>(meter: &mut Meter, args: &[Val<'a>], name: &str, wanted: Ordering) -> Result<'a> {
    let mut all = list(args)?.to_vec()?.into_iter();
    meter.work(all.len())?;
    let Some(mut best) = all.next() else {
        return Err(Error::failed(format!("{name} called on empty list")));
    };
    for item in all {
        if order(&item, &best)? == wanted {
            best = item;
        }
    }
    Ok(best)
}

pub(crate) fn min<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    extreme(meter, args, "min", Ordering::Less)
}

pub(crate) fn max<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    extreme(meter, args, "max", Ordering::Greater)
}

fn place<'a>(args: &[Val<'a>], find: impl Fn(&[Val<'a>], &Val<'a>) -> Option<usize>) -> Result<'a> {
    match args {
        [Val::List(list), item] => {
            let found = find(&list.to_vec()?, item);
            Ok(Val::Int(found.map_or(-1, |at| at as i64)))
        }
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn index_of<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    place(args, |all, item| {
        all.iter().position(|one| equal(one, item))
    })
}

pub(crate) fn last_index_of<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    place(args, |all, item| {
        all.iter().rposition(|one| equal(one, item))
    })
}

pub(crate) fn first<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match list(args)?.get(0) {
        Some(item) => item.map(Val::some),
        None => Ok(Val::Optional(None)),
    }
}

pub(crate) fn last<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    let list = list(args)?;
    match list.len().checked_sub(1).and_then(|at| list.get(at)) {
        Some(item) => item.map(Val::some),
        None => Ok(Val::Optional(None)),
    }
}

pub(crate) fn slice<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    let [Val::List(list), Val::Int(from), Val::Int(to)] = args else {
        return Err(Error::NoSuchOverload);
    };
    let wrong = |why: String| Err(Error::failed(format!("cannot slice({from}, {to}), {why}")));
    let (Ok(start), Ok(end)) = (usize::try_from(*from), usize::try_from(*to)) else {
        return wrong("negative indexes not supported".to_owned());
    };
    if start > end {
        return wrong("start index must be less than or equal to end index".to_owned());
    }
    if list.len() < end {
        return wrong(format!("list is length {}", list.len()));
    }
    meter.work(end - start)?;
    let items = (start..end).filter_map(|at| list.get(at));
    Ok(Val::list(items.collect::<std::result::Result<_, _>>()?))
}

pub(crate) fn reverse<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    let mut all = list(args)?.to_vec()?;
    meter.work(all.len())?;
    all.reverse();
    Ok(Val::list(all))
}

pub(crate) fn distinct<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    let mut out: Vec<Val<'a>> = Vec::new();
    for item in list(args)?.to_vec()? {
        meter.work(out.len())?;
        if !out.iter().any(|one| equal(one, &item)) {
            out.push(item);
        }
    }
    Ok(Val::list(out))
}

pub(crate) fn flatten<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    fn into<'a>(
        meter: &mut Meter,
        list: &List<'a>,
        depth: i64,
        out: &mut Vec<Val<'a>>,
    ) -> std::result::Result<(), Error> {
        for item in list.to_vec()? {
            meter.work(1)?;
            match item {
                Val::List(inner) if depth > 0 => into(meter, &inner, depth - 1, out)?,
                item => out.push(item),
            }
        }
        Ok(())
    }
    let depth = match args {
        [_] => 1,
        [_, Val::Int(depth)] => *depth,
        _ => return Err(Error::NoSuchOverload),
    };
    if depth < 0 {
        return Err(Error::failed("level must be non-negative"));
    }
    let mut out = Vec::new();
    into(meter, list(args)?, depth, &mut out)?;
    Ok(Val::list(out))
}

pub(crate) fn range<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Int(end)] => {
            // paid for before it is made
            meter.work(usize::try_from(*end).unwrap_or(0).saturating_mul(4))?;
            Ok(Val::list((0..(*end).max(0)).map(Val::Int).collect()))
        }
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn sort<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    let all = list(args)?.to_vec()?;
    sort_by_keys(meter, &all, &all)
}

/// The items in the order of their keys.
pub(crate) fn sort_by_keys<'a>(
    meter: &mut Meter,
    items: &[Val<'a>],
    keys: &[Val<'a>],
) -> Result<'a> {
    meter.work(items.len().saturating_mul(8))?;
    if let Some(first) = keys.first() {
        order(first, first).map_err(|_| Error::failed("list elements must be comparable"))?;
        let kind = std::mem::discriminant(first);
        if keys.iter().any(|key| std::mem::discriminant(key) != kind) {
            return Err(Error::failed("list elements must have the same type"));
        }
    }
    let mut all: Vec<(&Val<'a>, &Val<'a>)> = keys.iter().zip(items).collect();
    // values that cannot be ordered were rejected above, except NaN
    all.sort_by(|(a, _), (b, _)| order(a, b).unwrap_or(Ordering::Equal));
    Ok(Val::list(
        all.into_iter().map(|(_, item)| item.clone()).collect(),
    ))
}

fn has(list: &[Val<'_>], item: &Val<'_>) -> bool {
    list.iter().any(|one| equal(one, item))
}

fn two<'a>(
    meter: &mut Meter,
    args: &[Val<'a>],
) -> std::result::Result<(Vec<Val<'a>>, Vec<Val<'a>>), Error> {
    match args {
        [Val::List(a), Val::List(b)] => {
            meter.work(a.len().saturating_mul(b.len()))?;
            Ok((a.to_vec()?, b.to_vec()?))
        }
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn sets_contains<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    let (a, b) = two(meter, args)?;
    Ok(Val::Bool(b.iter().all(|item| has(&a, item))))
}

pub(crate) fn sets_intersects<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    let (a, b) = two(meter, args)?;
    Ok(Val::Bool(a.iter().any(|item| has(&b, item))))
}

pub(crate) fn sets_equivalent<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    let (a, b) = two(meter, args)?;
    Ok(Val::Bool(
        b.iter().all(|item| has(&a, item)) && a.iter().all(|item| has(&b, item)),
    ))
}
