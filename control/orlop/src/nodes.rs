//! Queries to a cluster's nodes, through the API server's proxy: they require the right
//! to `nodes/proxy`.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use clap::Args;
use control_client::{Client, Meta, Metadata, RequestBody, Selection, resources};
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::BodyExt;
use node_agent::flows_port;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::json;
use tokio::sync::mpsc;

use crate::{error::Error, kubeconfig::Kubeconfig};

/// How long a node may take for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// The shortest life that API servers give to tokens.
const TOKEN_LIVES_FOR: Duration = Duration::from_secs(600);
/// How long one is used before another is made.
const TOKEN_USED_FOR: Duration = Duration::from_secs(300);

/// Cluster and user, who must be allowed to `get` `nodes/proxy` and to list pods, nodes
/// and policies.
#[derive(Args)]
#[group(id = "cluster")]
pub struct Cluster {
    #[command(flatten)]
    kubeconfig: Kubeconfig,
}

impl Cluster {
    /// Its client.
    ///
    /// # Errors
    /// A kubeconfig that cannot be used.
    pub async fn client(&self, command: &str) -> Result<Client, Error> {
        self.kubeconfig.client(command).await
    }
}

/// Why a node does not answer.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The API server refuses the query or does not answer.
    #[error(transparent)]
    Client(#[from] control_client::Error),
    /// The query cannot be written.
    #[error(transparent)]
    Query(#[from] http::Error),
    /// There is no token for the agent.
    #[error(
        "cannot create a token of service account {}/{}: create the objects in \
         docs/how-to/keep-a-stock-kubelet.md",
        flows_port::ACCOUNT.0,
        flows_port::ACCOUNT.1
    )]
    Token(#[source] control_client::Error),
    /// The answer takes too long.
    #[error("no answer within {} s", ANSWER_WITHIN.as_secs())]
    Timeout,
    /// The node, or the API server, refuses.
    #[error("{status}: {message}")]
    Refused {
        /// The HTTP status.
        status: StatusCode,
        /// The message of the answer.
        message: String,
    },
    /// The answer is of another form.
    #[error("its answer is not understood")]
    Answer(#[source] serde_json::Error),
    /// A node that is followed ends its answer.
    #[error("the node said no more")]
    Ended,
}

/// A cluster's nodes with the endpoints of their agents.
///
/// An agent that is the node's kubelet accepts queries from the API server. Another one
/// publishes its port on the Node, and requires the caller's token
/// (`node_agent::flows_port`).
pub struct Nodes {
    client: Client,
    /// The agent's own port, where it has one.
    ports: BTreeMap<String, Option<u16>>,
    /// The last token for a node, and when it was made.
    tokens: Mutex<HashMap<String, (Instant, String)>>,
}

impl Nodes {
    /// Lists all nodes.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn list(client: Client) -> Result<Self, Error> {
        let list = client
            .list::<Metadata>(&resources::NODES, &Selection::all())
            .await
            .map_err(Error::Client)?;
        let port = |meta: &Meta| meta.annotations.get(flows_port::ANNOTATION)?.parse().ok();
        let ports = list.items.iter().map(|it| {
            let meta = &it.metadata;
            (meta.name.to_string(), port(meta))
        });
        Ok(Self {
            ports: ports.collect(),
            client,
            tokens: Mutex::default(),
        })
    }

    /// Their names.
    pub fn names(&self) -> Vec<String> {
        self.ports.keys().cloned().collect()
    }

    /// Queries a node.
    ///
    /// # Errors
    /// The error of the node or the API server.
    pub async fn request<T: DeserializeOwned>(
        &self,
        node: &str,
        what: &str,
        query: &[(&str, String)],
    ) -> Result<T, NodeError> {
        let answer = async {
            let response = self.get(node, what, query).await?;
            let body = response.into_body().collect().await;
            body.map_err(|source| NodeError::Client(control_client::Error::Body(source)))
        };
        let within = tokio::time::timeout(ANSWER_WITHIN, answer).await;
        let body = within.map_err(|_| NodeError::Timeout)??;
        serde_json::from_slice(&body.to_bytes()).map_err(NodeError::Answer)
    }

    /// Asks a node for lines, and hands them on with its name until either side has
    /// enough.
    ///
    /// # Errors
    /// Why no more come.
    pub async fn follow(
        &self,
        node: &str,
        what: &str,
        query: &[(&str, String)],
        lines: &mpsc::Sender<(String, Vec<u8>)>,
    ) -> Result<(), NodeError> {
        let mut body = self.get(node, what, query).await?.into_body();
        let mut rest: Vec<u8> = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(control_client::Error::Body)?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            rest.extend_from_slice(&data);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                if lines.send((node.to_owned(), line)).await.is_err() {
                    return Ok(());
                }
            }
        }
        Err(NodeError::Ended)
    }

    /// A node's answer, if it is one.
    async fn get(
        &self,
        node: &str,
        what: &str,
        query: &[(&str, String)],
    ) -> Result<http::Response<RequestBody>, NodeError> {
        let port = self.ports.get(node).copied().flatten();
        let mut request = Request::get(path(node, port, what, query)).header(header::ACCEPT, "*/*");
        if port.is_some() {
            let token = self.token(node).await?;
            let mut value =
                HeaderValue::try_from(format!("Bearer {token}")).map_err(http::Error::from)?;
            value.set_sensitive(true);
            request = request.header(flows_port::HEADER, value);
        }
        let request = request.body(RequestBody::empty())?;
        let response = self
            .client
            .kube()
            .send(request)
            .await
            .map_err(control_client::Error::from_transport)?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = response.into_body().collect().await;
        let bytes = body.map_err(control_client::Error::Body)?.to_bytes();
        // The API server returns a Status, a node plain text.
        let said = serde_json::from_slice::<serde_json::Value>(&bytes).ok();
        let message = said.as_ref().and_then(|it| it["message"].as_str());
        let text = String::from_utf8_lossy(&bytes);
        let message = message.unwrap_or_else(|| text.trim()).to_owned();
        Err(NodeError::Refused { status, message })
    }

    /// A token that is good at this node alone, for asking.
    async fn token(&self, node: &str) -> Result<String, NodeError> {
        #[derive(Deserialize)]
        struct Answer {
            status: Status,
        }
        #[derive(Deserialize)]
        struct Status {
            token: String,
        }
        let tokens = || self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((made, token)) = tokens().get(node)
            && made.elapsed() < TOKEN_USED_FOR
        {
            return Ok(token.clone());
        }
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": [flows_port::audience(node)],
                "expirationSeconds": TOKEN_LIVES_FOR.as_secs(),
            },
        });
        let (namespace, name) = flows_port::ACCOUNT;
        let answer: Answer = self
            .client
            .create_subresource(
                &resources::SERVICE_ACCOUNTS,
                namespace,
                name,
                "token",
                &request,
            )
            .await
            .map_err(NodeError::Token)?;
        let token = answer.status.token;
        tokens().insert(node.to_owned(), (Instant::now(), token.clone()));
        Ok(token)
    }
}

fn path(node: &str, port: Option<u16>, what: &str, query: &[(&str, String)]) -> String {
    let mut path = match port {
        Some(port) => format!("/api/v1/nodes/https:{node}:{port}/proxy/{what}"),
        None => format!("/api/v1/nodes/{node}/proxy/{what}"),
    };
    for (number, (name, value)) in query.iter().enumerate() {
        path.push(if number == 0 { '?' } else { '&' });
        path.push_str(name);
        path.push('=');
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~:/".contains(&byte) {
                path.push(char::from(byte));
            } else {
                path.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_written_so_that_they_are_read() {
        assert_eq!(
            path("n1", None, "flows", &[]),
            "/api/v1/nodes/n1/proxy/flows"
        );
        let query = [
            ("pod", "shop/web 1&2".to_owned()),
            ("to", "fd00::1".to_owned()),
        ];
        assert_eq!(
            path("n1", None, "why", &query),
            "/api/v1/nodes/n1/proxy/why?pod=shop/web%201%262&to=fd00::1"
        );
        assert_eq!(
            path("n1", Some(10253), "flows", &[]),
            "/api/v1/nodes/https:n1:10253/proxy/flows"
        );
    }
}
