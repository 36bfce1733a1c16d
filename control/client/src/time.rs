//! Times as the API writes them.

use jiff::Timestamp;

/// `metav1.Time`: whole seconds.
#[must_use]
pub fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// `metav1.MicroTime`: always six digits.
#[must_use]
pub fn micros(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_digits_that_the_api_wants() {
        let time = Timestamp::new(1_700_000_000, 1_234_567).unwrap();
        assert_eq!(seconds(time), "2023-11-14T22:13:20Z");
        assert_eq!(micros(time), "2023-11-14T22:13:20.001234Z");
    }
}
