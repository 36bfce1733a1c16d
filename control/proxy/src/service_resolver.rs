//! Where a Service is really reached: the addresses behind it, taken from its
//! EndpointSlices.
//!
//! This server asks endpoints directly, never a cluster address: it need not run
//! where Services are translated. The rules and messages are those of
//! kube-apiserver with `--enable-aggregator-routing`; `ExternalName` is taken
//! too, as without it.

use control_types::status::{Status, quote};
use control_types::value::Value;
use rand::seq::SliceRandom;

/// Where a Service is reached, and as whom it proves itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// Hosts and ports as in a URL (`10.0.0.7:8443`, `[fd00::7]:8443`), in the
    /// order in which they should be tried; never empty.
    pub addresses: Vec<String>,
    /// The name that its certificate must have: `<service>.<namespace>.svc`.
    pub server_name: String,
}

/// Why a Service cannot be reached. The messages are those that clients know.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// There is none of that name.
    #[error("service {} not found", quote(.0))]
    NotFound(String),
    /// It has no such port.
    #[error("no service port {port} found for service {}", quote(.service))]
    NoPort {
        /// The Service.
        service: String,
        /// What was asked for.
        port: i64,
    },
    /// Nothing ready stands behind it.
    #[error("no endpoints available for service {}", quote(.0))]
    NoEndpoints(String),
    /// It is of a type that has no endpoints.
    #[error("unsupported service type {}", quote(.0))]
    Type(String),
    /// What is stored of it cannot be read.
    #[error("service {} cannot be read", quote(.service))]
    Unreadable {
        /// The Service.
        service: String,
        /// Why.
        #[source]
        source: Status,
    },
}

/// The name that a Service's certificate must have.
#[must_use]
pub fn server_name(namespace: &str, name: &str) -> String {
    format!("{name}.{namespace}.svc")
}

/// Looks up Services and their EndpointSlices.
pub trait ServiceLister: Send + Sync {
    /// Returns a Service; `None` if there is none.
    ///
    /// # Errors
    /// 500 when the object cannot be read.
    fn service(&self, namespace: &str, name: &str) -> Result<Option<Value>, Status>;

    /// Returns the EndpointSlices of a Service.
    ///
    /// # Errors
    /// 500 when one cannot be read.
    fn endpoint_slices(&self, namespace: &str, service: &str) -> Result<Vec<Value>, Status>;
}

/// Finds the ready endpoints of a Service's port.
///
/// # Errors
/// See [`Error`].
pub fn resolve(
    services: &dyn ServiceLister,
    namespace: &str,
    name: &str,
    port: i64,
) -> Result<Location, Error> {
    let unreadable = |source| Error::Unreadable {
        service: name.to_owned(),
        source,
    };
    let service = services
        .service(namespace, name)
        .map_err(unreadable)?
        .ok_or_else(|| Error::NotFound(name.to_owned()))?;
    let slices = services
        .endpoint_slices(namespace, name)
        .map_err(unreadable)?;
    let mut addresses = addresses(&service, &slices, name, port)?;
    shuffle_within(&mut addresses);
    Ok(Location {
        addresses: addresses.into_iter().map(|(_, address)| address).collect(),
        server_name: server_name(namespace, name),
    })
}

