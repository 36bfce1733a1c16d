//! `'…'.format([…])`: verbs `%s %d %f %e %b %x %X %o` with a precision.

use super::convert;
use super::encoding;
use super::error::Error;
use super::meter::Meter;
use super::value::{Entries, Val};

/// The most digits behind the point.
const MOST_DIGITS: usize = 1000;

pub(crate) fn format<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let [Val::Text(pattern), Val::List(list)] = args else {
        return Err(Error::NoSuchOverload);
    };
    let mut out = String::with_capacity(pattern.len());
    let mut next = 0;
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        if chars.next_if_eq(&'%').is_some() {
            out.push('%');
            continue;
        }
        let mut precision = None;
        if chars.next_if_eq(&'.').is_some() {
            let mut digits = String::new();
            while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            let number: usize = digits.parse().map_err(|_| {
                Error::failed(
                    "error while parsing precision: error while converting precision to integer",
                )
            })?;
            precision = Some(number.min(MOST_DIGITS));
        }
        let verb = chars
            .next()
            .ok_or_else(|| Error::failed("unexpected end of string"))?;
        if !matches!(verb, 's' | 'd' | 'f' | 'e' | 'b' | 'x' | 'X' | 'o') {
            return Err(Error::failed(format!(
                "could not parse formatting clause: unrecognized formatting clause \"{verb}\""
            )));
        }
        let precision = precision.unwrap_or(if verb == 'e' { 0 } else { 6 });
        let argument = list
            .get(next)
            .ok_or_else(|| Error::failed(format!("index {next} out of range")))??;
        next += 1;
        let text = one(verb, precision, &argument)?;
        meter.work(text.len())?;
        out.push_str(&text);
    }
    Ok(Val::text(out))
}

fn one(verb: char, precision: usize, value: &Val<'_>) -> Result<String, Error> {
    let refused = |wanted: &str| {
        Err(Error::failed(format!(
            "error during formatting: {wanted}, was given {}",
            value.type_name()
        )))
    };
    match (verb, value) {
        ('s', value) => text(value, false),
        ('d', Val::Int(number)) => Ok(number.to_string()),
        ('d', Val::Uint(number)) => Ok(number.to_string()),
        ('d', _) => refused("decimal clause can only be used on integers"),
        ('f' | 'e', Val::Double(number)) => Ok(double(verb, precision, *number)),
        ('f' | 'e', Val::Text(special))
            if matches!(&**special, "NaN" | "Infinity" | "-Infinity") =>
        {
            Ok(match &**special {
                "NaN" => "NaN".to_owned(),
                "Infinity" => "∞".to_owned(),
                _ => "-∞".to_owned(),
            })
        }
        ('f', _) => refused("fixed-point clause can only be used on doubles"),
        ('e', _) => refused("scientific clause can only be used on doubles"),
        ('b', Val::Int(number)) => Ok(signed(*number, |n| format!("{n:b}"))),
        ('b', Val::Uint(number)) => Ok(format!("{number:b}")),
        ('b', Val::Bool(truth)) => Ok(u8::from(*truth).to_string()),
        ('b', _) => refused("only integers and bools can be formatted as binary"),
        ('o', Val::Int(number)) => Ok(signed(*number, |n| format!("{n:o}"))),
        ('o', Val::Uint(number)) => Ok(format!("{number:o}")),
        ('o', _) => refused("octal clause can only be used on integers"),
        ('x', Val::Int(number)) => Ok(signed(*number, |n| format!("{n:x}"))),
        ('X', Val::Int(number)) => Ok(signed(*number, |n| format!("{n:X}"))),
        ('x', Val::Uint(number)) => Ok(format!("{number:x}")),
        ('X', Val::Uint(number)) => Ok(format!("{number:X}")),
        ('x' | 'X', Val::Text(text)) => Ok(hex(text.as_bytes(), verb == 'X')),
        ('x' | 'X', Val::Bytes(bytes)) => Ok(hex(bytes, verb == 'X')),
        _ => refused("only integers, byte buffers, and strings can be formatted as hex"),
    }
}

