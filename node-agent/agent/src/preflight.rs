//! What must be there before anything is changed, so that a start that cannot
//! succeed leaves nothing half done and says what is missing.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use tokio::net::{TcpListener, UnixStream};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::Error;

pub(crate) const BTF: &str = "/sys/kernel/btf/vmlinux";

/// How long the container runtime may take to listen: when a machine starts,
/// both start at once.
const PATIENCE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(50);

/// Checks that this process may do what it has to, and the kernel can.
///
/// # Errors
/// [`Error::NotRoot`], [`Error::NoBtf`].
pub fn kernel() -> Result<(), Error> {
    if !nix::unistd::geteuid().is_root() {
        return Err(Error::NotRoot);
    }
    btf(Path::new(BTF))
}

/// A setting of the kernel's with which some clients of Services are lost, though
/// all others are served.
#[derive(Debug, Eq, PartialEq)]
pub struct Obstacle {
    /// The setting, as sysctl(8) calls it.
    pub setting: &'static str,
    /// Its value.
    pub value: String,
    /// What it comes to, and the way out.
    pub consequence: &'static str,
}

/// What of the node's settings, which belong to whoever set the node up, keeps
/// Services from some clients; `v6`: pods have IPv6, too. Nothing is changed: kube-proxy
/// leaves them alone, too.
#[must_use]
pub fn obstacles(v6: bool) -> Vec<Obstacle> {
    obstacles_below(Path::new("/proc/sys/net"), v6)
}

fn obstacles_below(root: &Path, v6: bool) -> Vec<Obstacle> {
    const FORWARDING: &str = "clients of other machines do not reach pods of this node: write 1, \
                              as kubelet and network plugins expect it";
    let value = |path: &str| {
        let text = fs::read_to_string(root.join(path)).ok()?;
        Some(text.trim().to_owned())
    };
    let found = [
        ("net.ipv4.ip_forward", "ipv4/ip_forward", "0", FORWARDING),
        (
            "net.ipv6.conf.all.forwarding",
            "ipv6/conf/all/forwarding",
            "0",
            FORWARDING,
        ),
        (
            "net.ipv4.conf.all.rp_filter",
            "ipv4/conf/all/rp_filter",
            "1",
            "answers of pods to this node's own packets to a Service are dropped where no \
             socket was translated (SCTP): write 2 or 0",
        ),
    ];
    found
        .into_iter()
        .filter(|(setting, ..)| v6 || !setting.contains("ipv6"))
        .filter_map(|(setting, path, bad, consequence)| {
            let value = value(path).filter(|it| it == bad)?;
            Some(Obstacle {
                setting,
                value,
                consequence,
            })
        })
        .collect()
}

fn btf(path: &Path) -> Result<(), Error> {
    if path.exists() {
        Ok(())
    } else {
        Err(Error::NoBtf(path.to_owned()))
    }
}

/// The control group of everything that this node runs.
#[derive(Debug, Eq, PartialEq)]
pub struct AgentCgroup {
    /// Its folder in the cgroup v2 hierarchy.
    pub folder: PathBuf,
    /// The same as runtimes name it: from the hierarchy's root, in every
    /// hierarchy.
    pub below_root: String,
}

impl AgentCgroup {
    /// The group `named`, or the root.
    ///
    /// # Errors
    /// [`Error::NoCgroup`], [`Error::Cgroup`].
    pub fn open(named: Option<&Path>) -> Result<Self, Error> {
        let mount = hierarchy()?;
        let Some(named) = named else {
            return Self::in_hierarchy(&mount, &mount);
        };
        let wrong = |_| Error::Cgroup {
            folder: named.to_owned(),
            mount: mount.clone(),
        };
        Self::in_hierarchy(&mount, &fs::canonicalize(named).map_err(wrong)?)
    }

    fn in_hierarchy(mount: &Path, folder: &Path) -> Result<Self, Error> {
        let below = folder.strip_prefix(mount).map_err(|_| Error::Cgroup {
            folder: folder.to_owned(),
            mount: mount.to_owned(),
        })?;
        Ok(Self {
            folder: folder.to_owned(),
            below_root: format!("/{}", below.display()),
        })
    }
}

/// The cgroup v2 folder of the group that a kubelet calls its `cgroupRoot`.
///
/// # Errors
/// [`Error::NoCgroup`].
pub fn cgroup_folder(root: &str) -> Result<PathBuf, Error> {
    Ok(hierarchy()?.join(root.trim_start_matches('/')))
}

/// Where this machine has the cgroup v2 hierarchy.
pub(crate) fn hierarchy() -> Result<PathBuf, Error> {
    let mounts = Path::new("/proc/self/mounts");
    let mounts = fs::read_to_string(mounts).map_err(Error::file("read", mounts))?;
    unified(&mounts).ok_or(Error::NoCgroup)
}

/// Where a mount table has the cgroup v2 hierarchy.
fn unified(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let path = words.next()?;
        (words.next()? == "cgroup2").then(|| PathBuf::from(path))
    })
}

/// Checks that the CNI plugin to install is there.
///
/// # Errors
/// [`Error::File`].
pub fn plugin(source: &Path) -> Result<(), Error> {
    fs::File::open(source)
        .map(drop)
        .map_err(Error::file("read the CNI plugin", source))
}

/// Checks that the serving API's address is free.
///
/// # Errors
/// [`Error::Listen`].
pub async fn port(address: SocketAddr) -> Result<(), Error> {
    TcpListener::bind(address)
        .await
        .map(drop)
        .map_err(|source| Error::Listen { address, source })
}

