//! Takes kube-proxy's place on this node, and gives it back, as the Node's label
//! [`LABEL`] says. Whoever may change the Node decides; the agent does what belongs to this
//! machine, and says on the Node, by the condition [`CONDITION`], how far it is.
//!
//! ```text
//! label, kube-proxy and its rules, maps ──► Facts ──► Step (pure) ──► rules removed
//!                                                               └──► condition
//! ```

mod api_responses;
mod detection;
pub mod step;

pub use api_responses::answering;

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use control_client::{Cache, Client, Discard, Patch, resources};
use jiff::Timestamp;
use node_agent_datapath::{KernelNat, Retirement};
use node_agent_informers::Node;
use node_agent_objects::error_chain;
use serde_json::{Value, json};
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::step::{
    CONDITION, LABEL, RulesHistory, ServiceProxyChoice, TakeoverFacts, TakeoverReason,
    TakeoverStep, next, worse,
};
use crate::{Error, cleanup};

/// How often is looked whether something is to be done.
const EVERY: Duration = Duration::from_secs(1);
/// The same when all is as wanted: to look for rules takes several programs.
const SETTLED: Duration = Duration::from_secs(30);

/// Options of replacing kube-proxy.
#[derive(Clone)]
pub struct Replacement {
    /// The API.
    pub client: Client,
    /// The Node's name.
    pub node_name: String,
    /// Where programs and maps are pinned.
    pub pin_dir: PathBuf,
    /// The Node itself.
    pub nodes: Cache<Node>,
    /// The address of kube-proxy's `/metrics`.
    pub metrics: SocketAddr,
    /// Set while the agent keeps off that port, so that kube-proxy can listen there.
    pub lends_metrics_port: watch::Sender<bool>,
    /// Whether the maps hold what the API says.
    pub programmed: Arc<AtomicBool>,
}

