//! Tests the port over TLS.

use std::convert::Infallible;

use bytes::Bytes;
use control_client::RequestBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use super::*;

/// An API server that knows the bearer of `good`, who may read `/metrics`, and publishes no
/// authorities.
fn api() -> Client {
    let service = tower::service_fn(|request: Request<RequestBody>| async {
        let path = request.uri().path().to_owned();
        let bytes = request.into_body().collect().await.expect("a body");
        let body: Value = serde_json::from_slice(&bytes.to_bytes()).unwrap_or_default();
        let spec = &body["spec"];
        let (code, answer) = if path.ends_with("/tokenreviews") {
            let is_known = spec["token"] == "good";
            let user = json!({"username": "prometheus", "groups": ["system:authenticated"]});
            (
                201,
                json!({"status": {"authenticated": is_known, "user": user}}),
            )
        } else if path.ends_with("/subjectaccessreviews") {
            let wanted = json!({"verb": "get", "path": "/metrics"});
            let is_allowed =
                spec["user"] == "prometheus" && spec["nonResourceAttributes"] == wanted;
            (201, json!({"status": {"allowed": is_allowed}}))
        } else {
            (
                404,
                json!({"kind": "Status", "code": 404, "reason": "NotFound"}),
            )
        };
        let mut response = Response::new(Full::new(Bytes::from(answer.to_string())));
        *response.status_mut() = StatusCode::from_u16(code).expect("a code");
        Ok::<_, Infallible>(response)
    });
    Client::in_process(service, ())
}

async fn ask(address: SocketAddr, path: &str, token: Option<&str>) -> (u16, String) {
    let stream = TcpStream::connect(address).await.expect("connected");
    let connector = tokio_rustls::TlsConnector::from(control_pki::unverified_client_config());
    let name = "localhost".try_into().expect("a name");
    let stream = connector.connect(name, stream).await.expect("TLS");
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .expect("HTTP");
    tokio::spawn(connection);
    let mut request = Request::get(path).header("host", "localhost");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.body(Empty::<Bytes>::new()).expect("a request");
    let answer = sender.send_request(request).await.expect("an answer");
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.expect("a body");
    (
        status,
        String::from_utf8_lossy(&body.to_bytes()).into_owned(),
    )
}

#[tokio::test]
async fn health_is_open_and_metrics_need_the_right() {
    let options = Options {
        address: "127.0.0.1:0".parse().expect("an address"),
        certificate: None,
        client_ca: None,
        open: OPEN.map(str::to_owned).to_vec(),
    };
    let metrics: WriteMetrics = |page| page.open_metrics("# TYPE own gauge\nown 7\n");
    let port = Component::bind(options, api(), metrics)
        .await
        .expect("bound");
    let address = port.address().expect("an address");
    let shutdown = CancellationToken::new();
    let serving = tokio::spawn(port.serve(shutdown.clone()));

    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(ask(address, path, None).await, (200, "ok".to_owned()));
    }
    let (status, verbose) = ask(address, "/livez?verbose", None).await;
    assert_eq!(status, 200);
    assert!(verbose.starts_with("[+]ping ok\n"), "{verbose}");
    assert!(verbose.ends_with("livez check passed\n"), "{verbose}");

    let (status, refused) = ask(address, "/metrics", None).await;
    let refused: Value = serde_json::from_str(&refused).expect("JSON");
    assert_eq!(status, 403);
    assert_eq!(refused["reason"], "Forbidden");
    assert_eq!(
        refused["message"],
        "forbidden: User \"system:anonymous\" cannot get path \"/metrics\""
    );
    assert_eq!(ask(address, "/metrics", Some("bad")).await.0, 401);
    let (status, page) = ask(address, "/metrics", Some("good")).await;
    assert_eq!(status, 200);
    for line in ["own 7\n", "process_resident_memory_bytes "] {
        assert!(page.contains(line), "{line} in {page}");
    }
    shutdown.cancel();
    serving.await.expect("no panic");
}

#[tokio::test]
async fn a_port_that_is_taken_and_files_that_cannot_be_used_are_errors_at_once() {
    let taken = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let options = Options {
        address: taken.local_addr().expect("an address"),
        certificate: None,
        client_ca: None,
        open: Vec::new(),
    };
    let bind = |options: Options| Component::bind(options, api(), |_| {});
    let error = bind(options.clone())
        .await
        .err()
        .expect("taken")
        .to_string();
    assert!(error.contains("--secure-port"), "{error}");
    let absent = Options {
        client_ca: Some("/absent/ca.crt".into()),
        ..options
    };
    let error = bind(absent).await.err().expect("absent").to_string();
    assert!(error.contains("/absent/ca.crt"), "{error}");
}
