//! The transport of requests to the API server: HTTP/2 over TLS, or a service in process.
//!
//! Many watches share few connections, yet none may wait for another: an HTTP/2 server
//! limits the concurrent streams of a connection (kube-apiserver to 100 by default), and
//! a client with that many watches open on one connection queues its next request
//! forever. So requests are spread over *lanes*, each one connection with a bounded
//! number of open streams. Watches and lists have separate lanes, so that a short
//! request, such as a heartbeat, never waits for a watch or behind the bytes of a large
//! list. A lane connects on its first request and again after a loss.
//!
//! If several servers are known, each has its own lanes, and [`Preferences`] chooses the
//! server of a request. A request that could not be sent goes to the next server; a read
//! that is not answered within a second is also sent to another one.
//!
//! HTTP/2 pings detect a connection that hangs (the peer's machine is down, a firewall
//! dropped the flow), even while no request is under way.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::uri::Authority;
use http::{Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::ConfigExt;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError};
use rustls::pki_types::ServerName;
use tower::{BoxError, Service, ServiceBuilder};

use crate::bearer::BearerToken;
use crate::certificate_files::CertificateFiles;
use crate::error::Error;
use crate::expiry;
use crate::servers::Preferences;

/// The body of the requests that an in-process service gets.
pub type RequestBody = kube::client::Body;

/// Limit on concurrent streams of one connection. Below the smallest limit that servers
/// are known to set (100), with room for streams being closed.
const STREAMS_PER_LANE: usize = 80;

/// Connections for short requests. These finish, so beyond this many lanes
/// they may queue for a stream; watches never do.
const REQUEST_LANES: usize = 4;

/// A ping after this long without traffic, and its answer within the same
/// time: a dead peer is noticed after at most twice as long.
const PING: Duration = Duration::from_secs(15);

/// The ping interval when there are other servers.
const BRISK_PING: Duration = Duration::from_millis(500);
const BRISK_ANSWER: Duration = Duration::from_secs(1);

/// A server that does not answer a short read within this time is slow.
const SLOW: Duration = Duration::from_secs(1);

/// The name of the extension of a kubeconfig's cluster that lists the URLs of further
/// servers.
const SERVERS_EXTENSION: &str = "orlop.dev/servers";

const CONNECT: Duration = Duration::from_secs(10);
const BRISK_CONNECT: Duration = Duration::from_secs(1);

/// Receive window of a stream. The default of 64 KiB would cost a round trip
/// per 64 KiB of a list.
const STREAM_WINDOW: u32 = 2 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;

/// The transport that the kubeconfig at `path` describes.
pub async fn from_kubeconfig(path: &Path) -> Result<Transport, Error> {
    from_parsed(read(path)?, path, User::Named).await
}

/// The transport to the server of the merged kubeconfigs.
pub async fn from_kubeconfigs(paths: &[PathBuf]) -> Result<Transport, Error> {
    from_merged(paths, User::Named).await
}

/// The transport to the server of the merged kubeconfigs, without their user.
pub async fn anonymous(paths: &[PathBuf]) -> Result<Transport, Error> {
    from_merged(paths, User::Nobody).await
}

async fn from_merged(paths: &[PathBuf], user: User) -> Result<Transport, Error> {
    let mut merged: ParsedKubeconfig = Ok(Kubeconfig::default());
    for path in paths {
        merged = match (merged, read(path)?) {
            (Ok(before), Ok(next)) => before.merge(next),
            (Err(error), _) | (_, Err(error)) => return from_parsed(Err(error), path, user).await,
        };
    }
    let first = paths
        .first()
        .map_or(Path::new("KUBECONFIG"), PathBuf::as_path);
    from_parsed(merged, first, user).await
}

/// The transport to the server of the kubeconfig at `path`, for the bearer of a token.
pub async fn with_token(path: &Path, token: BearerToken) -> Result<Transport, Error> {
    from_parsed(read(path)?, path, User::Bearer(token)).await
}

/// The transport that the text of a kubeconfig describes; `path` is for errors.
pub async fn from_text(text: &str, path: &Path) -> Result<Transport, Error> {
    from_parsed(Kubeconfig::from_yaml(text), path, User::Named).await
}

