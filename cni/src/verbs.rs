//! The verbs: ADD, DEL, CHECK, GC, STATUS, VERSION.
//!
//! The `cni-plugin` crate parses ADD, DEL and CHECK. It knows neither GC nor
//! STATUS, and announces fewer versions than it understands, so the other
//! verbs are answered here before it sees them.

use std::{collections::BTreeSet, fs::File, io::Read, net::IpAddr, path::Path, process::ExitCode};

use cni_plugin::{Cni, config::NetworkConfig};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::json;

use crate::{
    addresses::{Addresses, Holder, file_error},
    agent,
    config::Settings,
    error::Error,
    link, loopback,
    reply::{Added, Interface, Ip, Route, mac},
};

const VERSIONS: [&str; 3] = ["0.4.0", "1.0.0", "1.1.0"];

/// Reads the environment and standard input, does the verb, prints its result.
pub(crate) fn run() -> ExitCode {
    let verb = std::env::var("CNI_COMMAND").unwrap_or_default();
    let done = match verb.as_str() {
        _ if loopback::is_meant() => loopback::run(&verb),
        "ADD" | "DEL" | "CHECK" => pod_verb(),
        "GC" | "STATUS" | "VERSION" => node_verb(&verb),
        _ => Err(("1.1.0".to_owned(), Error::Environment("CNI_COMMAND"))),
    };
    let (text, code) = match done {
        Ok(text) => (text, ExitCode::SUCCESS),
        Err((version, error)) => (
            json!({
                "cniVersion": version,
                "code": error.code(),
                "msg": error.to_string(),
            })
            .to_string(),
            ExitCode::FAILURE,
        ),
    };
    println!("{text}");
    code
}

pub(crate) type Done = Result<String, (String, Error)>;

fn pod_verb() -> Done {
    let unparsed = || "1.0.0".to_owned();
    let cni =
        Cni::from_env().map_err(|error| (unparsed(), Error::Configuration(error.to_string())))?;
    let (config, done) = match cni {
        Cni::Add {
            container_id,
            ifname,
            netns,
            config,
            ..
        } => {
            let holder = Holder {
                container_id,
                ifname,
            };
            let done = add(&config, &holder, &netns).and_then(|added| {
                serde_json::to_string(&added)
                    .map_err(|error| Error::Configuration(error.to_string()))
            });
            (config, done)
        }
        Cni::Del {
            container_id,
            ifname,
            config,
            ..
        } => {
            let holder = Holder {
                container_id,
                ifname,
            };
            let done = del(&config, &holder).map(|()| String::new());
            (config, done)
        }
        Cni::Check {
            container_id,
            ifname,
            netns,
            config,
            ..
        } => {
            let holder = Holder {
                container_id,
                ifname,
            };
            let done = check(&config, &holder, &netns).map(|()| String::new());
            (config, done)
        }
        Cni::Version(_) => return Err((unparsed(), Error::Environment("CNI_COMMAND"))),
    };
    done.map_err(|error| (config.cni_version.to_string(), error))
}

/// The configuration on standard input.
///
/// # Errors
/// [`Error::Configuration`], with the version to answer in.
pub(crate) fn input<C: DeserializeOwned>() -> Result<C, (String, Error)> {
    let wrong = |error: String| ("1.1.0".to_owned(), Error::Configuration(error));
    let mut input = Vec::new();
    // Bounded: a configuration is a few hundred bytes.
    std::io::stdin()
        .take(1 << 20)
        .read_to_end(&mut input)
        .map_err(|error| wrong(error.to_string()))?;
    serde_json::from_slice(&input).map_err(|error| wrong(error.to_string()))
}

fn node_verb(verb: &str) -> Done {
    let config: NodeConfig = input()?;
    let version = config.cni_version.clone();
    let done = match verb {
        "VERSION" => Ok(json!({
            "cniVersion": version,
            "supportedVersions": VERSIONS,
        })
        .to_string()),
        _ if !VERSIONS.contains(&version.as_str()) => Err(Error::Version(version.clone())),
        "GC" => collect(config).map(|()| String::new()),
        _ => status(config).map(|()| String::new()),
    };
    done.map_err(|error| (version, error))
}

