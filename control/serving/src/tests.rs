//! Tests authentication over real connections.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use control_pki::{Authority, CertificateKeyPair, Spec};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use rustls::pki_types::CertificateDer;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::access::{Access, GuardedPort, Rights, Settings};
use crate::{Tls, accept, text};

fn guarded() -> GuardedPort {
    GuardedPort {
        audience: None,
        header: "authorization",
        rights: Rights::Paths { open: Vec::new() },
        refusal: |refused| text(refused.status, refused.message.clone()),
    }
}

fn certificate(name: &str, group: &str, key: &rcgen::KeyPair) -> CertificateDer<'static> {
    let mut params = rcgen::CertificateParams::default();
    let subject = &mut params.distinguished_name;
    subject.push(rcgen::DnType::CommonName, name);
    subject.push(rcgen::DnType::OrganizationName, group);
    params.self_signed(key).expect("signed").into()
}

#[test]
fn only_the_api_server_and_masters_need_no_review() {
    let key = rcgen::KeyPair::generate().expect("a key");
    let own = certificate("node", "system:nodes", &key);
    let pem = rcgen::CertificateParams::default()
        .self_signed(&key)
        .expect("signed")
        .pem();
    let tls = Tls::new(&pem, &key.serialize_pem(), &pem, &["api"]).expect("usable");
    assert!(tls.peer(None).expect("no certificate").is_none());
    let peer = |certificate: &CertificateDer<'_>| {
        let peer = tls.peer(Some(certificate)).expect("read");
        peer.expect("someone")
    };
    assert!(!peer(&own).trusted);
    assert_eq!(peer(&own).user.name, "node");
    assert_eq!(
        peer(&own).user.groups,
        ["system:nodes", "system:authenticated"]
    );
    assert!(peer(&certificate("api", "x", &key)).trusted);
    assert!(peer(&certificate("someone", "system:masters", &key)).trusted);
    let garbage = CertificateDer::from(vec![1, 2, 3]);
    assert_eq!(
        tls.peer(Some(&garbage)).err(),
        Some(StatusCode::UNAUTHORIZED)
    );
}

/// A connection of a client with this certificate; none when it is refused.
async fn connect(
    at: std::net::SocketAddr,
    server: &Authority,
    own: &CertificateKeyPair,
) -> Option<hyper::client::conn::http1::SendRequest<Full<Bytes>>> {
    let config = control_pki::client_config(server.certificate_pem(), Some(own));
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config.expect("usable")));
    let stream = tokio::net::TcpStream::connect(at).await.expect("connected");
    let name = "node".try_into().expect("a name");
    let stream = connector.connect(name, stream).await.ok()?;
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .ok()?;
    tokio::spawn(connection);
    Some(sender)
}

async fn ask(sender: &mut hyper::client::conn::http1::SendRequest<Full<Bytes>>) -> Option<u16> {
    sender.ready().await.ok()?;
    let request = Request::get("/").body(Full::default()).expect("a request");
    let answer = sender.send_request(request).await.ok()?;
    let status = answer.status().as_u16();
    answer.into_body().collect().await.ok()?;
    Some(status)
}

#[tokio::test]
async fn other_authorities_are_believed_at_once_and_no_connection_is_dropped() {
    let authority = || Authority::create("test").expect("an authority");
    let (server, first, second) = (authority(), authority(), authority());
    let shown = server
        .issue(&Spec::server("node", ["node"]))
        .expect("issued");
    let client = |by: &Authority| by.issue(&Spec::client("api", &[])).expect("issued");
    let tls = Tls::new(
        &shown.cert_pem,
        &shown.key_pem,
        first.certificate_pem(),
        &["api"],
    )
    .expect("usable");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let at = listener.local_addr().expect("bound");
    let nobody = tower::service_fn(|_: Request<control_client::RequestBody>| async {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::new())))
    });
    let api = control_client::Client::in_process(nobody, ());
    let access = Access::new(guarded(), api, "node", Settings::default());
    let shutdown = CancellationToken::new();
    let route = |_| std::future::ready(text(StatusCode::OK, "ok"));
    let serving = accept(
        Arc::new(listener),
        tls.clone(),
        access,
        route,
        shutdown.clone(),
    );
    let serving = tokio::spawn(serving);

    let (old, new) = (client(&first), client(&second));
    let mut before = connect(at, &server, &old).await.expect("connected");
    assert_eq!(ask(&mut before).await, Some(200));
    if let Some(mut stranger) = connect(at, &server, &new).await {
        // TLS 1.3 tells a client late
        assert_eq!(ask(&mut stranger).await, None);
    }

    assert!(
        tls.replace_authorities(second.certificate_pem())
            .expect("usable")
    );
    let again = tls.replace_authorities(second.certificate_pem());
    assert!(!again.expect("usable"), "nothing new");
    let mut after = connect(at, &server, &new).await.expect("connected");
    assert_eq!(ask(&mut after).await, Some(200));
    assert_eq!(
        ask(&mut before).await,
        Some(401),
        "answered, and not believed"
    );

    for unusable in ["", "rubbish"] {
        assert!(tls.replace_authorities(unusable).is_err(), "{unusable}");
    }
    assert_eq!(ask(&mut after).await, Some(200), "the last ones stay");
    let both = format!("{}{}", first.certificate_pem(), second.certificate_pem());
    assert!(tls.replace_authorities(&both).expect("usable"));
    for sender in [&mut before, &mut after] {
        assert_eq!(ask(sender).await, Some(200));
    }
    shutdown.cancel();
    serving.await.expect("no panic");
}
