//! The port at which an agent beside another kubelet is asked.
//!
//! The kubelet has the port at which an API server shows who it is. To any other port of a
//! node it passes requests on without a certificate of its own, without the client's
//! `Authorization` and without checking whose certificate is shown
//! (`/api/v1/nodes/https:NAME:PORT/proxy`). So whoever asks brings a token of its own, in a
//! header that is passed on:
//!
//! ```text
//! command ──TokenRequest of ACCOUNT, for this node alone──▶ API server
//!         ──GET …/nodes/https:n1:10253/proxy/flows───────▶ API server ──▶ agent of n1
//!                                     API server ◀──TokenReview, SubjectAccessReview──
//! ```
//!
//! The token is good for one audience, [`audience`] of the node: not for the API, not at
//! another node, and for ten minutes. Whoever gets hold of it on the way, or is the node,
//! can ask this node for its flows, and nothing else. Users of any kind may ask, with
//! certificates, too: they need the right to make such tokens
//! (`create` on `serviceaccounts/token` of [`ACCOUNT`]), and the account needs `get` on
//! `flows.orlop.dev`, a resource that is nothing but this right.
//!
//! Where the agent listens is said on the Node, by [`ANNOTATION`]: whoever could write
//! there, as the node itself, gets tokens for that node alone.

use std::{net::SocketAddr, time::Duration};

use control_client::{Cache, Client, Error as Refusal, Patch, resources};
use control_pki::{Authority, Spec};
use control_serving::{
    Tls,
    access::{Access, GuardedPort, Rights, Settings},
};
use node_agent_informers::Node;
use node_agent_kubelet_server::access::refusal;
use node_agent_kubelet_server::extra_endpoints::ExtraEndpoints;
use node_agent_kubelet_server::serve_further;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::Error;

/// The port unless told otherwise.
pub const PORT: u16 = 10253;
/// The annotation of a Node whose agent is asked at a port of its own: the port.
pub const ANNOTATION: &str = "orlop.dev/flows-port";
/// The header with the token, as `Bearer TOKEN`.
pub const HEADER: &str = "orlop-authorization";
/// Namespace and name of the service account as which agents are asked.
pub const ACCOUNT: (&str, &str) = ("kube-system", "orlop-flows");

/// What tokens for a node are made for begins so.
const AUDIENCE: &str = "orlop.dev/flows/";
/// How long it is kept that a token is good, and that its user may.
const KEPT: Duration = Duration::from_secs(120);
/// How often is looked whether the Node says what it should.
const LOOK: Duration = Duration::from_secs(30);
/// How long after a failure it is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// What a client needs the right to.
const GUARDED: GuardedPort = GuardedPort {
    audience: Some(AUDIENCE),
    header: HEADER,
    rights: Rights::Resource {
        group: "orlop.dev",
        resource: "flows",
        attributes: |_, _| ("get", vec![""]),
    },
    refusal,
};

/// For what tokens have to be made with which a node's agent is asked.
#[must_use]
pub fn audience(node: &str) -> String {
    format!("{AUDIENCE}{node}")
}

/// Answers at `address` until `shutdown`.
///
/// # Errors
/// When no certificate can be made. A port that is taken is waited for: the network works
/// without.
pub async fn serve(
    client: Client,
    node: String,
    address: SocketAddr,
    further: ExtraEndpoints,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let mut told = false;
    let listener = loop {
        match TcpListener::bind(address).await {
            Ok(listener) => break listener,
            Err(error) if !told => {
                told = true;
                warn!(
                    %address, %error,
                    "failed to serve flows; choose another port with --flows-port"
                );
            }
            Err(error) => debug!(%address, %error, "flows are not served yet"),
        }
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            () = tokio::time::sleep(RETRY) => {}
        }
    };
    info!(%address, "serving flows");
    answer(listener, client, &node, further, shutdown).await
}

