//! Plugins make themselves known by a socket in `plugins_registry`, and are
//! known as long as it is there.
//!
//! ```text
//! <root>/plugins_registry/*.sock   GetInfo ──▶ kind, name, endpoint, versions
//!                                  NotifyRegistrationStatus ◀── taken or why not
//! ```
//!
//! What becomes of a plugin is a matter of its [`Kind`]: volumes
//! ([`csi`](crate::csi)) or devices ([`dra`](crate::dra)).

pub mod api;

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::cri::Client as Socket;
use crate::untrusted::{DIRECTORY_MODE, create_dirs};
use api::{Empty, PluginInfo, RegistrationStatus};

/// How often the folder is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a registration that failed waits at first, and at most.
const RETRY: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(122)];

/// How long a plugin may take to answer when it makes itself known.
pub(crate) const PATIENCE: Option<Duration> = Some(Duration::from_secs(10));

/// Those who want plugins of one kind.
pub trait Kind: Send + Sync + 'static {
    /// What such plugins say that they are.
    fn r#type(&self) -> &'static str;

    /// Makes use of a plugin that answers at `endpoint`; the error is a
    /// sentence, which it is told, and it is asked again later.
    fn take<'a>(
        self: Arc<Self>,
        info: &'a PluginInfo,
        endpoint: &'a str,
    ) -> BoxFuture<'a, Result<(), String>>;

    /// One that was taken is gone.
    fn gone<'a>(self: Arc<Self>, name: &'a str, endpoint: &'a str) -> BoxFuture<'a, ()>;
}

/// A socket as it was seen: another file under the same name is another plugin.
type Seen = (u64, u64, i64);

enum State {
    /// Not through yet: when to try again, and how long to wait after that.
    Failed(Instant, Duration),
    /// Registered: with whom, under which name, and where it answers; none for
    /// plugins that nobody wants.
    Known(Option<Taken>),
}

struct Taken {
    by: Arc<dyn Kind>,
    name: String,
    endpoint: String,
}

/// Keeps the plugins known that are in the agent's folder `root`, until
/// `shutdown`.
pub async fn watch(root: PathBuf, kinds: Vec<Arc<dyn Kind>>, shutdown: CancellationToken) {
    let folder = root.join("plugins_registry");
    if let Err(error) = create_dirs(&folder, DIRECTORY_MODE) {
        tracing::warn!(folder = %folder.display(), %error, "cannot make the folder of plugins");
    }
    let mut known: BTreeMap<PathBuf, (Seen, State)> = BTreeMap::new();
    loop {
        let found = sockets(&folder);
        let gone: Vec<PathBuf> = known
            .iter()
            .filter(|(path, (seen, _))| found.get(*path) != Some(seen))
            .map(|(path, _)| path.clone())
            .collect();
        for path in gone {
            if let Some((_, State::Known(Some(plugin)))) = known.remove(&path) {
                tracing::info!(
                    kind = plugin.by.r#type(),
                    name = plugin.name,
                    "a plugin is gone"
                );
                plugin.by.clone().gone(&plugin.name, &plugin.endpoint).await;
            }
        }
        for (path, seen) in found {
            let wait = match known.get(&path) {
                Some((_, State::Known(_))) => continue,
                Some((_, State::Failed(at, _))) if *at > Instant::now() => continue,
                Some((_, State::Failed(_, wait))) => *wait,
                None => RETRY[0],
            };
            let state = match register(&kinds, &path).await {
                Ok(taken) => State::Known(taken),
                Err(error) => {
                    let socket = path.display();
                    tracing::warn!(%socket, error, "cannot register a plugin");
                    State::Failed(Instant::now() + wait, (wait * 2).min(RETRY[1]))
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
fn sockets(folder: &Path) -> BTreeMap<PathBuf, Seen> {
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

/// Asks a plugin what it is, has those take it who want it, and tells it so.
async fn register(kinds: &[Arc<dyn Kind>], path: &Path) -> Result<Option<Taken>, String> {
    let socket = Socket::new(&path.display().to_string());
    let info: PluginInfo = socket
        .unary(
            "pluginregistration.Registration/GetInfo",
            Empty {},
            PATIENCE,
        )
        .await
        .map_err(|e| e.to_string())?;
    let Some(by) = kinds.iter().find(|kind| kind.r#type() == info.r#type) else {
        // somebody else's business; it is not told that it is registered
        tracing::warn!(
            kind = info.r#type,
            name = info.name,
            "plugins of this kind are not supported"
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
        error: taken.clone().err().unwrap_or_default(),
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
        tracing::debug!(kind, name, %error, "cannot tell a plugin that it is registered");
    }
    tracing::info!(kind, name, "a plugin is registered");
    Ok(Some(Taken {
        by: by.clone(),
        name,
        endpoint,
    }))
}
