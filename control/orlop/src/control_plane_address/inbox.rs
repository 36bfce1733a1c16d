//! Reads what the other servers tell, and keeps time beside it.

use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::time::{Interval, MissedTickBehavior};

use super::advert::{Advert, Key};

/// The most datagrams that are read between two ticks. Anybody in the network can send to the
/// port; a flood must not keep this server from deciding, nor from telling that it is there.
const MOST: usize = 1024;

/// What the keeper of the address wakes up for.
pub enum Event {
    /// Another server told something.
    Heard(Advert),
    /// It is time to decide.
    Tick,
}

/// The socket of the servers' group, with a clock.
pub struct Inbox<'a> {
    listener: &'a UdpSocket,
    key: &'a Key,
    own: u64,
    ticks: Interval,
    /// How many datagrams may be read before the next tick.
    left: usize,
}

// === impl Inbox ===

impl<'a> Inbox<'a> {
    /// Returns an inbox that ticks at this interval and ignores what the server `own` itself sent.
    pub fn new(listener: &'a UdpSocket, key: &'a Key, own: u64, every: Duration) -> Self {
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            listener,
            key,
            own,
            ticks,
            left: MOST,
        }
    }

    /// Waits for the next event. What has arrived comes before a tick that is due: after a stall
    /// of this server, the others were not silent. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Event {
        let mut buffer = [0; 256];
        loop {
            tokio::select! {
                biased;
                received = self.listener.recv_from(&mut buffer), if self.left > 0 => {
                    self.left -= 1;
                    match received {
                        Ok((size, _)) => {
                            let bytes = buffer.get(..size).unwrap_or_default();
                            let advert = Advert::open(bytes, self.key);
                            if let Some(advert) = advert.filter(|it| it.id != self.own) {
                                return Event::Heard(advert);
                            }
                        }
                        Err(error) => {
                            tracing::debug!(%error, "failed to receive from the other servers");
                            self.left = 0;
                        }
                    }
                }
                _ = self.ticks.tick() => {
                    self.left = MOST;
                    return Event::Tick;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_flood_does_not_stop_the_clock() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("ca.key"), "one").expect("written");
        let key = Key::of_cluster(dir.path(), [10, 0, 0, 9].into()).expect("a key");
        let listener = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        let to = listener.local_addr().expect("its address");
        let mut inbox = Inbox::new(&listener, &key, 1, Duration::from_secs(60));
        inbox.left = 4;

        // The second is of the server itself, and the third of nobody.
        let bytes = |id, sequence| {
            let advert = Advert {
                id,
                sequence,
                is_ready: true,
                is_holder: false,
                leaves: false,
            };
            advert.seal(&key).expect("sealed")
        };
        for bytes in [
            bytes(7, 0),
            bytes(1, 1),
            b"flood".to_vec(),
            bytes(7, 3),
            bytes(7, 4),
        ] {
            listener.send_to(&bytes, to).await.expect("sent");
        }

        // The runtime has heard of what arrived.
        listener.readable().await.expect("datagrams");
        let mut events = Vec::new();
        for _ in 0..4 {
            events.push(match inbox.next().await {
                Event::Heard(advert) => Some(advert.sequence),
                Event::Tick => None,
            });
        }
        assert_eq!(events, [Some(0), Some(3), None, Some(4)]);
    }
}
