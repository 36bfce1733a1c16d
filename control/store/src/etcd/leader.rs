//! Tracks whether the members have a leader, so that no request waits in vain.
//!
//! Without a majority a member holds a write until its own timeout, which is five seconds
//! and more (etcd, `server/v3_server.go`). Each member reports immediately, though,
//! whether it knows a leader. They are polled; when none has known a leader for longer
//! than an election takes, linearizable reads and writes are refused until one does.

use std::time::Duration;

use etcd_client::Client;
use futures::future::join_all;
use tokio::sync::watch as channel;
use tokio::time::Instant;

use super::{EtcdOptions, fault, members};

/// Polling interval while there is a leader.
const PAUSE: Duration = Duration::from_secs(1);
/// Polling interval while there is none.
const HURRY: Duration = Duration::from_millis(250);
/// How long a member may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long there may be none before that is more than an election. Members begin one a second
/// after the last word of their leader, and then need a round or two.
const ELECTION: Duration = Duration::from_millis(2500);

/// The time since which no member has known a leader; `None` while one does.
pub(super) type LeaderLostSince = channel::Receiver<Option<Instant>>;

/// Polls the members for a leader until all receivers are dropped.
pub(super) fn watch(options: EtcdOptions) -> LeaderLostSince {
    let (tell, lost) = channel::channel(None);
    let task = control_supervise::task("etcd-leader").detail(options.endpoints.join(", "));
    task.spawn_restarting(move || ask(options.clone(), tell.clone()));
    lost
}

async fn ask(options: EtcdOptions, tell: channel::Sender<Option<Instant>>) {
    let mut clients: Vec<Option<Client>> = vec![None; options.endpoints.len()];
    let mut seen = LeaderSighting::default();
    // A restarted task knows nothing of what the previous one reported.
    tell.send_replace(None);
    while !tell.is_closed() {
        let asked = clients.iter_mut().zip(&options.endpoints);
        let asked = asked.map(|(client, endpoint)| ask_one(client, &options, endpoint));
        let heard = tokio::select! {
            answers = join_all(asked) => Answer::of_all(&answers),
            () = tell.closed() => return,
        };
        let before = seen.lost();
        seen.heard(heard, Instant::now());
        if seen.lost() != before {
            say(&options, seen.lost());
            tell.send_replace(seen.lost());
        }
        let pause = if heard == Answer::NoLeader && seen.has_named {
            HURRY
        } else {
            PAUSE
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = tell.closed() => {}
        }
    }
}

fn say(options: &EtcdOptions, lost: Option<Instant>) {
    let endpoints = options.endpoints.join(", ");
    match lost {
        Some(_) => tracing::error!(
            endpoints,
            "no member of etcd knows a leader; writes are refused until one does"
        ),
        None => tracing::info!(endpoints, "etcd has a leader again"),
    }
}

/// A member's report of its leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// It knows one.
    Leader,
    /// It knows none, or does not answer.
    NoLeader,
    /// It answers, but does not say: it refuses the question.
    Unknown,
}

impl Answer {
    /// Combines the reports of all members: the cluster counts as having a leader while
    /// any member may know one.
    fn of_all(answers: &[Self]) -> Self {
        let said = [Self::Leader, Self::Unknown];
        let said = said.into_iter().find(|it| answers.contains(it));
        said.unwrap_or(Self::NoLeader)
    }
}

/// Asks a member for its leader.
async fn ask_one(client: &mut Option<Client>, options: &EtcdOptions, endpoint: &String) -> Answer {
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
        Ok(Ok(status)) if status.leader() != 0 => Answer::Leader,
        Ok(Err(error)) if !fault::may_pass(&error) => Answer::Unknown,
        Ok(_) | Err(_) => Answer::NoLeader,
    }
}

/// The history of leader reports.
#[derive(Debug, Default)]
struct LeaderSighting {
    /// Whether a member has ever named a leader. Servers that only speak etcd's protocol, such
    /// as kine, never do.
    has_named: bool,
    /// The time since which every report has been that there is no leader.
    none_since: Option<Instant>,
    is_lost: bool,
}

// === impl Seen ===

impl LeaderSighting {
    fn heard(&mut self, answer: Answer, now: Instant) {
        self.has_named |= answer == Answer::Leader;
        if answer != Answer::NoLeader || !self.has_named {
            self.none_since = None;
            self.is_lost = false;
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
        let mut seen = LeaderSighting::default();
        use Answer::{Leader, NoLeader, Unknown};
        for (millis, answer, lost) in [
            (0, Leader, None),
            (1000, NoLeader, None),
            (3400, NoLeader, None),
            (3500, NoLeader, Some(at(1000))),
            (9000, NoLeader, Some(at(1000))),
            (9250, Leader, None),
            (9500, NoLeader, None),
            (11_999, NoLeader, None),
            (12_000, NoLeader, Some(at(9500))),
            (12_100, Unknown, None),
        ] {
            seen.heard(answer, at(millis));
            assert_eq!(seen.lost(), lost, "after {millis} ms");
        }
    }

    #[test]
    fn a_server_that_never_names_a_leader_has_not_lost_it() {
        let began = Instant::now();
        let mut seen = LeaderSighting::default();
        for seconds in 0..60 {
            seen.heard(Answer::NoLeader, began + Duration::from_secs(seconds));
            assert_eq!(seen.lost(), None);
        }
    }

    #[test]
    fn one_member_that_may_know_better_is_enough() {
        use Answer::{Leader, NoLeader, Unknown};
        assert_eq!(Answer::of_all(&[NoLeader, Unknown, Leader]), Leader);
        assert_eq!(Answer::of_all(&[NoLeader, Unknown]), Unknown);
        assert_eq!(Answer::of_all(&[NoLeader, NoLeader]), NoLeader);
    }
}