/// Waits a little until the container runtime takes connections.
///
/// # Errors
/// [`Error::Runtime`], [`Error::Endpoint`].
pub async fn runtime(endpoint: &str, shutdown: &CancellationToken) -> Result<(), Error> {
    wait_for_runtime(endpoint, PATIENCE, shutdown).await
}

async fn wait_for_runtime(
    endpoint: &str,
    patience: Duration,
    shutdown: &CancellationToken,
) -> Result<(), Error> {
    let socket = Path::new(endpoint.strip_prefix("unix://").unwrap_or(endpoint));
    if !socket.is_absolute() {
        return Err(Error::Endpoint(endpoint.to_owned()));
    }
    let begun = Instant::now();
    let mut told = false;
    loop {
        let source: io::Error = match UnixStream::connect(socket).await {
            Ok(_) => return Ok(()),
            Err(source) => source,
        };
        if begun.elapsed() >= patience {
            return Err(Error::Runtime {
                socket: socket.to_owned(),
                waited: patience,
                source,
            });
        }
        if !told {
            told = true;
            info!(socket = %socket.display(), %source, "waiting for the container runtime");
        }
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            () = tokio::time::sleep(RETRY) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn the_unified_hierarchy_is_found_in_pure_and_hybrid_mount_tables() {
        let hybrid = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                      cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(
            unified(hybrid),
            Some(PathBuf::from("/sys/fs/cgroup/unified"))
        );
        let pure = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        assert_eq!(unified(pure), Some(PathBuf::from("/sys/fs/cgroup")));
        assert_eq!(unified("cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\n"), None);
    }

    #[test]
    fn a_group_is_named_from_the_root_of_its_hierarchy() {
        let mount = Path::new("/sys/fs/cgroup");
        let root = AgentCgroup::in_hierarchy(mount, mount).expect("the root");
        assert_eq!(root.below_root, "/");
        let node = AgentCgroup::in_hierarchy(mount, &mount.join("a/node-1")).expect("a group");
        assert_eq!(node.below_root, "/a/node-1");
        let error = AgentCgroup::in_hierarchy(mount, Path::new("/tmp")).expect_err("elsewhere");
        let text = error.to_string();
        assert!(
            text.contains("`/tmp`") && text.contains("--cgroup"),
            "{text}"
        );
    }

    #[test]
    fn settings_that_lose_clients_are_named_and_those_of_no_family_are_not() {
        let root = tempfile::tempdir().expect("temporary folder");
        let found_of = |v6| {
            let all = obstacles_below(root.path(), v6);
            all.iter().map(|it| it.setting).collect::<Vec<_>>()
        };
        let found = || found_of(true);
        assert!(found().is_empty());
        let set = |path: &str, value: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("folder")).expect("folder");
            fs::write(path, value).expect("written");
        };
        set("ipv4/ip_forward", "0\n");
        set("ipv4/conf/all/rp_filter", "1\n");
        assert_eq!(
            found(),
            ["net.ipv4.ip_forward", "net.ipv4.conf.all.rp_filter"]
        );
        set("ipv4/ip_forward", "1\n");
        set("ipv4/conf/all/rp_filter", "2\n");
        set("ipv6/conf/all/forwarding", "0\n");
        assert_eq!(found(), ["net.ipv6.conf.all.forwarding"]);
        assert!(found_of(false).is_empty());
    }

    #[test]
    fn a_kernel_without_type_information_is_named() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("vmlinux");
        let text = btf(&path).expect_err("missing").to_string();
        assert!(text.contains("vmlinux") && text.contains("CONFIG_DEBUG_INFO_BTF"));
        fs::write(&path, b"").expect("written");
        assert!(btf(&path).is_ok());
    }

    #[tokio::test]
    async fn a_runtime_that_comes_late_is_waited_for() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let socket = folder.path().join("runtime.sock");
        let endpoint = format!("unix://{}", socket.display());
        let late = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(200)).await;
            UnixListener::bind(socket).expect("socket")
        });
        let token = CancellationToken::new();
        wait_for_runtime(&endpoint, Duration::from_secs(5), &token)
            .await
            .expect("it came");
        drop(late.await.expect("listener"));
    }

    #[tokio::test]
    async fn a_missing_and_a_stale_socket_are_told_apart() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let socket = folder.path().join("runtime.sock");
        let endpoint = socket.display().to_string();
        let token = CancellationToken::new();
        let wait = || wait_for_runtime(&endpoint, Duration::from_millis(60), &token);
        let source = |error| match error {
            Error::Runtime { source, .. } => source.kind(),
            other => panic!("another error: {other}"),
        };
        assert_eq!(
            source(wait().await.expect_err("missing")),
            io::ErrorKind::NotFound
        );
        drop(UnixListener::bind(&socket).expect("socket"));
        let error = wait().await.expect_err("stale");
        assert!(
            error.to_string().contains("--container-runtime-endpoint"),
            "{error}"
        );
        assert_eq!(source(error), io::ErrorKind::ConnectionRefused);
        let error = wait_for_runtime("tcp://x", Duration::ZERO, &token).await;
        assert!(matches!(error, Err(Error::Endpoint(_))));
    }

    #[tokio::test]
    async fn a_port_in_use_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = taken.local_addr().expect("an address");
        let error = port(address).await.expect_err("in use").to_string();
        assert!(error.contains(&address.to_string()), "{error}");
        drop(taken);
        assert!(port(address).await.is_ok());
    }
}
