//! `metav1.Duration` as text, in the form of Go's `time.Duration`.

/// Nanoseconds from `1h2m3.5s`. Nothing when it is no duration.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total = 0_i128;
    let mut any = false;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .filter(|digits| *digits > 0)?;
        let (number, behind) = rest.split_at(digits);
        let length = behind
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(length);
        let unit: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        if !whole.is_empty() {
            total = total.checked_add(i128::from(whole.parse::<u64>().ok()?) * unit)?;
        }
        let mut scale = unit;
        for digit in fraction.bytes() {
            scale /= 10;
            total += i128::from(digit.checked_sub(b'0').filter(|digit| *digit < 10)?) * scale;
        }
        any = true;
        rest = behind;
    }
    let total = if negative { -total } else { total };
    any.then(|| i64::try_from(total).ok()).flatten()
}

/// As Go prints it: `1h0m5s`, `1.5s`, `250ms`, `0s`.
pub(super) fn format(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    let fraction = |number: u64, unit: u64| {
        let (whole, rest) = (number / unit, number % unit);
        if rest == 0 {
            return whole.to_string();
        }
        let width = unit.to_string().len() - 1;
        format!(
            "{whole}.{}",
            format!("{rest:0width$}").trim_end_matches('0')
        )
    };
    match nanos {
        0 => "0s".into(),
        1..1_000 => format!("{sign}{nanos}ns"),
        1_000..1_000_000 => format!("{sign}{}µs", fraction(nanos, 1_000)),
        1_000_000..1_000_000_000 => format!("{sign}{}ms", fraction(nanos, 1_000_000)),
        _ => {
            let minutes = nanos / 60_000_000_000;
            let seconds = fraction(nanos % 60_000_000_000, 1_000_000_000);
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{sign}{seconds}s"),
                (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
                (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_printed_and_read_as_go_does() {
        for (nanos, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (2_200_000, "2.2ms"),
            (3_300_000_000, "3.3s"),
            (245_000_000_000, "4m5s"),
            (3_600_000_000_000, "1h0m0s"),
            (-90_000_000_001, "-1m30.000000001s"),
        ] {
            assert_eq!(format(nanos), text);
            assert_eq!(parse(text), Some(nanos), "{text}");
        }
        for text in ["", "1", "s", "1x", "1s2", ".s", "1..5s", "9999999999h"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
