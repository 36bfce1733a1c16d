//! Takes a machine out of a cluster: whatever the agent left on it, so that
//! nothing works on for a node that is none any more. The end of the agent
//! alone leaves all of this in place on purpose.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use node_agent_cri::origin::PodInventory;
use node_agent_cri::{Runtime, RuntimeClient, RuntimeError as CriError, api};
use node_agent_files::{Directory, remove_tree};
use tracing::{info, warn};

use crate::{
    AgentOptions, Error, addresses, cni, overlay, policy, preflight,
    routes::{RouteAction, netlink},
    services, uninstall,
};

/// The name of the group of all pods' control groups.
const PODS_GROUP: &str = "kubepods";
/// Folders of the agent below the kubelet's, inner ones first.
const FOLDERS: [&str; 7] = [
    "device-plugins",
    "plugins/kubernetes.io/csi",
    "plugins/kubernetes.io",
    "plugins",
    "plugins_registry",
    "pod-resources",
    "pods",
];
/// What the agent keeps below the kubelet's folder besides pods.
const STATE: [&str; 10] = [
    "actuated_pods_state",
    "allocated_pods_state",
    "cpu_manager_state",
    "device-plugins/kubelet.sock",
    "device-plugins/kubelet_internal_checkpoint",
    "dra_manager_state",
    "graceful_node_shutdown_state",
    "image_manager",
    "memory_manager_state",
    "pod-resources/kubelet.sock",
];
/// Control groups are empty a moment after their processes ended.
const PATIENCE: usize = 40;
const RETRY: Duration = Duration::from_millis(50);

/// How reset treats pods that another kubelet runs or ran.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ForeignPods {
    /// Nothing at all is done where there are any.
    #[default]
    Refuse,
    /// They stay, with their folders.
    Keep,
    /// They are removed like those of this agent.
    Remove,
}

/// Removes pods, the datapath, routes, the cluster DNS addresses, the CNI
/// plugin, volumes, logs and control groups of this node. What is gone already
/// is fine; what cannot be removed is named at the end, after all else is done.
///
/// # Errors
/// [`Error::NotRoot`], [`Error::NoCgroup`], [`Error::Datapath`] while an agent runs and
/// [`Error::ForeignPods`] before anything is done; [`Error::Left`] with the things that are left.
pub async fn reset(options: &AgentOptions, foreign: ForeignPods) -> Result<(), Error> {
    preflight::kernel()?;
    let group = preflight::AgentCgroup::open(options.datapath.cgroup.as_deref())?;
    // An agent that runs would start the pods again, and keeps the datapath.
    node_agent_datapath::ensure_unused(&options.datapath.pin_dir).map_err(Error::Datapath)?;
    let client = RuntimeClient::new(&options.runtime_endpoint);
    let runtime = client.socket().exists().then_some(&client as &dyn Runtime);
    if runtime.is_none() {
        info!(socket = %client.socket().display(), "no container runtime found; there are no pods to stop");
    }
    let mut left = Vec::new();
    let found = match PodInventory::take(runtime, &options.root).await {
        Ok(found) => found,
        // a runtime that does not answer tells of nobody's pods
        Err(error) => {
            left.push(format!("pods ({error})"));
            PodInventory::take(None, &options.root)
                .await
                .unwrap_or_default()
        }
    };
    let found = decide(found, foreign)?;
    if let Some(runtime) = runtime
        && let Err(error) = sandboxes(runtime, &found.own_sandboxes).await
    {
        left.push(format!("pods ({error})"));
    }
    if let Err(error) = node_agent_datapath::remove(&options.datapath.pin_dir) {
        left.push(format!("the datapath ({error})"));
    }
    let pins = &options.datapath.pin_dir;
    for socket in [policy::socket(pins), addresses::socket(pins)] {
        if let Err(error) = services::local_api::remove_at(&socket) {
            left.push(format!("the agent's socket for the CNI plugin ({error})"));
        }
    }
    policy::forget(&options.datapath.pin_dir);
    uninstall::remove_traces(
        pins,
        Some(options.datapath.services.client_ports),
        &mut left,
    );
    if let Err(error) = network(options).await {
        left.push(format!("routes and addresses ({error})"));
    }
    for places in options.cni.find_paths(runtime).await {
        plugin(&places, &mut left);
    }
    folders(&found, &options.root, &options.log_root, &mut left);
    remove(Path::new(addresses::DATA_DIR), &mut left);
    let groups = groups(&group.below_root).await;
    if !found.has_foreign() {
        left.extend(groups);
        agent_state(&options.root, &mut left);
    }
    if left.is_empty() {
        Ok(())
    } else {
        Err(Error::Left(left.join(", ")))
    }
}

