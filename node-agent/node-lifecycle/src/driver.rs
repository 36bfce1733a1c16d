//! Who makes control groups on this node: what the runtime says (KEP-4033), else the
//! kubelet's configuration.

use std::time::Duration;

use node_agent_cri::{Runtime, api};
use node_agent_pod_resources::cgroup_names::CgroupManager;

/// How often a runtime is asked that begins, as by the kubelet.
const TRIES: u32 = 3;
/// The pause between tries.
pub const PAUSE: Duration = Duration::from_secs(2);

/// Why the cgroup driver is not known.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The runtime knows the question and fails.
    #[error(
        "the container runtime does not say who makes control groups (RuntimeConfig): {0}; is it well (`crictl info`)?"
    )]
    Runtime(node_agent_cri::RuntimeError),
    /// It says what does not exist.
    #[error(
        "the container runtime has control groups made by driver number {0}, and there are cgroupfs and systemd only; another version of it?"
    )]
    Unknown(i32),
}

/// The cgroup driver in use, and where the setting comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CgroupDriverSetting {
    /// Who makes control groups.
    pub driver: CgroupManager,
    /// Who says so.
    pub from: &'static str,
    /// What the configuration says instead.
    pub against: Option<CgroupManager>,
}

/// Decides. Pure.
fn decide(
    told: Option<i32>,
    configured: Option<CgroupManager>,
) -> Result<CgroupDriverSetting, Error> {
    let Some(told) = told else {
        return Ok(CgroupDriverSetting {
            driver: configured.unwrap_or_default(),
            from: if configured.is_some() {
                "cgroupDriver"
            } else {
                "default"
            },
            against: None,
        });
    };
    let driver = match api::CgroupDriver::try_from(told) {
        Ok(api::CgroupDriver::Systemd) => CgroupManager::Systemd,
        Ok(api::CgroupDriver::Cgroupfs) => CgroupManager::Cgroupfs,
        Err(_) => return Err(Error::Unknown(told)),
    };
    Ok(CgroupDriverSetting {
        driver,
        from: "runtime",
        against: configured.filter(|other| *other != driver),
    })
}

/// Asks the runtime, and says what was found.
///
/// # Errors
/// When the runtime knows the question and fails, or says what does not exist.
pub async fn find(
    runtime: &dyn Runtime,
    configured: Option<CgroupManager>,
    pause: Duration,
) -> Result<CgroupDriverSetting, Error> {
    let mut tries = 1;
    let told = loop {
        match runtime.runtime_config(api::RuntimeConfigRequest {}).await {
            Ok(config) => break config.linux.map(|linux| linux.cgroup_driver),
            Err(error) if error.is_unimplemented() => break None,
            Err(error) if tries == TRIES => return Err(Error::Runtime(error)),
            Err(_) => {
                tries += 1;
                tokio::time::sleep(pause).await;
            }
        }
    };
    let found = decide(told, configured)?;
    tracing::info!(driver = %found.driver, from = found.from, "cgroup driver");
    if let Some(configured) = found.against {
        tracing::warn!(
            driver = %found.driver, cgroup_driver = %configured,
            "the runtime's cgroup driver overrides `cgroupDriver`"
        );
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use node_agent_cri::fake::{Fake, Fault};

    const SYSTEMD: Option<CgroupManager> = Some(CgroupManager::Systemd);
    const CGROUPFS: Option<CgroupManager> = Some(CgroupManager::Cgroupfs);

    #[tokio::test]
    async fn the_runtime_goes_before_the_configuration() {
        for (told, configured, driver, from, against) in [
            (None, None, CgroupManager::Cgroupfs, "default", None),
            (None, SYSTEMD, CgroupManager::Systemd, "cgroupDriver", None),
            (
                None,
                CGROUPFS,
                CgroupManager::Cgroupfs,
                "cgroupDriver",
                None,
            ),
            (Some(0), None, CgroupManager::Systemd, "runtime", None),
            (Some(0), SYSTEMD, CgroupManager::Systemd, "runtime", None),
            (
                Some(0),
                CGROUPFS,
                CgroupManager::Systemd,
                "runtime",
                CGROUPFS,
            ),
            (
                Some(1),
                SYSTEMD,
                CgroupManager::Cgroupfs,
                "runtime",
                SYSTEMD,
            ),
        ] {
            let runtime = Fake::default();
            if let Some(told) = told {
                runtime.says_driver(told);
            }
            let found = find(&runtime, configured, Duration::ZERO).await.unwrap();
            let expected = CgroupDriverSetting {
                driver,
                from,
                against,
            };
            assert_eq!(found, expected, "{told:?} {configured:?}");
        }
    }

    #[tokio::test]
    async fn a_runtime_that_begins_is_asked_again_and_one_that_fails_is_no_answer() {
        let runtime = Fake::default();
        runtime.says_driver(0);
        for _ in 0..2 {
            runtime.fail("RuntimeConfig", Fault::Before);
        }
        let found = find(&runtime, None, Duration::ZERO).await.unwrap();
        assert_eq!(found.driver, CgroupManager::Systemd);
        for _ in 0..3 {
            runtime.fail("RuntimeConfig", Fault::Before);
        }
        let failed = find(&runtime, SYSTEMD, Duration::ZERO).await;
        assert!(matches!(failed, Err(Error::Runtime(_))));
        runtime.says_driver(7);
        let failed = find(&runtime, SYSTEMD, Duration::ZERO).await;
        assert!(matches!(failed, Err(Error::Unknown(7))));
    }
}
