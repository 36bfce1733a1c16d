//! Plain scalars of YAML 1.1.

use crate::value::write_float;

/// The value of a plain scalar.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PlainScalar {
    Null,
    Bool(bool),
    Int(i64),
    /// Beyond 63 bits.
    Large(u64),
    Float(f64),
    /// Looks like a time; it stays a text, but is quoted when written.
    Time,
    Merge,
    Text,
}

/// Resolves a plain scalar (YAML 1.1, except for base-60 numbers).
pub(super) fn resolve(text: &str) -> PlainScalar {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return PlainScalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return PlainScalar::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return PlainScalar::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return PlainScalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return PlainScalar::Float(f64::INFINITY);
        }
        "-.inf" | "-.Inf" | "-.INF" => return PlainScalar::Float(f64::NEG_INFINITY),
        "<<" => return PlainScalar::Merge,
        _ => {}
    }
    match text.as_bytes()[0] {
        b'.' => float(text).map_or(PlainScalar::Text, PlainScalar::Float),
        b'+' | b'-' | b'0'..=b'9' => {
            if is_time(text) {
                return PlainScalar::Time;
            }
            let plain = text.replace('_', "");
            if let Some(number) = int(&plain) {
                return number;
            }
            float(&plain).map_or(PlainScalar::Text, PlainScalar::Float)
        }
        _ => PlainScalar::Text,
    }
}

/// A whole number with the prefixes of Go's literals.
fn int(text: &str) -> Option<PlainScalar> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, &lower[..]),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let number = u64::from_str_radix(digits, radix).ok()?;
    match (negative, i64::try_from(number)) {
        (false, Ok(number)) => Some(PlainScalar::Int(number)),
        (false, Err(_)) => Some(PlainScalar::Large(number)),
        (true, Ok(number)) => Some(PlainScalar::Int(-number)),
        (true, Err(_)) => (number == i64::MIN.unsigned_abs()).then_some(PlainScalar::Int(i64::MIN)),
    }
}

/// A number with fraction or exponent: digits, a point, digits, an exponent.
fn float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fits = digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|exponent| {
            let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            !exponent.is_empty() && digits(exponent)
        });
    let number: f64 = fits.then(|| text.parse().ok()).flatten()?;
    number.is_finite().then_some(number)
}

/// `2006-1-2`, and with a time behind `T`, `t` or a blank.
fn is_time(text: &str) -> bool {
    let Some((year, rest)) = text.split_once('-').filter(|(year, _)| year.len() == 4) else {
        return false;
    };
    let number = |text: &str, low: u32, high: u32| {
        (1..=2).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && text
                .parse()
                .is_ok_and(|number: u32| (low..=high).contains(&number))
    };
    let (date, clock) = match rest.find(['T', 't', ' ']) {
        Some(at) => (&rest[..at], Some((&rest[at..=at], &rest[at + 1..]))),
        None => (rest, None),
    };
    let Some((month, day)) = date.split_once('-') else {
        return false;
    };
    if !year.bytes().all(|byte| byte.is_ascii_digit())
        || !number(month, 1, 12)
        || !number(day, 1, 31)
    {
        return false;
    }
    let padded = format!("{year}-{month:0>2}-{day:0>2}T00:00:00Z");
    if crate::time::parse(&padded).is_none() {
        return false;
    }
    let Some((between, clock)) = clock else {
        return true;
    };
    let (clock, zone) = match clock.find(['Z', '+', '-']) {
        Some(at) => (&clock[..at], &clock[at..]),
        None => (clock, ""),
    };
    let zone_fits = match zone.as_bytes() {
        [] => between == " ",
        [b'Z'] => between != " ",
        [b'+' | b'-', a, b, b':', c, d] => {
            between != " " && [a, b, c, d].iter().all(|byte| byte.is_ascii_digit())
        }
        _ => false,
    };
    let mut parts = clock.split(':');
    let (hour, minute, second) = (parts.next(), parts.next(), parts.next());
    let second = second.map(|second| {
        let (whole, fraction) = second.split_once('.').unwrap_or((second, "0"));
        number(whole, 0, 59)
            && !fraction.is_empty()
            && fraction.bytes().all(|byte| byte.is_ascii_digit())
    });
    zone_fits
        && parts.next().is_none()
        && hour.is_some_and(|hour| number(hour, 0, 23))
        && minute.is_some_and(|minute| number(minute, 0, 59))
        && second == Some(true)
}

/// A number as Go prints it in its shortest form (`%g`).
pub(super) fn format_float(number: f64) -> String {
    let text = format!("{number:e}");
    let Some((digits, power)) = text.split_once('e') else {
        return text;
    };
    match power.parse::<i32>() {
        Ok(power) if !(-4..21).contains(&power) => {
            let sign = if power < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", power.unsigned_abs())
        }
        _ => {
            let mut out = Vec::new();
            write_float(number, &mut out);
            String::from_utf8_lossy(&out).into_owned()
        }
    }
}
