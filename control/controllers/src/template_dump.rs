//! Dumps pod templates, ports and endpoints as kube-controller-manager does for its
//! hashes: a dump of the Go value, with types and zero values
//! (`k8s.io/utils/dump.ForHash`).
//!
//! The dump follows the tables of the API: fields in the order of their declaration, and
//! absent values as Go's zero values. Empty lists and maps count as absent, since
//! controllers read objects in protobuf, which cannot distinguish the two.

use control_types::schema::{Field, Shape, TypeId, TypeRef};
use serde_json::Value;

/// A value whose dump in Go depends on more than the object, such as a time with a zone.
#[derive(Debug, PartialEq, Eq)]
pub struct UnsupportedValue;

/// Writes the dump of a pod template.
///
/// # Errors
/// [`UnsupportedValue`]; the output so far is then useless.
pub fn dump(template: &Value, out: &mut impl FnMut(&[u8])) -> Result<(), UnsupportedValue> {
    dump_as("io.k8s.api.core.v1.PodTemplateSpec", template, out)
}

/// Writes the dump of a value of this API type.
///
/// # Errors
/// [`UnsupportedValue`]; the output so far is then useless.
pub fn dump_as(
    name: &str,
    value: &Value,
    out: &mut impl FnMut(&[u8]),
) -> Result<(), UnsupportedValue> {
    let of = TypeId::by_name(name).ok_or(UnsupportedValue)?;
    out(format!("({})", of.get().go).as_bytes());
    Dump { out }.object(of, Some(value))
}

struct Dump<'a, F> {
    out: &'a mut F,
}

impl<F: FnMut(&[u8])> Dump<'_, F> {
    fn text(&mut self, text: &str) {
        (self.out)(text.as_bytes());
    }

    /// The fields of a struct, those that are embedded in their place.
    fn object(&mut self, of: TypeId, value: Option<&Value>) -> Result<(), UnsupportedValue> {
        let of = of.get();
        if of.shape != Shape::Struct {
            return Err(UnsupportedValue);
        }
        self.text("{");
        for (at, field) in of.declared().iter().enumerate() {
            if at > 0 {
                self.text(" ");
            }
            self.text(&of.go_field_name(at));
            self.text(":");
            let inner = if field.is_inline() {
                value
            } else {
                value.and_then(|value| value.get(field.name()))
            };
            self.field(field, inner.filter(|inner| !inner.is_null()))?;
        }
        self.text("}");
        Ok(())
    }

    fn field(&mut self, field: &Field, value: Option<&Value>) -> Result<(), UnsupportedValue> {
        self.text("(");
        if field.is_pointer() {
            self.text("*");
        }
        self.text(field.go_type());
        self.text(")");
        if field.is_pointer() && value.is_none() {
            self.text("<nil>");
            return Ok(());
        }
        self.value(field.type_ref(), value, field.has_pointer_items())
    }

    fn value(
        &mut self,
        of: TypeRef,
        value: Option<&Value>,
        pointer_items: bool,
    ) -> Result<(), UnsupportedValue> {
        match of {
            TypeRef::String => self.text(value.and_then(Value::as_str).unwrap_or_default()),
            TypeRef::Bool => {
                let holds = value.and_then(Value::as_bool).unwrap_or_default();
                self.text(if holds { "true" } else { "false" });
            }
            TypeRef::Int32 | TypeRef::Int64 => {
                let number = value.and_then(Value::as_i64).unwrap_or_default();
                self.text(&number.to_string());
            }
            TypeRef::Object(of) => self.object(of, value)?,
            TypeRef::List(inner) => {
                let items = value.and_then(Value::as_array).filter(|it| !it.is_empty());
                let Some(items) = items else {
                    self.text("<nil>");
                    return Ok(());
                };
                self.text("[");
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        self.text(" ");
                    }
                    if pointer_items {
                        self.text("<*>");
                    }
                    self.value(*inner, Some(item), false)?;
                }
                self.text("]");
            }
            TypeRef::Map(inner) => {
                let entries = value.and_then(Value::as_object).filter(|it| !it.is_empty());
                let Some(entries) = entries else {
                    self.text("<nil>");
                    return Ok(());
                };
                let mut entries: Vec<_> = entries.iter().collect();
                entries.sort_unstable_by_key(|(key, _)| *key);
                self.text("map[");
                for (at, (key, item)) in entries.into_iter().enumerate() {
                    if at > 0 {
                        self.text(" ");
                    }
                    self.text(key);
                    self.text(":");
                    self.value(*inner, Some(item), false)?;
                }
                self.text("]");
            }
            TypeRef::IntOrString => {
                let (kind, number, text) = match value {
                    Some(Value::String(text)) => (1, 0, text.as_str()),
                    other => (0, other.and_then(Value::as_i64).unwrap_or_default(), ""),
                };
                self.text(&format!(
                    "{{Type:(intstr.Type){kind} IntVal:(int32){number} StrVal:(string){text}}}"
                ));
            }
            TypeRef::Quantity => {
                // Protobuf has a zero quantity where Go has none.
                let text = match value {
                    None => "0".to_owned(),
                    Some(Value::String(text)) => text.trim().to_owned(),
                    Some(other) => other.to_string(),
                };
                self.text(&quantity(&text)?);
            }
            TypeRef::Time if value.is_none() => self
                .text("{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}"),
            TypeRef::Time
            | TypeRef::MicroTime
            | TypeRef::Duration
            | TypeRef::Float
            | TypeRef::Bytes
            | TypeRef::Any => return Err(UnsupportedValue),
        }
        Ok(())
    }
}