/// The identity of requests through a kubeconfig.
enum User {
    /// The user that the kubeconfig names.
    Named,
    /// The bearer of a token.
    Bearer(BearerToken),
    /// Nobody: requests bring credentials of their own.
    Nobody,
}

/// A parsed kubeconfig, or the parser's error.
type ParsedKubeconfig = Result<Kubeconfig, KubeconfigError>;

fn read(path: &Path) -> Result<ParsedKubeconfig, Error> {
    // kube's own message for an unreadable file names it twice
    std::fs::metadata(path)
        .and_then(|_| std::fs::File::open(path))
        .map_err(|error| Error::Kubeconfig {
            path: path.to_owned(),
            problem: one_line(&error),
            way_out: "name a readable kubeconfig with --kubeconfig",
        })?;
    Ok(Kubeconfig::read_from(path))
}

async fn from_parsed(
    kubeconfig: ParsedKubeconfig,
    path: &Path,
    user: User,
) -> Result<Transport, Error> {
    let failed = |problem: String, way_out| Error::Kubeconfig {
        path: path.to_owned(),
        problem,
        way_out,
    };
    let kubeconfig = kubeconfig.map_err(|error| {
        failed(
            one_line(&error),
            "check that it is YAML of kind Config, version v1",
        )
    })?;
    if kubeconfig.clusters.is_empty() {
        return Err(failed(
            "it names no cluster".to_owned(),
            "check that this is the file that the API server wrote, and that it is complete",
        ));
    }
    let further = further_servers(&kubeconfig);
    let mut config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .map_err(|error| {
                failed(
                    one_line(&error),
                    "check current-context, server and the certificate files that it names",
                )
            })?;
    let token = match user {
        User::Named => None,
        User::Bearer(token) => {
            config.auth_info = AuthInfo::default();
            Some(token)
        }
        User::Nobody => {
            config.auth_info = AuthInfo::default();
            None
        }
    };
    if let Some(problem) = expiry::problem(&config.auth_info, jiff::Timestamp::now()) {
        return Err(failed(
            problem,
            "write a new one with `orlop credentials`, or check this machine's clock",
        ));
    }
    network(&config, &further, token).map_err(|error| {
        failed(
            one_line(&error),
            "check the certificates and keys that it holds or names",
        )
    })
}

/// A client over the network, for the bearer of a token if there is one.
fn network(
    config: &kube::Config,
    further: &[Authority],
    token: Option<BearerToken>,
) -> Result<Transport, kube::Error> {
    // the default provider of the process; another one being there is as good
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mut tls = config.rustls_client_config()?;
    let certificate = CertificateFiles::from_auth_info(&config.auth_info).map(Arc::new);
    if let Some(certificate) = &certificate {
        certificate.use_for(&mut tls);
    }
    let secure = config.cluster_url.scheme() != Some(&http::uri::Scheme::HTTP);
    let server_name = match &config.tls_server_name {
        Some(name) => Some(
            ServerName::try_from(name.clone())
                .map_err(|error| kube::Error::Service(Box::new(error)))?,
        ),
        None => None,
    };
    let connect = move |brisk| lane_client(tls.clone(), server_name.clone(), secure, brisk);
    let servers = Servers::new(config, further, certificate, connect);
    let handle = servers.clone();
    let sent = token.clone();
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .map_request(move |mut request: Request<RequestBody>| {
            if let Some(token) = &sent {
                token.authorize(request.headers_mut());
            }
            request
        })
        .map_response(move |response: Response<StreamBody>| {
            if let Some(token) = &token {
                token.answered(response.status());
            }
            response
        })
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(servers);
    Ok(Transport {
        client: kube::Client::new(service, config.default_namespace.clone()),
        servers: handle,
    })
}

type LaneClient = legacy::Client<HttpsConnector<HttpConnector>, RequestBody>;

