//! Spans of time as text, in the form of Go's `time.Duration`: fields of objects
//! (`metav1.Duration`), queries, configuration and expressions have them.

/// Parses a duration as Go writes it (`1h30m`, `-1.5s`, `0`) into nanoseconds. Returns
/// `None` if the text is not a duration or exceeds Go's range.
#[must_use]
pub fn parse(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0_u128;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, after) = rest.split_at(digits);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => {
                let digits = after.bytes().take_while(u8::is_ascii_digit).count();
                after.split_at(digits)
            }
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let letters = after
            .bytes()
            .take_while(|c| *c != b'.' && !c.is_ascii_digit())
            .count();
        let (unit, after) = after.split_at_checked(letters)?;
        let unit: u128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let whole: u128 = if whole.is_empty() {
            0
        } else {
            whole.parse().ok()?
        };
        total = total.checked_add(whole.checked_mul(unit)?)?;
        // more digits than these are below a nanosecond
        let fraction = fraction.get(..fraction.len().min(18))?;
        if !fraction.is_empty() {
            let scale = 10_u128.pow(fraction.len() as u32);
            total += fraction.parse::<u128>().ok()? * unit / scale;
        }
        if total > 1 << 63 {
            return None;
        }
        rest = after;
    }
    let total = i128::try_from(total).ok()?;
    i64::try_from(if negative { -total } else { total }).ok()
}

/// As Go prints it: `1h0m5s`, `1.5s`, `250ms`, `0s`.
#[must_use]
pub fn format(nanos: i64) -> String {
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
