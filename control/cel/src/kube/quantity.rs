//! `quantity('1.5Gi')`: amounts of resources.

use std::cmp::Ordering;
use std::rc::Rc;

use control_types::quantity::{Format, Quantity};

use crate::run::meter::Meter;
use crate::run::{Error, Val};

type Result<'a> = std::result::Result<Val<'a>, Error>;

pub(crate) fn parse<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Text(text)] => match Quantity::parse(text) {
            Ok(quantity) => Ok(Val::Quantity(Rc::new(quantity))),
            Err(error) => Err(Error::failed(error.to_string())),
        },
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn is<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Text(text)] => Ok(Val::Bool(Quantity::parse(text).is_ok())),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn sign<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Quantity(quantity)] => Ok(Val::Int(i64::from(quantity.signum()))),
        _ => Err(Error::NoSuchOverload),
    }
}

/// The order of two quantities or two versions.
fn order(args: &[Val<'_>]) -> std::result::Result<Ordering, Error> {
    match args {
        [Val::Quantity(a), Val::Quantity(b)] => Ok(a.cmp(b)),
        [Val::Semver(a), Val::Semver(b)] => Ok(a.order(b)),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn is_greater<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    Ok(Val::Bool(order(args)?.is_gt()))
}

pub(crate) fn is_less<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    Ok(Val::Bool(order(args)?.is_lt()))
}

pub(crate) fn compare<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    Ok(Val::Int(order(args)? as i64))
}

pub(crate) fn as_float<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Quantity(quantity)] => Ok(Val::Double(quantity.as_f64())),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn as_integer<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Quantity(quantity)] => quantity
            .as_i64()
            .map(Val::Int)
            .ok_or_else(|| Error::failed("cannot convert value to integer")),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn is_integer<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Quantity(quantity)] => Ok(Val::Bool(quantity.as_i64().is_some())),
        _ => Err(Error::NoSuchOverload),
    }
}

fn change<'a>(args: &[Val<'a>], apply: fn(&mut Quantity, &Quantity)) -> Result<'a> {
    let (left, right) = match args {
        [Val::Quantity(left), Val::Quantity(right)] => (left, Quantity::clone(right)),
        [Val::Quantity(left), Val::Int(right)] => {
            (left, Quantity::new(*right, Format::DecimalExponent))
        }
        _ => return Err(Error::NoSuchOverload),
    };
    let mut sum = Quantity::clone(left);
    apply(&mut sum, &right);
    Ok(Val::Quantity(Rc::new(sum)))
}

pub(crate) fn add<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    change(args, Quantity::add)
}

pub(crate) fn sub<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    change(args, Quantity::sub)
}
