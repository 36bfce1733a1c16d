//! Plugins make themselves known by a socket in `plugins_registry`, and are
//! known as long as it is there.
//!
//! ```text
//! <root>/plugins_registry/*.sock   GetInfo ──▶ kind, name, endpoint, versions
//!                                  NotifyRegistrationStatus ◀── taken or why not
//! ```
//!
//! What becomes of a plugin is a matter of its [`PluginHandlers`]: volumes
//! (`node-agent/csi-client`) or devices (`node-agent/resource-managers`).

pub mod api;
mod keyed_mutex;

pub use keyed_mutex::KeyedMutex;

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use node_agent_files::{DIRECTORY_MODE, create_dirs};
use tokio_util::sync::CancellationToken;

use api::{Empty, PluginInfo, RegistrationStatus};
use node_agent_cri::RuntimeClient as Socket;

/// How often the folder is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a registration that failed waits at first, and at most.
const RETRY: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(122)];

/// How long a plugin may take to answer when it makes itself known.
pub const PATIENCE: Option<Duration> = Some(Duration::from_secs(10));

/// Why a plugin cannot be registered. The message is sent to the plugin and ends with what
/// another component answered; therefore there is no source.
#[derive(Debug, thiserror::Error)]
pub enum RegistrationError {
    /// The plugin did not answer a call.
    #[error("{0}")]
    Plugin(node_agent_cri::RuntimeError),
    /// The API server did not accept a request.
    #[error("{}", .0.chain())]
    Api(control_client::Error),
    /// The agent runs without an API server.
    #[error("there is no API server")]
    NoApiServer,
    /// A CSI driver does not serve version 1 of the interface.
    #[error("CSI driver {driver} speaks {versions:?}, and none of them is version 1")]
    CsiVersions {
        /// The driver's name.
        driver: String,
        /// The versions that it serves.
        versions: Vec<String>,
    },
    /// A CSI driver does not name the node.
    #[error("CSI driver {0} has no id for this node")]
    NoNodeId(String),
    /// A DRA driver serves no known version of the interface.
    #[error(
        "DRA driver {driver} serves {services:?}, and none of them is v1.DRAPlugin or v1beta1.DRAPlugin"
    )]
    DraServices {
        /// The driver's name.
        driver: String,
        /// The services that it names.
        services: Vec<String>,
    },
    /// Another instance of a DRA driver has the endpoint.
    #[error("endpoint {endpoint} already registered for DRA driver plugin {driver}")]
    EndpointTaken {
        /// The endpoint's path.
        endpoint: String,
        /// The driver's name.
        driver: String,
    },
}

/// Handles the registration of plugins of one type.
pub trait PluginHandlers: Send + Sync + 'static {
    /// The plugin type, as plugins name it.
    fn r#type(&self) -> &'static str;

    /// Starts to use a plugin that serves `endpoint`. The plugin is notified of an error,
    /// and registration is retried later.
    fn take<'a>(
        self: Arc<Self>,
        info: &'a PluginInfo,
        endpoint: &'a str,
    ) -> BoxFuture<'a, Result<(), RegistrationError>>;

    /// Stops to use a plugin that is gone.
    fn gone<'a>(self: Arc<Self>, name: &'a str, endpoint: &'a str) -> BoxFuture<'a, ()>;
}

/// Identity of a socket's file: another file under the same name is another plugin.
type SocketIdentity = (u64, u64, i64);

enum PluginState {
    /// Not through yet: when to try again, and how long to wait after that.
    Failed(Instant, Duration),
    /// Registered: with whom, under which name, and where it answers; none for
    /// plugins that nobody wants.
    Known(Option<RegisteredSocket>),
}

struct RegisteredSocket {
    by: Arc<dyn PluginHandlers>,
    name: String,
    endpoint: String,
}

