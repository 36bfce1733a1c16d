//! Text: the string extensions of the language and regular expressions.
//! Places count characters, not bytes.

use super::encoding::quoted;
use super::error::Error;
use super::meter::Meter;
use super::value::{List, Text, Val};

type Result<'a> = std::result::Result<Val<'a>, Error>;

fn out_of_range(index: i64) -> Error {
    Error::failed(format!("index out of range: {index}"))
}

/// The byte at which character `index` begins; the end counts.
fn byte_at(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    text.char_indices()
        .map(|(at, _)| at)
        .chain([text.len()])
        .nth(index)
}

fn chars(text: &str) -> i64 {
    text.chars().count() as i64
}

/// Part of a text, borrowed where the text is.
fn part<'a>(text: &Text<'a>, from: usize, to: usize) -> Val<'a> {
    match text {
        Text::Ref(text) => Val::Text(Text::Ref(text.get(from..to).unwrap_or(""))),
        Text::Own(text) => Val::text(text.get(from..to).unwrap_or("")),
    }
}

pub(crate) fn char_at<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Text(text), Val::Int(index)] => {
            let from = byte_at(text, *index).ok_or_else(|| out_of_range(*index))?;
            let length = text[from..].chars().next().map_or(0, char::len_utf8);
            Ok(part(text, from, from + length))
        }
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn index_of<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    let (text, wanted, from) = match args {
        [Val::Text(text), Val::Text(wanted)] => (text, wanted, 0),
        [Val::Text(text), Val::Text(wanted), Val::Int(from)] => (text, wanted, *from),
        args => return super::lists::index_of(meter, args),
    };
    if wanted.is_empty() {
        return Ok(Val::Int(from));
    }
    if from < 0 {
        return Err(out_of_range(from));
    }
    // behind the end there is nothing
    let Some(start) = byte_at(text, from) else {
        return Ok(Val::Int(-1));
    };
    let found = text[start..].find(&**wanted);
    Ok(Val::Int(found.map_or(-1, |at| chars(&text[..start + at]))))
}

pub(crate) fn last_index_of<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    let (text, wanted, last) = match args {
        [Val::Text(text), Val::Text(wanted)] => (text, wanted, None),
        [Val::Text(text), Val::Text(wanted), Val::Int(last)] => (text, wanted, Some(*last)),
        args => return super::lists::last_index_of(meter, args),
    };
    let end = match last {
        None => text.len(),
        Some(last) if wanted.is_empty() => return Ok(Val::Int(last)),
        Some(last) if last < 0 => return Err(out_of_range(last)),
        // what begins at that place may reach beyond it
        Some(last) => match byte_at(text, last).filter(|at| *at < text.len()) {
            Some(at) => at.saturating_add(wanted.len()).min(text.len()),
            None => return Ok(Val::Int(-1)),
        },
    };
    let mut end = end;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let found = text[..end].rfind(&**wanted);
    Ok(Val::Int(found.map_or(-1, |at| chars(&text[..at]))))
}

pub(crate) fn lower_ascii<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Text(text)] => {
            meter.work(text.len())?;
            Ok(Val::text(text.to_ascii_lowercase()))
        }
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn upper_ascii<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Text(text)] => {
            meter.work(text.len())?;
            Ok(Val::text(text.to_ascii_uppercase()))
        }
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn replace<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    let (text, old, new, most) = match args {
        [Val::Text(text), Val::Text(old), Val::Text(new)] => (text, old, new, usize::MAX),
        [
            Val::Text(text),
            Val::Text(old),
            Val::Text(new),
            Val::Int(most),
        ] => (text, old, new, usize::try_from(*most).unwrap_or(usize::MAX)),
        _ => return Err(Error::NoSuchOverload),
    };
    let count = if old.is_empty() {
        text.chars().count() + 1
    } else {
        text.matches(&**old).count()
    };
    meter.work(text.len() + count.min(most).saturating_mul(new.len()))?;
    Ok(Val::text(text.replacen(&**old, new, most)))
}

pub(crate) fn split<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    let (text, by, most) = match args {
        [Val::Text(text), Val::Text(by)] => (text, by, -1),
        [Val::Text(text), Val::Text(by), Val::Int(most)] => (text, by, *most),
        _ => return Err(Error::NoSuchOverload),
    };
    meter.work(text.len())?;
    if most == 0 {
        return Ok(Val::list(Vec::new()));
    }
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut parts = Vec::new();
    let mut at = 0;
    while parts.len() + 1 < most {
        let next = if by.is_empty() {
            let length = text[at..].chars().next().map_or(0, char::len_utf8);
            // the last character is the last part
            (at + length < text.len()).then_some((at + length, at + length))
        } else {
            text[at..]
                .find(&**by)
                .map(|found| (at + found, at + found + by.len()))
        };
        let Some((end, next)) = next else { break };
        parts.push(part(text, at, end));
        at = next;
    }
    if !(by.is_empty() && text.is_empty()) {
        parts.push(part(text, at, text.len()));
    }
    Ok(Val::list(parts))
}

