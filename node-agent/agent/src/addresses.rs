//! Hands out the addresses of this node's pods, and takes back those of pods that
//! are gone though nobody said so.
//!
//! ```text
//! Node: podCIDRs, annotation ──► pools ─┐
//! the CNI plugin's questions ───────────┼─► store ──► answers
//! the runtime's sandboxes ──────────────┘
//! ```
//!
//! What is given out stands in files before it is answered ([`cni_addresses`]). With it goes
//! the interface, which is made here ([`attach`]): a plugin that is told to only asks for it.
//! It is also taken back here, with its interface ([`release`]); the plugin does that
//! itself when the agent is away, so that no pod has to wait with its end; what is lost between (the runtime or
//! the plugin was killed) is found by comparing with the runtime's sandboxes.

use std::{
    collections::BTreeSet,
    net::IpAddr,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use cni_addresses::{
    Error as AddressError, HeldAddress, Holder, Pool, Store,
    wire::{self, Answer, Question},
};
use control_client::{Cache, Client, Metadata, resources};
use node_agent_cri::{Runtime, api};
use node_agent_informers::Node;
use node_agent_objects::error_chain;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::{
    attach::InterfaceBuilder,
    release::{InterfaceRemover, release},
};
use crate::{
    Error,
    lines::{self, InvalidQuestion},
    pools::{DEFAULT_POOL, pools},
    services::local_api,
};

mod attach;
mod release;

pub use attach::AttachContext;

/// The network's name, and with it the folder of its addresses.
pub const NETWORK: &str = "orlop";
/// Which of its node's pools a Pod gets its addresses from.
pub const WANTED_POOL: &str = "orlop.dev/ip-pool";
/// Where the addresses are kept.
pub const DATA_DIR: &str = "/var/lib/orlop/cni";
/// How often what is held is compared with the runtime's sandboxes.
const COLLECT: Duration = Duration::from_secs(60);
/// How long an address may be held before the runtime lists the sandbox: longer
/// than the runtime takes to make one.
const GRACE: Duration = Duration::from_secs(300);

/// Options of the address service.
#[derive(Clone)]
pub struct AddressOptions {
    /// The Node object's name.
    pub node: String,
    /// Where the datapath pins its maps: it tells agents of a machine apart.
    pub pin_dir: PathBuf,
    /// Where the addresses are kept.
    pub data_dir: PathBuf,
    /// The container runtime's socket.
    pub runtime_endpoint: String,
    /// Nodes, the own one among them.
    pub nodes: Cache<Node>,
}

/// Where it listens.
pub fn socket(pin_dir: &Path) -> PathBuf {
    local_api::socket(pin_dir).with_extension("addresses.sock")
}

/// Answers until `shutdown`.
///
/// # Errors
/// [`Error::File`], [`Error::Addresses`]: what no waiting heals.
pub async fn run(
    client: Client,
    options: AddressOptions,
    joined: AttachContext,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let store = Store::open(&options.data_dir, NETWORK).map_err(Error::Addresses)?;
    let path = socket(&options.pin_dir);
    let listener = local_api::listen_at(&path).map_err(Error::file("listen at", &path))?;
    let store = Arc::new(store);
    let pin_dir = options.pin_dir.clone();
    let release = InterfaceRemover::start(store.clone(), pin_dir.clone(), shutdown.clone());
    let attach = InterfaceBuilder::start(
        store.clone(),
        pin_dir,
        joined,
        release.clone(),
        shutdown.clone(),
    );
    let clerk = Arc::new(AddressApi {
        client,
        store: store.clone(),
        attach,
        release,
        nodes: options.nodes,
        node: options.node,
    });
    let collecting = collect(
        store,
        options.pin_dir,
        node_agent_cri::RuntimeClient::new(&options.runtime_endpoint),
        shutdown.clone(),
    );
    let answer = move |question, netns| {
        let clerk = clerk.clone();
        async move { clerk.answer(question, netns).await }
    };
    let serving = lines::serve(listener, answer, shutdown);
    tokio::join!(serving, collecting);
    Ok(())
}

/// The API server refused to return a Pod, or did not answer.
#[derive(Debug, thiserror::Error)]
#[error("pod `{namespace}/{name}` cannot be read")]
struct UnreadablePod {
    namespace: String,
    name: String,
    source: control_client::Error,
}

/// Answers the CNI plugin's requests for addresses and interfaces.
struct AddressApi {
    client: Client,
    store: Arc<Store>,
    attach: InterfaceBuilder,
    release: InterfaceRemover,
    nodes: Cache<Node>,
    node: String,
}

impl AddressApi {
    async fn answer(
        &self,
        question: Result<Question, InvalidQuestion>,
        netns: Option<OwnedFd>,
    ) -> Answer {
        let question = match question {
            Ok(Question::Release { holder }) => return self.release.release(holder).await,
            Ok(Question::Take {
                holder,
                pod,
                wanted,
            }) => OfPools::Take {
                holder,
                pod,
                wanted,
            },
            Ok(Question::Attach(question)) => return self.attached(question, netns).await,
            Ok(Question::Status) => OfPools::Status,
            Err(error) => return Answer::refuse(wire::LATER, error_chain(&error)),
        };
        let pools = match self.pools() {
            Ok(pools) => pools,
            Err(refused) => return refused,
        };
        let wanted = match &question {
            OfPools::Take { pod, .. } => match self.wanted_of(pod, &pools).await {
                Ok(wanted) => wanted,
                Err(error) => return Answer::refuse(wire::LATER, error_chain(&error)),
            },
            OfPools::Status => None,
        };
        let store = self.store.clone();
        let done = tokio::task::spawn_blocking(move || act(&store, &pools, wanted, &question));
        done.await
            .unwrap_or_else(|panic| Answer::refuse(wire::LATER, panic.to_string()))
    }

    /// Does all that ADD does.
    async fn attached(&self, question: wire::Attach, netns: Option<OwnedFd>) -> Answer {
        let Some(netns) = netns else {
            let reason = "the pod's network namespace did not come with the question";
            return Answer::refuse(wire::LATER, reason);
        };
        let pools = match self.pools() {
            Ok(pools) => pools,
            Err(refused) => return refused,
        };
        let wanted = match self.wanted_of(&question.pod, &pools).await {
            Ok(wanted) => wanted,
            Err(error) => return Answer::refuse(wire::LATER, error_chain(&error)),
        };
        match of_name(&pools, wanted.as_deref()) {
            Ok(pool) => self.attach.attach(question, pool.clone(), netns).await,
            Err(error) => Err(error).into(),
        }
    }

    fn pools(&self) -> Result<Vec<Pool>, Answer> {
        let node = self.nodes.get("", &self.node);
        let pools = node.map_or_else(Vec::new, |node| pools(&node));
        if pools.iter().all(|pool| pool.ranges.is_empty()) {
            return Err(Answer::refuse(
                wire::NOT_READY,
                "the node has no pod range yet: it waits for its spec.podCIDRs",
            ));
        }
        Ok(pools)
    }

    /// The pool that the Pod asks for, where there is a choice: else it need not be asked.
    async fn wanted_of(
        &self,
        pod: &wire::Pod,
        pools: &[Pool],
    ) -> Result<Option<String>, UnreadablePod> {
        if pools.len() > 1 {
            self.wanted(pod).await
        } else {
            Ok(None)
        }
    }

    /// The pool that the Pod asks for.
    async fn wanted(&self, pod: &wire::Pod) -> Result<Option<String>, UnreadablePod> {
        let object: Metadata = self
            .client
            .get(&resources::PODS, &pod.namespace, &pod.name)
            .await
            .map_err(|source| UnreadablePod {
                namespace: pod.namespace.clone(),
                name: pod.name.clone(),
                source,
            })?;
        let pool = object.metadata.annotations.get(WANTED_POOL);
        Ok(pool.map(str::to_owned))
    }
}

/// A question that the node's pools answer.
enum OfPools {
    Take {
        holder: Holder,
        pod: wire::Pod,
        wanted: Vec<IpAddr>,
    },
    Status,
}

/// The pool of this name, or the usual one.
fn of_name<'a>(pools: &'a [Pool], name: Option<&str>) -> Result<&'a Pool, AddressError> {
    let name = name.unwrap_or(DEFAULT_POOL);
    let found = pools.iter().find(|pool| pool.name == name);
    found.ok_or_else(|| AddressError::NoPool(name.to_owned()))
}

