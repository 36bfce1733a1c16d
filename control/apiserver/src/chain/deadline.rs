//! How long a request may take.

use std::time::Duration;

use control_types::status::{Status, quote};

/// What a request says itself (`?timeout=30s`), at most `most`; none is no limit
/// of its own.
///
/// # Errors
/// 400 when it says something that is no duration.
pub(super) fn parse(query: Option<&str>, most: Duration) -> Result<Duration, Status> {
    let Some(query) = query.filter(|query| query.contains("timeout=")) else {
        return Ok(most);
    };
    let asked =
        control_request::pairs(query).find(|(key, value)| key == "timeout" && !value.is_empty());
    let Some((_, text)) = asked else {
        return Ok(most);
    };
    let parsed = control_types::duration::parse(&text).ok_or_else(|| {
        Status::bad_request(format!(
            "invalid timeout specified in the request URL - time: invalid duration {}",
            quote(&text)
        ))
    })?;
    // nothing, or less, says nothing
    Ok(match u64::try_from(parsed) {
        Ok(nanos) if nanos > 0 => Duration::from_nanos(nanos).min(most),
        _ => most,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_may_take_what_it_says_but_not_more_than_all_may() {
        let minute = Duration::from_secs(60);
        for (query, seconds) in [
            (None, 60),
            (Some("timeoutSeconds=7"), 60),
            (Some("limit=1&timeout=5s"), 5),
            (Some("timeout=1h"), 60),
            (Some("timeout=0s"), 60),
            (Some("timeout="), 60),
        ] {
            let time = parse(query, minute).expect("a time");
            assert_eq!(time, Duration::from_secs(seconds), "{query:?}");
        }
        let error = parse(Some("timeout=soon"), minute).expect_err("refused");
        assert_eq!(error.code, 400);
        assert!(error.message.ends_with("time: invalid duration \"soon\""));
    }
}
