//! Quantities as exact numbers, for comparing and adding.

use control_types::quantity::{Format, Quantity};
use control_types::value::Value;

use crate::tree::Read;

/// A quantity in billionths; saturates at ±2^96, which no resource reaches.
pub(crate) type Nanos = i128;

pub(crate) const ONE: Nanos = 1_000_000_000;
const LIMIT: Nanos = 1 << 96;

/// Reads a canonical or user-written quantity (`100m`, `1.5Gi`, `2e3`); `None` when it is none.
pub(crate) fn parse(text: &str) -> Option<Nanos> {
    let nanos = Quantity::parse(text).ok()?.nanos();
    Some(nanos.clamp(-LIMIT, LIMIT))
}

/// A quantity field; numbers count as their text. Absent or malformed is 0.
pub(crate) fn to_nanos(value: &Value) -> Nanos {
    match value {
        Value::Int(i) => Nanos::from(*i) * ONE,
        other => parse(other.as_text()).unwrap_or(0),
    }
}

/// Whether a quantity is a whole number.
pub(crate) fn is_whole(nanos: Nanos) -> bool {
    nanos % ONE == 0
}

/// The canonical text of a sum of quantities: decimal, or binary when `binary`.
pub(crate) fn format(nanos: Nanos, binary: bool) -> String {
    let format = if binary {
        Format::BinarySI
    } else {
        Format::DecimalSI
    };
    Quantity::from_nanos(nanos, format).to_string()
}

/// Rounds up to thousandths, as resource lists are stored.
pub(crate) fn round_list_to_milli(list: Option<&mut Value>) {
    let Some(Value::Object(map)) = list else {
        return;
    };
    for value in map.values_mut() {
        let nanos = to_nanos(value);
        let rest = nanos.rem_euclid(1_000_000);
        if rest != 0 {
            *value = format(nanos - rest + 1_000_000, false).as_str().into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_exactly() {
        assert_eq!(parse("100m"), Some(100_000_000));
        assert_eq!(parse("1.5Gi"), Some(1_610_612_736 * ONE));
        assert_eq!(parse("2e3"), Some(2000 * ONE));
        assert_eq!(parse("-1"), Some(-ONE));
        assert_eq!(parse("0.1n"), Some(1));
        assert_eq!(parse("x"), None);
        assert_eq!(parse("1.2.3"), None);
        assert_eq!(parse(""), None);
        assert_eq!(parse("é"), None);
    }

    #[test]
    fn sums_are_written_canonically() {
        assert_eq!(format(1_500_000_000, false), "1500m");
        assert_eq!(format(2000 * ONE, false), "2k");
        assert_eq!(format(64 * 1024 * 1024 * ONE, true), "64Mi");
        assert_eq!(format(0, true), "0");
    }
}
