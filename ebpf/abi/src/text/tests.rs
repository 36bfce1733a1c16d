//! Tests the text of maps.

use super::*;

#[test]
fn what_is_too_long_is_cut_between_characters() {
    assert_eq!(Text::<4>::new("ab").as_str(), "ab");
    assert_eq!(Text::<4>::new("abcdef").as_str(), "abcd");
    assert_eq!(Text::<4>::new("abc\u{fc}").as_str(), "abc");
}
