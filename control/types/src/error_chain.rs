//! The text of an error with its causes.

use std::error::Error;

/// Returns an error's message with those of its sources, for events, conditions, answers and
/// logs. A source that the text already contains is left out: some libraries repeat theirs.
#[must_use]
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let message = cause.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{message}")]
    struct Link {
        message: &'static str,
        source: Option<Box<Link>>,
    }

    #[test]
    fn every_cause_is_shown_once() {
        let link = |message, source: Option<Link>| Link {
            message,
            source: source.map(Box::new),
        };
        let cause = link("cannot read `a`", Some(link("denied", None)));
        let repeated = link("rpc: denied", Some(cause));
        let error = link("volume \"x\" ", Some(repeated));
        assert_eq!(
            error_chain(&error),
            "volume \"x\" : rpc: denied: cannot read `a`"
        );
        assert_eq!(error_chain(&link("alone", None)), "alone");
    }
}
