//! Installs the CNI plugin: its binary first, its configuration last, so that a
//! runtime that sees the configuration finds the plugin.

use std::{
    fs, io,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    time::Duration,
};

use ipnet::IpNet;
use node_agent_cri::{Runtime, RuntimeError, api};
use node_agent_files::create_dirs;
use serde_json::json;

use crate::{
    Error,
    addresses::{DATA_DIR, NETWORK},
};

/// The configuration's file name. Runtimes take the first by name: this sorts
/// before what packages install (`10-containerd-net`, `87-podman-bridge`).
pub const CONFIGURATION: &str = "05-orlop.conflist";
/// The plugin's file name.
pub const BINARY: &str = "orlop-cni";
/// containerd 1.6 asks for a plugin of this name before any other; ours does
/// that job too where no other is installed.
pub const LOOPBACK: &str = "loopback";

/// How long the runtime may take to name its folders.
const PATIENCE: Duration = Duration::from_secs(2);
/// Folders of plugins: the specification's, and that of Debian's containerd.
const USUAL_BIN_DIRS: [&str; 2] = ["/opt/cni/bin", "/usr/lib/cni"];

/// Where the CNI plugin is, and folders of the container runtime where it does not name its own.
#[derive(Clone, Debug)]
pub struct CniOptions {
    /// The plugin's binary to install.
    pub source: PathBuf,
    /// The runtime's folder of plugins.
    pub bin_dir: Option<PathBuf>,
    /// The runtime's folder of configurations.
    pub conf_dir: Option<PathBuf>,
}

/// Paths of the CNI plugin and its configuration.
#[derive(Clone, Debug)]
pub struct CniPaths {
    /// The plugin's binary to install.
    pub source: PathBuf,
    /// The runtime's folder of plugins, usually `/opt/cni/bin`.
    pub bin_dir: PathBuf,
    /// The runtime's folder of configurations, usually `/etc/cni/net.d`.
    pub conf_dir: PathBuf,
}

/// Why the container runtime does not name its folders.
#[derive(Debug, thiserror::Error)]
pub enum FoldersError {
    /// It hangs.
    #[error("the container runtime does not answer within {PATIENCE:?}")]
    Late,
    /// It refuses, or nothing listens.
    #[error(transparent)]
    Refused(#[from] RuntimeError),
}

impl CniOptions {
    /// Completes the options with the folders of the container runtime's configuration, which
    /// distributions change (Debian's containerd: `/usr/lib/cni`), or else the usual ones.
    ///
    /// # Errors
    /// When the runtime refuses, or does not answer within two seconds.
    pub async fn resolve_paths(&self, runtime: &dyn Runtime) -> Result<CniPaths, FoldersError> {
        if self.bin_dir.is_some() && self.conf_dir.is_some() {
            return Ok(self.complete((None, None)));
        }
        let status = runtime.status(api::StatusRequest { verbose: true });
        let mut status = tokio::time::timeout(PATIENCE, status)
            .await
            .map_err(|_| FoldersError::Late)??;
        let config = status.info.remove("config");
        Ok(self.complete(config.as_deref().map_or((None, None), runtime_folders)))
    }

    fn complete(&self, (bin_dir, conf_dir): RuntimeFolders) -> CniPaths {
        let bin_dir = self.bin_dir.clone().or(bin_dir);
        let conf_dir = self.conf_dir.clone().or(conf_dir);
        CniPaths {
            source: self.source.clone(),
            bin_dir: bin_dir.unwrap_or_else(|| USUAL_BIN_DIRS[0].into()),
            conf_dir: conf_dir.unwrap_or_else(|| "/etc/cni/net.d".into()),
        }
    }