/// The addresses behind a port, each with its turn: those of the Service's first
/// IP family have turn 0, the others 1.
fn addresses(
    service: &Value,
    slices: &[Value],
    name: &str,
    port: i64,
) -> Result<Vec<(u8, String)>, Error> {
    match service.str_at(&["spec", "type"]).unwrap_or("ClusterIP") {
        "ClusterIP" | "LoadBalancer" | "NodePort" => {}
        "ExternalName" => {
            let host = service
                .str_at(&["spec", "externalName"])
                .unwrap_or_default();
            return Ok(vec![(0, format!("{host}:{port}"))]);
        }
        other => return Err(Error::Type(other.to_owned())),
    }
    let port_name = service
        .items_at(&["spec", "ports"])
        .iter()
        .find(|known| known.i64_at(&["port"]) == Some(port))
        .map(|known| known.str_at(&["name"]).unwrap_or_default())
        .ok_or_else(|| Error::NoPort {
            service: name.to_owned(),
            port,
        })?;
    let family = service
        .items_at(&["spec", "ipFamilies"])
        .first()
        .and_then(Value::as_str);
    let mut found = Vec::new();
    for slice in slices {
        let kind = slice.str_at(&["addressType"]);
        let turn = u8::from(family.is_some() && kind != family);
        let target = slice
            .items_at(&["ports"])
            .iter()
            .find(|known| known.str_at(&["name"]).unwrap_or_default() == port_name)
            .and_then(|known| known.i64_at(&["port"]));
        let Some(target) = target else { continue };
        found.extend(
            slice
                .items_at(&["endpoints"])
                .iter()
                .filter(|endpoint| endpoint.bool_at(&["conditions", "ready"]) != Some(false))
                .filter_map(|endpoint| endpoint.items_at(&["addresses"]).first()?.as_str())
                .map(|address| (turn, authority(address, target))),
        );
    }
    if found.is_empty() {
        return Err(Error::NoEndpoints(name.to_owned()));
    }
    Ok(found)
}

/// Host and port as in a URL.
fn authority(host: &str, port: i64) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// Random order among those of the same turn.
fn shuffle_within(addresses: &mut [(u8, String)]) {
    addresses.shuffle(&mut rand::rng());
    addresses.sort_by_key(|(turn, _)| *turn);
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    fn service() -> Value {
        value!({"spec": {
            "type": "ClusterIP", "ipFamilies": ["IPv6", "IPv4"],
            "ports": [{"name": "https", "port": 443}, {"name": "other", "port": 444}]
        }})
    }

    fn slice(kind: &str, port: &str, endpoints: Value) -> Value {
        value!({"addressType": kind, "ports": [{"name": port, "port": 8443}], "endpoints": endpoints})
    }

    fn found(slices: &[Value], port: i64) -> Result<Vec<String>, String> {
        let mut found =
            addresses(&service(), slices, "s", port).map_err(|error| error.to_string())?;
        shuffle_within(&mut found);
        Ok(found.into_iter().map(|(_, address)| address).collect())
    }

    #[test]
    fn ready_endpoints_of_the_first_family_come_first() {
        let slices = [
            slice(
                "IPv4",
                "https",
                value!([
                    {"addresses": ["10.0.0.1"], "conditions": {"ready": false}},
                    {"addresses": ["10.0.0.2"], "conditions": {"ready": true}}
                ]),
            ),
            slice("IPv6", "https", value!([{"addresses": ["fd00::1"]}])),
            slice("IPv6", "other", value!([{"addresses": ["fd00::2"]}])),
        ];
        let expected = ["[fd00::1]:8443", "10.0.0.2:8443"].map(str::to_owned);
        assert_eq!(found(&slices, 443), Ok(expected.to_vec()));
    }

    #[test]
    fn what_is_missing_is_told_in_the_known_words() {
        let none = slice("IPv4", "https", value!([]));
        assert_eq!(
            found(&[none], 443),
            Err("no endpoints available for service \"s\"".into())
        );
        assert_eq!(
            found(&[], 80),
            Err("no service port 80 found for service \"s\"".into())
        );
        let strange = value!({"spec": {"type": "Odd"}});
        assert_eq!(
            addresses(&strange, &[], "s", 1),
            Err(Error::Type("Odd".into()))
        );
        assert_eq!(
            Error::NotFound("s".into()).to_string(),
            "service \"s\" not found"
        );
    }

    #[test]
    fn an_external_name_is_its_own_address() {
        let service = value!({"spec": {"type": "ExternalName", "externalName": "a.example"}});
        assert_eq!(
            addresses(&service, &[], "s", 443),
            Ok(vec![(0, "a.example:443".into())])
        );
    }
}
