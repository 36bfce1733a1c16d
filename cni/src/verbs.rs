//! The verbs about a pod's interface: ADD, DEL, CHECK.

use std::{fs::File, net::IpAddr, os::fd::AsFd, path::Path, process::ExitCode};

use cni_addresses::{
    gateway, host_prefix,
    messages::Pair,
    wire::{self, Attach},
};
use serde_json::{Value, json};

use crate::{
    addresses::{self, InterfaceFailure},
    agent,
    error::{Error, file_error},
    input::{Call, NEWEST},
    link, loopback, node,
    reply::{self, AddResult, Interface, Ip, Route, mac},
};

/// The output, or the failure with the version in which to report it.
pub(crate) type VerbResult = Result<String, (String, Error)>;

/// Reads the environment and standard input, does the verb, prints its result.
pub(crate) fn run() -> ExitCode {
    let verb = std::env::var("CNI_COMMAND").unwrap_or_default();
    let done = match verb.as_str() {
        _ if loopback::is_meant() => loopback::run(&verb),
        "ADD" | "DEL" | "CHECK" => pod_verb(&verb),
        "GC" | "STATUS" | "VERSION" => node::run(&verb),
        _ => Err((NEWEST.to_owned(), Error::Environment("CNI_COMMAND"))),
    };
    let (text, code) = match done {
        Ok(text) => (text, ExitCode::SUCCESS),
        Err((version, error)) => (
            json!({
                "cniVersion": version,
                "code": error.code(),
                "msg": error.chain(),
            })
            .to_string(),
            ExitCode::FAILURE,
        ),
    };
    println!("{text}");
    code
}

fn pod_verb(verb: &str) -> VerbResult {
    let call = Call::read()?;
    let version = call.version.clone();
    let done = match verb {
        "ADD" => add(call).map(|result| result.to_string()),
        "DEL" => del(&call).map(|()| String::new()),
        _ => check(&call).map(|()| String::new()),
    };
    done.map_err(|error| (version, error))
}

pub(crate) fn is_loopback(plugin: &str) -> bool {
    plugin == "loopback"
}

fn add(call: Call) -> Result<Value, Error> {
    let netns = call.netns()?;
    if is_loopback(&call.plugin) {
        return loopback::add(&call.version, netns)?.after(call.previous);
    }
    let wanted = call.runtime.addresses()?;
    if call.runtime.bandwidth().is_some() && call.settings.agent.is_none() {
        return Err(Error::Configuration(
            "`runtimeConfig.bandwidth`: nobody enforces it without the key `agent`: put the \
             standard plugin `bandwidth` behind this one"
                .to_owned(),
        ));
    }
    if let (true, Some(socket)) = (call.settings.attach, &call.settings.addresses) {
        return attached(&call, socket, netns, wanted)?.after(call.previous);
    }
    let addresses = addresses::take(&call.settings, &call.network, &call.holder, wanted)?;
    match connect(&call, netns, &addresses) {
        Ok(ends) => added(&call, netns, &addresses, ends).after(call.previous),
        Err(error) => {
            // The runtime calls DEL after a failed ADD, but need not: leave nothing.
            let undone = del(&call);
            undone.and(Err(error))
        }
    }
}

/// Lets the agent do all of it, in batches.
fn attached(
    call: &Call,
    socket: &Path,
    netns: &Path,
    wanted: Vec<IpAddr>,
) -> Result<AddResult, Error> {
    let namespace = File::open(netns).map_err(file_error(netns))?;
    let agent::Pod {
        namespace: of,
        name,
        uid,
    } = agent::Pod::from_env()?;
    let question = Attach {
        holder: call.holder.clone(),
        pod: wire::Pod {
            namespace: of,
            name,
        },
        uid,
        wanted,
        mac: call.runtime.mac()?,
        mtu: call.settings.mtu,
        bandwidth: call.runtime.bandwidth(),
    };
    match addresses::attach(socket, question, &namespace) {
        Ok(made) => {
            let ends = Ends {
                host_name: call.holder.device(),
                host: made.ends.host.into(),
                pod: made.ends.pod.into(),
            };
            Ok(added(call, netns, &made.addresses, ends))
        }
        Err(InterfaceFailure::Nothing(error)) => Err(error),
        Err(InterfaceFailure::Something(error)) => {
            let undone = del(call);
            undone.and(Err(error))
        }
    }
}

/// The host's end and the pod's end.
struct Ends {
    host_name: String,
    host: link::Link,
    pod: link::Link,
}

fn connect(call: &Call, netns: &Path, addresses: &[IpAddr]) -> Result<Ends, Error> {
    let host_name = call.holder.device();
    let pod_name = &call.holder.ifname;
    let namespace = File::open(netns).map_err(file_error(netns))?;
    let asked = match &call.settings.agent {
        Some(socket) => Some((socket, agent::Pod::from_env()?)),
        None => None,
    };
    let pair = Pair {
        host: &host_name,
        pod: pod_name,
        netns: namespace.as_fd(),
        mtu: call.settings.mtu,
        host_mac: None,
        pod_mac: call.runtime.mac()?,
        up: asked.is_none(),
    };
    let host = link::with_netlink(async |netlink| {
        // Leftovers of an ADD that was killed.
        link::remove(&netlink, &host_name).await?;
        link::create_pair(&netlink, &pair).await?;
        link::find(&netlink, &host_name).await
    })?;
    let pod = link::in_namespace(netns, || {
        link::with_netlink(async |netlink| {
            let pod = link::find(&netlink, pod_name).await?;
            link::set_up(&netlink, pod.index).await?;
            for address in addresses {
                let by = gateway(address);
                link::add_address(&netlink, pod.index, *address).await?;
                link::add_neighbour(&netlink, pod.index, by, &host.mac).await?;
                link::add_default_route(&netlink, pod.index, by).await?;
            }
            Ok(pod)
        })
    })?;
    // Down until then: nothing enters or leaves the pod.
    if let Some((socket, pod)) = &asked {
        let bandwidth = call.runtime.bandwidth();
        agent::admit(socket, pod, &host_name, addresses, bandwidth)?;
    }
    link::with_netlink(async |netlink| {
        if asked.is_some() {
            link::set_up(&netlink, host.index).await?;
        }
        for address in addresses {
            link::add_neighbour(&netlink, host.index, *address, &pod.mac).await?;
            link::add_pod_route(&netlink, host.index, *address).await?;
        }
        Ok(())
    })?;
    Ok(Ends {
        host_name,
        host,
        pod,
    })
}