fn signed(number: i64, digits: fn(u64) -> String) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", digits(number.unsigned_abs()))
}

fn hex(bytes: &[u8], upper: bool) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // writing to a text does not fail
        let _ = if upper {
            write!(out, "{byte:02X}")
        } else {
            write!(out, "{byte:02x}")
        };
    }
    out
}

/// As Go's printer for American English writes it: digits in groups of three,
/// exponents raised.
fn double(verb: char, precision: usize, number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "∞" } else { "-∞" }.to_owned();
    }
    if verb == 'f' {
        let plain = format!("{number:.precision$}");
        let (sign, digits) = match plain.strip_prefix('-') {
            Some(digits) => ("-", digits),
            None => ("", plain.as_str()),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let mut out = sign.to_owned();
        for (i, digit) in whole.chars().enumerate() {
            if i > 0 && (whole.len() - i) % 3 == 0 {
                out.push(',');
            }
            out.push(digit);
        }
        if !fraction.is_empty() {
            out.push('.');
            out.push_str(fraction);
        }
        return out;
    }
    // the printer takes the precision for a width, and always writes six digits
    let plain = format!("{number:.6e}");
    let (mantissa, exponent) = plain.split_once('e').unwrap_or((&plain, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let mut out = format!("{mantissa}\u{d7}10");
    if exponent < 0 {
        out.push('\u{207b}');
    }
    for digit in format!("{:02}", exponent.abs()).bytes() {
        out.push(
            ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'][usize::from(digit - b'0') % 10],
        );
    }
    let padding = precision.saturating_sub(out.chars().count());
    format!("{}{out}", " ".repeat(padding))
}

/// `%s`: any value, text in quotes within lists and maps.
fn text(value: &Val<'_>, inner: bool) -> Result<String, Error> {
    match value {
        Val::Null => Ok("null".to_owned()),
        Val::Text(text) if inner => Ok(encoding::quoted(text)),
        Val::Bytes(bytes) if inner => Ok(format!(
            "b{}",
            encoding::quoted(&String::from_utf8_lossy(bytes))
        )),
        Val::Timestamp(_) if inner => Ok(format!("timestamp({})", quoted(value)?)),
        Val::Duration(_) if inner => Ok(format!("duration({})", quoted(value)?)),
        Val::Double(number) if inner => Ok(double('f', 6, *number)),
        Val::List(list) => {
            let items = list.to_vec()?;
            let items: Vec<String> = items
                .iter()
                .map(|item| text(item, true))
                .collect::<Result<_, _>>()?;
            Ok(format!("[{}]", items.join(", ")))
        }
        Val::Map(map) => entries(map),
        Val::Type(name) => Ok(name.to_string()),
        Val::Bool(_)
        | Val::Int(_)
        | Val::Uint(_)
        | Val::Double(_)
        | Val::Text(_)
        | Val::Bytes(_)
        | Val::Timestamp(_)
        | Val::Duration(_) => match convert::string(value)? {
            Val::Text(text) => Ok(text.to_string()),
            _ => Ok(String::new()),
        },
        other => Err(Error::failed(format!(
            "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given {}",
            other.type_name()
        ))),
    }
}

fn quoted(value: &Val<'_>) -> Result<String, Error> {
    Ok(match convert::string(value)? {
        Val::Text(text) => encoding::quoted(&text),
        _ => String::new(),
    })
}

fn entries(map: &Entries<'_>) -> Result<String, Error> {
    let mut pairs = Vec::new();
    for (key, value) in map.pairs()? {
        let shown = match &key {
            Val::Text(key) => encoding::quoted(key),
            key => text(key, true)?,
        };
        let order = convert::string(&key)?.as_str().unwrap_or("").to_owned();
        pairs.push((order, format!("{shown}:{}", text(&value, true)?)));
    }
    pairs.sort();
    let pairs: Vec<String> = pairs.into_iter().map(|(_, pair)| pair).collect();
    Ok(format!("{{{}}}", pairs.join(", ")))
}
