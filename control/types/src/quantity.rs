//! Quantities: `100m`, `1.5Gi`, `12e6`.
//!
//! A fixed-point number with a suffix (`k8s.io/apimachinery/pkg/api/resource`).
//! Held as mantissa and decimal exponent in 128 bits; no finer than nano (finer
//! is rounded up, away from zero). Larger than 128 bits hold is capped.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use compact_str::{CompactString, format_compact};

/// How a quantity is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// `12e6`
    DecimalExponent,
    /// `12Mi`: powers of 1024.
    BinarySI,
    /// `12M`: powers of 1000.
    #[default]
    DecimalSI,
}

/// Error for text that is not a quantity; the message is Kubernetes' own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not of the form number and suffix.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    /// The number is none, or larger than can be held.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// No such suffix.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// A quantity. Equality and order are numeric; the text form is preserved.
#[derive(Clone, Debug)]
pub struct Quantity {
    mantissa: i128,
    /// Power of ten; never below -9.
    scale: i32,
    format: Format,
    /// The text it was read from, where that is canonical already.
    text: Option<CompactString>,
}

/// Beyond this power of ten nothing is kept exact; also bounds loops on input.
const MAX_SCALE: i64 = 100;

impl Quantity {
    /// Zero, decimal.
    pub const ZERO: Self = Self {
        mantissa: 0,
        scale: 0,
        format: Format::DecimalSI,
        text: None,
    };

    /// A whole number.
    #[must_use]
    pub fn new(value: i64, format: Format) -> Self {
        Self {
            mantissa: i128::from(value),
            scale: 0,
            format,
            text: None,
        }
    }

    /// Thousandths, decimal: `from_milli(1500)` is `1500m`.
    #[must_use]
    pub fn from_milli(milli: i64) -> Self {
        Self {
            mantissa: i128::from(milli),
            scale: -3,
            format: Format::DecimalSI,
            text: None,
        }
    }

    /// Billionths: `from_nanos(1_500_000_000, Format::DecimalSI)` is `1500m`.
    #[must_use]
    pub const fn from_nanos(nanos: i128, format: Format) -> Self {
        Self {
            mantissa: nanos,
            scale: -9,
            format,
            text: None,
        }
    }

    /// Reads a quantity.
    ///
    /// # Errors
    /// When the text is none.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let bytes = text.as_bytes();
        if bytes.is_empty() {
            return Err(Error::Format);
        }
        let digits = |mut at: usize| {
            while bytes.get(at).is_some_and(u8::is_ascii_digit) {
                at += 1;
            }
            at
        };
        let negative = bytes[0] == b'-';
        let start = usize::from(matches!(bytes[0], b'-' | b'+'));
        let after_whole = digits(start);
        let mut value_end = after_whole;
        let mut fraction = "";
        if bytes.get(after_whole) == Some(&b'.') {
            value_end = digits(after_whole + 1);
            fraction = &text[after_whole + 1..value_end];
        }
        // The suffix: letters, a sign, digits, and nothing after.
        let mut at = value_end;
        while bytes
            .get(at)
            .is_some_and(|byte| b"eEinumkKMGTP".contains(byte))
        {
            at += 1;
        }
        if matches!(bytes.get(at), Some(b'+' | b'-')) {
            at += 1;
        }
        if digits(at) != bytes.len() {
            return Err(Error::Format);
        }
        let (base, exponent, mut format) = suffix(&text[value_end..]).ok_or(Error::Suffix)?;
        let whole = text[start..after_whole].trim_start_matches('0');
        if whole.is_empty() && fraction.is_empty() && after_whole == start {
            return if text.len() == start {
                Ok(Self::ZERO)
            } else {
                Err(Error::Numeric)
            };
        }