fn added(call: &Call, netns: &Path, addresses: &[IpAddr], ends: Ends) -> AddResult {
    let legacy = call.version.starts_with("0.");
    let mtu = |link: &link::Link| Some(link.mtu).filter(|_| call.version == NEWEST);
    AddResult {
        cni_version: call.version.clone(),
        interfaces: vec![
            Interface {
                name: ends.host_name,
                mac: mac(&ends.host.mac),
                mtu: mtu(&ends.host),
                sandbox: None,
            },
            Interface {
                name: call.holder.ifname.clone(),
                mac: mac(&ends.pod.mac),
                mtu: mtu(&ends.pod),
                sandbox: Some(netns.display().to_string()),
            },
        ],
        ips: addresses
            .iter()
            .map(|address| Ip {
                address: format!("{address}/{}", host_prefix(address)),
                gateway: gateway(address),
                interface: 1,
                version: legacy.then_some(if address.is_ipv4() { "4" } else { "6" }),
            })
            .collect(),
        routes: addresses
            .iter()
            .map(|address| Route {
                dst: if address.is_ipv4() {
                    "0.0.0.0/0"
                } else {
                    "::/0"
                }
                .to_owned(),
                gw: gateway(address),
            })
            .collect(),
        dns: json!({}),
    }
}

fn del(call: &Call) -> Result<(), Error> {
    if is_loopback(&call.plugin) {
        return Ok(());
    }
    // The agent removes interfaces in batches. Without an agent, or with an older one,
    // the plugin does it alone.
    if addresses::release(&call.settings, &call.holder) {
        return Ok(());
    }
    // The pod's end and both ends' routes are removed with the host's end.
    let host_name = call.holder.device();
    link::with_netlink(async |netlink| link::remove(&netlink, &host_name).await)?;
    let store = addresses::store(&call.settings, &call.network)?;
    let given = store.give_back(&call.holder);
    given.map(drop).map_err(Error::Addresses)
}

/// Compares the actual state with the records and with the chain's result (section 4,
/// "CHECK"). Intended changes by later plugins are in the result.
fn check(call: &Call) -> Result<(), Error> {
    let netns = call.netns()?;
    if is_loopback(&call.plugin) {
        return loopback::check(netns);
    }
    let ifname = &call.holder.ifname;
    let wrong = |interface: &str, what: String| Error::Check {
        interface: interface.to_owned(),
        what,
    };
    let store = addresses::store(&call.settings, &call.network)?;
    let wanted = store.addresses_of(&call.holder).map_err(Error::Addresses)?;
    if wanted.is_empty() {
        return Err(wrong(ifname, "it has no address of this network".into()));
    }
    let stated = match &call.previous {
        Some(result) => reply::stated(result, ifname),
        None => Some(reply::StatedInterface::default()),
    };
    let Some(stated) = stated else {
        return Err(wrong(ifname, "the result of ADD does not have it".into()));
    };
    let untold = wanted.iter().find(|it| !stated.addresses.contains(it));
    if let Some(address) = untold.filter(|_| call.previous.is_some()) {
        return Err(wrong(
            ifname,
            format!("the result of ADD does not have {address}"),
        ));
    }
    let host_name = call.holder.device();
    let pod = link::in_namespace(netns, || {
        link::with_netlink(async |netlink| {
            let pod = link::find(&netlink, ifname).await?;
            if !pod.up {
                return Err(wrong(ifname, "it is down".into()));
            }
            let has = link::addresses(&netlink, pod.index).await?;
            if let Some(missing) = wanted.iter().find(|address| !has.contains(address)) {
                return Err(wrong(ifname, format!("address {missing} is missing")));
            }
            for address in &wanted {
                let by = gateway(address);
                if !link::has_default_route(&netlink, pod.index, by).await? {
                    return Err(wrong(
                        ifname,
                        format!("the default route by {by} is missing"),
                    ));
                }
            }
            Ok(pod)
        })
    })?;
    if stated.mac.is_some_and(|stated| stated != mac(&pod.mac)) {
        return Err(wrong(
            ifname,
            format!("its address is {} now", mac(&pod.mac)),
        ));
    }
    if stated.mtu.is_some_and(|stated| stated != pod.mtu) {
        return Err(wrong(ifname, format!("its MTU is {} now", pod.mtu)));
    }
    link::with_netlink(async |netlink| {
        let host = link::find(&netlink, &host_name).await?;
        if !host.up {
            return Err(wrong(&host_name, "it is down".into()));
        }
        for address in &wanted {
            if !link::has_pod_route(&netlink, host.index, *address).await? {
                return Err(wrong(
                    &host_name,
                    format!("the route to {address} is missing"),
                ));
            }
        }
        Ok(())
    })
}
