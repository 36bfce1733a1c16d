//! A pool of connections for watches, apart from the connection for calls.
//!
//! A watch is read as fast as its consumer takes events, and some consumers stand still: a
//! client that does not read, for example. What such a watch leaves unread fills the flow
//! control window of its stream, and counts toward that of its connection (RFC 9113, section
//! 5.2). Each connection of the pool therefore has a bounded number of watches and a window as
//! large as all of their windows together: no watch holds up another one, or a call.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use etcd_client::WatchClient;

use super::EtcdOptions;
use super::members::{self, Windows};

/// Watches of a connection: fewer than any member lets a connection have (250, the default of
/// Go's HTTP/2 server).
const STREAMS: u32 = 100;
/// What a watch may leave unread, in bytes.
const STREAM_WINDOW: u32 = 128 << 10;
const WINDOWS: Windows = Windows {
    stream: STREAM_WINDOW,
    connection: STREAM_WINDOW * STREAMS,
};

/// Connections for watches, made as they are needed.
pub(super) struct WatchPool {
    options: EtcdOptions,
    connections: Mutex<Vec<PooledConnection>>,
}

struct PooledConnection {
    client: WatchClient,
    /// One more reference for each open watch.
    streams: Arc<()>,
}

/// Counts a watch as open in its connection until it is dropped.
pub(super) struct StreamPermit(#[expect(dead_code, reason = "counted")] Arc<()>);

// === impl WatchPool ===

impl WatchPool {
    pub fn new(options: EtcdOptions) -> Self {
        Self {
            options,
            connections: Mutex::default(),
        }
    }

    /// Returns a client for one watch, and a permit that is held as long as the watch is open.
    pub async fn acquire(&self) -> Result<(WatchClient, StreamPermit), etcd_client::Error> {
        if let Some(found) = acquire_from(&mut self.lock()) {
            return Ok(found);
        }
        let client = members::connect_with(&self.options, WINDOWS).await?;
        // A batch of events may be larger than what gRPC takes by default.
        let client = client.watch_client().max_decoding_message_size(usize::MAX);
        let streams = Arc::new(());
        let permit = StreamPermit(Arc::clone(&streams));
        let connection = PooledConnection {
            client: client.clone(),
            streams,
        };
        self.lock().push(connection);
        Ok((client, permit))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<PooledConnection>> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl PooledConnection ===

impl PooledConnection {
    /// The number of open watches.
    fn open(&self) -> usize {
        Arc::strong_count(&self.streams) - 1
    }
}

/// Takes the fullest connection that has room, and closes all but one of those without watches.
fn acquire_from(connections: &mut Vec<PooledConnection>) -> Option<(WatchClient, StreamPermit)> {
    let mut idle = 0;
    connections.retain(|it| {
        idle += usize::from(it.open() == 0);
        it.open() > 0 || idle == 1
    });
    let free = connections.iter().filter(|it| it.open() < STREAMS as usize);
    let fullest = free.max_by_key(|it| it.open())?;
    let permit = StreamPermit(Arc::clone(&fullest.streams));
    Some((fullest.client.clone(), permit))
}