        let shifted = if whole.is_empty() {
            format!("0{fraction}")
        } else {
            format!("{whole}{fraction}")
        };
        let places = digit_count(fraction);
        let magnitude = decimal(&shifted)?;
        let (mut mantissa, mut scale, exact) = match base {
            Base::Ten => {
                let scale = i64::from(exponent) - places;
                let (mantissa, scale) = at_least_nano(magnitude, scale);
                (mantissa, scale, scale >= -9)
            }
            Base::Two => {
                // 2^exponent, exponent at most 60.
                let product = magnitude
                    .checked_mul(1_i128 << exponent)
                    .ok_or(Error::Numeric)?;
                let (mantissa, scale) = at_least_nano(product, -places);
                (mantissa, scale, true)
            }
        };
        if format == Format::BinarySI {
            let limit = Self::raw(i128::from(i64::MAX), 0);
            let this = Self::raw(mantissa, scale);
            if this > limit {
                (mantissa, scale) = (i128::from(i64::MAX), 0);
            } else if mantissa > 0 && this < Self::raw(1, 0) {
                format = Format::DecimalSI;
            }
        }
        // Canonical text stays as written.
        let canonical = match format {
            Format::BinarySI => {
                places == 0
                    && magnitude & 7 != 0
                    && i64::from(exponent) * 3 / 10 + digit_count(&shifted) <= 14
            }
            _ => {
                exact
                    && scale % 3 == 0
                    && i64::from(exponent) - places == i64::from(scale)
                    && !shifted.ends_with("000")
                    && !shifted.starts_with('0')
                    && shifted.len() <= 18
            }
        };
        let text = (canonical || text == "0").then(|| CompactString::new(text));
        let mantissa = if negative { -mantissa } else { mantissa };
        Ok(Self {
            mantissa,
            scale,
            format,
            text,
        })
    }

    const fn raw(mantissa: i128, scale: i32) -> Self {
        Self {
            mantissa,
            scale,
            format: Format::DecimalSI,
            text: None,
        }
    }

    /// How it is written.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Whether it is nought.
    #[must_use]
    pub const fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    /// -1, 0 or 1.
    #[must_use]
    pub const fn signum(&self) -> i32 {
        match self.mantissa {
            0 => 0,
            1.. => 1,
            _ => -1,
        }
    }

    /// The whole number, rounded up (away from zero); capped at 64 bits.
    #[must_use]
    pub fn value(&self) -> i64 {
        self.scaled(0)
    }

    /// Thousandths, rounded up (away from zero); capped at 64 bits.
    #[must_use]
    pub fn milli_value(&self) -> i64 {
        self.scaled(-3)
    }

    /// In units of ten to the power of `scale`, rounded up (away from zero).
    #[must_use]
    pub fn scaled(&self, scale: i32) -> i64 {
        let shift = self.scale - scale;
        let number = if shift >= 0 {
            power(shift).and_then(|factor| self.mantissa.checked_mul(factor))
        } else {
            Some(divide_up(self.mantissa, -shift))
        };
        number.map_or(
            if self.mantissa < 0 {
                i64::MIN
            } else {
                i64::MAX
            },
            |number| i64::try_from(number).unwrap_or(if number < 0 { i64::MIN } else { i64::MAX }),
        )
    }

    /// Billionths, exactly; capped at 128 bits.
    #[must_use]
    pub fn nanos(&self) -> i128 {
        // The scale is never below that of a billionth.
        let exact = power(self.scale + 9).and_then(|factor| self.mantissa.checked_mul(factor));
        exact.unwrap_or(match self.signum() {
            0 => 0,
            1.. => i128::MAX,
            _ => i128::MIN,
        })
    }

    /// The whole number, when it is one within 64 bits.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        let (mantissa, scale) = self.trimmed();
        if scale < 0 {
            return None;
        }
        i64::try_from(mantissa.checked_mul(power(scale)?)?).ok()
    }

    /// As a float; loses precision.
    #[must_use]
    pub fn as_f64(&self) -> f64 {
        self.mantissa as f64 * 10f64.powi(self.scale)
    }

    /// Adds; keeps this one's form, unless this is nought.
    pub fn add(&mut self, other: &Self) {
        if self.is_zero() {
            self.format = other.format;
        }
        self.text = None;
        let scale = self.scale.min(other.scale);
        let at = |quantity: &Self| {
            power(quantity.scale - scale).and_then(|factor| quantity.mantissa.checked_mul(factor))
        };
        match (at(self), at(other)) {
            (Some(a), Some(b)) => {
                self.mantissa = a.saturating_add(b);
                self.scale = scale;
            }
            // So far apart that the smaller does not show.
            (None, _) => {}
            (_, None) => {
                self.mantissa = other.mantissa;
                self.scale = other.scale;
            }
        }
    }

    /// Subtracts; keeps this one's form, unless this is nought.
    pub fn sub(&mut self, other: &Self) {
        let mut negative = other.clone();
        negative.mantissa = -negative.mantissa;
        self.add(&negative);
    }

    /// Mantissa without zeros at its end.
    fn trimmed(&self) -> (i128, i32) {
        let (mut mantissa, mut scale) = (self.mantissa, self.scale);
        if mantissa == 0 {
            return (0, 0);
        }
        while mantissa % 10 == 0 {
            mantissa /= 10;
            scale += 1;
        }
        (mantissa, scale)
    }

    /// The canonical text: the largest suffix that needs no fraction.
    #[must_use]
    pub fn canonical(&self) -> CompactString {
        if let Some(text) = &self.text {
            return text.clone();
        }
        let (mantissa, scale) = self.trimmed();
        if mantissa == 0 {
            return CompactString::const_new("0");
        }
        if self.format == Format::BinarySI
            && let Some(mut whole) = power(scale).and_then(|factor| mantissa.checked_mul(factor))
            && !(-1023..1024).contains(&whole)
        {
            const SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
            let mut at = 0;
            while whole % 1024 == 0 && at + 1 < SUFFIXES.len() {
                whole /= 1024;
                at += 1;
            }
            return format_compact!("{whole}{}", SUFFIXES[at]);
        }
        let down = scale.rem_euclid(3);
        let scale = scale - down;
        let mantissa = mantissa.saturating_mul(if down == 2 {
            100
        } else if down == 1 {
            10
        } else {
            1
        });
        let suffix = match scale {
            0 => "",
            _ if self.format == Format::DecimalExponent => {
                return format_compact!("{mantissa}e{scale}");
            }
            -9 => "n",
            -6 => "u",
            -3 => "m",
            3 => "k",
            6 => "M",
            9 => "G",
            12 => "T",
            15 => "P",
            18 => "E",
            _ => return format_compact!("{mantissa}e{scale}"),
        };
        format_compact!("{mantissa}{suffix}")
    }
}