/// Which pods are removed: the inventory's own ones.
fn decide(mut found: PodInventory, foreign: ForeignPods) -> Result<PodInventory, Error> {
    if !found.has_foreign() {
        return Ok(found);
    }
    match foreign {
        ForeignPods::Refuse => {
            let folders = found.foreign_folders.iter();
            let folders = folders.map(|folder| folder.display().to_string());
            let sandboxes = found.foreign_sandboxes.iter();
            let sandboxes = sandboxes.map(|id| format!("sandbox {id}"));
            Err(Error::ForeignPods(sandboxes.chain(folders).collect()))
        }
        ForeignPods::Keep => Ok(found),
        ForeignPods::Remove => {
            found.own_sandboxes.append(&mut found.foreign_sandboxes);
            for folder in std::mem::take(&mut found.foreign_folders) {
                let uid = folder.file_name().unwrap_or_default();
                found.own.insert(uid.to_string_lossy().into_owned());
                found.own_folders.push(folder);
            }
            Ok(found)
        }
    }
}

async fn sandboxes(runtime: &dyn Runtime, all: &[String]) -> Result<(), CriError> {
    for sandbox in all {
        let id = || api::SandboxId {
            pod_sandbox_id: sandbox.clone(),
        };
        // A network that is half gone must not keep the pod.
        if let Err(error) = runtime.stop_pod_sandbox(id()).await {
            warn!(sandbox, %error, "failed to stop a pod");
        }
        runtime.remove_pod_sandbox(id()).await?;
    }
    Ok(())
}

/// Removes the pods' folders and logs, and the folders of both when nothing is left there.
fn folders(found: &PodInventory, root: &Path, logs: &Path, left: &mut Vec<String>) {
    let pods = root.join("pods");
    let entries = fs::read_dir(logs).into_iter().flatten().flatten();
    let logs_of_own = entries.map(|entry| entry.path()).filter(|path| {
        path.file_name()
            .is_some_and(|name| found.owns_logs(&name.to_string_lossy()))
    });
    for folder in found.own_folders.iter().cloned().chain(logs_of_own) {
        unmount_below(&folder);
        let (parent, name) = (folder.parent(), folder.file_name());
        let removed = Directory::open(parent.unwrap_or(&pods))
            .and_then(|parent| remove_tree(&parent, name.unwrap_or_default()));
        if let Err(error) = removed {
            left.push(format!("`{}` ({error})", folder.display()));
        }
    }
    for folder in [&pods, logs] {
        // not empty when there are those of others
        let _ = fs::remove_dir(folder);
    }
}

/// Removes the agent's state in the kubelet's folder, and the folder when nothing is left there.
/// What drivers and administrators put there stays.
fn agent_state(root: &Path, left: &mut Vec<String>) {
    for name in STATE {
        remove(&root.join(name), left);
    }
    // The driver in the agent has its socket there.
    let driver = root.join("plugins").join(node_agent_volumes::NAME);
    remove(&driver.join("csi.sock"), left);
    let _ = fs::remove_dir(driver);
    // One by one, not by a walk: what is mounted below belongs to others.
    for name in FOLDERS {
        let _ = fs::remove_dir(root.join(name));
    }
    let _ = fs::remove_dir(root);
}

async fn network(options: &AgentOptions) -> Result<(), Error> {
    let handle = netlink::connect()?;
    let tunnel = overlay::netlink::index(&handle).await?;
    for (range, way) in netlink::present(&handle, tunnel).await? {
        netlink::apply(&handle, RouteAction::Remove(range, way), tunnel).await?;
    }
    netlink::remove_device(&handle, overlay::DEVICE).await?;
    for address in &options.cluster_dns {
        netlink::remove_local(&handle, *address).await?;
    }
    Ok(())
}