/// One connection: HTTP/2 with TLS, HTTP/1.1 without (`kubectl proxy`).
fn lane_client(
    tls: rustls::ClientConfig,
    server_name: Option<ServerName<'static>>,
    secure: bool,
    brisk: bool,
) -> LaneClient {
    let (connect, ping, answer) = if brisk {
        (BRISK_CONNECT, BRISK_PING, BRISK_ANSWER)
    } else {
        (CONNECT, PING, PING)
    };
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(connect));
    tcp.set_keepalive(Some(PING));
    let mut builder = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http();
    if let Some(name) = server_name {
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let mut client = legacy::Builder::new(TokioExecutor::new());
    client
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new());
    if !secure {
        return client.build(builder.enable_http1().wrap_connector(tcp));
    }
    // `http2_only` makes concurrent first requests share one connection
    // instead of opening one each
    client
        .http2_only(true)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keep_alive_interval(ping)
        .http2_keep_alive_timeout(answer)
        .http2_keep_alive_while_idle(true);
    client.build(builder.enable_http2().wrap_connector(tcp))
}

/// A failed connection to an API server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{server}: {reason}")]
pub struct ConnectionError {
    /// The URL of the API server.
    pub server: String,
    /// The cause, such as `tcp connect error: Connection refused`.
    pub reason: String,
    /// Whether the server is there, and TLS failed.
    pub is_tls: bool,
}

impl ConnectionError {
    fn slow(server: &str) -> Self {
        Self {
            server: server.trim_end_matches('/').to_owned(),
            reason: format!("no answer within {SLOW:?}"),
            is_tls: false,
        }
    }

    fn new(server: &str, error: &legacy::Error) -> Self {
        // hyper's own message names only the phase that failed.
        let cause = std::error::Error::source(error).unwrap_or(error);
        Self {
            server: server.trim_end_matches('/').to_owned(),
            reason: one_line(cause),
            is_tls: is_tls(error),
        }
    }
}

/// Whether TLS is what failed. An [`std::io::Error`] hides the error that it wraps.
fn is_tls(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let wrapped = error
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref);
        if let Some(wrapped) = wrapped
            && wrapped.is::<rustls::Error>()
        {
            return true;
        }
        if error.is::<rustls::Error>() {
            return true;
        }
        next = error.source();
    }
    false
}

/// Everything of an error and its sources, in one line.
fn one_line(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        source = error.source();
    }
    // a parser may show the place in the file over several lines
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.next().unwrap_or_default().to_owned()
}

/// A client and its servers.
pub struct Transport {
    /// The client for requests.
    pub client: kube::Client,
    /// The servers, of which more may become known.
    pub servers: Servers,
}

/// Returns the further servers that a kubeconfig's current cluster lists.
fn further_servers(kubeconfig: &Kubeconfig) -> Vec<Authority> {
    let context = kubeconfig.current_context.as_deref().unwrap_or_default();
    let contexts = kubeconfig.contexts.iter();
    let context = contexts
        .filter(|one| one.name == context)
        .find_map(|one| one.context.as_ref());
    let cluster = context.and_then(|context| {
        let clusters = kubeconfig.clusters.iter();
        clusters
            .filter(|one| one.name == context.cluster)
            .find_map(|one| one.cluster.as_ref())
    });
    let extensions = cluster.and_then(|cluster| cluster.extensions.as_ref());
    extensions
        .into_iter()
        .flatten()
        .filter(|one| one.name == SERVERS_EXTENSION)
        .filter_map(|one| one.extension.as_array())
        .flatten()
        .filter_map(|url| url.as_str()?.parse::<Uri>().ok()?.authority().cloned())
        .collect()
}

/// Sends requests to one of several servers, see the module. Clones are the same.
#[derive(Clone)]
pub struct Servers {
    inner: Arc<ServersInner>,
}

struct ServersInner {
    connect: Arc<dyn Fn(bool) -> LaneClient + Send + Sync>,
    preferences: Mutex<Preferences>,
    lanes: Mutex<HashMap<Authority, Lanes>>,
    /// The client's certificate, where it may be replaced.
    certificate: Option<Arc<CertificateFiles>>,
    /// Those that the configuration names: they are tried after all others.
    configured: Vec<Authority>,
    scheme: String,
}

// === impl Servers ===

