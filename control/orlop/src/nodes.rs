//! What a cluster's nodes are asked, through the API server's proxy: whoever
//! may use `nodes/proxy` may ask.

use std::path::PathBuf;

use clap::Args;
use control_client::{Client, Metadata, RequestBody, Selection, resources};
use http::{Method, Request, header};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use crate::error::Error;

/// Which cluster.
#[derive(Args)]
#[group(id = "cluster")]
pub struct Cluster {
    /// The cluster; a user who may `get` `nodes/proxy` and list pods, nodes and policies.
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    kubeconfig: PathBuf,
}

impl Cluster {
    /// Its client.
    ///
    /// # Errors
    /// A kubeconfig that cannot be used.
    pub async fn client(&self, command: &str) -> Result<Client, Error> {
        Client::from_kubeconfig(&self.kubeconfig)
            .await
            .map(|client| client.named(command))
            .map_err(Error::Client)
    }
}

/// The names of all nodes.
///
/// # Errors
/// What the API server says.
pub async fn names(client: &Client) -> Result<Vec<String>, Error> {
    let list = client
        .list::<Metadata>(&resources::NODES, &Selection::all())
        .await
        .map_err(Error::Client)?;
    Ok(list
        .items
        .into_iter()
        .map(|it| it.metadata.name.to_string())
        .collect())
}

/// Asks a node.
///
/// # Errors
/// In words: what the node or the API server says.
pub async fn ask<T: DeserializeOwned>(
    client: &Client,
    node: &str,
    what: &str,
    query: &[(&str, String)],
) -> Result<T, String> {
    let path = path(node, what, query);
    client
        .request(Method::GET, &path, None::<&()>)
        .await
        .map_err(|error| error.chain())
}

/// Asks a node for lines, and hands them on with its name until either side has
/// enough.
///
/// # Errors
/// In words, why no more come.
pub async fn follow(
    client: &Client,
    node: &str,
    what: &str,
    query: &[(&str, String)],
    lines: &mpsc::Sender<(String, Vec<u8>)>,
) -> Result<(), String> {
    let words = |error: &dyn std::error::Error| error.to_string();
    let request = Request::get(path(node, what, query))
        .header(header::ACCEPT, "*/*")
        .body(RequestBody::empty())
        .map_err(|error| words(&error))?;
    let response = client
        .kube()
        .send(request)
        .await
        .map_err(|source| control_client::Error::Transport(source).chain())?;
    let status = response.status();
    let mut body = response.into_body();
    if !status.is_success() {
        let bytes = body.collect().await.map_err(|error| words(&error))?;
        let text = String::from_utf8_lossy(&bytes.to_bytes()).into_owned();
        return Err(format!("{status}: {}", text.trim()));
    }
    let mut rest: Vec<u8> = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|source| control_client::Error::Body(source).chain())?;
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
    Err("the node said no more".to_owned())
}

fn path(node: &str, what: &str, query: &[(&str, String)]) -> String {
    let mut path = format!("/api/v1/nodes/{node}/proxy/{what}");
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
        assert_eq!(path("n1", "flows", &[]), "/api/v1/nodes/n1/proxy/flows");
        let query = [
            ("pod", "shop/web 1&2".to_owned()),
            ("to", "fd00::1".to_owned()),
        ];
        assert_eq!(
            path("n1", "why", &query),
            "/api/v1/nodes/n1/proxy/why?pod=shop/web%201%262&to=fd00::1"
        );
    }
}
