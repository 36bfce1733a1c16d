//! `semver('1.2.3')`: versions as <https://semver.org> orders them.

use std::rc::Rc;

use crate::opaque::semver::{Semver, SemverError};
use crate::run::meter::Meter;
use crate::run::{Error, Val};

fn read(args: &[Val<'_>]) -> Result<Result<Semver, SemverError>, Error> {
    match args {
        [Val::Text(text)] | [Val::Text(text), Val::Bool(false)] => Ok(Semver::read(text)),
        [Val::Text(text), Val::Bool(true)] => Ok(Semver::read_loosely(text)),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn parse<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    match read(args)? {
        Ok(version) => Ok(Val::Semver(Rc::new(version))),
        Err(error) => Err(Error::failed(error.to_string())),
    }
}

pub(crate) fn is<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    Ok(Val::Bool(read(args)?.is_ok()))
}

fn part<'a>(args: &[Val<'a>], at: usize) -> Result<Val<'a>, Error> {
    match args {
        [Val::Semver(version)] => {
            let number = version.numbers.get(at).copied().unwrap_or(0);
            Ok(Val::Int(i64::try_from(number).unwrap_or(i64::MAX)))
        }
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn major<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    part(args, 0)
}

pub(crate) fn minor<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    part(args, 1)
}

pub(crate) fn patch<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    part(args, 2)
}
