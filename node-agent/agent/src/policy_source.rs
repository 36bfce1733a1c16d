//! Where the agent reads what network policy needs.
//!
//! A rule of network policy may select any pod, so that whoever enforces it needs the
//! labels, addresses and ports of all of them, but a node's user may read the pods of
//! its node only. Our API server serves nodes PodEndpoints ([`POD_ENDPOINTS`]): those
//! fields of all pods, and no others.
//!
//! A stock API server has no PodEndpoints. There the agent reads whole pods, as network
//! plugins do, and as a service account, [`ACCOUNT`], if it gets the account's token:
//! plugins run as pods, whose tokens the kubelet asks for; the agent asks for the token
//! itself, bound to its Node object. The token is kept in memory: a full disk is no
//! reason for a node to have no network. Without a token it reads pods as its node.

use std::{path::Path, time::Duration};

use control_client::{
    Backoff, BearerToken, Client, Error as Refusal, Meta, Resource, Selection, resources,
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::Error;

/// The resource in which our API server serves all pods to nodes, for network policy.
pub const POD_ENDPOINTS: Resource = Resource::namespaced(
    "network.orlop.dev",
    "v1alpha1",
    "podendpoints",
    "PodEndpoint",
);

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

/// Where the inputs of network policy are read.
pub struct PolicySource {
    /// Reads them.
    pub client: Client,
    /// Pods, or what stands for them.
    pub pods: Resource,
    /// The node's own client, where it cannot read PodEndpoints now.
    fallback_of: Option<Client>,
}

impl PolicySource {
    /// Chooses PodEndpoints where `own` may read them, else pods; `None` when the
    /// shutdown comes first. `kubeconfig` says how the API server is reached as the
    /// service account, whose tokens are renewed until `shutdown`; without, and where
    /// nobody gives its tokens, `own` reads pods: its user then needs the rights.
    ///
    /// # Errors
    /// When the token cannot be kept, or the kubeconfig cannot be used.
    pub async fn choose(
        own: Client,
        node: &str,
        kubeconfig: Option<&Path>,
        shutdown: &CancellationToken,
    ) -> Result<Option<Self>, Error> {
        let mut attempts = TokenAttempts::default();
        loop {
            match reads_pod_endpoints(&own).await {
                Ok(true) => {
                    info!("network policy reads PodEndpoints");
                    return Ok(Some(Self {
                        client: own,
                        pods: POD_ENDPOINTS,
                        fallback_of: None,
                    }));
                }
                Ok(false) => break,
                Err(error) => attempts.failed(&error.chain()),
            }
            if !attempts.pause(shutdown).await {
                return Ok(None);
            }
        }
        let client = match kubeconfig {
            Some(kubeconfig) => account(own.clone(), node, kubeconfig, shutdown).await?,
            None => Some(own.clone()),
        };
        Ok(client.map(|client| Self {
            client,
            pods: resources::PODS,
            fallback_of: Some(own),
        }))
    }

    /// Waits until the node may read PodEndpoints though this source reads pods: a
    /// server that has been upgraded does not let it read pods for long.
    pub async fn superseded(&self) {
        let Some(own) = &self.fallback_of else {
            return std::future::pending().await;
        };
        loop {
            tokio::time::sleep(RENEW).await;
            if let Ok(true) = reads_pod_endpoints(own).await {
                return;
            }
        }
    }
}

/// Whether the API server serves PodEndpoints and lets `client` read those of all pods.
async fn reads_pod_endpoints(client: &Client) -> Result<bool, Refusal> {
    if !client.serves(&POD_ENDPOINTS).await? {
        return Ok(false);
    }
    // No object has this name: the answer says whether all may be read.
    let none = Selection::all().fields("metadata.name=-");
    match client.list::<IgnoredAny>(&POD_ENDPOINTS, &none).await {
        Ok(_) => Ok(true),
        Err(Refusal::Forbidden(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Retries of getting the token without which no pod starts.
#[derive(Default)]
struct TokenAttempts {
    failed: u32,
}

impl TokenAttempts {
    fn failed(&mut self, error: &str) {
        if self.failed % REMIND == REMIND - 1 {
            warn!(
                error,
                "failed to discover where network policy is read from"
            );
        } else {
            debug!(
                error,
                "failed to discover where network policy is read from"
            );
        }
        self.failed += 1;
    }

    /// Waits for the next attempt; `false` at the shutdown.
    async fn pause(&self, shutdown: &CancellationToken) -> bool {
        tokio::select! {
            () = shutdown.cancelled() => false,
            () = tokio::time::sleep(RETRY) => true,
        }
    }
}

/// A client that reads pods as the service account, or as `own` where nobody gives
/// tokens of that; `None` when the shutdown comes first.
async fn account(
    own: Client,
    node: &str,
    kubeconfig: &Path,
    shutdown: &CancellationToken,
) -> Result<Option<Client>, Error> {
    let mut attempts = TokenAttempts::default();
    let token = loop {
        let answer = tokio::select! {
            () = shutdown.cancelled() => return Ok(None),
            answer = token(&own, node) => answer,
        };
        match answer {
            Ok(token) => break token,
            Err(TokenFailure::Refused(error)) => {
                warn!(
                    %error,
                    account = ACCOUNT.1,
                    "no token of the service account: network policy is read as the node, whose user needs the rights of `orlop:network-policy`"
                );
                return Ok(Some(own));
            }
            Err(TokenFailure::Later(error)) => attempts.failed(&error),
        }
        if !attempts.pause(shutdown).await {
            return Ok(None);
        }
    };
    let token = BearerToken::new(&token).map_err(Error::NetworkToken)?;
    let client = Client::from_kubeconfig_with_token(kubeconfig, token.clone())
        .await
        .map_err(Error::Client)?;
    info!(
        account = ACCOUNT.1,
        "network policy is read as a service account"
    );
    let (node, until) = (node.to_owned(), shutdown.clone());
    control_supervise::task("network-account-token")
        .until(shutdown)
        .spawn_restarting(move || renew(own.clone(), node.clone(), token.clone(), until.clone()));
    Ok(Some(client))
}

/// Keeps a valid token: renews it in time, and when the server refuses it.
async fn renew(own: Client, node: String, kept: BearerToken, shutdown: CancellationToken) {
    let mut backoff = Backoff::new(RETRY, RENEW);
    let mut wait = RENEW;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = kept.refused(), if wait == RENEW => {
                warn!(account = ACCOUNT.1, "service account token was rejected; requesting another");
                // One after the other, should all be refused.
                tokio::time::sleep(backoff.after_failure()).await;
            }
            () = tokio::time::sleep(wait) => backoff.reset(),
        }
        wait = match token(&own, &node).await {
            Ok(token) => {
                if let Err(error) = kept.replace(&token) {
                    warn!(%error, "service account token is not usable");
                }
                RENEW
            }
            Err(TokenFailure::Refused(error)) => {
                warn!(%error, "failed to renew the service account token");
                RENEW
            }
            Err(TokenFailure::Later(error)) => {
                debug!(
                    error,
                    "failed to renew the service account token; the present one is still valid"
                );
                RETRY
            }
        };
    }
}

/// Why there is no token.
enum TokenFailure {
    /// The server gives no token.
    Refused(Refusal),
    /// The request failed and is worth another attempt.
    Later(String),
}

#[derive(Deserialize)]
struct ObjectWithName {
    metadata: Meta,
}

#[derive(Deserialize)]
struct TokenResponse {
    status: TokenResponseStatus,
}

#[derive(Deserialize)]
struct TokenResponseStatus {
    token: String,
}

/// Asks for a token that is bound to the node.
async fn token(own: &Client, node: &str) -> Result<String, TokenFailure> {
    let object = own.get::<ObjectWithName>(&resources::NODES, "", node).await;
    // Another part of the agent makes the object.
    let object = object.map_err(|error| TokenFailure::Later(error.chain()))?;
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
    own.create_subresource::<TokenResponse>(resource, namespace, name, "token", &request)
        .await
        .map(|answer| answer.status.token)
        .map_err(|error| match error {
            Refusal::Forbidden(_) | Refusal::NotFound(_) => TokenFailure::Refused(error),
            error => TokenFailure::Later(error.chain()),
        })
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{
            Arc, Mutex,
            atomic::{AtomicU16, Ordering},
        },
    };

    use control_client::RequestBody;
    use http_body_util::Full;
    use hyper::{Request, Response, body::Bytes};
    use serde_json::Value;

    use super::*;

    /// An API server that answers lists of PodEndpoints with a code, and serves no such
    /// resource at 404.
    fn client(code: &Arc<AtomicU16>) -> Client {
        let code = Arc::clone(code);
        let service = tower::service_fn(move |request: Request<RequestBody>| {
            let wanted = code.load(Ordering::Relaxed);
            let path = request.uri().path().to_owned();
            async move {
                let ok = (200, json!({"items": [], "metadata": {}}));
                let (code, body): (u16, Value) = match path.as_str() {
                    "/apis/network.orlop.dev/v1alpha1" if wanted != 404 => {
                        (200, json!({"resources": [{"name": "podendpoints"}]}))
                    }
                    "/apis/network.orlop.dev/v1alpha1/podendpoints" if wanted == 200 => ok,
                    _ => {
                        let code = if wanted == 404 { 404 } else { 403 };
                        let reason = if code == 404 { "NotFound" } else { "Forbidden" };
                        let kind = "Status";
                        (code, json!({"kind": kind, "code": code, "reason": reason}))
                    }
                };
                let body = Full::new(Bytes::from(body.to_string()));
                let answer = Response::builder().status(code).body(body);
                Ok::<_, Infallible>(answer.expect("an answer"))
            }
        });
        Client::in_process(service, ())
    }

    #[tokio::test(start_paused = true)]
    async fn pod_endpoints_are_read_where_the_node_may_and_else_pods_until_it_may() {
        let end = CancellationToken::new();
        let code = Arc::new(AtomicU16::new(200));
        let source = PolicySource::choose(client(&code), "n", None, &end).await;
        let source = source.expect("no error").expect("a source");
        assert_eq!(source.pods, POD_ENDPOINTS);
        let never = tokio::time::timeout(RENEW * 10, source.superseded());
        assert!(never.await.is_err(), "there is nothing better");
        for refusal in [403, 404] {
            code.store(refusal, Ordering::Relaxed);
            let source = PolicySource::choose(client(&code), "n", None, &end).await;
            let source = source.expect("no error").expect("a source");
            assert_eq!(source.pods, resources::PODS, "{refusal}");
            let not_yet = tokio::time::timeout(RENEW * 10, source.superseded());
            assert!(not_yet.await.is_err(), "{refusal}");
            code.store(200, Ordering::Relaxed);
            let soon = tokio::time::timeout(RENEW * 2, source.superseded());
            soon.await.expect("the server was upgraded");
        }
    }

    /// Gives the tokens `1`, `2` and so on.
    fn server(given: Arc<Mutex<u32>>) -> Client {
        let service = tower::service_fn(move |request: Request<RequestBody>| {
            let mut body = json!({"metadata": {"name": "n", "uid": "u"}});
            if request.uri().path().ends_with("/token") {
                let mut given = given.lock().unwrap();
                *given += 1;
                body = json!({"status": {"token": given.to_string()}});
            }
            let body = Full::new(Bytes::from(body.to_string()));
            std::future::ready(Ok::<_, Infallible>(Response::new(body)))
        });
        Client::in_process(service, ())
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_that_the_server_refuses_is_replaced_at_once_and_not_in_a_storm() {
        let given = Arc::new(Mutex::new(0));
        let (kept, shutdown) = (BearerToken::new("0").unwrap(), CancellationToken::new());
        let renewing = renew(
            server(Arc::clone(&given)),
            "n".to_owned(),
            kept.clone(),
            shutdown.clone(),
        );
        let renewing = tokio::spawn(renewing);
        let after = async |time: Duration| {
            tokio::time::sleep(time).await;
            *given.lock().unwrap()
        };
        assert_eq!(after(Duration::from_secs(30)).await, 0);
        kept.answered(hyper::StatusCode::UNAUTHORIZED);
        assert_eq!(after(Duration::from_secs(1)).await, 1);
        assert_eq!(after(Duration::from_secs(301)).await, 2);
        for _ in 0..60 {
            kept.answered(hyper::StatusCode::UNAUTHORIZED);
            after(Duration::from_secs(1)).await;
        }
        let storm = *given.lock().unwrap() - 2;
        assert!((4..=9).contains(&storm), "{storm} tokens in a minute");
        shutdown.cancel();
        renewing.await.unwrap();
    }
}
