//! Whether the members have a leader, so that nobody waits for what cannot happen.
//!
//! Without a majority a member keeps a write until its own time is up, which is five seconds
//! and more (etcd, `server/v3_server.go`). Each member says at once, though, whether it knows a
//! leader. They are asked now and then; when none has known one for longer than an election
//! takes, reads of the present and writes are refused until one does.

use std::time::Duration;

use etcd_client::Client;
use futures::future::join_all;
use tokio::sync::watch as channel;
use tokio::time::Instant;

use super::{Options, members};

/// Between two questions while there is a leader.
const PAUSE: Duration = Duration::from_secs(1);
/// Between two questions while there is none.
const HURRY: Duration = Duration::from_millis(250);
/// How long a member may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long there may be none before that is more than an election. Members begin one a second
/// after the last word of their leader, and then need a round or two.
const ELECTION: Duration = Duration::from_millis(2500);

/// Since when nobody has known a leader; none while somebody does.
pub(super) type Lost = channel::Receiver<Option<Instant>>;

/// Asks the members for a leader until nobody listens.
pub(super) fn watch(options: Options) -> Lost {
    let (tell, lost) = channel::channel(None);
    let task = control_supervise::task("etcd-leader").detail(options.endpoints.join(", "));
    task.spawn_restarting(move || ask(options.clone(), tell.clone()));
    lost
}

async fn ask(options: Options, tell: channel::Sender<Option<Instant>>) {
    let mut clients: Vec<Option<Client>> = vec![None; options.endpoints.len()];
    let mut seen = Seen::default();
    while !tell.is_closed() {
        let asked = clients.iter_mut().zip(&options.endpoints);
        let asked = asked.map(|(client, endpoint)| knows_leader(client, &options, endpoint));
        let has_leader = tokio::select! {
            answers = join_all(asked) => answers.contains(&true),
            () = tell.closed() => return,
        };
        let before = seen.lost();
        seen.heard(has_leader, Instant::now());
        if seen.lost() != before {
            say(&options, seen.lost());
            tell.send_replace(seen.lost());
        }
        let pause = if has_leader { PAUSE } else { HURRY };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = tell.closed() => {}
        }
    }
}

fn say(options: &Options, lost: Option<Instant>) {
    let endpoints = options.endpoints.join(", ");
    match lost {
        Some(_) => tracing::error!(
            endpoints,
            "no member of etcd knows a leader; writes are refused until one does"
        ),
        None => tracing::info!(endpoints, "etcd has a leader again"),
    }
}

/// Whether a member answers and knows its leader.
async fn knows_leader(client: &mut Option<Client>, options: &Options, endpoint: &String) -> bool {
    let asked = async {
        let member = match client {
            Some(client) => client,
            None => {
                let endpoint = std::slice::from_ref(endpoint);
                client.insert(members::connect(options, endpoint).await?)
            }
        };
        member.maintenance_client().status().await
    };
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok(status)) => status.leader() != 0,
        Ok(Err(_)) | Err(_) => false,
    }
}

/// What was heard of a leader.
#[derive(Debug, Default)]
struct Seen {
    /// When it was first heard that there is none.
    none_since: Option<Instant>,
    is_lost: bool,
}

// === impl Seen ===

impl Seen {
    fn heard(&mut self, has_leader: bool, now: Instant) {
        if has_leader {
            *self = Self::default();
            return;
        }
        let since = *self.none_since.get_or_insert(now);
        self.is_lost |= now - since >= ELECTION;
    }

    fn lost(&self) -> Option<Instant> {
        self.none_since.filter(|_| self.is_lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_election_is_no_loss_and_a_leader_ends_one() {
        let began = Instant::now();
        let at = |millis| began + Duration::from_millis(millis);
        let mut seen = Seen::default();
        for (millis, has_leader, lost) in [
            (0, true, None),
            (1000, false, None),
            (3400, false, None),
            (3500, false, Some(at(1000))),
            (9000, false, Some(at(1000))),
            (9250, true, None),
            (9500, false, None),
            (11_999, false, None),
        ] {
            seen.heard(has_leader, at(millis));
            assert_eq!(seen.lost(), lost, "after {millis} ms");
        }
    }
}