/// The configuration of a verb that concerns no one pod.
#[derive(Deserialize)]
struct NodeConfig {
    #[serde(rename = "cniVersion")]
    cni_version: String,
    #[serde(default)]
    name: String,
    #[serde(default, rename = "type")]
    plugin: String,
    #[serde(default, rename = "cni.dev/valid-attachments")]
    valid: Vec<Attachment>,
    #[serde(flatten)]
    rest: serde_json::Map<String, serde_json::Value>,
}

#[derive(Deserialize)]
struct Attachment {
    #[serde(rename = "containerID")]
    container_id: String,
    ifname: String,
}

fn is_loopback(plugin: &str) -> bool {
    plugin == "loopback"
}

fn add(config: &NetworkConfig, holder: &Holder, netns: &Path) -> Result<Added, Error> {
    let version = config.cni_version.to_string();
    if is_loopback(&config.plugin) {
        return loopback::add(&version, netns);
    }
    let settings = Settings::of(config)?;
    if settings.ranges.is_empty() {
        return Err(Error::Configuration("`ranges` is empty".to_owned()));
    }
    let addresses = {
        let store = Addresses::open(&settings.data_dir, &config.name)?;
        settings
            .ranges
            .iter()
            .map(|range| store.take(*range, holder))
            .collect::<Result<Vec<_>, _>>()
    }?;
    match connect(&settings, holder, netns, &addresses) {
        Ok(interfaces) => Ok(added(&version, netns, &addresses, interfaces)),
        Err(error) => {
            // The runtime calls DEL after a failed ADD, but need not: leave nothing.
            let undone = del(config, holder);
            undone.and(Err(error))
        }
    }
}

/// The hardware addresses of the host's end and the pod's end.
struct Ends {
    host_name: String,
    host_mac: Vec<u8>,
    pod_name: String,
    pod_mac: Vec<u8>,
}

fn connect(
    settings: &Settings,
    holder: &Holder,
    netns: &Path,
    addresses: &[IpAddr],
) -> Result<Ends, Error> {
    let host_name = host_name(holder);
    let pod_name = &holder.ifname;
    let namespace = File::open(netns).map_err(file_error(netns))?;
    let asked = match &settings.agent {
        Some(socket) => Some((socket, agent::Pod::from_env()?)),
        None => None,
    };
    let host = link::with_netlink(async |netlink| {
        // What an ADD that was killed half-way left.
        link::remove(&netlink, &host_name).await?;
        let up = asked.is_none();
        link::create_pair(&netlink, &host_name, pod_name, &namespace, settings.mtu, up).await?;
        link::find(&netlink, &host_name).await
    })?;
    let pod = link::in_namespace(netns, || {
        link::with_netlink(async |netlink| {
            let pod = link::find(&netlink, pod_name).await?;
            link::set_up(&netlink, pod.index).await?;
            for address in addresses {
                let gateway = link::gateway(address);
                link::add_address(&netlink, pod.index, *address).await?;
                link::add_neighbour(&netlink, pod.index, gateway, &host.mac).await?;
                link::add_default_route(&netlink, pod.index, gateway).await?;
            }
            Ok(pod)
        })
    })?;
    // Down until then: nothing enters or leaves the pod.
    if let Some((socket, pod)) = &asked {
        agent::admit(socket, pod, &host_name, addresses)?;
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
        host_mac: host.mac,
        pod_name: pod_name.clone(),
        pod_mac: pod.mac,
    })
}

fn added(version: &str, netns: &Path, addresses: &[IpAddr], ends: Ends) -> Added {
    let legacy = version.starts_with("0.");
    Added {
        cni_version: version.to_owned(),
        interfaces: vec![
            Interface {
                name: ends.host_name,
                mac: mac(&ends.host_mac),
                sandbox: None,
            },
            Interface {
                name: ends.pod_name,
                mac: mac(&ends.pod_mac),
                sandbox: Some(netns.display().to_string()),
            },
        ],
        ips: addresses
            .iter()
            .map(|address| Ip {
                address: format!("{address}/{}", link::host_prefix(address)),
                gateway: link::gateway(address),
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
                gw: link::gateway(address),
            })
            .collect(),
        dns: json!({}),
    }
}

