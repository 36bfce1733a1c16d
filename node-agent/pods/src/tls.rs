//! TLS towards containers, for probes.

use std::sync::{Arc, LazyLock};

use rustls::crypto::CryptoProvider;

/// The one cryptography of the agent.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> =
        LazyLock::new(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    PROVIDER.clone()
}

/// A client that takes any certificate: a probe asks whether a container
/// answers, not who it is, and it sends nothing secret.
pub(crate) use control_pki::unverified_client_config as unverified;