enum Base {
    Two,
    Ten,
}

fn suffix(text: &str) -> Option<(Base, i32, Format)> {
    use Base::{Ten, Two};
    use Format::{BinarySI, DecimalExponent, DecimalSI};
    Some(match text {
        "" => (Ten, 0, DecimalSI),
        "n" => (Ten, -9, DecimalSI),
        "u" => (Ten, -6, DecimalSI),
        "m" => (Ten, -3, DecimalSI),
        "k" => (Ten, 3, DecimalSI),
        "M" => (Ten, 6, DecimalSI),
        "G" => (Ten, 9, DecimalSI),
        "T" => (Ten, 12, DecimalSI),
        "P" => (Ten, 15, DecimalSI),
        "E" => (Ten, 18, DecimalSI),
        "Ki" => (Two, 10, BinarySI),
        "Mi" => (Two, 20, BinarySI),
        "Gi" => (Two, 30, BinarySI),
        "Ti" => (Two, 40, BinarySI),
        "Pi" => (Two, 50, BinarySI),
        "Ei" => (Two, 60, BinarySI),
        _ => {
            let power: i64 = text.strip_prefix(['e', 'E'])?.parse().ok()?;
            let power = power.clamp(-MAX_SCALE, MAX_SCALE);
            (Ten, i32::try_from(power).ok()?, DecimalExponent)
        }
    })
}

fn decimal(digits: &str) -> Result<i128, Error> {
    digits.parse().map_err(|_| Error::Numeric)
}

fn digit_count(digits: &str) -> i64 {
    i64::try_from(digits.len()).unwrap_or(i64::MAX / 2)
}

/// Rounds up values finer than nano.
fn at_least_nano(mantissa: i128, scale: i64) -> (i128, i32) {
    match i32::try_from(scale) {
        Ok(scale) if scale >= -9 => (mantissa, scale),
        Ok(scale) => (divide_up(mantissa, -9 - scale), -9),
        Err(_) => (i128::from(mantissa != 0), -9),
    }
}

fn power(exponent: i32) -> Option<i128> {
    10_i128.checked_pow(u32::try_from(exponent).ok()?)
}

/// Divides by a power of ten; a remainder moves the result away from zero.
fn divide_up(mantissa: i128, places: i32) -> i128 {
    match power(places) {
        Some(divisor) => {
            let quotient = mantissa / divisor;
            if mantissa % divisor == 0 {
                quotient
            } else {
                quotient + mantissa.signum()
            }
        }
        None => mantissa.signum(),
    }
}

// === impl Quantity ===

impl Default for Quantity {
    fn default() -> Self {
        Self::ZERO
    }
}

impl FromStr for Quantity {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.canonical())
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        let scale = self.scale.min(other.scale);
        let at = |quantity: &Self| {
            power(quantity.scale - scale).and_then(|factor| quantity.mantissa.checked_mul(factor))
        };
        match (at(self), at(other)) {
            (Some(a), Some(b)) => a.cmp(&b),
            // One is too large for the other's scale: its sign decides.
            (None, _) => self.signum().cmp(&0),
            (_, None) => 0.cmp(&other.signum()),
        }
    }
}

