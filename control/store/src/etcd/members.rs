//! How members are reached, where not by etcd's client alone: connections are then made
//! by somebody else.
//!
//! Each member has a channel of its own, which connects when it is used and again when
//! the connection is lost. Calls go to one after the other: what fails at one is asked
//! of the next where it is asked again.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use etcd_client::{BalancedChannelBuilder, Channel, Client};
use futures::future::{BoxFuture, FutureExt};
use http::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tonic::body::Body;
use tonic::transport::Endpoint;
use tonic::transport::channel::Change;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceExt};

use super::Options;

/// The bytes of a connection.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Io for S {}

/// Makes connections to members.
pub trait Dial: Send + Sync {
    /// Connects to a host's port.
    ///
    /// # Errors
    /// When nobody listens there, or there is no way.
    fn dial(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<Box<dyn Io>>>;
}

/// The port of a member whose URL names none.
const PORT: u16 = 2379;

/// A client of some of the members.
pub(super) async fn connect(
    options: &Options,
    endpoints: &[String],
) -> Result<Client, etcd_client::Error> {
    let how = Some(options.connect());
    match &options.dial {
        None => Client::connect(endpoints, how).await,
        Some(dial) => {
            let builder = Builder(Arc::clone(dial));
            Client::connect_with_balanced_channel(endpoints, how, builder).await
        }
    }
}

struct Builder(Arc<dyn Dial>);

/// The members and whose turn it is. Clones are the same.
#[derive(Clone)]
struct Members(Arc<Mutex<Turns>>);

struct Turns {
    /// Members that come and go.
    changes: mpsc::Receiver<Change<Uri, Endpoint>>,
    dial: Arc<dyn Dial>,
    channels: Vec<(Uri, tonic::transport::Channel)>,
    next: usize,
}

/// There is nobody to call.
#[derive(Debug, thiserror::Error)]
#[error("no member of etcd is known")]
struct Nobody;

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
        let members = Members(Arc::new(Mutex::new(Turns {
            changes,
            dial: self.0,
            channels: Vec::new(),
            next: 0,
        })));
        Ok((Channel::Custom(BoxCloneSyncService::new(members)), tell))
    }
}

// === impl Turns ===

impl Turns {
    /// Whoever is to be called now.
    fn next(&mut self) -> Result<tonic::transport::Channel, Nobody> {
        while let Ok(change) = self.changes.try_recv() {
            match change {
                Change::Insert(uri, endpoint) => {
                    let channel = channel(&endpoint, Arc::clone(&self.dial));
                    self.channels.push((uri, channel));
                }
                Change::Remove(gone) => self.channels.retain(|(uri, _)| *uri != gone),
            }
        }
        self.next = self.next.wrapping_add(1);
        let at = self.next.checked_rem(self.channels.len()).ok_or(Nobody)?;
        let found = self.channels.get(at);
        found.map(|(_, channel)| channel.clone()).ok_or(Nobody)
    }
}

fn channel(endpoint: &Endpoint, dial: Arc<dyn Dial>) -> tonic::transport::Channel {
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

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let next = self.0.lock().unwrap_or_else(PoisonError::into_inner).next();
        async move {
            let mut channel = next?;
            Ok(channel.ready().await?.call(request).await?)
        }
        .boxed()
    }
}
