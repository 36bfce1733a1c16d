//! The `kubernetes` ServiceCIDR: the ranges that the server was told at start,
//! as an object (KEP-1880).

use std::time::Duration;

use control_types::status::Status;
use control_types::value::Value;
use control_types::{meta, value};
use futures::FutureExt;

use super::PostStartHook;
use super::context::HookContext;
use control_registry::conditions::{self, Condition};
use control_registry::own;

pub(super) static HOOK: PostStartHook =
    PostStartHook::new("service ranges", Duration::from_secs(10), |context| {
        run(context).boxed()
    })
    .following(&[("networking.k8s.io", "servicecidrs")]);

const GROUP: &str = "networking.k8s.io";
const PLURAL: &str = "servicecidrs";
const NAME: &str = "kubernetes";
/// Under which name its condition is told.
const CONTROLLER: &str = "kubernetes-service-cidr-controller";

async fn run(context: &HookContext) -> Result<(), Status> {
    let ranges: Vec<Value> = context
        .service_cidrs
        .iter()
        .map(|range| Value::from(range.to_string()))
        .collect();
    if ranges.is_empty() {
        return Ok(());
    }
    let object = value!({
        "kind": "ServiceCIDR",
        "apiVersion": "networking.k8s.io/v1",
        "metadata": {"name": NAME},
        "spec": {"cidrs": (ranges.clone())}
    });
    own::ensure(context, (GROUP, PLURAL), own::OWN, object, |stored, _| {
        mend(stored, &ranges)
    })
    .await?;
    let served = context.resource(GROUP, PLURAL)?;
    own::apply(context, served, NAME, CONTROLLER, |stored| {
        let mut judged = stored.clone();
        judge(&mut judged, &ranges).then(|| conditions::only(&judged, "Ready"))
    })
    .await
}

/// A second family is added to a first one.
fn mend(stored: &mut Value, ranges: &[Value]) -> bool {
    let present = stored.items_at(&["spec", "cidrs"]);
    let grows = present.len() == 1 && ranges.len() == 2 && present[0] == ranges[0];
    if grows {
        stored.set_path(&["spec", "cidrs"], ranges.to_vec());
    }
    grows
}

/// Tells that the range is ready where it is the server's. A range that is being
/// deleted or that somebody said is not ready stays as it is, and so does one of
/// another configuration.
fn judge(stored: &mut Value, ranges: &[Value]) -> bool {
    let told = conditions::find(stored, "Ready").and_then(|ready| ready.str_at(&["status"]));
    if meta::is_deleting(stored)
        || stored.items_at(&["spec", "cidrs"]) != ranges
        || matches!(told, Some("True" | "False"))
    {
        return false;
    }
    conditions::set(
        stored,
        &Condition {
            kind: "Ready",
            status: "True",
            reason: "",
            message: "Kubernetes default Service CIDR is ready".into(),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_server_s_own_range_is_told_ready() {
        let ranges = [Value::from("10.0.0.0/16")];
        let mut own = value!({"spec": {"cidrs": ["10.0.0.0/16"]}});
        assert!(judge(&mut own, &ranges));
        assert!(!judge(&mut own, &ranges));
        let mut other = value!({"spec": {"cidrs": ["10.1.0.0/16"]}});
        assert!(!judge(&mut other, &ranges));
    }

    #[test]
    fn a_second_family_joins_the_first() {
        let ranges = [Value::from("10.0.0.0/16"), Value::from("fd00::/112")];
        let mut own = value!({"spec": {"cidrs": ["10.0.0.0/16"]}});
        assert!(mend(&mut own, &ranges));
        assert_eq!(own.items_at(&["spec", "cidrs"]).len(), 2);
    }
}