    /// Returns all places in which an agent with these options may have installed the plugin:
    /// where the runtime looks now, and the usual ones, in case that it does not answer any
    /// more or was configured otherwise then.
    pub async fn find_paths(&self, runtime: Option<&dyn Runtime>) -> Vec<CniPaths> {
        let usual = self.complete((None, None));
        let mut all = match runtime {
            Some(runtime) => self.resolve_paths(runtime).await.into_iter().collect(),
            None => Vec::new(),
        };
        let bin_dirs = match &self.bin_dir {
            Some(bin_dir) => vec![bin_dir.clone()],
            None => USUAL_BIN_DIRS.map(PathBuf::from).to_vec(),
        };
        all.extend(bin_dirs.into_iter().map(|bin_dir| CniPaths {
            bin_dir,
            ..usual.clone()
        }));
        all
    }
}

/// The folder of plugins and that of configurations, where a runtime names them.
type RuntimeFolders = (Option<PathBuf>, Option<PathBuf>);

/// Returns the folders of plugins and of configurations in containerd's configuration, as the
/// CRI's verbose status has it; since containerd 2.1 there may be several folders of plugins.
fn runtime_folders(config: &str) -> RuntimeFolders {
    let config: serde_json::Value = serde_json::from_str(config).unwrap_or_default();
    let folder = |value: &serde_json::Value| {
        let path = PathBuf::from(value.as_str()?);
        path.is_absolute().then_some(path)
    };
    let cni = &config["cni"];
    let bin_dir = folder(&cni["binDirs"][0]).or_else(|| folder(&cni["binDir"]));
    (bin_dir, folder(&cni["confDir"]))
}

/// The configuration for a node with these pod ranges, as text. The plugin asks at
/// `addresses` for a pod's, and has the interface made there; with an `agent`, it lets no interface up before that
/// agrees, which then limits bandwidths, too.
///
/// Runtimes that know only version 1.0 of the specification read `cniVersion`,
/// others choose the newest that they know of `cniVersions`, and with it GC and
/// STATUS. Port mappings are declared so that no further plugin is asked for them:
/// the agent serves what Pods say of host ports.
pub fn configuration(ranges: &[IpNet], mtu: u32, agent: Option<&Path>, addresses: &Path) -> String {
    let mut plugin = json!({
        "type": BINARY,
        "ranges": ranges,
        "mtu": mtu,
        "dataDir": DATA_DIR,
        "addresses": addresses,
        "attach": true,
        "capabilities": {"portMappings": true, "ips": true, "mac": true},
    });
    if let Some(agent) = agent {
        plugin["agent"] = json!(agent);
        plugin["capabilities"]["bandwidth"] = json!(true);
    }
    let value = json!({
        "cniVersion": "1.0.0",
        "cniVersions": ["1.0.0", "1.1.0"],
        "name": NETWORK,
        "plugins": [plugin],
    });
    format!("{value:#}\n")
}

/// Installs the plugin's binary; one that is there already is left alone.
///
/// # Errors
/// [`Error::File`] for the first file that cannot be read or written.
pub fn install(places: &CniPaths) -> Result<(), Error> {
    let bytes =
        fs::read(&places.source).map_err(Error::file("read the CNI plugin", &places.source))?;
    create_dirs(&places.bin_dir, 0o755).map_err(Error::file("make", &places.bin_dir))?;
    put(&places.bin_dir.join(BINARY), &bytes)?;
    // Somebody else's loopback plugin serves as well and is not ours to replace.
    let loopback = places.bin_dir.join(LOOPBACK);
    match symlink(BINARY, &loopback) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(Error::file("write", &loopback)(error))
        }
        _ => Ok(()),
    }
}

/// Writes the configuration, after [`install`]: a runtime that sees it finds
/// the plugin. True if it changed.
///
/// # Errors
/// [`Error::File`] when it cannot be written.
pub fn configure(places: &CniPaths, configuration: &str) -> Result<bool, Error> {
    let path = places.conf_dir.join(CONFIGURATION);
    if fs::read_to_string(&path).is_ok_and(|present| present == configuration) {
        return Ok(false);
    }
    create_dirs(&places.conf_dir, 0o755).map_err(Error::file("make", &places.conf_dir))?;
    // Written in place, not moved in: containerd 2.4 does not notice a file that
    // is moved into the folder. It reads again when the writer closes it. On a full
    // disk the former configuration stays.
    node_agent_files::atomic_file::overwrite(&path, configuration)
        .map_err(Error::file("write", &path))?;
    Ok(true)
}

