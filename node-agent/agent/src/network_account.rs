//! As whom the node's network parts read the cluster.
//!
//! A rule of network policy may name any pod, so that who enforces it reads all of
//! them; a node's own user may read those of its node. As network plugins do, this
//! part therefore speaks as a service account, [`ACCOUNT`], which only reads. Plugins
//! run as pods, whose tokens the kubelet asks for; this one runs in the agent, which
//! asks for the token itself. Our API server gives it to nodes, bound to their Node
//! object: the token ends with the node. It is kept in memory: a full disk is no reason
//! for a node to have no network.

use std::{
    fs::File,
    io::{self, Write as _},
    os::fd::{AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
    time::Duration,
};

use control_client::{Client, Error as Refusal, Meta, resources};
use nix::{
    fcntl::OFlag,
    sys::memfd::{MFdFlags, memfd_create},
    unistd::dup3,
};
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::Error;

/// Namespace and name of the service account.
const ACCOUNT: (&str, &str) = ("kube-system", "orlop-network");
/// How long a token lives, in seconds.
const LIFE: u32 = 3600;
/// How often a new one is asked for: a node that was made anew has another uid, and
/// its former tokens are worth nothing.
const RENEW: Duration = Duration::from_secs(300);
/// How long after a failure it is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// What the token's file is called where processes are looked at.
const NAME: &str = "orlop-network-token";
/// How often it is said that it fails, in attempts.
const REMIND: u32 = 30;

/// How the API server is reached as the service account.
#[derive(Clone, Debug)]
pub enum NetworkClient {
    /// By this client.
    Given(Client),
    /// As this kubeconfig says, with tokens in place of its user's credentials.
    Tokens {
        /// The kubeconfig.
        kubeconfig: PathBuf,
    },
}

/// A client that may read what network policy needs; `None` when the shutdown comes
/// first. Tokens are renewed until then.
///
/// Where nobody gives such tokens, as beside a stock control plane, it is the node's
/// own client: its user then needs the rights.
///
/// # Errors
/// When the token cannot be kept, or the kubeconfig cannot be used.
pub async fn client(
    own: Client,
    node: &str,
    network: NetworkClient,
    shutdown: &CancellationToken,
) -> Result<Option<Client>, Error> {
    let kubeconfig = match network {
        NetworkClient::Given(client) => return Ok(Some(client)),
        NetworkClient::Tokens { kubeconfig } => kubeconfig,
    };
    let mut failures = 0;
    let token = loop {
        let asked = tokio::select! {
            () = shutdown.cancelled() => return Ok(None),
            asked = token(&own, node) => asked,
        };
        match asked {
            Ok(token) => break token,
            Err(Failed::Refused(error)) => {
                warn!(
                    %error,
                    account = ACCOUNT.1,
                    "no token of the network's account: network policy is read as the node, whose user needs the rights of `orlop:network-policy`"
                );
                return Ok(Some(own));
            }
            Err(Failed::Later(error)) => {
                if failures % REMIND == REMIND - 1 {
                    warn!(error, "waiting for a token of the network's account");
                } else {
                    debug!(error, "no token of the network's account yet");
                }
                failures += 1;
            }
        }
        tokio::select! {
            () = shutdown.cancelled() => return Ok(None),
            () = tokio::time::sleep(RETRY) => {}
        }
    };
    let kept = Kept::of(&token).map_err(Error::file("write", Path::new(NAME)))?;
    let client = Client::from_kubeconfig_with_token(&kubeconfig, &kept.path())
        .await
        .map_err(Error::Client)?;
    info!(
        account = ACCOUNT.1,
        "network policy is read as the network's account"
    );
    let (node, until) = (node.to_owned(), shutdown.clone());
    let kept = std::sync::Arc::new(tokio::sync::Mutex::new(kept));
    control_supervise::task("network-account-token")
        .until(shutdown)
        .spawn_restarting(move || {
            let (own, node, kept) = (own.clone(), node.clone(), kept.clone());
            let until = until.clone();
            async move { renew(own, node, &mut *kept.lock().await, until).await }
        });
    Ok(Some(client))
}

/// Keeps a token that is worth something where the client reads it.
async fn renew(own: Client, node: String, kept: &mut Kept, shutdown: CancellationToken) {
    let mut wait = RENEW;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
        wait = match token(&own, &node).await {
            Ok(token) => match kept.put(&token) {
                Ok(()) => RENEW,
                Err(error) => {
                    warn!(%error, "the network's token cannot be kept");
                    RENEW
                }
            },
            Err(Failed::Refused(error)) => {
                warn!(%error, "no new token of the network's account");
                RENEW
            }
            Err(Failed::Later(error)) => {
                debug!(error, "no new token of the network's account yet");
                RETRY
            }
        };
    }
}

/// Why there is no token.
enum Failed {
    /// Nobody gives one.
    Refused(Refusal),
    /// It is worth another try.
    Later(String),
}

#[derive(Deserialize)]
struct Named {
    metadata: Meta,
}

#[derive(Deserialize)]
struct Answer {
    status: Status,
}

#[derive(Deserialize)]
struct Status {
    token: String,
}

/// Asks for a token that is bound to the node.
async fn token(own: &Client, node: &str) -> Result<String, Failed> {
    let object = own.get::<Named>(&resources::NODES, "", node).await;
    // Another part of the agent makes the object.
    let object = object.map_err(|error| Failed::Later(error.chain()))?;
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {
            "expirationSeconds": LIFE,
            "boundObjectRef": {
                "apiVersion": "v1", "kind": "Node", "name": node, "uid": object.metadata.uid,
            },
        },
    });
    let (namespace, name) = ACCOUNT;
    let resource = &resources::SERVICE_ACCOUNTS;
    own.create_subresource::<Answer>(resource, namespace, name, "token", &request)
        .await
        .map(|answer| answer.status.token)
        .map_err(|error| match error {
            Refusal::Forbidden(_) | Refusal::NotFound(_) => Failed::Refused(error),
            error => Failed::Later(error.chain()),
        })
}

/// A token in a file that is in memory alone and ends with this process.
struct Kept {
    file: OwnedFd,
}

impl Kept {
    fn of(token: &str) -> io::Result<Self> {
        let file = in_memory(token)?;
        Ok(Self { file })
    }

    /// Where this process can read it, as long as this is not dropped.
    fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }

    /// Puts another in its place: who opens the path gets the one or the other whole.
    fn put(&mut self, token: &str) -> io::Result<()> {
        let new = in_memory(token)?;
        Ok(dup3(&new, &mut self.file, OFlag::O_CLOEXEC)?)
    }
}

fn in_memory(token: &str) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create(NAME, MFdFlags::MFD_CLOEXEC)?);
    file.write_all(token.as_bytes())?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_again_and_again_and_replaced_whole_without_a_disk() {
        let mut kept = Kept::of("a-long-first-one").expect("kept");
        let path = kept.path();
        let read = || std::fs::read_to_string(&path).expect("read");
        assert_eq!(
            (read(), read()),
            ("a-long-first-one".into(), "a-long-first-one".into())
        );
        let old = File::open(&path).expect("a reader");
        kept.put("second").expect("replaced");
        assert_eq!(read(), "second");
        assert_eq!(io::read_to_string(old).expect("read"), "a-long-first-one");
        assert_eq!(kept.path(), path);
        let device = std::fs::read_link(&path).expect("a link");
        let device = device.to_string_lossy();
        assert!(device.starts_with("/memfd:"), "{device}");
    }
}
