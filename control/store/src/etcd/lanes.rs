//! Connections of watches, apart from those of calls.
//!
//! A watch is read as fast as its consumer takes events, and some consumers stand still: a
//! client that does not read, for example. What such a watch leaves unread fills the flow
//! control window of its stream, and counts toward that of its connection (RFC 9113, section
//! 5.2). Watches therefore have connections of their own, *lanes*, each with a bounded number of
//! streams and a window as large as those of all of them: no watch holds up another, or a call.

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

/// Connections of watches, made as they are needed.
pub(super) struct WatchLanes {
    options: EtcdOptions,
    lanes: Mutex<Vec<Lane>>,
}

struct Lane {
    client: WatchClient,
    /// One more reference for each open watch.
    seats: Arc<()>,
}

/// The place of an open watch in its lane.
pub(super) struct LaneSeat(#[expect(dead_code, reason = "counted")] Arc<()>);

// === impl WatchLanes ===

impl WatchLanes {
    pub fn new(options: EtcdOptions) -> Self {
        Self {
            options,
            lanes: Mutex::default(),
        }
    }

    /// Returns a client for one watch, which keeps the seat as long as it is open.
    pub async fn seat(&self) -> Result<(WatchClient, LaneSeat), etcd_client::Error> {
        if let Some(found) = free_seat(&mut self.lock()) {
            return Ok(found);
        }
        let client = members::connect_with(&self.options, WINDOWS).await?;
        // A batch of events may be larger than what gRPC takes by default.
        let client = client.watch_client().max_decoding_message_size(usize::MAX);
        let seats = Arc::new(());
        let seat = LaneSeat(Arc::clone(&seats));
        let lane = Lane {
            client: client.clone(),
            seats,
        };
        self.lock().push(lane);
        Ok((client, seat))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Lane>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lane {
    fn open(&self) -> usize {
        Arc::strong_count(&self.seats) - 1
    }
}

/// Takes a seat in the fullest lane that has one, and closes lanes that nobody needs.
fn free_seat(lanes: &mut Vec<Lane>) -> Option<(WatchClient, LaneSeat)> {
    let mut idle = 0;
    lanes.retain(|lane| {
        idle += usize::from(lane.open() == 0);
        lane.open() > 0 || idle == 1
    });
    let free = lanes.iter().filter(|lane| lane.open() < STREAMS as usize);
    let lane = free.max_by_key(|lane| lane.open())?;
    Some((lane.client.clone(), LaneSeat(Arc::clone(&lane.seats))))
}
