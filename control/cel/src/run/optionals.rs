//! Values that may be missing.

use super::error::Error;
use super::meter::Meter;
use super::value::Val;

type Result<'a> = std::result::Result<Val<'a>, Error>;

pub(crate) fn optional_of<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [value] => Ok(Val::some(value.clone())),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn of_non_zero<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [value] if value.is_zero() => Ok(Val::Optional(None)),
        [value] => Ok(Val::some(value.clone())),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn none<'a>(_: &mut Meter, _: &[Val<'a>]) -> Result<'a> {
    Ok(Val::Optional(None))
}

pub(crate) fn value<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Optional(Some(inner))] => Ok(Val::clone(inner)),
        [Val::Optional(None)] => Err(Error::failed("optional.none() dereference")),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn has_value<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Optional(inner)] => Ok(Val::Bool(inner.is_some())),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn unwrap<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    let [Val::List(list)] = args else {
        return Err(Error::NoSuchOverload);
    };
    let mut out = Vec::new();
    for item in list.to_vec()? {
        match item {
            Val::Optional(inner) => out.extend(inner.map(|inner| Val::clone(&inner))),
            other => {
                return Err(Error::failed(format!(
                    "value {} is not optional",
                    super::convert::shown(&other)
                )));
            }
        }
    }
    Ok(Val::list(out))
}