fn plugin(places: &cni::CniPaths, left: &mut Vec<String>) {
    // The configuration first: no runtime is to look for a plugin that is gone.
    remove(&places.conf_dir.join(cni::CONFIGURATION), left);
    let loopback = places.bin_dir.join(cni::LOOPBACK);
    if fs::read_link(&loopback).is_ok_and(|target| target == Path::new(cni::BINARY)) {
        remove(&loopback, left);
    }
    remove(&places.bin_dir.join(cni::BINARY), left);
    // The folder of plugins goes if nobody else put one there. The folder of configurations
    // stays: the runtime made it and watches it.
    let _ = fs::remove_dir(&places.bin_dir);
    if places.bin_dir == Path::new("/opt/cni/bin") {
        let _ = fs::remove_dir("/opt/cni");
    }
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
            warn!(mount = %point.display(), %error, "failed to unmount");
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
    use node_agent_cri::fake::Fake;
    use node_agent_cri::origin;

    use super::*;

    #[tokio::test]
    async fn only_pods_of_the_agent_are_removed_and_others_are_asked_for() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let (root, logs) = (folder.path().join("kubelet"), folder.path().join("logs"));
        let runtime = Fake::default();
        for (uid, own) in [("own", true), ("foreign", false)] {
            let pod = root.join("pods").join(uid);
            fs::create_dir_all(pod.join("volumes")).expect("folder");
            fs::create_dir_all(logs.join(format!("default_web_{uid}"))).expect("folder");
            if own {
                origin::mark(&pod).expect("marked");
            }
            runtime.run_sandbox(uid, own).await;
        }
        let all = runtime.sandboxes();
        let take = || async {
            let found = PodInventory::take(Some(&runtime), &root).await;
            found.expect("taken")
        };
        let refused = decide(take().await, ForeignPods::Refuse);
        let Err(Error::ForeignPods(named)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(named.len(), 2);
        assert_eq!(runtime.sandboxes(), all, "nothing is done");

        let mut left = Vec::new();
        let kept = decide(take().await, ForeignPods::Keep).expect("decided");
        sandboxes(&runtime, &kept.own_sandboxes)
            .await
            .expect("removed");
        folders(&kept, &root, &logs, &mut left);
        assert_eq!(runtime.sandboxes(), all[1..]);
        assert!(!root.join("pods/own").exists() && root.join("pods/foreign/volumes").exists());
        assert!(!logs.join("default_web_own").exists());
        assert!(logs.join("default_web_foreign").exists());

        let removed = decide(take().await, ForeignPods::Remove).expect("decided");
        sandboxes(&runtime, &removed.own_sandboxes)
            .await
            .expect("removed");
        folders(&removed, &root, &logs, &mut left);
        assert!(runtime.is_empty());
        assert!(!root.join("pods").exists() && !logs.exists());
        assert_eq!(left, Vec::<String>::new());
        // without pods of others nobody has to be asked
        assert!(decide(take().await, ForeignPods::Refuse).is_ok());
    }

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
    fn the_kubelets_folder_goes_unless_others_use_it() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let root = folder.path().join("kubelet");
        let fill = || {
            for name in [
                "device-plugins",
                "plugins/csi.orlop.dev",
                "plugins_registry",
            ] {
                fs::create_dir_all(root.join(name)).expect("folder");
            }
            for name in ["cpu_manager_state", "device-plugins/kubelet.sock"] {
                fs::write(root.join(name), "").expect("written");
            }
        };
        let mut left = Vec::new();
        fill();
        agent_state(&root, &mut left);
        assert!(!root.exists());
        fill();
        fs::create_dir_all(root.join("plugins/driver/volume/empty")).expect("folder");
        fs::write(root.join("plugins/driver/csi.sock"), "").expect("written");
        agent_state(&root, &mut left);
        assert!(root.join("plugins/driver/csi.sock").exists());
        assert!(root.join("plugins/driver/volume/empty").exists());
        assert!(!root.join("cpu_manager_state").exists());
        assert_eq!(left, Vec::<String>::new());
    }

    #[test]
    fn a_plugin_of_somebody_else_stays() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let source = folder.path().join("built");
        fs::write(&source, b"program").expect("source");
        let places = cni::CniPaths {
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
        assert!(!places.bin_dir.exists());
        assert_eq!(fs::read_dir(&places.conf_dir).expect("folder").count(), 0);
        fs::create_dir(&places.bin_dir).expect("folder");
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
