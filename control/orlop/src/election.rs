//! Leader election among the processes that run the same loops: kube-controller-manager's
//! options.

use std::time::Duration;

use clap::{ArgAction, Args};
use control_client::lease::Election;

use crate::error::Error;

/// The lease of the scheduler, in `kube-system`.
pub const SCHEDULER: &str = "kube-scheduler";
/// The lease of the controllers, in `kube-system`.
pub const CONTROLLERS: &str = "kube-controller-manager";

/// Whether, and how, a process takes part in the leader election.
#[derive(Args, Clone, Debug)]
#[group(id = "leader_election")]
pub struct Options {
    /// Work only while holding the lease, of which one process at a time has it.
    #[arg(
        long,
        value_name = "BOOL",
        default_value_t = true,
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    leader_elect: bool,
    /// Time after which a lease that is not renewed may be taken over.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = crate::values::duration)]
    leader_elect_lease_duration: Duration,
    /// Time after which a leader that cannot renew the lease stops its work; less than the
    /// lease duration.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = crate::values::duration)]
    leader_elect_renew_deadline: Duration,
    /// Time between attempts to take or renew the lease.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = crate::values::duration)]
    leader_elect_retry_period: Duration,
}

impl Default for Options {
    /// Takes part, with the times of the stock components.
    fn default() -> Self {
        let stock = Election::new("", "", "");
        Self {
            leader_elect: true,
            leader_elect_lease_duration: stock.lease_duration,
            leader_elect_renew_deadline: stock.renew_deadline,
            leader_elect_retry_period: stock.retry_period,
        }
    }
}

impl Options {
    /// The election for a lease in `kube-system`; none when it is off.
    ///
    /// # Errors
    /// Times by which two could lead at once, or nobody could.
    pub fn election(&self, lease: &str, identity: &str) -> Result<Option<Election>, Error> {
        let (duration, deadline, retry) = (
            self.leader_elect_lease_duration,
            self.leader_elect_renew_deadline,
            self.leader_elect_retry_period,
        );
        if !self.leader_elect {
            return Ok(None);
        }
        // As client-go checks them: attempts are up to 2.2 times the retry period apart.
        let fits = retry > Duration::ZERO && retry.mul_f64(1.2) < deadline && deadline < duration;
        if !fits || duration < Duration::from_secs(1) {
            return Err(Error::ElectionTimes {
                duration,
                deadline,
                retry,
            });
        }
        Ok(Some(Election {
            lease_duration: duration,
            renew_deadline: deadline,
            retry_period: retry,
            ..Election::new("kube-system", lease, identity)
        }))
    }
}

/// The name of the one process that can have the store of this host open. It is the same
/// after a restart, so that the process need not wait for its own lease to end.
pub fn identity_of_store() -> String {
    let host = nix::unistd::gethostname().unwrap_or_default();
    format!("{}_server", host.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        election: Options,
    }

    fn election(arguments: &[&str]) -> Result<Option<Election>, Error> {
        let arguments = std::iter::once(&"command").chain(arguments);
        let command = Command::parse_from(arguments);
        command.election.election("kube-controller-manager", "me")
    }

    #[test]
    fn election_is_on_with_the_times_of_stock_components() {
        let on = election(&[]).unwrap().unwrap();
        let stock = Election::new("kube-system", "kube-controller-manager", "me");
        assert_eq!(on.lease_duration, stock.lease_duration);
        assert_eq!(on.renew_deadline, stock.renew_deadline);
        assert_eq!(on.retry_period, stock.retry_period);
        assert!(election(&["--leader-elect=false"]).unwrap().is_none());
        assert!(election(&["--leader-elect"]).unwrap().is_some());
    }

    #[test]
    fn times_by_which_two_could_lead_are_refused() {
        for times in [
            ["--leader-elect-lease-duration=10s"],
            ["--leader-elect-renew-deadline=2s"],
            ["--leader-elect-retry-period=0s"],
        ] {
            let error = election(&times).unwrap_err().to_string();
            assert!(error.contains("lease duration"), "{error}");
        }
    }
}
