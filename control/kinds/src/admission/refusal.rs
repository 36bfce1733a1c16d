//! The reason of a rejection.

/// The reason of a rejection: the text after `is forbidden: ` in the response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(String);

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self(why)
    }
}

impl From<&str> for Refusal {
    fn from(why: &str) -> Self {
        Self(why.to_owned())
    }
}

impl From<Refusal> for String {
    fn from(refusal: Refusal) -> Self {
        refusal.0
    }
}

impl AsRef<str> for Refusal {
    fn as_ref(&self) -> &str {
        &self.0
    }
}
