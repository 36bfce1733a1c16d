//! Load balancer addresses of MetalLB: taking them over, one after another, and back.
//!
//! What is done in which order is decided by [`control_import::metallb::takeover`].

mod probe;
mod record;
mod situation;
mod undo;
mod writes;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use control_client::{Client, Resource, Selection, resources};
use control_import::metallb::service::ServedService;
use control_import::metallb::takeover::{
    CLAIMED, HOSTNAME, LABEL, PARKED, Situation, TAKEN, Task, announcing_node, claiming, cover,
    describe, exempting, limited, naming, parked, parked_addresses, peers_of, plan, pool_ranges,
    sessions, unlimiting,
};
use control_import::{IMPORTED_FROM, ObjectId};
use control_load_balancer::ASSIGNED;
use serde_json::{Value, json};

use self::probe::{Answers, answers, verify};
use self::record::{Phase, TakeoverRecord};
use crate::commands::migrate_metallb::Options;
use crate::error::Error;

/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(300);
/// Time until neighbours know a new owner: announcements are repeated for this long.
const SETTLE: Duration = Duration::from_secs(3);
/// How long Orlop's controller takes to see a change.
const NOTICE: Duration = Duration::from_secs(2);
/// Field manager of the objects that the command applies.
pub const MANAGER: &str = "orlop-migrate-metallb";
/// Value of [`LABEL`] that no node has. Speakers that select nodes by it run nowhere.
const STOPPED: &str = "stopped";

const POOLS: Resource =
    Resource::namespaced("metallb.io", "v1beta1", "ipaddresspools", "IPAddressPool");

static KINDS: [Resource; 6] = [
    POOLS,
    Resource::namespaced(
        "metallb.io",
        "v1beta1",
        "l2advertisements",
        "L2Advertisement",
    ),
    Resource::namespaced(
        "metallb.io",
        "v1beta1",
        "bgpadvertisements",
        "BGPAdvertisement",
    ),
    Resource::namespaced("metallb.io", "v1beta2", "bgppeers", "BGPPeer"),
    Resource::namespaced("metallb.io", "v1beta1", "communities", "Community"),
    Resource::namespaced("", "v1", "secrets", "Secret"),
];

static OWN_KINDS: [(&str, Resource); 5] = [
    (
        "Secret",
        Resource::namespaced("", "v1", "secrets", "Secret"),
    ),
    (
        "IPPool",
        Resource::cluster("orlop.dev", "v1alpha1", "ippools", "IPPool"),
    ),
    (
        "BGPPeer",
        Resource::cluster("orlop.dev", "v1alpha1", "bgppeers", "BGPPeer"),
    ),
    (
        "L2Announcement",
        Resource::cluster("orlop.dev", "v1alpha1", "l2announcements", "L2Announcement"),
    ),
    (
        "BGPAdvertisement",
        Resource::cluster(
            "orlop.dev",
            "v1alpha1",
            "bgpadvertisements",
            "BGPAdvertisement",
        ),
    ),
];

/// Which node announces a Service by ARP and NDP. MetalLB has it since 0.14.
const L2_STATUSES: Resource = Resource::namespaced(
    "metallb.io",
    "v1beta1",
    "servicel2statuses",
    "ServiceL2Status",
);

const ANNOUNCERS: Resource = Resource::cluster("orlop.dev", "v1alpha1", "announcers", "Announcer");

const WEBHOOKS: Resource = Resource::cluster(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
);

/// A take-over, with all that it needs.
pub struct Takeover {
    /// The client of the cluster.
    pub client: Client,
    /// The options of the command.
    pub options: Options,
}

fn stopped(text: impl Into<String>) -> Error {
    Error::Migration(text.into())
}