impl Servers {
    fn new(
        config: &kube::Config,
        further: &[Authority],
        certificate: Option<Arc<CertificateFiles>>,
        connect: impl Fn(bool) -> LaneClient + Send + Sync + 'static,
    ) -> Self {
        let own = config.cluster_url.authority().cloned();
        let mut configured: Vec<Authority> = own.into_iter().collect();
        for one in further {
            if !configured.contains(one) {
                configured.push(one.clone());
            }
        }
        let preferences = Preferences::new(configured.clone(), rand::random_range(0..1 << 16));
        Self {
            inner: Arc::new(ServersInner {
                connect: Arc::new(connect),
                preferences: Mutex::new(preferences),
                lanes: Mutex::default(),
                certificate,
                configured,
                scheme: config
                    .cluster_url
                    .scheme_str()
                    .unwrap_or("https")
                    .to_owned(),
            }),
        }
    }

    /// Sends requests to these servers from now on, and to those of the configuration
    /// when none of them works.
    pub fn learn(&self, mut servers: Vec<Authority>) {
        for one in &self.inner.configured {
            if !servers.contains(one) {
                servers.push(one.clone());
            }
        }
        let seed = rand::random_range(0..1 << 16);
        let mut preferences = lock(&self.inner.preferences);
        if preferences.learn(servers.clone(), seed) {
            tracing::info!(servers = ?servers, "API servers discovered");
            lock(&self.inner.lanes).retain(|server, _| servers.contains(server));
        }
    }

    fn choose(&self) -> Option<(Authority, Lanes, usize)> {
        let certificate = self.inner.certificate.as_ref();
        if certificate.is_some_and(|it| it.refresh(Instant::now())) {
            // Open connections show the former one, which a server may refuse soon.
            lock(&self.inner.lanes).clear();
        }
        let preferences = lock(&self.inner.preferences);
        let server = preferences.choose(Instant::now())?;
        let count = preferences.len();
        drop(preferences);
        let lanes = lock(&self.inner.lanes)
            .entry(server.clone())
            .or_insert_with(|| {
                let connect = Arc::clone(&self.inner.connect);
                Lanes::new(move || connect(count > 1))
            })
            .clone();
        Some((server, lanes, count))
    }

    fn failed(&self, server: &Authority) {
        lock(&self.inner.preferences).failed(server, Instant::now());
    }

    fn url(&self, server: &Authority) -> String {
        format!("{}://{server}", self.inner.scheme)
    }

    async fn send(
        self,
        request: Request<RequestBody>,
    ) -> Result<Response<StreamBody>, ConnectionError> {
        let (parts, body) = request.into_parts();
        // Hedge only short requests that may be repeated without harm.
        let is_read = parts.method == http::Method::GET;
        let is_short = is_read && !is_bulk_query(parts.uri.query());
        let mut body = Some(body);
        let mut attempt = 1;
        loop {
            let Some((server, mut lanes, count)) = self.choose() else {
                return Err(ConnectionError {
                    server: String::new(),
                    reason: "no server is known".to_owned(),
                    is_tls: false,
                });
            };
            let is_last = attempt >= count;
            attempt += 1;
            let copied = body.as_ref().and_then(RequestBody::try_clone);
            let can_repeat = copied.is_some() && !is_last;
            let sent = match copied {
                Some(copied) => copied,
                None => body.take().unwrap_or_else(RequestBody::empty),
            };
            let mut request = Request::from_parts(parts.clone(), sent);
            if let Some(uri) = at(request.uri(), &server) {
                *request.uri_mut() = uri;
            }
            let mut answer = lanes.call(request);
            let first = tokio::select! {
                answer = &mut answer => Some(answer),
                () = tokio::time::sleep(SLOW), if count > 1 && !is_bulk_query(parts.uri.query()) => None,
            };
            let answer = match first {
                Some(answer) => answer,
                None => {
                    // Others go elsewhere; this one waits where it cannot be repeated.
                    self.failed(&server);
                    tracing::debug!(%server, "slow API server");
                    if is_short && can_repeat {
                        continue;
                    }
                    match is_short && is_last && count > 1 {
                        true => tokio::time::timeout(SLOW * 9, answer)
                            .await
                            .map_err(|_| ConnectionError::slow(&self.url(&server)))?,
                        false => answer.await,
                    }
                }
            };
            match answer {
                Ok(answer) => {
                    lock(&self.inner.preferences).answered(&server);
                    return Ok(answer);
                }
                Err(error) => {
                    self.failed(&server);
                    if can_repeat && (is_read || error.is_connect()) {
                        tracing::debug!(%server, %error, "trying another API server");
                        continue;
                    }
                    return Err(ConnectionError::new(&self.url(&server), &error));
                }
            }
        }
    }
}

