//! ServiceCIDRs: sets the condition Ready, and blocks deletion while Services have
//! addresses that no other range contains (KEP-1880).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use control_client::{Client, Discard, Patch, Queue, View};
use ipnet::IpNet;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::Controller;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::{IpAddress, SERVICE_CIDR_FINALIZER, ServiceCidr};
use crate::work::{self, Outcome};

/// The field manager of the conditions.
const MANAGER: &str = "service-cidr-controller";
/// API servers stop giving out addresses of a deleted range within this time.
const SETTLED: Duration = Duration::from_secs(10);

/// Keeps ranges that are needed, and tells that the others are ready.
pub const CONTROLLER: Controller = Controller {
    name: "service-cidr-controller",
    service_account: "service-cidrs-controller",
    start: |ctx| {
        let this = Arc::new(CidrController {
            client: ctx.client.clone(),
            ranges: ctx.service_cidrs(),
            addresses: ctx.ip_addresses(),
            queue: work::queue(),
        });
        let listener = Arc::clone(&this);
        // A range may free another, or need it.
        this.ranges.on_change(move |_| listener.all(|_| true));
        let listener = Arc::clone(&this);
        // An address that goes may have been the last of a range that waits.
        this.addresses
            .on_change(move |_| listener.all(|range| range.metadata.is_terminating()));
        let shutdown = ctx.shutdown.clone();
        Box::pin(async move {
            this.ranges.ready().await;
            this.addresses.ready().await;
            let work = work::call(&this, |this, key| async move { this.sync(key).await });
            this.queue.run("service-cidrs", 1, &shutdown, work).await;
        })
    },
};

struct CidrController {
    client: Client,
    ranges: Arc<KindCache<ServiceCidr>>,
    addresses: Arc<KindCache<IpAddress>>,
    queue: Queue<Key>,
}

/// The next write to a ServiceCIDR.
#[derive(Debug, PartialEq, Eq)]
enum CidrAction {
    Nothing,
    /// Add the finalizer, and set the condition Ready.
    Keep,
    /// Report that it is still in use.
    Wait,
    /// It is looked at again.
    Later(Duration),
    /// The finalizer is taken off.
    Free,
}

fn decide(
    range: &ServiceCidr,
    all: &[Arc<ServiceCidr>],
    addresses: impl Iterator<Item = IpAddr>,
    now: Timestamp,
) -> CidrAction {
    let Some(deleted) = range.metadata.deletion_timestamp else {
        return CidrAction::Keep;
    };
    if !range.is_protected() {
        return CidrAction::Nothing;
    }
    let others: Vec<IpNet> = all
        .iter()
        .filter(|other| {
            other.metadata.name != range.metadata.name && !other.metadata.is_terminating()
        })
        .flat_map(|other| other.nets())
        .collect();
    let own: Vec<IpNet> = range.nets().collect();
    let holds = |nets: &[IpNet], address: &IpAddr| nets.iter().any(|net| net.contains(address));
    let mut needed = addresses.filter(|address| holds(&own, address) && !holds(&others, address));
    if needed.next().is_some() {
        return CidrAction::Wait;
    }
    let passed = Duration::try_from(now.duration_since(deleted)).unwrap_or_default();
    match SETTLED.checked_sub(passed) {
        Some(left) if !left.is_zero() => CidrAction::Later(left),
        _ => CidrAction::Free,
    }
}

impl CidrController {
    fn all(&self, select: impl Fn(&ServiceCidr) -> bool) {
        for range in self.ranges.all() {
            if select(&range) {
                self.queue.add(Key::from_meta(&range.metadata));
            }
        }
    }

