//! How a machine becomes a node: it comes to know the cluster's authority by
//! its hash, shows a bootstrap token, and asks for its certificates; later it
//! renews them by themselves. The protocol is that of Kubernetes (TLS
//! bootstrapping), so the server may be a stock one.

mod discover;
mod error;
mod folder;
mod keep;
mod request;
#[cfg(test)]
pub(crate) mod tests;

use control_client::Client;
use control_pki::CertificateKeyPair;
use serde_json::json;

pub use discover::{DiscoveredCluster, check, cluster, read};
pub use error::Error;
pub use folder::{Folder, OwnFiles};
pub use keep::keep;

/// The information for joining.
#[derive(Clone, Debug)]
pub struct Join {
    /// The API server's URL.
    pub server: String,
    /// The bootstrap token.
    pub token: String,
    /// Hashes of the cluster's authority; one of them must match.
    pub hashes: Vec<String>,
}

/// The user that a node is.
pub fn user(node: &str) -> String {
    format!("system:node:{node}")
}

/// Sees to it that `folder` holds credentials of the node: those that are
/// there, or new ones by `join`.
///
/// # Errors
/// [`Error`], each with its way out.
pub async fn ensure(folder: &Folder, node: &str, join: Option<&Join>) -> Result<OwnFiles, Error> {
    match folder.load(node) {
        Ok(Some(own)) => {
            if join.is_some() {
                tracing::info!(folder = %folder.path().display(), "node has joined before, using its credentials and ignoring the token");
            }
            Ok(own)
        }
        Ok(None) => {
            let join = join.ok_or_else(|| Error::NotJoined {
                folder: folder.path().to_owned(),
            })?;
            new(folder, node, join).await
        }
        // An expired credential may be replaced with a token.
        Err(Error::Pki(control_pki::Error::Expired { path, expired, .. })) => match join {
            Some(join) => new(folder, node, join).await,
            None => Err(Error::Expired { path, expired }),
        },
        Err(error) => Err(error),
    }
}

async fn new(folder: &Folder, node: &str, join: &Join) -> Result<OwnFiles, Error> {
    if control_access::parse_bootstrap_token(&join.token).is_none() {
        return Err(Error::TokenForm);
    }
    // Nothing is written for unusable options.
    check(&join.server, &join.hashes)?;
    folder.prepare()?;
    let cluster = cluster(&join.server, &join.hashes).await?;
    let client = with_token(&join.server, &cluster.authority, &join.token).await?;
    let asked = control_pki::Request::new(&user(node), &["system:nodes"], &[])?;
    let certificate = request::certificate(&client, &asked, request::RequestKind::Client)
        .await
        .map_err(|error| error.with_server(&join.server))?;
    let own = OwnFiles {
        server: join.server.clone(),
        authority: cluster.authority,
        client: CertificateKeyPair {
            cert_pem: certificate,
            key_pem: asked.key_pem,
        },
    };
    folder.save(&own, node)?;
    tracing::info!(server = join.server, node, folder = %folder.path().display(), "joined");
    Ok(own)
}

/// A client that shows a token to the server of a known authority.
///
/// # Errors
/// [`Error::Client`].
pub async fn with_token(server: &str, authority: &str, token: &str) -> Result<Client, Error> {
    let cluster = json!({
        "server": server,
        "certificate-authority-data": encode(authority),
    });
    let text = kubeconfig(&cluster, &json!({"token": token}));
    Client::from_kubeconfig_text(&text, "--token")
        .await
        .map_err(Error::Client)
}

fn kubeconfig(cluster: &serde_json::Value, user: &serde_json::Value) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    })
    .to_string()
}

fn encode(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

fn decode(text: &str) -> Option<String> {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(text)
        .ok()?;
    String::from_utf8(bytes).ok()
}
