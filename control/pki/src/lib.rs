//! Authorities, certificates, service-account keys.
//!
//! A cluster's identities come from one directory ([`Cluster`]), laid out as kubeadm's
//! `/etc/kubernetes/pki`:
//!
//! | file | content |
//! |---|---|
//! | `ca.crt`, `ca.key` | the cluster's authority: API server, components, nodes' client certificates, people |
//! | `kubelet-ca.crt`, `kubelet-ca.key` | kubelets' serving certificates; only the API server's kubelet client trusts it |
//! | `front-proxy-ca.crt`, `front-proxy-ca.key` | signs for proxies that pass users on in headers |
//! | `sa.pub`, `sa.key` | signs service accounts' tokens |
//! | `encryption.key` | encrypts secrets in the store |
//! | `etcd/ca.crt`, `etcd/ca.key` | members of an etcd that Orlop runs, and their clients ([`EtcdPki`]) |
//! | `NAME.crt`, `NAME.key` | a component's certificate, renewed before it expires |
//!
//! Keys are ECDSA P-256. Files are written atomically; those with secrets are readable by
//! their owner only.

mod authority;
mod cluster;
mod error;
mod etcd;
mod files;
mod kubeconfig;
mod possession;
mod public_key;
mod random;
mod request;
mod sealed;
mod service_account;
mod signatures;
mod subject;
mod tls;
mod vouched;

pub use authority::{Authority, CertificateKeyPair, Spec, Usage, check_certificate};
pub use cluster::{Cluster, KubeletTrust};
pub use error::Error;
pub use etcd::EtcdPki;
pub use files::fingerprint;
pub use files::{write_private, write_public};
pub use kubeconfig::kubeconfig;
pub use possession::{any_server, unverified_client_config};
pub use public_key::{PublicKey, ServiceAccountKeys};
pub use request::{
    CertificateRequest, Request, RequestError, is_signed_by, names, public_key_hash, validity,
};
pub use sealed::{SEAL_KEY_BYTES, open_sealed, seal};
pub use service_account::{ServiceAccountKey, TokenRejection};
pub use subject::{server_verifier, verify_subject};
pub use tls::{
    ClientTrust, ServingIdentity, TlsLimits, client_config, parse_certificates, server_config,
    server_config_within,
};