impl Takeover {
    /// Takes the addresses over.
    ///
    /// # Errors
    /// What keeps it from beginning, or the address or node at which it stopped.
    pub async fn run(&self) -> Result<(), Error> {
        let begun = Instant::now();
        let record = self.record().await?;
        match record.as_ref().map(|it| it.phase) {
            Some(Phase::TakenOver) => {
                println!("nothing to do: the addresses are taken over");
                return Ok(());
            }
            Some(Phase::GivingBack) => {
                return Err(stopped(
                    "the addresses are being given back: finish it with `orlop migrate metallb \
                     --undo`",
                ));
            }
            Some(Phase::TakingOver) | None => {}
        }
        let (situation, original) = self.situation(record.as_ref()).await?;
        let tasks = plan(&situation, self.options.allow_gap)
            .map_err(|refusal| stopped(refusal.to_string()))?;
        if !self.options.dry_run {
            self.check_ready().await?;
        }
        let before = if self.options.dry_run {
            Answers::new()
        } else {
            answers(&situation.services).await
        };
        let record = match record {
            Some(record) => record,
            None => self.recorded(&situation, original).await?,
        };
        for (number, task) in tasks.iter().enumerate() {
            println!(
                "[{}/{}] {}",
                number + 1,
                tasks.len(),
                describe(task, &situation)
            );
            if !self.options.dry_run {
                self.execute(task, &situation, &record, &before).await?;
            }
        }
        if !self.options.dry_run {
            println!(
                "done in {} s; remove MetalLB when you do not want to go back",
                begun.elapsed().as_secs()
            );
        }
        Ok(())
    }

    /// Orlop's kinds are defined, and an agent is there.
    async fn check_ready(&self) -> Result<(), Error> {
        if !self
            .client
            .serves(&ANNOUNCERS)
            .await
            .map_err(Error::Client)?
        {
            return Err(stopped(
                "the cluster does not have Orlop's kinds: run `orlop load-balancer manifests | \
                 kubectl apply -f -`, and `orlop controllers \
                 --controllers=load-balancer-controller`",
            ));
        }
        for pool in self.list(&OWN_KINDS[1].1, &Selection::all()).await? {
            let id = ObjectId::from_object(&pool);
            let is_ours = !pool["metadata"]["annotations"][IMPORTED_FROM].is_null()
                || id.name == ObjectId::from_object(&cover(&[])).name;
            if !is_ours {
                return Err(stopped(format!(
                    "{id} is there already, and Orlop's controller would replace addresses that \
                     it does not have: delete it, and create it again afterwards"
                )));
            }
        }
        Ok(())
    }