/// The same place on another server.
fn at(uri: &Uri, server: &Authority) -> Option<Uri> {
    let mut parts = uri.clone().into_parts();
    parts.authority.as_ref()?;
    parts.authority = Some(server.clone());
    Uri::from_parts(parts).ok()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Service<Request<RequestBody>> for Servers {
    type Response = Response<StreamBody>;
    type Error = ConnectionError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}

// === impl Lanes ===

/// Spreads requests over connections, see the module.
#[derive(Clone)]
struct Lanes {
    inner: Arc<LanesInner>,
}

struct LanesInner {
    connect: Box<dyn Fn() -> LaneClient + Send + Sync>,
    requests: Mutex<Vec<Lane>>,
    /// The lanes of watches and lists.
    bulk: Mutex<Vec<Lane>>,
}

#[derive(Clone)]
struct Lane {
    client: LaneClient,
    open: Arc<AtomicUsize>,
}

impl Lanes {
    fn new(connect: impl Fn() -> LaneClient + Send + Sync + 'static) -> Self {
        Self {
            inner: Arc::new(LanesInner {
                connect: Box::new(connect),
                requests: Mutex::default(),
                bulk: Mutex::default(),
            }),
        }
    }

    /// The first lane with room: the others drain and their connections idle
    /// out.
    fn pick(&self, bulk: bool) -> (LaneClient, OpenStream) {
        let (lanes, most) = if bulk {
            (&self.inner.bulk, usize::MAX)
        } else {
            (&self.inner.requests, REQUEST_LANES)
        };
        let mut lanes = lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let open = |lane: &Lane| lane.open.load(Ordering::Relaxed);
        let lane = match lanes.iter().position(|lane| open(lane) < STREAMS_PER_LANE) {
            Some(at) => lanes.get(at).cloned(),
            None if lanes.len() >= most => lanes.iter().min_by_key(|lane| open(lane)).cloned(),
            None => None,
        };
        let lane = lane.unwrap_or_else(|| {
            let lane = Lane {
                client: (self.inner.connect)(),
                open: Arc::default(),
            };
            lanes.push(lane.clone());
            lane
        });
        lane.open.fetch_add(1, Ordering::Relaxed);
        (lane.client, OpenStream(lane.open))
    }
}

impl Service<Request<RequestBody>> for Lanes {
    type Response = Response<StreamBody>;
    type Error = legacy::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        let (client, stream) = self.pick(is_bulk(&request));
        Box::pin(async move {
            let response = client.request(request).await?;
            Ok(response.map(|body| StreamBody {
                body,
                _stream: stream,
            }))
        })
    }
}

/// Returns whether the request is a watch, or one of the pages in which this client
/// lists. Reads of single objects have no such parameters.
fn is_bulk<B>(request: &Request<B>) -> bool {
    is_bulk_query(request.uri().query())
}

fn is_bulk_query(query: Option<&str>) -> bool {
    query.is_some_and(|query| {
        query
            .split('&')
            .any(|pair| matches!(pair, "watch=true" | "watch=1") || pair.starts_with("limit="))
    })
}

