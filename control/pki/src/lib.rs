//! Authorities, certificates, service-account keys.