    async fn execute(
        &self,
        task: &Task,
        situation: &Situation,
        record: &TakeoverRecord,
        before: &Answers,
    ) -> Result<(), Error> {
        match task {
            Task::Record => self.write_record(record, Phase::TakingOver).await,
            Task::StopController => {
                self.patch(
                    &resources::DEPLOYMENTS,
                    &self.options.namespace,
                    &self.options.controller,
                    &json!({"spec": {"replicas": 0}}),
                )
                .await?;
                let ignore = vec!["Ignore".to_owned(); record.failure_policies.len()];
                self.set_failure_policies(&ignore).await
            }
            Task::Annotate => self.annotate(&situation.services, false).await,
            Task::Create => {
                let cover = cover(&situation.objects);
                self.apply_own(&cover).await?;
                for object in &situation.objects {
                    self.apply_own(&limited(object)).await?;
                }
                self.annotate(&situation.services, true).await?;
                tokio::time::sleep(NOTICE).await;
                self.delete_own("IPPool", &ObjectId::from_object(&cover).name)
                    .await
            }
            Task::AwaitAssigned => self.await_assigned(&situation.services).await,
            Task::NameAdvertisements => {
                for (id, patch) in naming(&record.advertisements, &record.pools) {
                    let kind = KINDS.iter().find(|it| it.kind == id.kind.as_str());
                    if let Some(resource) = kind {
                        self.patch(resource, &id.namespace, &id.name, &patch)
                            .await?;
                    }
                }
                Ok(())
            }
            Task::TakeAddresses(addresses) => {
                let done = self
                    .take_addresses(addresses, situation, record, before)
                    .await;
                if done.is_err() {
                    self.return_addresses(addresses, situation, record).await?;
                }
                done
            }
            Task::ExemptNodes => {
                let speaker: Value = self
                    .client
                    .get(
                        &resources::DAEMON_SETS,
                        &self.options.namespace,
                        &self.options.speaker,
                    )
                    .await
                    .map_err(Error::Client)?;
                self.patch_speaker(&exempting(&speaker)).await
            }
            Task::LabelServices(addresses) => {
                for service in &situation.services {
                    if service.addresses.iter().any(|it| addresses.contains(it)) {
                        self.label_service(service, Some(TAKEN)).await?;
                    }
                }
                Ok(())
            }
            Task::TakeNode(node) => {
                let done = self.take_node(node, situation, before).await;
                if done.is_err() {
                    self.label_node(node, None).await?;
                }
                done
            }
            Task::StopSpeakers => {
                let patch = json!({"spec": {"template": {"spec": {
                    "nodeSelector": {LABEL: STOPPED}}}}});
                self.patch_speaker(&patch).await?;
                self.until("MetalLB's speakers to stop", || async {
                    let left = self.speakers(None).await?;
                    Ok(if left.is_empty() {
                        None
                    } else {
                        Some(format!("{} are left", left.len()))
                    })
                })
                .await
            }
            Task::Finish => {
                // The label alone is removed: an apply without it leaves `spec: null`.
                for (kind, name) in &record.objects {
                    let resource = OWN_KINDS.iter().find(|(known, _)| known == kind);
                    if let Some(((_, resource), patch)) = resource.zip(unlimiting(kind)) {
                        self.patch(resource, "", name, &patch).await?;
                    }
                }
                self.write_record(record, Phase::TakenOver).await?;
                for service in &situation.services {
                    self.label_service(service, None).await?;
                }
                for node in situation.bgp_nodes() {
                    self.label_node(&node, None).await?;
                }
                tokio::time::sleep(SETTLE).await;
                verify(&situation.services, None, before).await
            }
        }
    }

    async fn annotate(&self, services: &[ServedService], pool: bool) -> Result<(), Error> {
        for service in services {
            if let Some(patch) = service.patch(pool) {
                let (namespace, name) = (&service.namespace, &service.name);
                self.patch(&resources::SERVICES, namespace, name, &patch)
                    .await?;
            }
        }
        Ok(())
    }

    /// Orlop's controller has marked all Services, and none has another address than before.
    async fn await_assigned(&self, services: &[ServedService]) -> Result<(), Error> {
        self.until("Orlop's controller to take the Services over", || async {
            for service in services {
                let (namespace, name) = (&service.namespace, &service.name);
                let object: Value = self
                    .client
                    .get(&resources::SERVICES, namespace, name)
                    .await
                    .map_err(Error::Client)?;
                let all = object["status"]["loadBalancer"]["ingress"].as_array();
                let has: BTreeSet<IpAddr> = all
                    .into_iter()
                    .flatten()
                    .filter_map(|it| it["ip"].as_str()?.parse().ok())
                    .collect();
                let had: BTreeSet<IpAddr> = service.addresses.iter().copied().collect();
                if has != had {
                    return Err(stopped(format!(
                        "Service {namespace}/{name} lost an address: had {had:?}, has {has:?}; go \
                         back with `orlop migrate metallb --undo`"
                    )));
                }
                if object["metadata"]["annotations"][ASSIGNED].is_null() {
                    return Ok(Some(format!(
                        "Service {namespace}/{name} is not taken over; is \
                         load-balancer-controller running, and are Services without a class its \
                         own?"
                    )));
                }
            }
            Ok(None)
        })
        .await
    }