/// Why kube-proxy's place cannot be taken yet.
#[derive(Debug, thiserror::Error)]
enum TakeoverError {
    /// The API server refused a request or did not answer.
    #[error(transparent)]
    Api(#[from] control_client::Error),
    /// kube-proxy's rules cannot be read or removed.
    #[error(transparent)]
    Cleanup(#[from] cleanup::Error),
    /// The connections that it translated cannot be taken over.
    #[error(transparent)]
    Datapath(#[from] node_agent_datapath::Error),
    /// The thread that looks at the machine failed.
    #[error(transparent)]
    Thread(#[from] tokio::task::JoinError),
}

/// Writes the condition, once per state.
#[derive(Default)]
struct TakeoverReporter {
    told: Option<(TakeoverReason, String)>,
    forbidden: bool,
}

// === impl Replacement ===

impl Replacement {
    /// Works while these programs serve; returns when new connections are to be left to
    /// kube-proxy, or at `shutdown`.
    pub async fn serve(self, shutdown: CancellationToken) {
        let mut teller = TakeoverReporter::default();
        let mut last: BTreeSet<String> = BTreeSet::new();
        let mut history = RulesHistory::default();
        let mut settled: Option<(ServiceProxyChoice, Instant)> = None;
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = sleep(EVERY) => {}
            }
            let wanted = self.wanted();
            if settled.is_some_and(|(as_of, at)| as_of == wanted && at.elapsed() < SETTLED) {
                continue;
            }
            let facts = match self.facts(&last, &mut history).await {
                Ok(facts) => facts,
                Err(error) => {
                    let message = error_chain(&error);
                    let _ = teller
                        .tell(&self, TakeoverReason::CleanupFailed, message)
                        .await;
                    continue;
                }
            };
            if facts.wanted != ServiceProxyChoice::Replaced {
                last.clear();
                history.forget_removals();
            }
            let step = next(&facts);
            // A kube-proxy in another program is known by its answer there.
            let awaits = facts.wanted == ServiceProxyChoice::Restored && facts.kube_proxy.is_none();
            self.lend_metrics_port(awaits || matches!(step, TakeoverStep::FreeMetricsPort(_)));
            match step {
                TakeoverStep::Say(reason, message) => {
                    history.port_is_taken();
                    let is_done =
                        matches!(reason, TakeoverReason::Beside | TakeoverReason::Replaced);
                    let is_told = teller.tell(&self, reason, message).await;
                    settled = (is_done && is_told).then(|| (wanted, Instant::now()));
                }
                TakeoverStep::FreeMetricsPort(message) => {
                    history.port_is_free(Instant::now());
                    let _ = teller.tell(&self, TakeoverReason::Waiting, message).await;
                }
                TakeoverStep::StandAside => return,
                TakeoverStep::CleanUp => match self.clean_up().await {
                    Ok(became_worse) => {
                        last = became_worse;
                        history.removed(Instant::now());
                    }
                    Err(error) => {
                        let message = error_chain(&error);
                        warn!(message, "failed to remove kube-proxy's rules");
                        let _ = teller
                            .tell(&self, TakeoverReason::CleanupFailed, message)
                            .await;
                    }
                },
            }
        }
    }

    /// Serves the connections that the programs know, and no other, until these programs are
    /// to serve again (`true`) or `shutdown`.
    ///
    /// # Errors
    /// [`Error::Datapath`].
    pub async fn stand_aside(&self, shutdown: &CancellationToken) -> Result<bool, Error> {
        let retirement = Retirement::begin(&self.pin_dir).map_err(Error::Datapath)?;
        let retirement = retirement.map(Arc::new);
        if let Some(retirement) = &retirement {
            let services = retirement
                .refuse_new_connections()
                .map_err(Error::Datapath)?;
            info!(services, "kube-proxy handles new connections");
        }
        let mut teller = TakeoverReporter::default();
        let mut renewed = Instant::now();
        loop {
            if self.wanted() != ServiceProxyChoice::Restored {
                info!("serving Services again");
                return Ok(true);
            }
            if let Some(retirement) = &retirement
                && renewed.elapsed() >= Retirement::RENEW_AFTER
            {
                // A request to the kernel for each connection.
                let retirement = Arc::clone(retirement);
                let _ = tokio::task::spawn_blocking(move || retirement.renew_ports()).await;
                renewed = Instant::now();
            }
            let message = "kube-proxy serves Services; Orlop's programs serve the connections \
                           that they know until these end";
            let _ = teller
                .tell(self, TakeoverReason::Restored, message.to_owned())
                .await;
            tokio::select! {
                () = shutdown.cancelled() => return Ok(false),
                () = sleep(EVERY) => {}
            }
        }
    }

    /// Frees the metrics port for kube-proxy, or has the agent listen there as soon as it is free.
    fn lend_metrics_port(&self, lends: bool) {
        self.lends_metrics_port
            .send_if_modified(|it| std::mem::replace(it, lends) != lends);
    }

    fn wanted(&self) -> ServiceProxyChoice {
        let node = self.nodes.get("", &self.node_name);
        ServiceProxyChoice::of_label(node.as_ref().and_then(|it| it.label(LABEL)))
    }

    async fn facts(
        &self,
        last: &BTreeSet<String>,
        history: &mut RulesHistory,
    ) -> Result<TakeoverFacts, TakeoverError> {
        let wanted = self.wanted();
        let rules = tokio::task::spawn_blocking(move || match wanted {
            ServiceProxyChoice::Beside => Ok(Vec::new()),
            _ => cleanup::find(),
        });
        let rules = rules.await??.len();
        let kube_proxy = detection::running(self.metrics).await;
        history.see(kube_proxy);
        let now = Instant::now();
        let is_to_serve =
            wanted == ServiceProxyChoice::Restored && kube_proxy.is_some() && rules > 0;
        let unwritten = if is_to_serve {
            self.unwritten().await?
        } else {
            BTreeSet::new()
        };
        Ok(TakeoverFacts {
            wanted,
            programmed: self.programmed.load(Ordering::Relaxed),
            kube_proxy,
            rules,
            origin: history.origin(now),
            came_back: history.came_back(now),
            unwritten,
            worse: last.clone(),
        })
    }

    /// Services that kube-proxy's rules do not name yet.
    async fn unwritten(&self) -> Result<BTreeSet<String>, TakeoverError> {
        let named = tokio::task::spawn_blocking(cleanup::addresses).await??;
        Ok(api_responses::unnamed(&self.client, &named).await?)
    }

    /// Removes kube-proxy's rules; returns the Services that do not answer any more. The
    /// connections that it translated go on.
    async fn clean_up(&self) -> Result<BTreeSet<String>, TakeoverError> {
        let (before, all) = answering(&self.client).await?;
        info!(
            answer = before.len(),
            of = all,
            "Services before the takeover"
        );
        let nat = KernelNat::at(&self.pin_dir);
        let removed = tokio::task::spawn_blocking(move || {
            nat.take_over()?;
            cleanup::remove(&cleanup::find()?)?;
            Ok::<_, TakeoverError>(())
        });
        removed.await??;
        let (after, _) = answering(&self.client).await?;
        info!(
            answer = after.len(),
            of = all,
            "Services after the takeover"
        );
        Ok(worse(&before, &after))
    }
}

// === impl Teller ===

impl TakeoverReporter {
    /// Returns whether the condition says so, or never will.
    async fn tell(&mut self, about: &Replacement, reason: TakeoverReason, message: String) -> bool {
        let now = Some((reason, message.clone()));
        if self.told == now {
            return true;
        }
        let patch = condition(reason, &message, Timestamp::now());
        let done = about
            .client
            .patch_status::<Discard>(
                &resources::NODES,
                "",
                &about.node_name,
                Patch::Strategic(&patch),
            )
            .await;
        match done {
            Ok(_) => {
                info!(reason = reason.word(), message, "kube-proxy's place");
                self.told = now;
                true
            }
            Err(control_client::Error::Forbidden(_)) => {
                if !std::mem::replace(&mut self.forbidden, true) {
                    warn!(
                        condition = CONDITION,
                        "the condition needs the right to patch nodes/status: `orlop migrate` \
                         cannot follow this node"
                    );
                }
                true
            }
            Err(error) => {
                info!(
                    error = &error as &dyn std::error::Error,
                    condition = CONDITION,
                    "failed to write the condition; retrying"
                );
                false
            }
        }
    }
}

/// The patch of the Node's status.
fn condition(reason: TakeoverReason, message: &str, now: Timestamp) -> Value {
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let replaced = reason == TakeoverReason::Replaced;
    json!({"status": {"conditions": [{
        "type": CONDITION,
        "status": if replaced { "True" } else { "False" },
        "reason": reason.word(),
        "message": message,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }]}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_condition_is_true_only_where_kube_proxy_is_replaced() {
        let of = |reason| {
            let patch = condition(reason, "words", Timestamp::UNIX_EPOCH);
            patch["status"]["conditions"][0].clone()
        };
        assert_eq!(of(TakeoverReason::Replaced)["status"], "True");
        let waiting = of(TakeoverReason::Waiting);
        assert_eq!(
            (&waiting["status"], &waiting["reason"]),
            (&json!("False"), &json!("Waiting"))
        );
        assert_eq!(waiting["lastTransitionTime"], "1970-01-01T00:00:00Z");
    }
}
