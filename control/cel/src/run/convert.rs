//! Conversions between types, and values as messages show them.

use base64::Engine as _;

use super::error::Error;
use super::node::Meter;
use super::time;
use super::value::{Moment, Val};

type Result<'a> = std::result::Result<Val<'a>, Error>;

fn no_conversion(from: &Val<'_>, to: &str) -> Error {
    Error::failed(format!(
        "type conversion error from '{}' to '{to}'",
        from.type_name()
    ))
}

/// Decodes standard base64.
pub(crate) fn base64(text: &str) -> Option<Vec<u8>> {
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

/// A double as Go writes it shortest: with an exponent from a million on.
pub(crate) fn double_text(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let exponent: i32 = scientific
        .split_once('e')
        .and_then(|(_, e)| e.parse().ok())
        .unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return format!("{number}");
    }
    let (mantissa, _) = scientific.split_once('e').unwrap_or((&scientific, ""));
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

pub(crate) fn string<'a>(value: &Val<'a>) -> Result<'a> {
    Ok(match value {
        Val::Text(text) => Val::Text(text.clone()),
        Val::Bool(truth) => Val::text(if *truth { "true" } else { "false" }),
        Val::Int(number) => Val::text(number.to_string()),
        Val::Uint(number) => Val::text(number.to_string()),
        Val::Double(number) => Val::text(double_text(*number)),
        Val::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Val::text(text),
            Err(_) => {
                return Err(Error::failed(
                    "invalid UTF-8 in bytes, cannot convert to string",
                ));
            }
        },
        Val::Timestamp(moment) => Val::text(time::format(*moment)),
        Val::Duration(nanos) => Val::text(time::format_duration(*nanos)),
        Val::Ip(address) => Val::text(address.to_string()),
        Val::Cidr(address, bits) => Val::text(format!("{address}/{bits}")),
        Val::Quantity(quantity) => Val::text(&*quantity.canonical()),
        _ => return Err(Error::NoSuchOverload),
    })
}

/// A value as `%v` of cel-go's errors shows it.
pub(crate) fn shown(value: &Val<'_>) -> String {
    match string(value) {
        Ok(Val::Text(text)) => text.to_string(),
        _ => value
            .to_value()
            .map_or_else(|| value.type_name().to_owned(), |value| value.to_string()),
    }
}

/// The name of the Go type behind a value, which some errors tell.
pub(crate) fn go_type(value: &Val<'_>) -> String {
    let name = match value {
        Val::Null => "Null",
        Val::Bool(_) => "Bool",
        Val::Int(_) => "Int",
        Val::Uint(_) => "Uint",
        Val::Double(_) => "Double",
        Val::Text(_) => "String",
        Val::Bytes(_) => "Bytes",
        Val::Duration(_) => "Duration",
        Val::Timestamp(_) => "Timestamp",
        Val::Optional(_) => return "*types.Optional".to_owned(),
        other => other.type_name(),
    };
    format!("types.{name}")
}

macro_rules! conversions {
    ($($name:ident)*) => {$(
        pub(crate) mod $name {
            use super::super::{error::Error, node::Meter, value::Val};
            pub(crate) fn call<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
                match args {
                    [value] => super::$name(value),
                    _ => Err(Error::NoSuchOverload),
                }
            }
        }
    )*};
}
conversions!(string bool int uint double bytes timestamp duration type_of);

pub(crate) fn dyn_value<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    args.first().cloned().ok_or(Error::NoSuchOverload)
}

fn type_of<'a>(value: &Val<'a>) -> Result<'a> {
    Ok(Val::Type(value.type_name().to_owned().into()))
}

fn bool<'a>(value: &Val<'a>) -> Result<'a> {
    match value {
        Val::Bool(truth) => Ok(Val::Bool(*truth)),
        Val::Text(text) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Val::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Val::Bool(false)),
            _ => Err(no_conversion(value, "bool")),
        },
        _ => Err(Error::NoSuchOverload),
    }
}

fn int<'a>(value: &Val<'a>) -> Result<'a> {
    let overflow = || Error::failed("integer overflow");
    Ok(Val::Int(match value {
        Val::Int(number) => *number,
        Val::Uint(number) => i64::try_from(*number).map_err(|_| overflow())?,
        // the bounds themselves are no exact doubles
        Val::Double(number)
            if *number > -9.223_372_036_854_776e18 && *number < 9.223_372_036_854_776e18 =>
        {
            *number as i64
        }
        Val::Double(_) => return Err(overflow()),
        Val::Text(text) => text.parse().map_err(|_| no_conversion(value, "int"))?,
        Val::Timestamp(moment) => moment.seconds,
        Val::Duration(nanos) => *nanos,
        _ => return Err(Error::NoSuchOverload),
    }))
}

fn uint<'a>(value: &Val<'a>) -> Result<'a> {
    let overflow = || Error::failed("unsigned integer overflow");
    Ok(Val::Uint(match value {
        Val::Uint(number) => *number,
        Val::Int(number) => u64::try_from(*number).map_err(|_| overflow())?,
        Val::Double(number) if *number >= 0.0 && *number < 18_446_744_073_709_551_615.0 => {
            *number as u64
        }
        Val::Double(_) => return Err(overflow()),
        Val::Text(text) if text.starts_with('+') => return Err(no_conversion(value, "uint")),
        Val::Text(text) => text.parse().map_err(|_| no_conversion(value, "uint"))?,
        _ => return Err(Error::NoSuchOverload),
    }))
}

fn double<'a>(value: &Val<'a>) -> Result<'a> {
    Ok(Val::Double(match value {
        Val::Double(number) => *number,
        Val::Int(number) => *number as f64,
        Val::Uint(number) => *number as f64,
        Val::Text(text) => text.parse().map_err(|_| no_conversion(value, "double"))?,
        _ => return Err(Error::NoSuchOverload),
    }))
}

fn bytes<'a>(value: &Val<'a>) -> Result<'a> {
    Ok(Val::Bytes(match value {
        Val::Bytes(bytes) => bytes.clone(),
        Val::Text(text) => text.as_bytes().into(),
        _ => return Err(Error::NoSuchOverload),
    }))
}

fn timestamp<'a>(value: &Val<'a>) -> Result<'a> {
    let overflow = || Error::failed("timestamp overflow");
    Ok(Val::Timestamp(match value {
        Val::Timestamp(moment) => *moment,
        Val::Int(seconds) => time::checked(Moment {
            seconds: *seconds,
            nanos: 0,
        })
        .ok_or_else(overflow)?,
        Val::Text(text) => {
            let moment = time::parse(text)
                .ok_or_else(|| no_conversion(value, "google.protobuf.Timestamp"))?;
            time::checked(moment).ok_or_else(overflow)?
        }
        _ => return Err(Error::NoSuchOverload),
    }))
}

fn duration<'a>(value: &Val<'a>) -> Result<'a> {
    Ok(Val::Duration(match value {
        Val::Duration(nanos) => *nanos,
        Val::Int(nanos) => *nanos,
        Val::Text(text) => control_types::duration::parse(text)
            .ok_or_else(|| no_conversion(value, "google.protobuf.Duration"))?,
        _ => return Err(Error::NoSuchOverload),
    }))
}
