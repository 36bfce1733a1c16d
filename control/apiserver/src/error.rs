//! Why the server cannot start.

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store cannot be read.
    #[error("the store cannot be read")]
    Store(#[source] control_store::Error),
    /// No range for Service addresses, or more than one of a family.
    #[error(transparent)]
    ServiceRange(control_registry::allocate::ServiceRangesError),
    /// What every cluster has could not be made.
    #[error("cannot look after `{hook}` at start")]
    PostStartHook {
        /// What could not be done.
        hook: &'static str,
        /// What the API answered.
        #[source]
        source: control_types::status::Status,
    },
}
