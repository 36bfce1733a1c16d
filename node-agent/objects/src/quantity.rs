//! Amounts as the agent needs them: whole numbers of bytes and thousandths of
//! a CPU, rounded up, from the notation of the API; and sums of them in it.

use control_types::quantity::Quantity;

/// Thousandths of what `text` says, rounded up; `None` if it is no quantity.
#[must_use]
pub fn milli(text: &str) -> Option<i64> {
    Some(Quantity::parse(text.trim()).ok()?.milli_value())
}

/// Units of what `text` says, rounded up; `None` if it is no quantity.
#[must_use]
pub fn whole(text: &str) -> Option<i64> {
    Some(Quantity::parse(text.trim()).ok()?.value())
}

/// So many thousandths as the API writes them: `1500m`, `2`.
#[must_use]
pub fn of_milli(milli: i64) -> String {
    if milli % 1000 == 0 {
        of_whole(milli / 1000, false)
    } else {
        format!("{milli}m")
    }
}

/// So many units as the API writes them: with the largest suffix that leaves a
/// whole number, `128Mi` in powers of 1024 and `2k` in those of 1000.
#[must_use]
pub fn of_whole(units: i64, binary: bool) -> String {
    let (base, suffixes) = if binary {
        (1024, ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])
    } else {
        (1000, ["k", "M", "G", "T", "P", "E"])
    };
    let (mut left, mut suffix) = (units, "");
    for larger in suffixes {
        if left == 0 || left % base != 0 {
            break;
        }
        left /= base;
        suffix = larger;
    }
    format!("{left}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_and_rounded_up() {
        let cases = [
            ("100m", Some(100)),
            ("1", Some(1000)),
            ("0.5", Some(500)),
            ("1.0001", Some(1001)),
            ("1e3", Some(1_000_000)),
            ("2k", Some(2_000_000)),
            ("1Ki", Some(1_024_000)),
            ("100u", Some(1)),
            ("-1", Some(-1000)),
            ("", None),
            ("x", None),
            ("1.2.3", None),
            ("9E", Some(i64::MAX)),
        ];
        for (text, wanted) in cases {
            assert_eq!(milli(text), wanted, "{text}");
        }
        assert_eq!(whole("1.5Gi"), Some(3 << 29));
        assert_eq!(whole("128974848"), Some(128_974_848));
        assert_eq!(whole("1m"), Some(1));
    }

    #[test]
    fn amounts_are_written_as_the_api_does() {
        for (milli, text) in [(0, "0"), (1500, "1500m"), (2000, "2"), (1_000_000, "1k")] {
            assert_eq!(of_milli(milli), text);
        }
        for (units, binary, text) in [
            (0, true, "0"),
            (1000, true, "1000"),
            (1536 << 10, true, "1536Ki"),
            (128 << 20, true, "128Mi"),
            (1_200_000, false, "1200k"),
        ] {
            assert_eq!(of_whole(units, binary), text);
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read_as_the_same(value in 0_i64..1 << 40, binary: bool) {
            proptest::prop_assert_eq!(milli(&of_milli(value)), Some(value));
            proptest::prop_assert_eq!(whole(&of_whole(value, binary)), Some(value));
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}") {
            let _ = milli(&text);
        }
    }
}
