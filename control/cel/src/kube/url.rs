//! `url('https://example.com:80/path?query')`: absolute URLs and paths.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::opaque::url::{Url, unescaped};
use crate::run::meter::Meter;
use crate::run::{Entries, Error, Key, Text, Val};

pub(crate) fn parse<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    match args {
        [Val::Text(text)] => match Url::read(text) {
            Ok(url) => Ok(Val::Url(Rc::new(url))),
            Err(why) => Err(Error::failed(format!(
                "URL parse error during conversion from string: {why}"
            ))),
        },
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn is<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    match args {
        [Val::Text(text)] => Ok(Val::Bool(Url::read(text).is_ok())),
        _ => Err(Error::NoSuchOverload),
    }
}

fn part<'a>(args: &[Val<'a>], get: fn(&Url) -> &str) -> Result<Val<'a>, Error> {
    match args {
        [Val::Url(url)] => Ok(Val::text(get(url))),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn scheme<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    part(args, |url| &url.scheme)
}

pub(crate) fn host<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    part(args, |url| &url.host)
}

pub(crate) fn hostname<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    part(args, |url| {
        let host = match url.port_at() {
            Some(at) => url.host.get(..at).unwrap_or(""),
            None => &url.host,
        };
        host.strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host)
    })
}

pub(crate) fn port<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    part(args, |url| match url.port_at() {
        Some(at) => url.host.get(at + 1..).unwrap_or(""),
        None => "",
    })
}

pub(crate) fn escaped_path<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    part(args, |url| &url.path)
}

pub(crate) fn query<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let [Val::Url(url)] = args else {
        return Err(Error::NoSuchOverload);
    };
    let mut all: BTreeMap<String, Vec<Val<'a>>> = BTreeMap::new();
    for pair in url.query.split('&') {
        // a pair with a semicolon or an invalid escape is dropped
        if pair.is_empty() || pair.contains(';') {
            continue;
        }
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if let (Some(key), Some(value)) = (unescaped(key), unescaped(value)) {
            all.entry(key).or_default().push(Val::text(value));
        }
    }
    let all = all
        .into_iter()
        .map(|(key, values)| (Key::Text(Text::Own(key.into())), Val::list(values)))
        .collect();
    Ok(Val::Map(Entries::Own(Rc::new(all))))
}
