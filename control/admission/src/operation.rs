//! Operations of requests.

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A new object.
    Create,
    /// Another state of an object.
    Update,
    /// No object any more.
    Delete,
    /// Streams to what an object stands for.
    Connect,
}

impl Operation {
    /// Returns the operation as rules and reviews write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}
