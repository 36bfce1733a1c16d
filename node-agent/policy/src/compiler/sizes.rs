//! How many entries the compiler's tables have.

/// The number of entries by table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Pods with an address of their own.
    pub pods: usize,
    /// Entries of `PEERS`.
    pub prefixes: usize,
    /// Classes of peers.
    pub peers: usize,
    /// Rulesets.
    pub rulesets: usize,
    /// Entries of `VERDICTS`.
    pub verdicts: usize,
    /// Entries of `ENDPOINTS`.
    pub endpoints: usize,
    /// Classes of ports.
    pub classes: usize,
    /// Policies.
    pub policies: usize,
}
