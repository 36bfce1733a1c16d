//! Pages of listings. A token names the last entry of the page before, so that
//! entries which come and go between pages are neither repeated nor skipped.

use crate::error::{Error, Result};

/// The prefix of tokens.
const PREFIX: &str = "after:";

/// Cuts a page out of sorted entries, and returns the token of the next page,
/// empty after the last.
///
/// # Errors
/// When the token was not made here, or the number of entries is negative.
pub fn cut<T>(sorted: Vec<(String, T)>, token: &str, max_entries: i32) -> Result<(Vec<T>, String)> {
    let limit = usize::try_from(max_entries).map_err(|_| {
        Error::invalid(
            "max_entries",
            max_entries.to_string(),
            "must not be negative",
        )
    })?;
    let after = match token {
        "" => None,
        token => Some(token.strip_prefix(PREFIX).ok_or_else(|| Error::Token {
            token: token.to_owned(),
        })?),
    };
    let limit = if limit == 0 { usize::MAX } else { limit };
    let mut left = sorted
        .into_iter()
        .skip_while(|(id, _)| after.is_some_and(|after| id.as_str() <= after))
        .peekable();
    let mut page = Vec::new();
    let mut last = String::new();
    while page.len() < limit {
        let Some((id, entry)) = left.next() else {
            break;
        };
        last = id;
        page.push(entry);
    }
    let next = match left.peek() {
        Some(_) => format!("{PREFIX}{last}"),
        None => String::new(),
    };
    Ok((page, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(ids: &str) -> Vec<(String, char)> {
        ids.chars().map(|id| (id.to_string(), id)).collect()
    }

    #[test]
    fn pages_follow_each_other_to_the_end() {
        let (page, next) = cut(entries("abcde"), "", 2).unwrap();
        assert_eq!(page, ['a', 'b']);
        let (page, next) = cut(entries("abcde"), &next, 2).unwrap();
        assert_eq!(page, ['c', 'd']);
        let (page, next) = cut(entries("abcde"), &next, 2).unwrap();
        assert_eq!((page, next.as_str()), (vec!['e'], ""));
    }

    #[test]
    fn an_entry_that_is_gone_does_not_end_the_listing() {
        let (_, next) = cut(entries("abcde"), "", 2).unwrap();
        let (page, _) = cut(entries("acde"), &next, 0).unwrap();
        assert_eq!(page, ['c', 'd', 'e']);
    }

    #[test]
    fn tokens_of_others_are_refused() {
        let error = cut(entries("a"), "invalid", 0).unwrap_err();
        assert_eq!(error.code(), tonic::Code::Aborted);
        assert!(cut(entries("a"), "", -1).is_err());
    }
}