fn del(config: &NetworkConfig, holder: &Holder) -> Result<(), Error> {
    if is_loopback(&config.plugin) {
        return Ok(());
    }
    let settings = Settings::of(config)?;
    // The pod's end and both ends' routes go with the host's end.
    link::with_netlink(async |netlink| link::remove(&netlink, &host_name(holder)).await)?;
    Addresses::open(&settings.data_dir, &config.name)?.give_back(holder)?;
    Ok(())
}

fn check(config: &NetworkConfig, holder: &Holder, netns: &Path) -> Result<(), Error> {
    if is_loopback(&config.plugin) {
        return loopback::check(netns);
    }
    let settings = Settings::of(config)?;
    let wanted = Addresses::open(&settings.data_dir, &config.name)?.of(holder)?;
    let wrong = |interface: &str, what: String| {
        Err(Error::Check {
            interface: interface.to_owned(),
            what,
        })
    };
    if wanted.is_empty() {
        return wrong(&holder.ifname, "it has no address of this network".into());
    }
    let host_name = host_name(holder);
    let host = link::with_netlink(async |netlink| link::find(&netlink, &host_name).await)?;
    if !host.up {
        return wrong(&host_name, "it is down".into());
    }
    link::in_namespace(netns, || {
        link::with_netlink(async |netlink| {
            let pod = link::find(&netlink, &holder.ifname).await?;
            if !pod.up {
                return wrong(&holder.ifname, "it is down".into());
            }
            let has = link::addresses(&netlink, pod.index).await?;
            match wanted.iter().find(|address| !has.contains(address)) {
                Some(missing) => wrong(&holder.ifname, format!("address {missing} is missing")),
                None => Ok(()),
            }
        })
    })
}

/// Gives back what no valid attachment holds.
fn collect(config: NodeConfig) -> Result<(), Error> {
    if is_loopback(&config.plugin) {
        return Ok(());
    }
    let settings = Settings::from_json(serde_json::Value::Object(config.rest))?;
    let keep: BTreeSet<Holder> = config
        .valid
        .into_iter()
        .map(|attachment| Holder {
            container_id: attachment.container_id,
            ifname: attachment.ifname,
        })
        .collect();
    Addresses::open(&settings.data_dir, &config.name)?.give_back_others(&keep)?;
    Ok(())
}

/// Whether an ADD could succeed now.
fn status(config: NodeConfig) -> Result<(), Error> {
    if is_loopback(&config.plugin) {
        return Ok(());
    }
    let settings = Settings::from_json(serde_json::Value::Object(config.rest))?;
    if settings.ranges.is_empty() {
        return Err(Error::NotReady(
            "the node has no pod range yet: the node agent writes it once the node has a pod CIDR"
                .to_owned(),
        ));
    }
    Addresses::open(&settings.data_dir, &config.name).map(drop)?;
    if let Some(socket) = &settings.agent {
        agent::is_there(socket)?;
    }
    let settings_of_kernel = [
        (true, "/proc/sys/net/ipv4/ip_forward"),
        (false, "/proc/sys/net/ipv6/conf/all/forwarding"),
    ];
    for (v4, forwarding) in settings_of_kernel {
        if !settings
            .ranges
            .iter()
            .any(|range| range.addr().is_ipv4() == v4)
        {
            continue;
        }
        let path = Path::new(forwarding);
        let value = std::fs::read_to_string(path).map_err(file_error(path))?;
        if value.trim() != "1" {
            return Err(Error::NotReady(format!(
                "`{forwarding}` is not 1: the node does not forward packets"
            )));
        }
    }
    Ok(())
}

/// The host's end: a name that follows from its holder, so that DEL finds it
/// without a record. FNV-1a, 44 bits: 11 digits after the prefix, within the
/// kernel's 15 characters.
fn host_name(holder: &Holder) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let separated = holder
        .container_id
        .bytes()
        .chain([0])
        .chain(holder.ifname.bytes());
    for byte in separated {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("orl{:011x}", hash >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names_fit_the_kernel_and_differ() {
        let names: BTreeSet<String> = (0..1000)
            .map(|n| {
                host_name(&Holder {
                    container_id: format!("{n:064x}"),
                    ifname: "eth0".to_owned(),
                })
            })
            .collect();
        assert_eq!(names.len(), 1000);
        assert!(names.iter().all(|name| name.len() <= 15));
    }
}
