//! `exec` and `attach` of clients that speak WebSocket, for nodes that speak
//! SPDY: the connections to both sides.

use control_streams::remotecommand::{LONGEST_STATUS, PROTOCOL, asking, check, serve};
pub use control_streams::remotecommand::{StreamSelection, is_asked};
use control_types::status::Status;
use control_types::value::Value;
use http::header::HOST;
use http::{HeaderValue, Method};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;

use super::agree;
use crate::ProxiedRequest;
use crate::egress::target::Target;
use crate::upgrade;
use control_request::Answer;
use control_request::body::Body;
use control_request::plain_error;

/// Agrees to the client's WebSocket; what happens then, and be it that the node
/// does not answer, is told on the error channel.
///
/// # Errors
/// 400 for an improper handshake.
pub fn translate(
    incoming: ProxiedRequest<'_>,
    target: Target,
    path: String,
    wanted: StreamSelection,
) -> Answer {
    let client = upgrade::client_side(incoming)?;
    let response = agree(&incoming.parts.headers, Some(PROTOCOL))?;
    upgrade::spawn_on(incoming, client, move |client| async move {
        let (reads, writes) = tokio::io::split(client);
        let connect = async {
            let connected = connect(target, path).await;
            connected.map_err(|status| status.to_json().into())
        };
        serve(reads, writes, wanted, connect).await;
    });
    Ok(response)
}

/// Asks the node for SPDY.
async fn connect(target: Target, path: String) -> Result<upgrade::UpgradedStream, Status> {
    let mut headers = asking();
    let host = HeaderValue::from_str(&target.address()).map_err(Status::internal)?;
    headers.insert(HOST, host);
    let answer = upgrade::request_upgrade(&target, Method::POST, &path, headers)
        .await
        .map_err(|status| Status::internal(status.message))?;
    let mut answer = match answer {
        Ok(answer) => answer,
        Err(refusal) => return Err(refused(refusal.into_body()).await),
    };
    check(answer.headers()).map_err(Status::internal)?;
    hyper::upgrade::on(&mut answer)
        .await
        .map(TokioIo::new)
        .map_err(Status::internal)
}

/// A node's refusal: the Status that it answers, or its words.
async fn refused(mut body: Body) -> Status {
    let mut text = Vec::new();
    while let Some(Ok(frame)) = body.frame().await
        && text.len() < LONGEST_STATUS
    {
        if let Some(bytes) = frame.data_ref() {
            text.extend_from_slice(bytes);
        }
    }
    let told = Value::from_slice(&text).ok();
    let message = told
        .as_ref()
        .filter(|told| told.str_at(&["kind"]) == Some("Status"))
        .and_then(|told| told.str_at(&["message"]));
    match message {
        Some(message) => plain_error(message),
        None => Status::internal(format!(
            "unable to upgrade connection: {}",
            String::from_utf8_lossy(&text)
        )),
    }
}