/// Puts a program in place by renaming: the running one, if any, stays whole.
fn put(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    if fs::read(path).is_ok_and(|present| present == bytes) {
        return Ok(());
    }
    let new = path.with_extension("new");
    fs::write(&new, bytes).map_err(Error::file("write", &new))?;
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755))
        .map_err(Error::file("write", &new))?;
    fs::rename(&new, path).map_err(Error::file("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(folder: &Path) -> CniPaths {
        let source = folder.join("built");
        fs::write(&source, b"program").expect("source");
        CniPaths {
            source,
            bin_dir: folder.join("bin"),
            conf_dir: folder.join("conf"),
        }
    }

    #[test]
    fn everything_is_installed_once_and_replaced_when_it_changed() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let places = places(folder.path());
        install(&places).expect("install");
        let mode = fs::metadata(places.bin_dir.join(BINARY))
            .expect("binary")
            .permissions();
        assert_eq!(mode.mode() & 0o777, 0o755);
        fs::write(&places.source, b"newer").expect("another build");
        install(&places).expect("again");
        for name in [BINARY, LOOPBACK] {
            let present = fs::read(places.bin_dir.join(name)).expect("plugin");
            assert_eq!(present, b"newer", "{name}");
        }
        let range: IpNet = "10.244.1.0/24".parse().expect("range");
        let socket = Path::new("/run/addresses.sock");
        let first = configuration(&[range], 1500, None, socket);
        assert!(configure(&places, &first).expect("written"));
        assert!(!configure(&places, &first).expect("left alone"));
        let second = configuration(&[range], 1400, None, socket);
        assert!(configure(&places, &second).expect("changed"));
        let path = places.conf_dir.join(CONFIGURATION);
        assert_eq!(fs::read_to_string(path).expect("configuration"), second);
    }

    #[test]
    fn folders_are_those_that_the_runtime_names() {
        let debian = r#"{"cni":{"binDir":"/usr/lib/cni","confDir":"/etc/cni/net.d"}}"#;
        let several = r#"{"cni":{"binDir":"","binDirs":["/a","/b"],"confDir":"/c"}}"#;
        let found = |config: &str| {
            let (bin, conf) = runtime_folders(config);
            [bin, conf].map(|path| path.map_or_else(String::new, |it| it.display().to_string()))
        };
        assert_eq!(found(debian), ["/usr/lib/cni", "/etc/cni/net.d"]);
        assert_eq!(found(several), ["/a", "/c"]);
        for other in [
            r#"{"sandboxImage":"pause"}"#,
            r#"{"cni":{"binDir":""}}"#,
            "x",
        ] {
            assert_eq!(found(other), ["", ""]);
        }
    }

    #[tokio::test]
    async fn every_folder_in_which_the_plugin_may_be_is_known() {
        let options = |bin_dir: Option<&str>| CniOptions {
            source: "built".into(),
            bin_dir: bin_dir.map(PathBuf::from),
            conf_dir: None,
        };
        for (bin_dir, expected) in [(None, &USUAL_BIN_DIRS[..]), (Some("/own"), &["/own"])] {
            let all = options(bin_dir).find_paths(None).await;
            let found: Vec<_> = all
                .iter()
                .map(|it| it.bin_dir.to_str().expect("text"))
                .collect();
            assert_eq!(found, expected);
            let mut all = all.iter();
            assert!(all.all(|it| it.conf_dir == Path::new("/etc/cni/net.d")));
        }
    }

    #[test]
    fn a_foreign_loopback_plugin_stays() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let places = places(folder.path());
        fs::create_dir_all(&places.bin_dir).expect("folder");
        fs::write(places.bin_dir.join(LOOPBACK), b"foreign").expect("foreign plugin");
        install(&places).expect("install");
        let present = fs::read(places.bin_dir.join(LOOPBACK)).expect("loopback");
        assert_eq!(present, b"foreign");
    }

    #[test]
    fn a_plugin_that_is_not_there_is_named() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let places = CniPaths {
            source: folder.path().join("nothing"),
            ..places(folder.path())
        };
        let error = install(&places).expect_err("no plugin").to_string();
        assert!(error.contains("nothing"), "{error}");
    }
}