/// Answers those who come to `listener` until `shutdown`.
async fn answer(
    listener: TcpListener,
    client: Client,
    node: &str,
    further: ExtraEndpoints,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let tls = own(node)?;
    let settings = Settings {
        allowed_for: KEPT,
        tokens_for: KEPT,
        ..Settings::default()
    };
    let access = Access::new(GUARDED, client, node, settings);
    serve_further(listener, tls, access, further, shutdown).await;
    Ok(())
}

/// A certificate of nobody's authority, which is never written down: API servers do not
/// check those of other ports than the kubelet's.
fn own(node: &str) -> Result<Tls, Error> {
    let issued = Authority::create("orlop-flows")
        .and_then(|authority| authority.issue(&Spec::server(node, [node])))
        .map_err(Error::Certificate)?;
    Tls::without_clients(&issued.cert_pem, &issued.key_pem).map_err(|source| Error::Serving {
        file: "(in memory)".into(),
        source,
    })
}

/// Keeps on the Node where its agent is asked until `shutdown`; `None`: where the API
/// server asks kubelets.
pub async fn publish_address(
    client: Client,
    nodes: Cache<Node>,
    node: String,
    port: Option<u16>,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    tokio::select! {
        () = shutdown.cancelled() => return Ok(()),
        () = nodes.synced() => {}
    }
    let mut told = false;
    loop {
        let object = nodes.get("", &node);
        let mut pause = if object.is_some() { LOOK } else { RETRY };
        if let Some(patch) = object.and_then(|it| missing(&it, port)) {
            let patched: Result<Value, Refusal> = client
                .patch_status(&resources::NODES, "", &node, Patch::Merge(&patch))
                .await;
            if let Err(error) = patched {
                pause = RETRY;
                if told {
                    debug!(%error, "failed to publish the flow address on the Node");
                } else {
                    told = true;
                    warn!(%error, "failed to publish the flow address on the Node");
                }
            }
        }
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// What has to be changed for the Node to say this.
fn missing(node: &Node, port: Option<u16>) -> Option<Value> {
    let port = port.map(|port| port.to_string());
    (node.annotation(ANNOTATION) != port.as_deref())
        .then(|| json!({"metadata": {"annotations": {ANNOTATION: port}}}))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use control_client::RequestBody;
    use http::{Request, Response, StatusCode};
    use http_body_util::{BodyExt, Empty, Full};
    use hyper::body::Bytes;
    use hyper_util::rt::TokioIo;
    use node_agent_kubelet_server::extra_endpoints::{EndpointRequest, EndpointResponse};
    use tokio::net::TcpStream;
    use tokio::task::JoinHandle;

    use super::*;
    use crate::services::fake::Api;

    /// An API that takes one token for one audience, and whose user may ask for the flows
    /// of `n1`.
    fn reviews() -> Client {
        let service = tower::service_fn(|request: Request<RequestBody>| async {
            let bytes = request.into_body().collect().await.expect("a body");
            let body: Value = serde_json::from_slice(&bytes.to_bytes()).expect("JSON");
            let status = if body["kind"] == "TokenReview" {
                let is_known = body["spec"]["token"] == "good";
                json!({
                    "authenticated": is_known, "audiences": body["spec"]["audiences"],
                    "user": {"username": body["spec"]["audiences"][0]},
                })
            } else {
                let wanted = &body["spec"]["resourceAttributes"];
                let is_that = wanted["group"] == "orlop.dev"
                    && (&wanted["resource"], &wanted["verb"]) == (&"flows".into(), &"get".into())
                    && wanted["name"] == "n1";
                json!({"allowed": is_that && body["spec"]["user"] == "orlop.dev/flows/n1"})
            };
            let text = json!({"status": status}).to_string();
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(text))))
        });
        Client::in_process(service, ())
    }

    /// As an API server asks: any certificate will do.
    async fn asked(address: SocketAddr, path: &str, header: Option<(&str, &str)>) -> (u16, String) {
        let stream = TcpStream::connect(address).await.expect("connected");
        let connector = tokio_rustls::TlsConnector::from(control_pki::unverified_client_config());
        let name = "anything.example".try_into().expect("a name");
        let stream = connector.connect(name, stream).await.expect("TLS");
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .expect("HTTP");
        tokio::spawn(connection);
        let mut request = Request::get(path).header("host", "n1");
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        let request = request.body(Empty::<Bytes>::new()).expect("a request");
        let answer = sender.send_request(request).await.expect("an answer");
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.expect("a body");
        let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
        (status, text)
    }

    /// A node's agent that answers until the end, and where.
    async fn answered(
        node: &'static str,
        further: ExtraEndpoints,
        end: &CancellationToken,
    ) -> (SocketAddr, JoinHandle<Result<(), Error>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("an address");
        let end = end.clone();
        let task = async move { answer(listener, reviews(), node, further, end).await };
        (address, tokio::spawn(task))
    }

    #[tokio::test]
    async fn who_has_a_token_for_this_node_is_answered_and_nobody_else() {
        let further = ExtraEndpoints::new(|question: EndpointRequest| async move {
            let is_known = question.what == "flows";
            is_known.then(|| EndpointResponse::Json(format!("{:?}", question.query)))
        });
        let end = CancellationToken::new();
        let (address, task) = answered("n1", further, &end).await;
        let good = Some((HEADER, "Bearer good"));
        let said = asked(address, "/flows?a=b", good).await;
        assert_eq!(said, (200, r#"[("a", "b")]"#.to_owned()));
        assert_eq!(asked(address, "/exec/a/b/c", good).await.0, 404);
        for header in [
            None,
            Some((HEADER, "Bearer bad")),
            Some((HEADER, "Basic good")),
            // What is for the API is not taken.
            Some(("authorization", "Bearer good")),
            // Nobody vouches for who says so.
            Some(("x-remote-user", "admin")),
        ] {
            let said = asked(address, "/flows", header).await;
            assert_eq!(said.0, 401, "{header:?}");
        }
        end.cancel();
        task.await.expect("no panic").expect("it ends");

        let end = CancellationToken::new();
        let nothing = ExtraEndpoints::new(|_| async { None });
        let (address, task) = answered("n2", nothing, &end).await;
        // The token's user has no right to another node's.
        let (status, text) = asked(address, "/flows", good).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{text}");
        assert!(text.contains("resource=flows"), "{text}");
        end.cancel();
        task.await.expect("no panic").expect("it ends");
    }

    fn node(port: Option<&str>) -> Node {
        let annotations = port.map_or(json!({}), |port| json!({ANNOTATION: port}));
        let node = json!({"metadata": {"name": "n1", "annotations": annotations}});
        serde_json::from_value(node).expect("a node")
    }

    #[test]
    fn the_node_says_where_its_agent_is_asked_and_no_longer_when_it_is_the_kubelet() {
        for (stands, wanted, patched) in [
            (None, Some(10253), Some(json!("10253"))),
            (Some("1"), Some(10253), Some(json!("10253"))),
            (Some("1"), None, Some(Value::Null)),
            (Some("10253"), Some(10253), None),
            (None, None, None),
        ] {
            let expected = patched.map(|it| json!({"metadata": {"annotations": {ANNOTATION: it}}}));
            assert_eq!(
                missing(&node(stands), wanted),
                expected,
                "{stands:?} {wanted:?}"
            );
        }
    }

    #[tokio::test]
    async fn what_the_node_does_not_say_is_written_there() {
        let api = Api::new();
        let end = CancellationToken::new();
        let nodes = Cache::fixed([node(None)]);
        let told = publish_address(api.client(), nodes, "n1".to_owned(), Some(7), end.clone());
        let task = tokio::spawn(told);
        let written = loop {
            let sent = api.sent("PATCH", "/api/v1/nodes/n1/status");
            if let Some(first) = sent.first() {
                break first.clone();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        assert_eq!(written["metadata"]["annotations"], json!({ANNOTATION: "7"}));
        end.cancel();
        task.await.expect("no panic").expect("it ends");
    }
}
