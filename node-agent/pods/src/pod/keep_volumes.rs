//! A pod's volumes are made before it starts, and brought up to date while it
//! runs.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::backoff::Wait;
use super::state::State;
use crate::volumes::{Failed, Mounting, Volumes};

/// How often volumes made of API objects are brought up to date.
const VOLUMES_EVERY: Duration = Duration::from_secs(60);

impl State {
    async fn bring_volumes(&mut self) -> Result<(), Failed> {
        let facts = self.facts();
        let objects = self.shared.objects.clone();
        let (shared, pod) = (self.shared.clone(), self.pod.clone());
        self.volumes
            .mount(
                Mounting {
                    pod: &pod,
                    facts: &facts,
                    objects: &*objects,
                    drivers: &shared.csi,
                    warn: &|reason, message| shared.warning(&pod, None, reason, message),
                    tell: &|reason, message| shared.normal(&pod, None, reason, message),
                },
                &mut self.tokens,
            )
            .await
    }

    /// Makes them before anything of the pod starts.
    pub(super) async fn mount_volumes(&mut self) {
        let mounted = self.bring_volumes().await;
        match mounted {
            Ok(()) => {
                self.memory.volumes_ready = true;
                self.memory.volumes_retry = None;
                self.volumes_failed = 0;
            }
            Err(error) => {
                self.volumes_failed = self.volumes_failed.saturating_add(1);
                let wait = Duration::from_millis(500) * 2_u32.pow(self.volumes_failed.min(6) - 1);
                self.memory.volumes_retry = Some(Wait::new(Timestamp::now(), wait));
                self.shared
                    .warning(&self.pod, None, "FailedMount", error.to_string());
            }
        }
    }

    /// Brings volumes up to date whose time has come.
    pub(super) async fn refresh_volumes(&mut self) {
        if !self.memory.volumes_ready || self.terminal || !Volumes::is_live(&self.pod) {
            return;
        }
        let due = self
            .volumes_made
            .is_none_or(|at| at.elapsed() >= VOLUMES_EVERY)
            || self
                .token_refresh()
                .is_some_and(|at| at <= Timestamp::now());
        if !due {
            return;
        }
        self.volumes_made = Some(Instant::now());
        let made = self.bring_volumes().await;
        if let Err(error) = made {
            tracing::debug!(pod = self.pod.name(), %error, "cannot bring volumes up to date");
        }
    }
}
