//! Connections that kube-proxy set up and the kernel translates: they are left to it when
//! this agent begins to serve, and until they end.
//!
//! While Services come into force, packets of TCP connections that no program knows pass,
//! since the kernel may have opened them a moment ago. Once all Services are in force,
//! whatever opens a connection is ours: what the kernel knows then is all that it will
//! know.

use std::path::Path;
use std::time::Duration;

use ebpf_abi::{Config, ConfigFlags};
use node_agent_datapath::KernelNat;
use tracing::{info, warn};

/// How often is looked whether the kernel still translates connections to Services.
pub const EVERY: Duration = Duration::from_secs(30);

/// What the kernel translates.
#[derive(Debug)]
pub struct KernelConnections {
    nat: KernelNat,
    /// They are yet to be taken over.
    pending: bool,
}

// === impl KernelConnections ===

impl KernelConnections {
    /// Looks whether the kernel translates connections in this network namespace.
    pub fn find(pin_dir: &Path) -> Self {
        let open = KernelNat::connections().unwrap_or_else(|error| {
            warn!(
                error = &error as &dyn std::error::Error,
                "connections that kube-proxy set up may be lost"
            );
            Vec::new()
        });
        if !open.is_empty() {
            info!(
                connections = open.len(),
                "the kernel translates connections"
            );
        }
        Self {
            nat: KernelNat::at(pin_dir),
            pending: !open.is_empty(),
        }
    }

    /// Whether packets of unknown streams are to pass.
    pub const fn is_pending(&self) -> bool {
        self.pending
    }

    /// Leaves to the kernel what it translates now.
    pub fn take_over(&self) {
        if !self.pending {
            return;
        }
        match self.nat.take_over() {
            Ok(done) => info!(
                new = done.new,
                known = done.known,
                left_out = done.left_out,
                "connections that kube-proxy set up stay with the kernel"
            ),
            Err(error) => warn!(
                error = &error as &dyn std::error::Error,
                "connections that kube-proxy set up may be lost"
            ),
        }
    }

    /// The same a last time, when all Services are in force; true if that was due.
    pub fn finish(&mut self) -> bool {
        self.take_over();
        std::mem::take(&mut self.pending)
    }

    /// Ends what keeps the kernel translating after kube-proxy, if nobody needs it.
    pub fn release(&self) {
        let done = KernelNat::is_kept().and_then(|kept| {
            if kept {
                self.nat.release().map(Some)
            } else {
                Ok(None)
            }
        });
        match done {
            Ok(Some(0)) => info!("no connection of kube-proxy is left"),
            Ok(_) => {}
            Err(error) => warn!(
                error = &error as &dyn std::error::Error,
                "failed to check whether the kernel still translates connections"
            ),
        }
    }
}

/// A configuration with which packets of unknown streams pass, or do not.
pub fn leaving(config: Config, leave: bool) -> Config {
    let switch = ConfigFlags::LEAVE_UNKNOWN_STREAMS;
    let flags = if leave {
        config.flags.with(switch)
    } else {
        ConfigFlags(config.flags.0 & !switch.0)
    };
    Config { flags, ..config }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_is_turned_and_nothing_else() {
        let before = Config {
            flags: ConfigFlags::MASQUERADE_ALL,
            ..Config::DEFAULT
        };
        let on = leaving(before, true);
        assert!(on.flags.contains(ConfigFlags::LEAVE_UNKNOWN_STREAMS));
        assert!(on.flags.contains(ConfigFlags::MASQUERADE_ALL));
        assert_eq!(leaving(on, false), before);
    }
}
