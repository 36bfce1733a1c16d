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
    /// Time after which a lease that is not renewed may be taken over; 15s unless given, with a
    /// managed etcd 3s.
    #[arg(long, value_name = "DURATION", value_parser = crate::values::duration)]
    leader_elect_lease_duration: Option<Duration>,
    /// Time after which a leader that cannot renew the lease stops its work, less than the
    /// lease duration; 10s unless given, with a managed etcd 2s.
    #[arg(long, value_name = "DURATION", value_parser = crate::values::duration)]
    leader_elect_renew_deadline: Option<Duration>,
    /// Time between attempts to take or renew the lease; 2s unless given, with a managed etcd
    /// 500ms.
    #[arg(long, value_name = "DURATION", value_parser = crate::values::duration)]
    leader_elect_retry_period: Option<Duration>,
}

/// Times that are used where none are given.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    lease_duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

impl Times {
    /// Those of the stock components.
    pub const STOCK: Self = Self {
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    };
    /// The timing of servers with a member of etcd beside them: after a loss, work
    /// continues elsewhere within five seconds.
    pub const CLOSE: Self = Self {
        lease_duration: Duration::from_secs(3),
        renew_deadline: Duration::from_secs(2),
        retry_period: Duration::from_millis(500),
    };
}

impl Default for Options {
    /// Takes part, with the times of the stock components.
    fn default() -> Self {
        Self {
            leader_elect: true,
            leader_elect_lease_duration: None,
            leader_elect_renew_deadline: None,
            leader_elect_retry_period: None,
        }
    }
}

impl Options {
    /// Returns the election for a lease in `kube-system`; `None` if it is disabled.
    ///
    /// # Errors
    /// Times that could allow two leaders, or none.
    pub fn election(&self, lease: &str, identity: &str) -> Result<Option<Election>, Error> {
        self.election_within(Times::STOCK, lease, identity)
    }

    /// As [`Options::election`], with other times where the options give none.
    ///
    /// # Errors
    /// As [`Options::election`].
    pub fn election_within(
        &self,
        usual: Times,
        lease: &str,
        identity: &str,
    ) -> Result<Option<Election>, Error> {
        let given = |option: Option<Duration>, usual| option.unwrap_or(usual);
        let (duration, deadline, retry) = (
            given(self.leader_elect_lease_duration, usual.lease_duration),
            given(self.leader_elect_renew_deadline, usual.renew_deadline),
            given(self.leader_elect_retry_period, usual.retry_period),
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
    fn usual_times_are_those_of_the_store_unless_some_are_given() {
        let command = Command::parse_from(["command"]);
        let close = command.election.election_within(Times::CLOSE, "a", "me");
        let close = close.unwrap().unwrap();
        // The lease runs out, and the next attempt is up to 2.2 periods later.
        let moved = close.lease_duration + close.retry_period.mul_f64(2.2);
        assert!(moved <= Duration::from_secs(5), "{moved:?}");
        let given = ["command", "--leader-elect-lease-duration=20s"];
        let given = Command::parse_from(given).election;
        let given = given
            .election_within(Times::CLOSE, "a", "me")
            .unwrap()
            .unwrap();
        assert_eq!(given.lease_duration, Duration::from_secs(20));
        assert_eq!(given.retry_period, Duration::from_millis(500));
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