/// Does what is asked, with the node's pools.
fn act(store: &Store, pools: &[Pool], wanted: Option<String>, question: &OfPools) -> Answer {
    match question {
        OfPools::Take {
            holder,
            wanted: addresses,
            ..
        } => {
            let pool = of_name(pools, wanted.as_deref());
            pool.and_then(|pool| store.take(pool, addresses, holder))
                .into()
        }
        OfPools::Status => {
            let rooms = pools.iter().map(|pool| store.room(pool));
            // While any pod could start, the network is ready.
            let mut first = None;
            for room in rooms {
                match room {
                    Ok(()) => return Answer::default(),
                    Err(error) => first = first.or(Some(error)),
                }
            }
            match first {
                Some(error @ AddressError::Exhausted { .. }) => {
                    Answer::refuse(wire::EMPTY, error.to_string())
                }
                Some(error) => Err(error).into(),
                None => Answer::refuse(wire::NOT_READY, "the node has no pod range"),
            }
        }
    }
}

/// Takes back what sandboxes that are gone held.
async fn collect(
    store: Arc<Store>,
    pin_dir: PathBuf,
    runtime: node_agent_cri::RuntimeClient,
    shutdown: CancellationToken,
) {
    loop {
        match round(&store, &pin_dir, &runtime).await {
            Ok(0) => {}
            Ok(count) => info!(
                count,
                "removed interfaces of sandboxes that no longer exist"
            ),
            Err(error) => {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "failed to remove interfaces of sandboxes that no longer exist; retrying"
                );
            }
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(COLLECT) => {}
        }
    }
}

