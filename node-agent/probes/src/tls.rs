//! TLS towards containers, for probes.

/// A client that takes any certificate: a probe asks whether a container
/// answers, not who it is, and it sends nothing secret.
pub(crate) use control_pki::unverified_client_config as unverified;