impl From<&Quantity> for crate::Value {
    fn from(quantity: &Quantity) -> Self {
        Self::String(quantity.canonical())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> String {
        Quantity::parse(text).unwrap().to_string()
    }

    #[test]
    fn billionths_are_exact() {
        let nanos = |text: &str| Quantity::parse(text).unwrap().nanos();
        assert_eq!(nanos("0"), 0);
        assert_eq!(nanos("100m"), 100_000_000);
        assert_eq!(nanos("-1.5Ki"), -1_536_000_000_000);
        assert_eq!(nanos("0.1n"), 1);
        assert_eq!(nanos("1E"), 10_i128.pow(27));
        assert_eq!(nanos("0e90"), 0);
        for text in ["0", "1500m", "-2k", "64Mi", "12e6", "1n"] {
            let read = Quantity::parse(text).unwrap();
            let again = Quantity::from_nanos(read.nanos(), read.format());
            assert_eq!(again.to_string(), text);
        }
    }

    #[test]
    fn bytes_beyond_the_largest_number_are_that_number() {
        let largest = i128::from(i64::MAX) * 1_000_000_000;
        for text in ["8Ei", "999999Pi", "123456789.987654321Ti"] {
            assert_eq!(Quantity::parse(text).unwrap().nanos(), largest, "{text}");
        }
    }

    #[test]
    fn the_canonical_text_has_the_largest_suffix_without_fraction() {
        for (text, expected) in [
            ("0", "0"),
            ("0Mi", "0"),
            ("1.5", "1500m"),
            ("1.5Gi", "1536Mi"),
            ("1024Ki", "1Mi"),
            ("1000", "1k"),
            ("1000m", "1"),
            ("100m", "100m"),
            ("0.1m", "100u"),
            ("12e6", "12e6"),
            ("1200e3", "1200e3"),
            ("1.25e3", "1250"),
            ("1e-3", "1e-3"),
            ("-1.5", "-1500m"),
            ("0.5Mi", "512Ki"),
            ("100Ki", "100Ki"),
            ("1Ei", "1Ei"),
            ("9Ei", "9223372036854775807"),
            ("1023", "1023"),
            ("0.3Ki", "307200m"),
            ("1.", "1."),
            ("+5", "+5"),
            ("1.500", "1.500"),
            ("0.1n", "1n"),
            ("2048", "2048"),
            ("128974848", "128974848"),
            ("123Mi", "123Mi"),
            ("1234567890123456789", "1234567890123456789"),
            ("5000000", "5M"),
        ] {
            assert_eq!(canonical(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        assert_eq!(Quantity::parse(""), Err(Error::Format));
        assert_eq!(Quantity::parse("a"), Err(Error::Format));
        assert_eq!(Quantity::parse("1.2.3"), Err(Error::Format));
        assert_eq!(Quantity::parse("1 "), Err(Error::Format));
        assert_eq!(Quantity::parse("1KiB"), Err(Error::Format));
        assert_eq!(Quantity::parse("1i"), Err(Error::Suffix));
        assert_eq!(Quantity::parse("1K"), Err(Error::Suffix));
        assert_eq!(Quantity::parse(&"9".repeat(60)), Err(Error::Numeric));
        assert!(Quantity::parse("1e99999999999999999999").is_err());
        assert!(Quantity::parse("é").is_err());
    }

    #[test]
    fn numbers_compare_and_add_across_forms() {
        let q = |text: &str| Quantity::parse(text).unwrap();
        assert_eq!(q("1Ki"), q("1024"));
        assert!(q("1k") < q("1Ki"));
        assert!(q("-1e90") < q("1n"));
        assert!(q("1e90") > q("1n"));
        let mut sum = q("1Gi");
        sum.add(&q("512Mi"));
        assert_eq!(sum.to_string(), "1536Mi");
        sum.sub(&q("1536Mi"));
        assert!(sum.is_zero());
        assert_eq!(q("100m").milli_value(), 100);
        assert_eq!(q("1").milli_value(), 1000);
        assert_eq!(q("100m").value(), 1);
        assert_eq!(q("1n").milli_value(), 1);
        assert_eq!(q("1e90").value(), i64::MAX);
        assert_eq!(q("1.5").as_i64(), None);
        assert_eq!(q("2Ki").as_i64(), Some(2048));
    }
}
