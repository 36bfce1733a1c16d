//! Writes the own Announcer: immediately when its contents change, and as often as needed
//! to count as alive.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use control_client::{Client, Discard, Patch};
use control_load_balancer::{AddressClaim, AnnouncerStatus, Text};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::bgp::Statuses;
use crate::election::{OwnStatement, RENEW, Report};
use crate::metrics::Metrics;
use crate::view::ANNOUNCERS;

/// How long a renewal may take: one that hangs must not keep the next from being
/// tried.
const TIMEOUT: Duration = Duration::from_millis(1500);
/// How often an agent says how its sessions are though nothing changed.
const REPORT: Duration = Duration::from_secs(60);

/// Renews the own Announcer.
#[derive(Clone)]
pub struct Renewal {
    pub client: Client,
    pub node: String,
    pub metrics: Metrics,
    /// Receives each word before it is sent.
    pub words: mpsc::UnboundedSender<OwnStatement>,
    /// The time in the last word of this node; each is later than the one before, also
    /// after a restart of the task.
    pub last: Arc<Mutex<Option<Text>>>,
}

impl Renewal {
    /// Writes until `stop`.
    pub async fn run(
        self,
        mut report: watch::Receiver<Report>,
        mut sessions: watch::Receiver<Statuses>,
        stop: CancellationToken,
    ) {
        let mut exists = false;
        let mut told: Option<(Report, Statuses)> = None;
        let mut failing = false;
        loop {
            let began = Instant::now();
            let said = report.borrow_and_update().clone();
            let peers = sessions.borrow_and_update().clone();
            let silent = !said.contends && said.claims.is_empty() && peers.is_empty();
            let news = told.as_ref() != Some(&(said.clone(), peers.clone()));
            // A node that never announced anything needs no Announcer.
            if !(silent && (told.is_none() || !news)) {
                let status = self.word(&said, &peers);
                let before = told.as_ref().map(|(_, peers)| peers);
                let write = tell(&self.client, &self.node, &status, before, &mut exists);
                let failure = match tokio::time::timeout(TIMEOUT, write).await {
                    Ok(Ok(())) => None,
                    Ok(Err(error)) => Some(error.chain()),
                    Err(_) => Some("no answer in time".to_owned()),
                };
                match failure {
                    None => {
                        if failing {
                            info!("API server is reachable again");
                        }
                        failing = false;
                        told = Some((said.clone(), peers));
                    }
                    Some(error) => {
                        self.metrics.missed_renewal();
                        if !failing {
                            warn!(
                                error,
                                "failed to renew the Announcer; announcements are kept"
                            );
                        }
                        failing = true;
                    }
                }
            }
            let pause = if said.contends || failing {
                RENEW
            } else {
                REPORT
            };
            tokio::select! {
                () = stop.cancelled() => return,
                changed = report.changed() => if changed.is_err() { return },
                // Sessions flap; a renewal reports them soon enough.
                changed = sessions.changed(), if !said.contends => if changed.is_err() { return },
                // A write that took long is not waited for twice.
                () = tokio::time::sleep_until((began + pause).into()) => {}
            }
        }
    }

    /// Returns the next word, and records it.
    fn word(&self, said: &Report, peers: &Statuses) -> AnnouncerStatus {
        let renewed = {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            let renewed = after(last.as_deref(), Timestamp::now());
            *last = Some(renewed.clone());
            renewed
        };
        // The receiver was dropped: this task ends soon, too.
        let _ = self.words.send(OwnStatement {
            renewed: renewed.clone(),
            sent: Instant::now(),
            claims: said.claims.clone(),
        });
        let claims = said.claims.iter();
        let answered = claims.clone().filter(|(_, claim)| claim.answers);
        AnnouncerStatus {
            renew_time: Some(renewed),
            addresses: answered.map(|(it, _)| text(it)).collect(),
            claims: claims
                .map(|(address, claim)| AddressClaim {
                    address: text(address),
                    term: claim.term,
                })
                .collect(),
            peers: peers.clone(),
        }
    }
}

fn text(address: &std::net::IpAddr) -> Text {
    address.to_string().into()
}

/// The time of a word after that of `last`: a clock that was set back does not make
/// it an older one.
fn after(last: Option<&str>, now: Timestamp) -> Text {
    let next = last
        .and_then(|last| last.parse::<Timestamp>().ok())
        .and_then(|last| last.checked_add(SignedDuration::from_micros(1)).ok());
    control_client::time::micros(next.map_or(now, |next| next.max(now))).into()
}

async fn tell(
    client: &Client,
    node: &str,
    status: &AnnouncerStatus,
    told: Option<&Statuses>,
    exists: &mut bool,
) -> Result<(), control_client::Error> {
    let mut status = serde_json::to_value(status).unwrap_or_default();
    let object = json!({
        "apiVersion": "orlop.dev/v1alpha1",
        "kind": "Announcer",
        "metadata": {"name": node},
        "status": status,
    });
    if !*exists {
        let made = client.create::<Discard>(&ANNOUNCERS, "", &object).await;
        match made {
            Ok(_) => {
                *exists = true;
                return Ok(());
            }
            Err(error) if error.is_already_exists() => *exists = true,
            Err(error) => return Err(error),
        }
    }
    // A merge patch keeps what it does not name: removed peers are set to null.
    match told {
        Some(told) => {
            if let Some(peers) = status.get_mut("peers").and_then(Value::as_object_mut) {
                for gone in told.keys() {
                    peers.entry(gone.as_str()).or_insert(Value::Null);
                }
                for peer in peers.values_mut().filter_map(Value::as_object_mut) {
                    peer.entry("error").or_insert(Value::Null);
                }
            }
        }
        // Everything that an earlier agent wrote is replaced.
        None => {
            let patch = json!({"status": {"peers": null}});
            client
                .patch::<Discard>(&ANNOUNCERS, "", node, "", Patch::Merge(&patch))
                .await?;
        }
    }
    let patch = json!({"status": status});
    let done = client
        .patch::<Discard>(&ANNOUNCERS, "", node, "", Patch::Merge(&patch))
        .await;
    match done {
        Err(error) if error.is_not_found() => {
            *exists = false;
            Err(error)
        }
        other => other.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_words_rise_though_the_clock_is_set_back() {
        let now: Timestamp = "2026-03-01T10:00:00.5Z".parse().unwrap();
        assert_eq!(after(None, now), "2026-03-01T10:00:00.500000Z");
        let earlier = "2026-03-01T09:00:00.000001Z";
        assert_eq!(after(Some(earlier), now), "2026-03-01T10:00:00.500000Z");
        let same = after(Some("2026-03-01T10:00:00.500000Z"), now);
        assert_eq!(same, "2026-03-01T10:00:00.500001Z");
        let later = after(Some("2027-01-01T00:00:00.999999Z"), now);
        assert_eq!(later, "2027-01-01T00:00:01.000000Z");
        assert!(later.as_str() > "2027-01-01T00:00:00.999999Z");
        assert_eq!(after(Some("no time"), now), "2026-03-01T10:00:00.500000Z");
    }
}
