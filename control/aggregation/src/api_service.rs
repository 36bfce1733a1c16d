//! The objects by which other servers are registered.

use control_types::value::Value;

/// The group of the registrations.
pub const GROUP: &str = "apiregistration.k8s.io";
/// Their plural.
pub const PLURAL: &str = "apiservices";

/// Whether an APIService names another server.
pub fn is_remote(service: &Value) -> bool {
    service
        .path(&["spec", "service"])
        .is_some_and(|service| !service.is_null())
}
