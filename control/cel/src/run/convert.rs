//! Conversions between types, and values as messages show them.

use base64::Engine as _;
use control_types::value::{Map, Value};

use super::error::Error;
use super::meter::Meter;
use super::moment::{self, Moment};
use super::value::{Entries, Key, List, Val};

type Result<'a> = std::result::Result<Val<'a>, Error>;

fn no_conversion(from: &Val<'_>, to: &str) -> Error {
    Error::failed(format!(
        "type conversion error from '{}' to '{to}'",
        from.type_name()
    ))
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
        Val::Timestamp(moment) => Val::text(moment::format(*moment)),
        Val::Duration(nanos) => Val::text(moment::format_duration(*nanos)),
        Val::Ip(address) => Val::text(address.to_string()),
        Val::Cidr(address, bits) => Val::text(format!("{address}/{bits}")),
        Val::Quantity(quantity) => Val::text(&*quantity.canonical()),
        _ => return Err(Error::NoSuchOverload),
    })
}

impl Val<'_> {
    /// The value as JSON, for what can be written so: nothing for types,
    /// checks and the like. Moments and spans are text, bytes are base64.
    #[must_use]
    pub fn to_value(&self) -> Option<Value> {
        Some(match self {
            Self::Null => Value::Null,
            Self::Bool(truth) => (*truth).into(),
            Self::Int(number) => (*number).into(),
            Self::Uint(number) => (*number).into(),
            Self::Double(number) => (*number).into(),
            Self::Text(text) => (&**text).into(),
            Self::List(List::Tree(items, _)) => Value::Array(items.to_vec()),
            Self::List(List::Own(items)) => {
                Value::Array(items.iter().map(Val::to_value).collect::<Option<_>>()?)
            }
            Self::Map(Entries::Tree(map, _)) => Value::Object((*map).clone()),
            Self::Map(Entries::Own(map) | Entries::Defaulting(map)) => {
                let mut out = Map::new();
                for (key, value) in map.iter() {
                    let Key::Text(key) = key else { return None };
                    out.insert(&**key, value.to_value()?);
                }
                Value::Object(out)
            }
            Self::Optional(Some(inner)) => inner.to_value()?,
            Self::Optional(None) => Value::Null,
            Self::Object(made) => {
                let mut out = Map::new();
                for (name, value) in &made.fields {
                    out.insert(*name, value.to_value()?);
                }
                Value::Object(out)
            }
            Self::Bytes(bytes) => base64::engine::general_purpose::STANDARD
                .encode(bytes)
                .into(),
            Self::Timestamp(_)
            | Self::Duration(_)
            | Self::Quantity(_)
            | Self::Ip(_)
            | Self::Cidr(..) => string(self).ok()?.as_str()?.into(),
            _ => return None,
        })
    }
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

pub(crate) fn dyn_value<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    args.first().cloned().ok_or(Error::NoSuchOverload)
}

pub(super) fn type_of<'a>(value: &Val<'a>) -> Result<'a> {
    Ok(Val::Type(value.type_name().to_owned().into()))
}

pub(super) fn bool<'a>(value: &Val<'a>) -> Result<'a> {
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

pub(super) fn int<'a>(value: &Val<'a>) -> Result<'a> {
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

pub(super) fn uint<'a>(value: &Val<'a>) -> Result<'a> {
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

pub(super) fn double<'a>(value: &Val<'a>) -> Result<'a> {
    Ok(Val::Double(match value {
        Val::Double(number) => *number,
        Val::Int(number) => *number as f64,
        Val::Uint(number) => *number as f64,
        Val::Text(text) => text.parse().map_err(|_| no_conversion(value, "double"))?,
        _ => return Err(Error::NoSuchOverload),
    }))
}

pub(super) fn bytes<'a>(value: &Val<'a>) -> Result<'a> {
    Ok(Val::Bytes(match value {
        Val::Bytes(bytes) => bytes.clone(),
        Val::Text(text) => text.as_bytes().into(),
        _ => return Err(Error::NoSuchOverload),
    }))
}

pub(super) fn timestamp<'a>(value: &Val<'a>) -> Result<'a> {
    let overflow = || Error::failed("timestamp overflow");
    Ok(Val::Timestamp(match value {
        Val::Timestamp(moment) => *moment,
        Val::Int(seconds) => moment::checked(Moment {
            seconds: *seconds,
            nanos: 0,
        })
        .ok_or_else(overflow)?,
        Val::Text(text) => {
            let moment = moment::parse(text)
                .ok_or_else(|| no_conversion(value, "google.protobuf.Timestamp"))?;
            moment::checked(moment).ok_or_else(overflow)?
        }
        _ => return Err(Error::NoSuchOverload),
    }))
}

pub(super) fn duration<'a>(value: &Val<'a>) -> Result<'a> {
    Ok(Val::Duration(match value {
        Val::Duration(nanos) => *nanos,
        Val::Int(nanos) => *nanos,
        Val::Text(text) => control_types::duration::parse(text)
            .ok_or_else(|| no_conversion(value, "google.protobuf.Duration"))?,
        _ => return Err(Error::NoSuchOverload),
    }))
}
