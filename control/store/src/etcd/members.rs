//! Connections to members where etcd's client alone does not suffice: a caller provides
//! connections, or observes calls.
//!
//! Each member has its own channel, which connects when it is used and again when the
//! connection is lost. Calls go to the members in turn: a call that failed at one goes to
//! the next when it is retried.

use std::any::Any;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use etcd_client::{BalancedChannelBuilder, Channel, Client};
use futures::future::{BoxFuture, FutureExt};
use http::{HeaderMap, Request, Response, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tonic::body::Body;
use tonic::transport::Endpoint;
use tonic::transport::channel::Change;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceExt};

use super::EtcdOptions;

/// The bytes of a connection.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Io for S {}

/// Makes connections to members.
pub trait Dial: Send + Sync {
    /// Connects to a host's port.
    ///
    /// # Errors
    /// When nothing listens there, or there is no route.
    fn dial(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<Box<dyn Io>>>;
}

/// Observes calls to members: to measure them, and to add tracing headers.
pub trait Calls: Send + Sync {
    /// Called when a call of a method (`/etcdserverpb.KV/Txn`) begins; may add headers.
    /// The returned value is dropped when the call is answered.
    fn begins(&self, path: &str, headers: &mut HeaderMap) -> Option<Box<dyn Any + Send>>;
}

/// The port of a member whose URL names none.
const PORT: u16 = 2379;

/// A client of some of the members.
pub(super) async fn connect(
    options: &EtcdOptions,
    endpoints: &[String],
) -> Result<Client, etcd_client::Error> {
    if options.dial.is_none() && options.calls.is_none() {
        return Client::connect(endpoints, Some(options.connect())).await;
    }
    build(options, endpoints, None).await
}

/// A client of all members, with these windows.
pub(super) async fn connect_with(
    options: &EtcdOptions,
    windows: Windows,
) -> Result<Client, etcd_client::Error> {
    build(options, &options.endpoints, Some(windows)).await
}

async fn build(
    options: &EtcdOptions,
    endpoints: &[String],
    windows: Option<Windows>,
) -> Result<Client, etcd_client::Error> {
    let builder = Builder {
        dial: options.dial.clone(),
        calls: options.calls.clone(),
        windows,
    };
    Client::connect_with_balanced_channel(endpoints, Some(options.connect()), builder).await
}

/// Flow control windows of HTTP/2, in bytes; those of tonic are 2 and 5 MiB.
#[derive(Clone, Copy, Debug)]
pub(super) struct Windows {
    pub stream: u32,
    pub connection: u32,
}

struct Builder {
    dial: Option<Arc<dyn Dial>>,
    calls: Option<Arc<dyn Calls>>,
    windows: Option<Windows>,
}

/// The members and whose turn it is. Clones are the same.
#[derive(Clone)]
struct Members {
    turns: Arc<Mutex<Turns>>,
    calls: Option<Arc<dyn Calls>>,
}

struct Turns {
    /// Members that come and go.
    changes: mpsc::Receiver<Change<Uri, Endpoint>>,
    dial: Option<Arc<dyn Dial>>,
    windows: Option<Windows>,
    channels: Vec<(Uri, tonic::transport::Channel)>,
    next: usize,
}

/// The error for an empty list of members.
#[derive(Debug, thiserror::Error)]
#[error("no member of etcd is known")]
struct IgnoredCalls;

impl fmt::Debug for Builder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Builder")
    }
}

impl BalancedChannelBuilder for Builder {
    type Error = tonic::transport::Error;

    fn balanced_channel(
        self,
        buffer_size: usize,
    ) -> Result<(Channel, mpsc::Sender<Change<Uri, Endpoint>>), Self::Error> {
        let (tell, changes) = mpsc::channel(buffer_size);
        let turns = Turns {
            changes,
            dial: self.dial,
            windows: self.windows,
            channels: Vec::new(),
            next: 0,
        };
        let members = Members {
            turns: Arc::new(Mutex::new(turns)),
            calls: self.calls,
        };
        Ok((Channel::Custom(BoxCloneSyncService::new(members)), tell))
    }
}

// === impl Turns ===

impl Turns {
    /// Returns the member to call.
    fn next(&mut self) -> Result<tonic::transport::Channel, IgnoredCalls> {
        while let Ok(change) = self.changes.try_recv() {
            match change {
                Change::Insert(uri, mut endpoint) => {
                    if let Some(windows) = self.windows {
                        endpoint = endpoint
                            .initial_stream_window_size(windows.stream)
                            .initial_connection_window_size(windows.connection);
                    }
                    let channel = channel(&endpoint, self.dial.clone());
                    self.channels.push((uri, channel));
                }
                Change::Remove(gone) => self.channels.retain(|(uri, _)| *uri != gone),
            }
        }
        self.next = self.next.wrapping_add(1);
        let at = self
            .next
            .checked_rem(self.channels.len())
            .ok_or(IgnoredCalls)?;
        let found = self.channels.get(at);
        found
            .map(|(_, channel)| channel.clone())
            .ok_or(IgnoredCalls)
    }
}

fn channel(endpoint: &Endpoint, dial: Option<Arc<dyn Dial>>) -> tonic::transport::Channel {
    let Some(dial) = dial else {
        return endpoint.connect_lazy();
    };
    let connector = tower::service_fn(move |uri: Uri| {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let connected = dial.dial(host, uri.port_u16().unwrap_or(PORT));
        async move { connected.await.map(TokioIo::new) }
    });
    endpoint.connect_with_connector_lazy(connector)
}

impl Service<Request<Body>> for Members {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let next = turns.next();
        drop(turns);
        let told = self.calls.as_ref().and_then(|calls| {
            let path = request.uri().path().to_owned();
            calls.begins(&path, request.headers_mut())
        });
        async move {
            let mut channel = next?;
            let answered = channel.ready().await?.call(request).await;
            drop(told);
            Ok(answered?)
        }
        .boxed()
    }
}
