//! IPAddress objects (KEP-1880): who has an address of the services. Their
//! names are the addresses, so that the store itself gives each out once,
//! whichever server asks.

use std::net::IpAddr;

use control_types::status::Status;
use control_types::value::Value;
use control_types::{meta, value};

use crate::managed::{Endpoint, OWN};
use crate::served_resource::ServedResource;
use crate::storage::Storage;
use crate::write::Decision;

/// API group of IPAddresses.
pub const GROUP: &str = "networking.k8s.io";
/// Resource name of IPAddresses.
pub const PLURAL: &str = "ipaddresses";
/// Label with the IP version of the address.
pub const FAMILY: &str = "ipaddress.kubernetes.io/ip-family";
/// Label that names who manages the object.
pub const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`], as kube-apiserver has it.
pub const MANAGER: &str = "ipallocator.k8s.io";

/// The resource.
///
/// # Errors
/// Never, as long as the registry has it.
pub fn served(storage: &Storage) -> Result<&ServedResource, Status> {
    storage.resource(GROUP, PLURAL).map(AsRef::as_ref)
}

/// The object for an address that a Service has.
pub fn object(address: IpAddr, service: &Value) -> Value {
    let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
    value!({
        "kind": "IPAddress",
        "apiVersion": "networking.k8s.io/v1",
        "metadata": {
            "name": (address.to_string()),
            "labels": {FAMILY: family, MANAGED_BY: MANAGER}
        },
        "spec": {"parentRef": {
            "resource": "services",
            "namespace": (meta::namespace(service)),
            "name": (meta::name(service))
        }}
    })
}

/// Whether somebody has the address, as far as is known here.
pub fn is_taken(storage: &Storage, address: IpAddr) -> bool {
    storage
        .cached(GROUP, PLURAL, &address.to_string())
        .is_some()
}

/// Takes an address for a Service. `false`: somebody else has it.
///
/// # Errors
/// When the store cannot be written.
pub async fn take(storage: &Storage, address: IpAddr, service: &Value) -> Result<bool, Status> {
    let served = served(storage)?;
    let mut object = object(address, service);
    Endpoint::for_resource(storage, served, "").write(None, &mut object, OWN);
    meta::set_uid(&mut object, &uuid::Uuid::new_v4().to_string());
    meta::set_creation_timestamp(&mut object, jiff::Timestamp::now());
    served.form().complete(&mut object);
    match storage
        .store_new(served, &address.to_string(), object, None)
        .await
    {
        Ok(_) => Ok(true),
        Err(status) if status.reason == "AlreadyExists" => Ok(false),
        Err(status) => Err(status),
    }
}

/// Gives back an address that a Service had, if it still has it.
///
/// # Errors
/// When the store cannot be written.
pub async fn give_back(storage: &Storage, address: IpAddr, service: &Value) -> Result<(), Status> {
    let served = served(storage)?;
    let key = address.to_string();
    let done = storage
        .modify(served, &key, false, None, |current| {
            let current = current.ok_or_else(|| served.not_found(&key))?.object;
            Ok(if is_of(&current, service) {
                Decision::Delete(current)
            } else {
                Decision::Keep(current)
            })
        })
        .await;
    match done {
        Err(status) if status.code == 404 => Ok(()),
        other => other.map(drop),
    }
}

/// Deletes the IPAddress objects of addresses that a Service had.
pub async fn give_back_all(storage: &Storage, addresses: &[IpAddr], service: &Value) {
    for address in addresses {
        if let Err(error) = give_back(storage, *address, service).await {
            // The repair finds it later.
            tracing::warn!(%address, %error, "an address is not given back");
        }
    }
}

/// Whether an IPAddress was made for a Service.
pub fn is_of(object: &Value, service: &Value) -> bool {
    let parent = |member: &str| object.str_at(&["spec", "parentRef", member]);
    parent("resource") == Some("services")
        && parent("namespace") == Some(meta::namespace(service))
        && parent("name") == Some(meta::name(service))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_its_service_and_its_family() {
        let service = value!({"metadata": {"name": "s", "namespace": "n"}});
        let address = "fd00::1".parse().expect("an address");
        let object = object(address, &service);
        assert_eq!(meta::name(&object), "fd00::1");
        assert_eq!(meta::label(&object, FAMILY), Some("IPv6"));
        assert!(is_of(&object, &service));
        let other = value!({"metadata": {"name": "t", "namespace": "n"}});
        assert!(!is_of(&object, &other));
    }
}
