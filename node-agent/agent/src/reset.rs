//! Takes a machine out of a cluster: whatever the agent left on it, so that
//! nothing works on for a node that is none any more. The end of the agent
//! alone leaves all of this in place on purpose.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use node_agent_pods::cri::{Client, Error as CriError, Runtime, api};
use tracing::{info, warn};

use crate::{
    Error, Options, addresses, cni, overlay, policy, preflight,
    routes::{Action, netlink},
    services,
};

/// The name of the group of all pods' control groups.
const PODS_GROUP: &str = "kubepods";
/// Control groups are empty a moment after their processes ended.
const PATIENCE: usize = 40;
const RETRY: Duration = Duration::from_millis(50);

/// Removes pods, the datapath, routes, the cluster DNS addresses, the CNI
/// plugin, volumes, logs and control groups of this node. What is gone already
/// is fine; what cannot be removed is named at the end, after all else is done.
///
/// # Errors
/// [`Error::NotRoot`], [`Error::NoCgroup`]; [`Error::Left`] with the things
/// that are left.
pub async fn reset(options: &Options) -> Result<(), Error> {
    preflight::kernel()?;
    let group = preflight::Group::of(options.datapath.cgroup.as_deref())?;
    let mut left = Vec::new();
    if let Err(error) = pods(&options.runtime_endpoint).await {
        left.push(format!("pods ({error})"));
    }
    if let Err(error) = node_agent_datapath::remove(&options.datapath.pin_dir) {
        left.push(format!("the datapath ({error})"));
    }
    if let Err(error) = services::local::remove(&options.datapath.pin_dir) {
        left.push(format!("the agent's socket ({error})"));
    }
    let pins = &options.datapath.pin_dir;
    for socket in [policy::socket(pins), addresses::socket(pins)] {
        if let Err(error) = services::local::remove_at(&socket) {
            left.push(format!("the agent's socket for the CNI plugin ({error})"));
        }
    }
    policy::forget(&options.datapath.pin_dir);
    let (first, last) = options.datapath.services.client_ports;
    if let Err(error) = services::ports::release(first..=last) {
        left.push(format!("reserved ports ({error})"));
    }
    if let Err(error) = network(options).await {
        left.push(format!("routes and addresses ({error})"));
    }
    plugin(&options.cni, &mut left);
    for folder in [options.root.join("pods"), options.log_root.clone()] {
        unmount_below(&folder);
        remove(&folder, &mut left);
    }
    remove(Path::new(addresses::DATA_DIR), &mut left);
    left.extend(groups(&group.below_root).await);
    if left.is_empty() {
        Ok(())
    } else {
        Err(Error::Left(left.join(", ")))
    }
}

async fn pods(endpoint: &str) -> Result<(), CriError> {
    let runtime = Client::new(endpoint);
    if !runtime.socket().exists() {
        info!(socket = %runtime.socket().display(), "no container runtime: no pods");
        return Ok(());
    }
    let all = runtime
        .list_pod_sandbox(api::ListPodSandboxRequest { filter: None })
        .await?;
    for sandbox in all.items {
        let id = || api::SandboxId {
            pod_sandbox_id: sandbox.id.clone(),
        };
        // A network that is half gone must not keep the pod.
        if let Err(error) = runtime.stop_pod_sandbox(id()).await {
            warn!(sandbox = sandbox.id, %error, "pod not stopped properly");
        }
        runtime.remove_pod_sandbox(id()).await?;
    }
    Ok(())
}

async fn network(options: &Options) -> Result<(), Error> {
    let handle = netlink::connect()?;
    let tunnel = overlay::netlink::index(&handle).await?;
    for (range, way) in netlink::present(&handle, tunnel).await? {
        netlink::apply(&handle, Action::Remove(range, way), tunnel).await?;
    }
    netlink::remove_device(&handle, overlay::DEVICE).await?;
    for address in &options.cluster_dns {
        netlink::remove_local(&handle, *address).await?;
    }
    Ok(())
}

fn plugin(places: &cni::Places, left: &mut Vec<String>) {
    // The configuration first: no runtime is to look for a plugin that is gone.
    remove(&places.conf_dir.join(cni::CONFIGURATION), left);
    let loopback = places.bin_dir.join(cni::LOOPBACK);
    if fs::read_link(&loopback).is_ok_and(|target| target == Path::new(cni::BINARY)) {
        remove(&loopback, left);
    }
    remove(&places.bin_dir.join(cni::BINARY), left);
}