    async fn sync(&self, key: Key) -> Outcome {
        let Some(range) = self.ranges.by_key(&key) else {
            return Ok(None);
        };
        let addresses = self.addresses.all();
        let known = addresses
            .iter()
            .filter_map(|address| address.metadata.name.parse().ok());
        match decide(&range, &self.ranges.all(), known, Timestamp::now()) {
            CidrAction::Nothing => {}
            CidrAction::Keep => {
                if !range.is_protected() {
                    let patch = json!({"metadata": {"finalizers": [SERVICE_CIDR_FINALIZER]}});
                    self.patch(&range, Patch::Strategic(&patch)).await?;
                }
                let message = "Kubernetes Service CIDR is ready";
                self.tell(&range, "True", "", message).await?;
            }
            CidrAction::Wait => {
                let message = "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR";
                self.tell(&range, "False", "Terminating", message).await?;
            }
            CidrAction::Later(left) => return Ok(Some(left)),
            CidrAction::Free => {
                let patch = json!({
                    "metadata": {"$deleteFromPrimitiveList/finalizers": [SERVICE_CIDR_FINALIZER]}
                });
                self.patch(&range, Patch::Strategic(&patch)).await?;
            }
        }
        Ok(None)
    }

    async fn patch(
        &self,
        range: &ServiceCidr,
        patch: Patch<'_, Value>,
    ) -> Result<(), control_client::Error> {
        let name = &range.metadata.name;
        let done = self
            .client
            .patch::<Discard>(&ServiceCidr::RESOURCE, "", name, "", patch)
            .await;
        work::unless_gone(done)
    }

    /// Applies the condition, if it is not told so already.
    async fn tell(
        &self,
        range: &ServiceCidr,
        status: &str,
        reason: &str,
        message: &str,
    ) -> Result<(), control_client::Error> {
        let conditions = range.status.conditions.iter().flatten();
        let mut told = conditions.filter(|condition| condition.r#type == "Ready");
        if told.any(|old| old.status == status && old.reason == reason && old.message == message) {
            return Ok(());
        }
        let name = &range.metadata.name;
        let body = json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "ServiceCIDR",
            "metadata": {"name": name.as_str()},
            "status": {"conditions": [{
                "type": "Ready",
                "status": status,
                "reason": reason,
                "message": message,
                "lastTransitionTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
            }]}
        });
        let apply = Patch::Apply {
            body: &body,
            manager: MANAGER,
            force: true,
        };
        let done = self
            .client
            .patch::<Discard>(&ServiceCidr::RESOURCE, "", name, "status", apply)
            .await;
        work::unless_gone(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(name: &str, cidr: &str, deleted: Option<&str>) -> ServiceCidr {
        serde_json::from_value(json!({
            "metadata": {
                "name": name, "finalizers": [SERVICE_CIDR_FINALIZER], "deletionTimestamp": deleted
            },
            "spec": {"cidrs": [cidr]}
        }))
        .expect("a range")
    }

    fn decided(range: &ServiceCidr, others: &[ServiceCidr], addresses: &[&str]) -> CidrAction {
        let mut all: Vec<Arc<ServiceCidr>> = others.iter().cloned().map(Arc::new).collect();
        all.push(Arc::new(range.clone()));
        let addresses = addresses
            .iter()
            .map(|text| text.parse().expect("an address"));
        let now = "2026-01-01T00:00:15Z".parse().expect("a time");
        decide(range, &all, addresses, now)
    }

    #[test]
    fn a_range_stays_while_an_address_of_it_has_no_other() {
        let going = range("a", "10.0.0.0/24", Some("2026-01-01T00:00:00Z"));
        assert_eq!(decided(&going, &[], &["10.0.0.5"]), CidrAction::Wait);
        assert_eq!(decided(&going, &[], &["10.1.0.5"]), CidrAction::Free);
        let wider = range("b", "10.0.0.0/16", None);
        assert_eq!(decided(&going, &[wider], &["10.0.0.5"]), CidrAction::Free);
        let also_going = range("b", "10.0.0.0/16", Some("2026-01-01T00:00:00Z"));
        assert_eq!(
            decided(&going, &[also_going], &["10.0.0.5"]),
            CidrAction::Wait
        );
    }

    #[test]
    fn a_range_that_was_just_deleted_is_looked_at_again() {
        let going = range("a", "10.0.0.0/24", Some("2026-01-01T00:00:12Z"));
        assert_eq!(
            decided(&going, &[], &[]),
            CidrAction::Later(Duration::from_secs(7))
        );
        assert_eq!(
            decided(&range("a", "10.0.0.0/24", None), &[], &[]),
            CidrAction::Keep
        );
    }
}
