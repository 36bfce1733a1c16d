//! Results of mutations: typed objects and JSON patch operations.

use std::rc::Rc;

use crate::run::meter::Meter;
use crate::run::{ConstructedValue, Error, Val};

/// Puts an object together.
///
/// # Errors
/// When a JSON patch operation has other fields than it can have.
pub(crate) fn make(made: ConstructedValue<'_>) -> Result<Val<'_>, Error> {
    match made.name {
        "google.protobuf.Duration" => {
            let part = |name: &str| match made.field(name) {
                Some(Val::Int(number)) => *number,
                _ => 0,
            };
            return part("seconds")
                .checked_mul(1_000_000_000)
                .and_then(|nanos| nanos.checked_add(part("nanos")))
                .map(Val::Duration)
                .ok_or_else(|| Error::failed("duration overflow"));
        }
        "google.protobuf.Timestamp" => {
            let part = |name: &str| match made.field(name) {
                Some(Val::Int(number)) => *number,
                _ => 0,
            };
            let start = crate::run::Moment {
                seconds: part("seconds"),
                nanos: 0,
            };
            return crate::run::moment::shift(start, part("nanos")).map(Val::Timestamp);
        }
        "JSONPatch" => {
            for (name, value) in &made.fields {
                match (*name, value) {
                    ("op" | "path" | "from", Val::Text(_)) | ("value", _) => {}
                    ("op" | "path" | "from", other) => {
                        return Err(Error::failed(format!(
                            "unexpected type {} for JSONPatchType '{name}' field",
                            other.type_name()
                        )));
                    }
                    _ => {
                        return Err(Error::failed(format!(
                            "unexpected JSONPatchType field: {name}"
                        )));
                    }
                }
            }
        }
        _ => {}
    }
    Ok(Val::Object(Rc::new(made)))
}

/// `jsonpatch.escapeKey`: a key as a part of a JSON pointer.
pub(crate) fn escape_key<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    match args {
        [Val::Text(text)] => {
            meter.work(text.len().saturating_mul(2))?;
            Ok(Val::text(text.replace('~', "~0").replace('/', "~1")))
        }
        _ => Err(Error::NoSuchOverload),
    }
}
