//! As whom the node's network parts read the cluster.
//!
//! A rule of network policy may name any pod, so that who enforces it reads all of
//! them; a node's own user may read those of its node. As network plugins do, this
//! part therefore speaks as a service account, [`ACCOUNT`], which only reads. Plugins
//! run as pods, whose tokens the kubelet asks for; this one runs in the agent, which
//! asks for the token itself. Our API server gives it to nodes, bound to their Node
//! object: the token ends with the node.

use std::{
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use control_client::{Client, Error as Refusal, Meta, resources};
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
        /// Where the present token is kept: readable by this user alone.
        file: PathBuf,
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
    let (kubeconfig, file) = match network {
        NetworkClient::Given(client) => return Ok(Some(client)),
        NetworkClient::Tokens { kubeconfig, file } => (kubeconfig, file),
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
    keep(&file, &token)?;
    let client = Client::from_kubeconfig_with_token(&kubeconfig, &file)
        .await
        .map_err(Error::Client)?;
    info!(
        account = ACCOUNT.1,
        "network policy is read as the network's account"
    );
    tokio::spawn(renew(own, node.to_owned(), file, shutdown.clone()));
    Ok(Some(client))
}

/// Keeps a token that is worth something in the file.
async fn renew(own: Client, node: String, file: PathBuf, shutdown: CancellationToken) {
    let mut wait = RENEW;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
        wait = match token(&own, &node).await {
            Ok(token) => match keep(&file, &token) {
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

/// Writes the token so that nobody ever reads a part of it.
fn keep(file: &Path, token: &str) -> Result<(), Error> {
    let failed = || Error::file("write", file);
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(failed())?;
    }
    let beside = file.with_extension("new");
    let _ = std::fs::remove_file(&beside);
    let mut out = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)
        .map_err(failed())?;
    out.write_all(token.as_bytes()).map_err(failed())?;
    std::fs::rename(&beside, file).map_err(failed())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_token_is_kept_for_its_user_alone_and_replaced_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("not/yet/there.token");
        for token in ["a-long-first-one", "second"] {
            keep(&file, token).expect("kept");
            assert_eq!(std::fs::read_to_string(&file).expect("read"), token);
            let mode = std::fs::metadata(&file)
                .expect("a file")
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}
