//! The `kubernetes` Service and its endpoints: the API servers that are alive,
//! this one among them.

use std::net::IpAddr;
use std::time::Duration;

use control_types::status::Status;
use control_types::value::Value;
use control_types::{meta, value};
use futures::FutureExt;

use super::context::HookContext;
use super::{PostStartHook, masters};
use control_registry::own;

pub(super) static HOOK: PostStartHook = PostStartHook::new(
    "the kubernetes service",
    Duration::from_secs(10),
    |context| run(context).boxed(),
)
.stopping(|context| stop(context).boxed());

const MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
const SERVICE: &str = "kubernetes.io/service-name";

async fn run(context: &HookContext) -> Result<(), Status> {
    let Some(address) = context.allocators.first_address() else {
        return Ok(());
    };
    masters::announce(context).await?;
    let port = i64::from(context.address.port());
    own::ensure(
        context,
        ("", "services"),
        own::OWN,
        service(address, port),
        mend_service,
    )
    .await?;
    publish(context).await
}

/// The server goes: others answer for it, if there are any.
async fn stop(context: &HookContext) -> Result<(), Status> {
    masters::withdraw(context).await?;
    publish(context).await
}

async fn publish(context: &HookContext) -> Result<(), Status> {
    let alive = masters::alive(context).await?;
    if alive.is_empty() {
        // Better the old addresses than none.
        return Ok(());
    }
    let port = i64::from(context.address.port());
    own::ensure(
        context,
        ("", "endpoints"),
        own::OWN,
        endpoints(&alive, port),
        |old, new| {
            let marked = meta::label(old, MIRROR) == Some("true");
            meta::set_label(old, MIRROR, "true");
            own::copy(old, new, &["subsets"]) || !marked
        },
    )
    .await?;
    let slice = slice(&alive, port);
    own::ensure(
        context,
        ("discovery.k8s.io", "endpointslices"),
        own::OWN,
        slice,
        |old, new| {
            if !own::copy(old, new, &["endpoints", "ports"]) {
                return false;
            }
            meta::set_generation(old, meta::generation(old) + 1);
            true
        },
    )
    .await
}

fn service(address: IpAddr, port: i64) -> Value {
    let address = address.to_string();
    value!({
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"}
        },
        "spec": {
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}],
            "clusterIP": (address.as_str()),
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster"
        }
    })
}

/// Ports and type are the server's; the rest may be changed by others.
fn mend_service(stored: &mut Value, wanted: &Value) -> bool {
    let mut changed = false;
    for member in ["ports", "type"] {
        let wanted = wanted.path(&["spec", member]).cloned().unwrap_or_default();
        if stored.path(&["spec", member]) != Some(&wanted) {
            stored.set_path(&["spec", member], wanted);
            changed = true;
        }
    }
    changed
}

fn ports(port: i64) -> Value {
    value!([{"name": "https", "port": port, "protocol": "TCP"}])
}

fn endpoints(alive: &[IpAddr], port: i64) -> Value {
    let addresses: Value = alive
        .iter()
        .map(|address| value!({"ip": (address.to_string())}))
        .collect();
    value!({
        "kind": "Endpoints",
        "apiVersion": "v1",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": {MIRROR: "true"}},
        "subsets": [{"addresses": (addresses), "ports": (ports(port))}]
    })
}

fn slice(alive: &[IpAddr], port: i64) -> Value {
    let v4 = alive.first().is_none_or(IpAddr::is_ipv4);
    // A slice holds addresses of one family.
    let endpoints: Value = alive
        .iter()
        .filter(|address| address.is_ipv4() == v4)
        .map(
            |address| value!({"addresses": [(address.to_string())], "conditions": {"ready": true}}),
        )
        .collect();
    value!({
        "kind": "EndpointSlice",
        "apiVersion": "discovery.k8s.io/v1",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "generation": 1,
            "labels": {SERVICE: "kubernetes"}
        },
        "addressType": (if v4 { "IPv4" } else { "IPv6" }),
        "endpoints": (endpoints),
        "ports": [{"name": "https", "protocol": "TCP", "port": port}]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_is_an_endpoint() {
        let alive: Vec<IpAddr> = ["10.0.0.1", "10.0.0.2"]
            .iter()
            .map(|text| text.parse().expect("an address"))
            .collect();
        let made = endpoints(&alive, 6443);
        let addresses = made.items_at(&["subsets"])[0].items_at(&["addresses"]);
        assert_eq!(addresses.len(), 2);
        assert_eq!(slice(&alive, 6443).items_at(&["endpoints"]).len(), 2);
    }

    #[test]
    fn ports_of_the_service_are_restored() {
        let wanted = service("10.96.0.1".parse().expect("an address"), 6443);
        let mut stored = wanted.clone();
        assert!(!mend_service(&mut stored, &wanted));
        stored.set_path(&["spec", "ports"], value!([{"port": 80}]));
        stored.set_path(&["spec", "sessionAffinity"], "ClientIP");
        assert!(mend_service(&mut stored, &wanted));
        assert_eq!(
            stored.str_at(&["spec", "sessionAffinity"]),
            Some("ClientIP")
        );
    }
}
