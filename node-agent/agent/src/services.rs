//! Services and EndpointSlices to the datapath.

use std::{
    net::{IpAddr, SocketAddr},
    path::Path,
    time::Duration,
};

use control_client::{Change, Client, Selection, View, reflect};
use ebpf_abi::Protocol;
use node_agent_datapath::{
    Applied, Capacity, Engine, Options as DatapathOptions, TcWay, ensure_bpffs,
};
use node_agent_plan::{Config, Override};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    Datapath, Error, dns,
    views::{EndpointSlice, Service},
};

/// How long after a failed write the maps are compared again.
const RETRY: Duration = Duration::from_secs(1);

/// Follows the API until `shutdown`. The addresses `dns` are answered by this
/// node itself.
///
/// # Errors
/// [`Error::Datapath`] when the programs cannot be brought into force.
pub async fn run(
    client: Client,
    options: Datapath,
    dns: Vec<IpAddr>,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let mut engine = open(&options, &dns)?;
    let services = reflect::<Service>(&client, Selection::all());
    let slices = reflect::<EndpointSlice>(&client, Selection::all());
    let (mut service_changes, mut slice_changes) = (services.changes(), slices.changes());
    let listed = async {
        services.synced().await;
        slices.synced().await;
    };
    tokio::pin!(listed);
    let mut all_known = false;
    loop {
        // Until all is listed the plan only collects: a Service whose slices are
        // still to come must not lose its backends.
        let resync_due = all_known && engine.needs_resync();
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            () = &mut listed, if !all_known => {
                all_known = true;
                while let Some(change) = service_changes.try_recv() {
                    log_failure(on_service(&mut engine, &change));
                }
                while let Some(change) = slice_changes.try_recv() {
                    log_failure(on_slice(&mut engine, &change));
                }
                resync(&mut engine);
            }
            Some(change) = service_changes.recv() => log_failure(on_service(&mut engine, &change)),
            Some(change) = slice_changes.recv() => log_failure(on_slice(&mut engine, &change)),
            () = tokio::time::sleep(RETRY), if resync_due => resync(&mut engine),
        }
    }
}

fn open(options: &Datapath, dns: &[IpAddr]) -> Result<Engine, Error> {
    if let Some(parent) = options
        .pin_dir
        .parent()
        .filter(|parent| !parent.exists() || *parent == Path::new("/sys/fs/bpf"))
    {
        ensure_bpffs(parent).map_err(Error::Datapath)?;
    }
    Engine::open(
        &DatapathOptions {
            cgroup: options.cgroup.clone().ok_or(Error::NoCgroup)?,
            pin_dir: options.pin_dir.clone(),
            object: node_agent_datapath::embedded_object!(),
            capacity: Capacity::default(),
            tc: TcWay::Auto,
        },
        Config {
            node: options.node_name.clone(),
            overrides: overrides(dns),
            ..Config::default()
        },
    )
    .map_err(Error::Datapath)
}

/// Cluster DNS stays on the node, whatever Service has its address.
fn overrides(addresses: &[IpAddr]) -> Vec<Override> {
    let of = |address: IpAddr| {
        [Protocol::UDP, Protocol::TCP].map(|protocol| Override {
            name: "dns".to_owned(),
            address,
            port: dns::PORT,
            protocol,
            backends: vec![SocketAddr::new(address, dns::PORT)],
        })
    };
    addresses.iter().copied().flat_map(of).collect()
}

/// Which object a change is about: its namespace and name.
fn subject<V: View>(change: &Change<V>) -> Option<(&str, &str)> {
    let object = change.current.as_ref().or(change.previous.as_ref())?;
    let meta = object.meta();
    Some((&meta.namespace, &meta.name))
}

fn on_service(
    engine: &mut Engine,
    change: &Change<Service>,
) -> Result<Applied, node_agent_datapath::Error> {
    let Some((namespace, name)) = subject(change) else {
        return Ok(Applied::Written(0));
    };
    let service = change.current.as_ref().map(|service| service.planned());
    engine.on_service_change(namespace, name, service.as_ref())
}

fn on_slice(
    engine: &mut Engine,
    change: &Change<EndpointSlice>,
) -> Result<Applied, node_agent_datapath::Error> {
    let Some((namespace, name)) = subject(change) else {
        return Ok(Applied::Written(0));
    };
    let slice = change.current.as_ref().map(|slice| slice.planned());
    engine.on_slice_change(namespace, name, slice.as_ref())
}

fn log_failure(result: Result<Applied, node_agent_datapath::Error>) {
    if let Err(error) = result {
        warn!(
            error = &error as &dyn std::error::Error,
            "a change did not reach the maps; they will be compared"
        );
    }
}

fn resync(engine: &mut Engine) {
    match engine.resync() {
        Ok(written) => info!(written, "the maps hold what the API says"),
        Err(error) => warn!(
            error = &error as &dyn std::error::Error,
            "the maps could not be compared; trying again"
        ),
    }
}