/// A quantity as `resource.ParseQuantity` leaves it.
fn quantity(text: &str) -> Result<String, UnsupportedValue> {
    /// The smallest power of ten that is kept.
    const NANO: i32 = -9;
    let small = |value: i64, scale: i32, text: &str, format: &str| {
        format!(
            "{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} \
             d:(resource.infDecAmount){{Dec:(*inf.Dec)<nil>}} s:(string){text} \
             Format:(resource.Format){format}}}"
        )
    };
    if text == "0" {
        return Ok(small(0, 0, text, "DecimalSI"));
    }
    let unsigned = text.trim_start_matches(['+', '-']);
    let negative = text.starts_with('-');
    let end = unsigned
        .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
        .unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let digits = i32::try_from(whole.len() + fraction.len()).map_err(|_| UnsupportedValue)?;
    let shifted = format!("{whole}{fraction}");
    let (exponent, format) = interpret(suffix)?;
    let places = i32::try_from(fraction.len()).map_err(|_| UnsupportedValue)?;
    let (precision, mantissa, scale) = if format == "BinarySI" {
        if !fraction.is_empty() {
            return Err(UnsupportedValue);
        }
        let whole = i32::try_from(whole.len()).map_err(|_| UnsupportedValue)?;
        (15 - whole - exponent * 3 / 10 - 1, 1_i64 << exponent, 0)
    } else {
        (18 - digits, 1, exponent)
    };
    let scale = scale - places;
    let value: i64 = shifted.parse().map_err(|_| UnsupportedValue)?;
    if precision < 0 {
        return large(value, mantissa, format, negative);
    }
    if scale < NANO {
        return Err(UnsupportedValue);
    }
    let amount = value.checked_mul(mantissa).ok_or(UnsupportedValue)?;
    let amount = if negative { -amount } else { amount };
    let is_canonical = if format == "BinarySI" {
        exponent % 10 == 0 && value & 7 != 0
    } else {
        scale % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0')
    };
    let text = if is_canonical { text } else { "" };
    Ok(small(amount, scale, text, format))
}

/// A number of bytes that is too large for the short form: Go counts its billionths.
fn large(
    value: i64,
    mantissa: i64,
    format: &str,
    negative: bool,
) -> Result<String, UnsupportedValue> {
    const BILLION: u128 = 1_000_000_000;
    if format != "BinarySI" {
        return Err(UnsupportedValue);
    }
    let whole = value.checked_mul(mantissa).ok_or(UnsupportedValue)?;
    let amount = u128::from(whole.unsigned_abs()) * BILLION;
    let words = match (amount & u128::from(u64::MAX), amount >> 64) {
        (low, 0) => low.to_string(),
        (low, high) => format!("{low} {high}"),
    };
    Ok(format!(
        "{{i:(resource.int64Amount){{value:(int64)0 scale:(resource.Scale)0}} \
         d:(resource.infDecAmount){{Dec:(*inf.Dec){{unscaled:(big.Int){{neg:(bool){negative} \
         abs:(big.nat)[{words}]}} scale:(inf.Scale)9}}}} s:(string) \
         Format:(resource.Format){format}}}"
    ))
}

/// Returns the exponent and the format of a suffix.
fn interpret(suffix: &str) -> Result<(i32, &'static str), UnsupportedValue> {
    Ok(match suffix {
        "" => (0, "DecimalSI"),
        "n" => (-9, "DecimalSI"),
        "u" => (-6, "DecimalSI"),
        "m" => (-3, "DecimalSI"),
        "k" => (3, "DecimalSI"),
        "M" => (6, "DecimalSI"),
        "G" => (9, "DecimalSI"),
        "T" => (12, "DecimalSI"),
        "P" => (15, "DecimalSI"),
        "E" => (18, "DecimalSI"),
        "Ki" => (10, "BinarySI"),
        "Mi" => (20, "BinarySI"),
        "Gi" => (30, "BinarySI"),
        "Ti" => (40, "BinarySI"),
        "Pi" => (50, "BinarySI"),
        "Ei" => (60, "BinarySI"),
        other => {
            let exponent = other.strip_prefix(['e', 'E']).ok_or(UnsupportedValue)?;
            let exponent = exponent.parse().map_err(|_| UnsupportedValue)?;
            (exponent, "DecimalExponent")
        }
    })
}

#[cfg(test)]
mod tests;