pub(crate) fn substring<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    let (text, from, to) = match args {
        [Val::Text(text), Val::Int(from)] => (text, *from, None),
        [Val::Text(text), Val::Int(from), Val::Int(to)] => (text, *from, Some(*to)),
        _ => return Err(Error::NoSuchOverload),
    };
    if let Some(to) = to
        && from > to
    {
        return Err(Error::failed(format!(
            "invalid substring range. start: {from}, end: {to}"
        )));
    }
    let start = byte_at(text, from).ok_or_else(|| out_of_range(from))?;
    let end = match to {
        None => text.len(),
        Some(to) => byte_at(text, to).ok_or_else(|| out_of_range(to))?,
    };
    Ok(part(text, start, end))
}

/// Cuts off white space as Unicode defines it.
pub(crate) fn trim<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Text(text)] => {
            let from = text.len() - text.trim_start().len();
            Ok(part(text, from, from + text.trim().len()))
        }
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn join<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    let (list, by) = match args {
        [Val::List(list)] => (list, ""),
        [Val::List(list), Val::Text(by)] => (list, &**by),
        _ => return Err(Error::NoSuchOverload),
    };
    let mut out = String::new();
    for i in 0..list.len() {
        let Some(item) = list.get(i) else { continue };
        let item = item?;
        let Val::Text(item) = &item else {
            return Err(Error::failed(format!(
                "join: invalid input: {}",
                super::convert::shown(&item)
            )));
        };
        meter.work(item.len() + by.len())?;
        if i > 0 {
            out.push_str(by);
        }
        out.push_str(item);
    }
    Ok(Val::text(out))
}

pub(crate) fn quote<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Text(text)] => {
            meter.work(text.len().saturating_mul(2))?;
            Ok(Val::text(quoted(text)))
        }
        _ => Err(Error::NoSuchOverload),
    }
}

macro_rules! tests {
    ($($name:ident = $test:expr;)*) => {$(
        pub(crate) fn $name<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
            match args {
                [Val::Text(text), Val::Text(other)] => {
                    let test: fn(&str, &str) -> bool = $test;
                    Ok(Val::Bool(test(text, other)))
                }
                _ => Err(Error::NoSuchOverload),
            }
        }
    )*};
}
tests! {
    contains = |text, part| text.contains(part);
    starts_with = |text, start| text.starts_with(start);
    ends_with = |text, end| text.ends_with(end);
}

fn regex(pattern: &str) -> std::result::Result<regex::Regex, Error> {
    crate::regex::compile(pattern).map_err(|error| Error::failed(error.to_string()))
}

pub(crate) fn matches<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Text(text), Val::Text(pattern)] => {
            // to compile a pattern is far more work than to read it
            meter.work(text.len() + pattern.len().saturating_mul(100))?;
            Ok(Val::Bool(regex(pattern)?.is_match(text)))
        }
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn find<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Text(text), Val::Text(pattern)] => {
            meter.work(text.len() + pattern.len().saturating_mul(100))?;
            let found = regex(pattern)
                .map_err(illegal)?
                .find(text)
                .map(|m| m.range());
            Ok(found.map_or(Val::text(""), |range| part(text, range.start, range.end)))
        }
        _ => Err(Error::NoSuchOverload),
    }
}

fn illegal(error: Error) -> Error {
    Error::failed(format!("Illegal regex: {error}"))
}

pub(crate) fn find_all<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    let (text, pattern, most) = match args {
        [Val::Text(text), Val::Text(pattern)] => (text, pattern, usize::MAX),
        [Val::Text(text), Val::Text(pattern), Val::Int(most)] => {
            (text, pattern, usize::try_from(*most).unwrap_or(usize::MAX))
        }
        _ => return Err(Error::NoSuchOverload),
    };
    meter.work(text.len() + pattern.len().saturating_mul(100))?;
    let regex = regex(pattern).map_err(illegal)?;
    let found = regex.find_iter(text).take(most);
    let found: Vec<_> = found.map(|m| part(text, m.start(), m.end())).collect();
    Ok(Val::List(List::Own(found.into())))
}