async fn round(
    store: &Arc<Store>,
    pin_dir: &Path,
    runtime: &node_agent_cri::RuntimeClient,
) -> Result<usize, Error> {
    // First what is held: what is given meanwhile is not looked at.
    let held = blocking(store, |store| store.held().map_err(Error::Addresses)).await?;
    let request = api::ListPodSandboxRequest { filter: None };
    let sandboxes = match runtime.list_pod_sandbox(request).await {
        Ok(list) => list.items.into_iter().map(|it| it.id).collect(),
        // It is being started, or away: the next round asks again.
        Err(error) => {
            tracing::debug!(%error, "failed to list sandboxes of the runtime");
            return Ok(0);
        }
    };
    let gone = gone(&held, &sandboxes, GRACE);
    let (count, pin_dir) = (gone.len(), pin_dir.to_owned());
    if count > 0 {
        blocking(store, move |store| release(store, &pin_dir, &gone)).await?;
    }
    Ok(count)
}

async fn blocking<T: Send + 'static>(
    store: &Arc<Store>,
    work: impl FnOnce(&Store) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let store = store.clone();
    tokio::task::spawn_blocking(move || work(&store))
        .await
        .map_err(Error::Panic)?
}

/// Who holds addresses for longer than `grace` though there is no such sandbox.
fn gone(held: &[HeldAddress], sandboxes: &BTreeSet<String>, grace: Duration) -> BTreeSet<Holder> {
    held.iter()
        .filter(|held| held.age >= grace)
        .filter_map(|held| held.holder.clone())
        .filter(|holder| !sandboxes.contains(&holder.container_id))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(id: &str) -> Holder {
        Holder {
            container_id: id.to_owned(),
            ifname: "eth0".to_owned(),
        }
    }

    fn take(id: &str) -> OfPools {
        OfPools::Take {
            holder: holder(id),
            pod: wire::Pod::default(),
            wanted: Vec::new(),
        }
    }

    fn pools(pools: &[(&str, &str)]) -> Vec<Pool> {
        let pool = |(name, range): &(&str, &str)| Pool {
            name: (*name).to_owned(),
            ranges: vec![range.parse().expect("range")],
        };
        pools.iter().map(pool).collect()
    }

    #[test]
    fn a_pod_gets_addresses_of_the_pool_that_it_wants() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let store = Store::open(folder.path(), NETWORK).expect("a store");
        let pools = pools(&[("default", "10.0.0.0/24"), ("db", "10.9.0.0/30")]);
        let ask =
            |id, wanted: Option<&str>| act(&store, &pools, wanted.map(str::to_owned), &take(id));
        let first = |answer: Answer| answer.addresses.first().copied();
        assert_eq!(first(ask("a", None)), Some(IpAddr::from([10, 0, 0, 2])));
        assert_eq!(
            first(ask("b", Some("db"))),
            Some(IpAddr::from([10, 9, 0, 2]))
        );
        let full = ask("c", Some("db")).refused.expect("full");
        assert_eq!(full.code, wire::EXHAUSTED);
        let none = ask("c", Some("web")).refused.expect("no such pool");
        assert_eq!(none.code, wire::UNAVAILABLE);
        assert!(none.reason.contains("web"), "{}", none.reason);
    }

    #[test]
    fn the_network_is_ready_while_any_pool_has_room() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let store = Store::open(folder.path(), NETWORK).expect("a store");
        let both = pools(&[("default", "10.0.0.0/30"), ("db", "10.9.0.0/30")]);
        let status = |pools: &[Pool]| act(&store, pools, None, &OfPools::Status).refused;
        assert_eq!(status(&both), None);
        act(&store, &both, None, &take("a"));
        assert_eq!(status(&both), None);
        act(&store, &both, Some("db".to_owned()), &take("b"));
        assert_eq!(status(&both).expect("full").code, wire::EMPTY);
        store.give_back(&holder("a")).expect("given back");
        assert_eq!(status(&both), None, "it rests, and will be free");
    }

    #[test]
    fn what_has_no_sandbox_for_long_is_gone() {
        let held = |id: &str, age| HeldAddress {
            address: IpAddr::from([10, 0, 0, 2]),
            holder: Some(holder(id)),
            age: Duration::from_secs(age),
        };
        let all = [held("lives", 900), held("begins", 1), held("gone", 900)];
        let sandboxes = BTreeSet::from(["lives".to_owned()]);
        let found = gone(&all, &sandboxes, GRACE);
        assert_eq!(found, BTreeSet::from([holder("gone")]));
    }
}