/// Removes a file or a folder with all in it.
fn remove(path: &Path, left: &mut Vec<String>) {
    let removed = match fs::symlink_metadata(path) {
        Err(error) => Err(error),
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            left.push(format!("`{}` ({error})", path.display()));
        }
        _ => {}
    }
}

/// Unmounts what is mounted below a folder, innermost first.
fn unmount_below(folder: &Path) {
    let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    for point in mounts_below(&table, folder) {
        if let Err(error) = nix::mount::umount2(&point, nix::mount::MntFlags::MNT_DETACH) {
            warn!(mount = %point.display(), %error, "cannot unmount");
        }
    }
}

/// The mount points of a mount table that are below `folder`, innermost first.
fn mounts_below(table: &str, folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = table
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        // Blanks in names are written so (proc(5)).
        .map(|path| PathBuf::from(path.replace("\\040", " ")))
        .filter(|path| path.starts_with(folder) && path != folder)
        .collect();
    found.reverse();
    found
}

/// Removes the pods' control groups in every hierarchy; gives what is left.
async fn groups(below_root: &str) -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let all: Vec<PathBuf> = hierarchies(&table)
        .into_iter()
        .map(|root| {
            root.join(below_root.trim_start_matches('/'))
                .join(PODS_GROUP)
        })
        .collect();
    for _ in 0..PATIENCE {
        for group in &all {
            remove_group(group);
        }
        if !all.iter().any(|group| group.exists()) {
            return Vec::new();
        }
        tokio::time::sleep(RETRY).await;
    }
    let left = all.iter().filter(|group| group.exists());
    left.map(|group| format!("the control group `{}`", group.display()))
        .collect()
}

fn hierarchies(table: &str) -> Vec<PathBuf> {
    table
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            let path = words.next()?;
            matches!(words.next()?, "cgroup" | "cgroup2").then(|| PathBuf::from(path))
        })
        .collect()
}

/// Innermost first; a group that holds a process stays.
fn remove_group(group: &Path) {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_group(&entry.path());
        }
    }
    let _ = fs::remove_dir(group);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_volumes_are_found_innermost_first() {
        let table = "tmpfs /var/lib/kubelet/pods/u/volumes/a tmpfs rw 0 0\n\
                     tmpfs /var/lib/kubelet/pods/u/volumes/a/b tmpfs rw 0 0\n\
                     tmpfs /var/lib/kubelet/pods-of-others tmpfs rw 0 0\n\
                     /dev/sda /var/lib/kubelet/pods/a\\040b ext4 rw 0 0\n";
        let found = mounts_below(table, Path::new("/var/lib/kubelet/pods"));
        let expected = [
            "/var/lib/kubelet/pods/a b",
            "/var/lib/kubelet/pods/u/volumes/a/b",
            "/var/lib/kubelet/pods/u/volumes/a",
        ];
        assert_eq!(found, expected.map(PathBuf::from));
    }

    #[test]
    fn a_plugin_of_somebody_else_stays() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let source = folder.path().join("built");
        fs::write(&source, b"program").expect("source");
        let places = cni::Places {
            source,
            bin_dir: folder.path().join("bin"),
            conf_dir: folder.path().join("conf"),
        };
        cni::install(&places).expect("installed");
        cni::configure(&places, "{}").expect("configured");
        let mut left = Vec::new();
        plugin(&places, &mut left);
        plugin(&places, &mut left);
        assert_eq!(left, Vec::<String>::new());
        assert_eq!(fs::read_dir(&places.bin_dir).expect("folder").count(), 0);
        assert_eq!(fs::read_dir(&places.conf_dir).expect("folder").count(), 0);
        fs::write(places.bin_dir.join(cni::LOOPBACK), b"foreign").expect("written");
        plugin(&places, &mut left);
        assert!(places.bin_dir.join(cni::LOOPBACK).exists());
    }

    #[test]
    fn hierarchies_of_both_versions_are_found() {
        let table = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                     cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                     cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let expected = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/unified"];
        assert_eq!(hierarchies(table), expected.map(PathBuf::from));
    }
}