/// Keeps the plugins known that are in the agent's folder `root`, until
/// `shutdown`.
pub async fn watch(
    root: PathBuf,
    kinds: Vec<Arc<dyn PluginHandlers>>,
    shutdown: CancellationToken,
) {
    let folder = root.join("plugins_registry");
    if let Err(error) = create_dirs(&folder, DIRECTORY_MODE) {
        tracing::warn!(folder = %folder.display(), %error, "failed to create the plugin folder");
    }
    let mut known: BTreeMap<PathBuf, (SocketIdentity, PluginState)> = BTreeMap::new();
    loop {
        let found = sockets(&folder);
        let gone: Vec<PathBuf> = known
            .iter()
            .filter(|(path, (seen, _))| found.get(*path) != Some(seen))
            .map(|(path, _)| path.clone())
            .collect();
        for path in gone {
            if let Some((_, PluginState::Known(Some(plugin)))) = known.remove(&path) {
                tracing::info!(
                    kind = plugin.by.r#type(),
                    name = plugin.name,
                    "plugin unregistered"
                );
                plugin.by.clone().gone(&plugin.name, &plugin.endpoint).await;
            }
        }
        for (path, seen) in found {
            let wait = match known.get(&path) {
                Some((_, PluginState::Known(_))) => continue,
                Some((_, PluginState::Failed(at, _))) if *at > Instant::now() => continue,
                Some((_, PluginState::Failed(_, wait))) => *wait,
                None => RETRY[0],
            };
            let state = match register(&kinds, &path).await {
                Ok(taken) => PluginState::Known(taken),
                Err(error) => {
                    let socket = path.display();
                    tracing::warn!(%socket, %error, "failed to register a plugin");
                    PluginState::Failed(Instant::now() + wait, (wait * 2).min(RETRY[1]))
                }
            };
            known.insert(path, (seen, state));
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

/// The sockets in a folder, and in the folders in it.
fn sockets(folder: &Path) -> BTreeMap<PathBuf, SocketIdentity> {
    let mut found = BTreeMap::new();
    let mut look = |folder: &Path| -> Vec<PathBuf> {
        let mut more = Vec::new();
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let hidden = entry.file_name().to_string_lossy().starts_with('.');
            let Ok(meta) = entry.metadata() else { continue };
            if hidden {
                continue;
            }
            if meta.file_type().is_socket() {
                found.insert(path, (meta.dev(), meta.ino(), meta.ctime_nsec()));
            } else if meta.is_dir() {
                more.push(path);
            }
        }
        more
    };
    for inner in look(folder) {
        look(&inner);
    }
    found
}

/// Queries a plugin's type, registers it with the handlers of that type, and notifies it.
async fn register(
    kinds: &[Arc<dyn PluginHandlers>],
    path: &Path,
) -> Result<Option<RegisteredSocket>, RegistrationError> {
    let socket = Socket::new(&path.display().to_string());
    let info: PluginInfo = socket
        .unary(
            "pluginregistration.Registration/GetInfo",
            Empty {},
            PATIENCE,
        )
        .await
        .map_err(RegistrationError::Plugin)?;
    let Some(by) = kinds.iter().find(|kind| kind.r#type() == info.r#type) else {
        // somebody else's business; it is not told that it is registered
        tracing::warn!(
            kind = info.r#type,
            name = info.name,
            "plugin type is not supported"
        );
        return Ok(None);
    };
    let endpoint = if info.endpoint.is_empty() {
        path.display().to_string()
    } else {
        info.endpoint.clone()
    };
    let taken = by.clone().take(&info, &endpoint).await;
    let status = RegistrationStatus {
        plugin_registered: taken.is_ok(),
        error: taken
            .as_ref()
            .err()
            .map(ToString::to_string)
            .unwrap_or_default(),
    };
    let told = socket
        .unary::<_, Empty>(
            "pluginregistration.Registration/NotifyRegistrationStatus",
            status,
            PATIENCE,
        )
        .await;
    taken?;
    let (kind, name) = (by.r#type(), info.name);
    if let Err(error) = told {
        tracing::debug!(kind, name, %error, "failed to notify a plugin of its registration");
    }
    tracing::info!(kind, name, "plugin registered");
    Ok(Some(RegisteredSocket {
        by: by.clone(),
        name,
        endpoint,
    }))
}