    /// Announces addresses beside MetalLB, then has MetalLB stop.
    async fn take_addresses(
        &self,
        addresses: &BTreeSet<IpAddr>,
        situation: &Situation,
        record: &TakeoverRecord,
        before: &Answers,
    ) -> Result<(), Error> {
        // With --allow-gap there may be others, which BGP announces later.
        let near: BTreeSet<IpAddr> = situation
            .by_l2_alone()
            .intersection(addresses)
            .copied()
            .collect();
        self.claim(addresses, &near, situation).await?;
        for service in of_addresses(&situation.services, addresses) {
            self.label_service(service, Some(TAKEN)).await?;
        }
        for address in &near {
            self.until_held(*address).await?;
        }
        self.delete_claims(situation).await?;
        // Neighbours learn of the new owner while the old one still answers.
        tokio::time::sleep(SETTLE).await;
        verify(&situation.services, Some(addresses), before).await?;
        let mut taken = self.parked().await?;
        taken.extend(addresses);
        self.park(&taken, record).await?;
        tokio::time::sleep(SETTLE).await;
        for address in &near {
            self.until_held(*address).await?;
        }
        verify(&situation.services, Some(addresses), before).await
    }

    /// Announces addresses on the node on which MetalLB does: it has the connections, and a node
    /// that answers for an address keeps it. Without such a node any may.
    async fn claim(
        &self,
        addresses: &BTreeSet<IpAddr>,
        near: &BTreeSet<IpAddr>,
        situation: &Situation,
    ) -> Result<(), Error> {
        let services = of_addresses(&situation.services, addresses);
        let statuses = self.list(&L2_STATUSES, &Selection::all()).await?;
        let node = announcing_node(&statuses, &services);
        let labels = node.and_then(|it| situation.nodes.get(&it));
        let Some(hostname) = labels.and_then(|it| it.get(HOSTNAME)) else {
            return Ok(());
        };
        for claim in claiming(&situation.objects, hostname) {
            self.apply_own(&claim).await?;
        }
        for service in services {
            self.label_service(service, Some(CLAIMED)).await?;
        }
        for address in near {
            self.until_held(*address).await?;
        }
        Ok(())
    }

    async fn delete_claims(&self, situation: &Situation) -> Result<(), Error> {
        for claim in claiming(&situation.objects, "") {
            let id = ObjectId::from_object(&claim);
            self.delete_own(&id.kind, &id.name).await?;
        }
        Ok(())
    }

    /// Lets MetalLB announce addresses again, and stops Orlop's announcements.
    async fn return_addresses(
        &self,
        addresses: &BTreeSet<IpAddr>,
        situation: &Situation,
        record: &TakeoverRecord,
    ) -> Result<(), Error> {
        let mut taken = self.parked().await?;
        taken.retain(|it| !addresses.contains(it));
        self.park(&taken, record).await?;
        tokio::time::sleep(SETTLE).await;
        for service in of_addresses(&situation.services, addresses) {
            self.label_service(service, None).await?;
        }
        self.delete_claims(situation).await
    }

    /// The addresses that MetalLB does not announce any more.
    async fn parked(&self) -> Result<BTreeSet<IpAddr>, Error> {
        let pools = self.list(&POOLS, &self.own_namespace()).await?;
        let parked = pools
            .iter()
            .filter(|it| ObjectId::from_object(it).name == PARKED);
        Ok(parked.flat_map(parked_addresses).collect())
    }

    /// Moves addresses among MetalLB's pools so that it announces all but some. Between the
    /// writes an address is in two pools, and speakers keep their former configuration.
    async fn park(&self, taken: &BTreeSet<IpAddr>, record: &TakeoverRecord) -> Result<(), Error> {
        let namespace = &self.options.namespace;
        let grows = !taken.is_subset(&self.parked().await?);
        if grows {
            self.apply(&POOLS, &parked(namespace, taken)).await?;
        }
        let ranges = pool_ranges(&record.pools, taken);
        for (original, (id, ranges)) in record.pools.iter().zip(ranges) {
            if ranges.is_empty() {
                self.delete(&POOLS, &id.namespace, &id.name).await?;
                continue;
            }
            let mut pool = original.clone();
            pool["spec"]["addresses"] = ranges.into();
            self.apply(&POOLS, &pool).await?;
        }
        if taken.is_empty() {
            self.delete(&POOLS, namespace, PARKED).await?;
        } else if !grows {
            self.apply(&POOLS, &parked(namespace, taken)).await?;
        }
        Ok(())
    }

