//! Errors of evaluation.

use std::borrow::Cow;

/// Error of an evaluation; the message is that of cel-go, since policies and rules show
/// it to users.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The operation fails for these values.
    #[error("{0}")]
    Failed(Cow<'static, str>),
    /// A map lacks the key.
    #[error("no such key: {0}")]
    NoSuchKey(String),
    /// A function or operator does not take values of these types.
    #[error("no such overload")]
    NoSuchOverload,
    /// The evaluation costs more than one may.
    #[error("operation cancelled: actual cost limit exceeded")]
    CostLimit,
    /// All evaluations together cost more than they may.
    #[error(
        "validation failed due to running out of cost budget, no further validation rules will be run"
    )]
    Budget,
}

impl Error {
    pub(crate) fn failed(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Failed(message.into())
    }

    /// Whether `||` and `&&` cannot hide it.
    pub(crate) const fn is_final(&self) -> bool {
        matches!(self, Self::CostLimit | Self::Budget)
    }
}