/// Counts a stream of a lane as open while it lives.
struct OpenStream(Arc<AtomicUsize>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The body of a response, holding its place in the lane until it is dropped.
pub struct StreamBody {
    body: Incoming,
    _stream: OpenStream,
}

impl Body for StreamBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_requests_share_no_connection_with_watches_and_lists() {
        let of = |uri: &str| is_bulk(&Request::get(uri).body(()).unwrap());
        for bulk in [
            "/api/v1/pods?watch=true&sendInitialEvents=true",
            "/api/v1/pods?labelSelector=a&watch=1",
            "/api/v1/pods?limit=500",
            "/api/v1/pods?fieldSelector=a&limit=500&continue=x",
        ] {
            assert!(of(bulk), "{bulk}");
        }
        for short in [
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n",
            "/api/v1/nodes/n/status",
            "/apis/orlop.dev/v1alpha1/announcers/n?fieldManager=watch",
        ] {
            assert!(!of(short), "{short}");
        }
    }

    /// A server that answers every request with its name, or never if it hangs. Returns its
    /// address.
    async fn server(name: &'static str, hangs: bool) -> std::net::SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let mut kept = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                if hangs {
                    kept.push(stream);
                    continue;
                }
                tokio::spawn(async move {
                    use tokio::io::{AsyncReadExt, AsyncWriteExt};
                    let mut buffer = [0; 4096];
                    while stream.read(&mut buffer).await.is_ok_and(|size| size > 0) {
                        let body = format!("{{\"name\":\"{name}\"}}");
                        let answer = format!(
                            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
                             content-length: {}\r\n\r\n{body}",
                            body.len()
                        );
                        if stream.write_all(answer.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        address
    }

    async fn client_of(
        first: std::net::SocketAddr,
        others: &[std::net::SocketAddr],
    ) -> crate::Client {
        let others: Vec<String> = others.iter().map(|one| format!("'http://{one}'")).collect();
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: c, \
             clusters: [{{name: k, cluster: {{server: 'http://{first}', \
             extensions: [{{name: {SERVERS_EXTENSION}, extension: [{}]}}]}}}}], \
             users: [{{name: u, user: {{}}}}], \
             contexts: [{{name: c, context: {{cluster: k, user: u}}}}]}}",
            others.join(", ")
        );
        crate::Client::from_kubeconfig_text(&text, "test")
            .await
            .unwrap()
    }

    async fn asked(client: &crate::Client, method: http::Method) -> Result<String, Error> {
        let body = (method == http::Method::POST).then(|| serde_json::json!({"a": 1}));
        let answer = client
            .request::<serde_json::Value>(method, "/version", body.as_ref())
            .await?;
        Ok(answer["name"].as_str().unwrap_or_default().to_owned())
    }

    #[tokio::test]
    async fn reads_and_writes_leave_a_server_that_is_gone_and_reads_one_that_hangs() {
        let works = server("works", false).await;
        let hangs = server("hangs", true).await;
        let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let gone = {
            let address = gone.local_addr().unwrap();
            drop(gone);
            address
        };
        for _ in 0..4 {
            // Home is chosen at random.
            let client = client_of(gone, &[works]).await;
            assert_eq!(asked(&client, http::Method::POST).await.unwrap(), "works");
            let client = client_of(hangs, &[works]).await;
            let began = Instant::now();
            assert_eq!(asked(&client, http::Method::GET).await.unwrap(), "works");
            assert!(began.elapsed() < SLOW * 3, "{:?}", began.elapsed());
            // The second one does not wait any more.
            let began = Instant::now();
            assert_eq!(asked(&client, http::Method::POST).await.unwrap(), "works");
            assert!(began.elapsed() < SLOW, "{:?}", began.elapsed());
        }
    }

    #[tokio::test]
    async fn a_write_that_was_sent_is_not_repeated() {
        let works = server("works", false).await;
        let hangs = server("hangs", true).await;
        for _ in 0..6 {
            let client = client_of(hangs, &[works]).await;
            let written = asked(&client, http::Method::POST);
            match tokio::time::timeout(SLOW * 2, written).await {
                // Its home is the one that works.
                Ok(answer) => assert_eq!(answer.unwrap(), "works"),
                Err(_) => {
                    // It waits for the one answer that counts; others go elsewhere.
                    assert_eq!(asked(&client, http::Method::GET).await.unwrap(), "works");
                    return;
                }
            }
        }
    }

    #[tokio::test]
    async fn a_refused_connection_names_the_server_and_the_cause() {
        // The listener is closed, so connections to its port are refused.
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .unwrap()
            .port();
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: c, \
             clusters: [{{name: k, cluster: {{server: 'https://127.0.0.1:{port}'}}}}], \
             users: [{{name: u, user: {{}}}}], \
             contexts: [{{name: c, context: {{cluster: k, user: u}}}}]}}"
        );
        let client = crate::Client::from_kubeconfig_text(&text, "test")
            .await
            .unwrap();
        let error = client
            .request::<serde_json::Value>(http::Method::GET, "/version", None::<&()>)
            .await
            .unwrap_err();
        let said = error.chain();
        assert!(
            said.contains(&format!("https://127.0.0.1:{port}")) && said.contains("refused"),
            "{said}"
        );
        assert!(!said.contains("ServiceError"), "{said}");
    }
}