    async fn until_held(&self, address: IpAddr) -> Result<(), Error> {
        let text = address.to_string();
        self.until(&format!("a node to answer for {address}"), || async {
            let all = self.list(&ANNOUNCERS, &Selection::all()).await?;
            let holds = |it: &Value| {
                let all = it["status"]["addresses"].as_array();
                all.is_some_and(|all| all.iter().any(|it| it == text.as_str()))
            };
            Ok(if all.iter().any(holds) {
                None
            } else {
                Some("no Announcer has it; do agents run on the nodes?".to_owned())
            })
        })
        .await
    }

    /// Stops MetalLB's speaker on a node, and waits for Orlop's sessions.
    async fn take_node(
        &self,
        node: &str,
        situation: &Situation,
        before: &Answers,
    ) -> Result<(), Error> {
        let labels = situation.nodes.get(node).cloned().unwrap_or_default();
        let peers = peers_of(&situation.objects, &labels);
        self.label_node(node, Some(TAKEN)).await?;
        self.until(&format!("MetalLB's speaker to leave {node}"), || async {
            let left = self.speakers(Some(node)).await?;
            Ok(if left.is_empty() {
                None
            } else {
                Some("its pod is still there".to_owned())
            })
        })
        .await?;
        self.until(&format!("BGP sessions of {node}"), || async {
            let announcer = match self.client.get::<Value>(&ANNOUNCERS, "", node).await {
                Ok(announcer) => announcer,
                Err(error) if error.is_not_found() => {
                    return Ok(Some(
                        "it has no Announcer; does the agent run there?".to_owned(),
                    ));
                }
                Err(error) => return Err(Error::Client(error)),
            };
            Ok(sessions(&announcer, &peers)
                .err()
                .map(|why| why.to_string()))
        })
        .await?;
        // Routers take the routes before the next node lets its own go.
        tokio::time::sleep(SETTLE).await;
        verify(&situation.services, None, before).await
    }

    /// Names of MetalLB's speaker pods, of one node or all.
    async fn speakers(&self, node: Option<&str>) -> Result<Vec<String>, Error> {
        let pods = self.speaker_pods().await?;
        let here = |pod: &&Value| node.is_none_or(|node| pod["spec"]["nodeName"] == node);
        let found = pods.iter().filter(here);
        Ok(found.map(|pod| ObjectId::from_object(pod).name).collect())
    }

    /// The nodes on which MetalLB's speakers are ready.
    async fn speaker_nodes(&self) -> Result<BTreeSet<String>, Error> {
        let pods = self.speaker_pods().await?;
        let is_ready = |pod: &&Value| {
            let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            let mut ready = conditions.filter(|it| it["type"] == "Ready");
            ready.any(|it| it["status"] == "True")
        };
        let nodes = pods.iter().filter(is_ready);
        let nodes = nodes.filter_map(|pod| pod["spec"]["nodeName"].as_str());
        Ok(nodes.map(str::to_owned).collect())
    }

    async fn speaker_pods(&self) -> Result<Vec<Value>, Error> {
        let mut pods = self.list(&resources::PODS, &self.own_namespace()).await?;
        pods.retain(|pod| {
            let owners = pod["metadata"]["ownerReferences"].as_array();
            owners.is_some_and(|all| {
                all.iter().any(|it| {
                    it["kind"] == "DaemonSet" && it["name"] == self.options.speaker.as_str()
                })
            })
        });
        Ok(pods)
    }
}

/// The Services that have one of some addresses.
fn of_addresses<'a>(
    services: &'a [ServedService],
    addresses: &BTreeSet<IpAddr>,
) -> Vec<&'a ServedService> {
    let has = |it: &&ServedService| it.addresses.iter().any(|it| addresses.contains(it));
    services.iter().filter(has).collect()
}
