//! Our scheduler at work through the API: what it writes must be what its library decides.

use std::sync::Arc;
use std::time::Duration;

use control_client::resources;
use control_scheduler::{Config, Profile};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::Error;
use crate::case::{Case, Step, key, text};
use crate::compare::{Aspect, Difference};
use crate::ours::Ours;
use crate::stage::{Stage, scheduled, with_kind};
use crate::stock::Compared;

/// The scheduler that pods ask for.
const NAME: &str = "orlop-differential";

/// How long our scheduler's caches may take to know of what was created.
const SETTLE: Duration = Duration::from_millis(150);

/// Our scheduler, until this is dropped.
pub struct OurScheduler(CancellationToken);

impl Drop for OurScheduler {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl OurScheduler {
    /// Starts it.
    pub fn start(stage: &Stage) -> Self {
        let shutdown = CancellationToken::new();
        let mut profile = Profile::default();
        NAME.clone_into(&mut profile.scheduler_name);
        let config = Config {
            profiles: vec![Arc::new(profile)],
            ..Config::default()
        };
        let run = control_scheduler::run(stage.client().clone(), config, shutdown.clone());
        tokio::spawn(async move {
            // Whoever waits for a decision notices when there is no scheduler.
            let _ = run.await;
        });
        Self(shutdown)
    }
}

impl Stage {
    /// Runs a case with our scheduler in the place of stock.
    pub async fn run_ours(&mut self, case: &Case) -> Result<Vec<Compared>, Error> {
        self.forget();
        let compared = self.perform_ours(case).await;
        let cleaned = self.clean(case).await;
        let compared = compared?;
        cleaned?;
        Ok(compared)
    }

    async fn perform_ours(&mut self, case: &Case) -> Result<Vec<Compared>, Error> {
        let mut ours = Ours::default();
        self.create_objects(case, &mut ours).await?;
        tokio::time::sleep(SETTLE).await;
        let mut compared = Vec::new();
        let mut settled = true;
        for step in &case.steps {
            let mut pod = step.pod().clone();
            if !matches!(step, Step::Schedule(_)) {
                if let Some(pod) = self.create_bound(step).await? {
                    ours.put(&with_kind(pod, &resources::PODS))?;
                    settled = false;
                }
                continue;
            }
            if !std::mem::replace(&mut settled, true) {
                tokio::time::sleep(SETTLE).await;
            }
            pod["spec"]["schedulerName"] = json!(NAME);
            if let Some(spec) = pod["spec"].as_object_mut() {
                spec.remove("schedulingGates");
            }
            let Some(made) = self.create_pod(&pod).await? else {
                continue;
            };
            let pod = key(&made);
            let judgement = ours.judge(&made)?;
            let after = self.decided(&made).await?;
            let node = text(&after, "/spec/nodeName").to_owned();
            let message = scheduled(&after).map_or("", |it| text(it, "/message"));
            let expected = match &judgement.message {
                Some(message) => message.clone(),
                None => format!("one of {:?}", judgement.best),
            };
            let agrees = if node.is_empty() {
                judgement.message.as_deref() == Some(message)
            } else {
                judgement.best.contains(&node)
            };
            let written = if node.is_empty() {
                message.to_owned()
            } else {
                node.clone()
            };
            let differences = (!agrees).then_some(Difference {
                what: Aspect::Loop,
                stock: expected,
                ours: written,
            });
            if node.is_empty() {
                self.delete_pods(std::slice::from_ref(&pod)).await?;
            } else {
                self.observe_claims(&after, &mut ours).await?;
                ours.put(&with_kind(after, &resources::PODS))?;
            }
            compared.push(Compared {
                pod,
                differences: differences.into_iter().collect(),
                frozen: None,
            });
        }
        Ok(compared)
    }
}
