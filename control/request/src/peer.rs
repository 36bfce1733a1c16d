//! What is known of the client at the other end of a connection. The listener puts these
//! into the extensions of each request.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use control_access::User;
use rustls::pki_types::CertificateDer;

/// The client certificate chain that the listener verified, put into each
/// request's extensions. Absent when the client showed none.
#[derive(Debug, Clone)]
pub struct PeerCertificates(pub Arc<[CertificateDer<'static>]>);

/// Who a connection's client turned out to be, put into each request's
/// extensions: a certificate is verified once a minute, not with every request
/// (the signature check would be a third of the cost of a GET).
#[derive(Debug, Clone, Default)]
pub struct KnownPeer(Arc<Mutex<Option<(Instant, User)>>>);

/// How long a verified certificate is believed before it is looked at again.
const BELIEVED: Duration = Duration::from_secs(60);

impl KnownPeer {
    /// The user, if that was found out within the last minute; else what
    /// `find` finds out now. Failures are not remembered.
    ///
    /// # Errors
    /// Those of `find`.
    pub fn get_or_find<E>(&self, find: impl FnOnce() -> Result<User, E>) -> Result<User, E> {
        let known = |peer: &Self| {
            peer.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone()
        };
        if let Some((at, user)) = known(self)
            && at.elapsed() < BELIEVED
        {
            return Ok(user);
        }
        let user = find()?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((Instant::now(), user.clone()));
        Ok(user)
    }
}

/// Lets the connection that a request came by end after the requests that are open
/// on it; put into each request's extensions. Over HTTP/2 the client is told at
/// once (GOAWAY).
#[derive(Debug, Clone, Default)]
pub struct GoAway(Arc<tokio::sync::Notify>);

impl GoAway {
    /// Asks the connection to end.
    pub fn request(&self) {
        self.0.notify_one();
    }

    /// Waits until the connection is asked to end.
    pub async fn requested(&self) {
        self.0.notified().await;
    }
}

/// The address of the client, put into each request's extensions.
#[derive(Debug, Clone, Copy)]
pub struct ClientAddr(pub SocketAddr);
