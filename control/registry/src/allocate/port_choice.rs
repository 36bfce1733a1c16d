//! Choice of the node ports of one Service.

use control_kinds::service::PortNeed;
use control_types::status::{Cause, Status};

use super::port_map::PortMap;
use super::{ranges, refusal};

/// Behind which number stock counts the ports that it shows for a dry run.
const DRY_PORT: u16 = 32768;

/// From what the ports of one Service are chosen.
pub struct PortChoice<'a> {
    pub range: (u16, u16),
    pub known: &'a PortMap,
    /// What the request took in the store already.
    pub held: &'a [u16],
    /// What the Service had.
    pub had: &'a [u16],
    pub updates: bool,
    pub dry_run: bool,
}

impl PortChoice<'_> {
    /// The port that a Service asks for, or a free one. `chosen`: those of the
    /// Service that were chosen before.
    pub fn port(&self, at: usize, need: &PortNeed, chosen: &mut Vec<u16>) -> Result<u16, Cause> {
        let field = format!("spec.ports[{at}].nodePort");
        let Some(number) = need.port else {
            return self
                .free(chosen)
                .ok_or_else(|| refusal::range_is_full(field, "nodePort"));
        };
        // What it had it keeps, for other protocols, too.
        if self.had.contains(&number) || (self.updates && chosen.contains(&number)) {
            return Ok(number);
        }
        self.certain(number, chosen).map_err(|why| {
            refusal::invalid_value(&field, format!("Invalid value: {number}: {why}"))
        })?;
        Ok(number)
    }

    /// The port that a load balancer asks for its health checks, or a free one.
    pub fn health_check_port(&self, need: &PortNeed, chosen: &mut Vec<u16>) -> Result<u16, Status> {
        let Some(number) = need.port else {
            return self.free(chosen).ok_or_else(|| {
                Status::internal("failed to allocate a HealthCheck NodePort : range is full")
            });
        };
        self.certain(number, chosen).map_err(|why| {
            Status::internal(format!(
                "failed to allocate requested HealthCheck NodePort {number}: {why}"
            ))
        })?;
        Ok(number)
    }

    fn certain(&self, number: u16, chosen: &mut Vec<u16>) -> Result<(), PortError> {
        let (first, last) = self.range;
        // A dry run only looks whether it is taken.
        if !self.dry_run && !(first..=last).contains(&number) {
            return Err(PortError::OutOfRange { first, last });
        }
        if !self.is_free(number, chosen) {
            return Err(PortError::Allocated);
        }
        chosen.push(number);
        Ok(())
    }

    /// A free port: of the upper band as long as there is one, since the lower
    /// is left to those who ask for a certain port (KEP-3668). A dry run takes
    /// none: it is shown a number that is no node port.
    fn free(&self, chosen: &mut Vec<u16>) -> Option<u16> {
        let port = if self.dry_run {
            let last = chosen.iter().copied().max().unwrap_or(DRY_PORT);
            Some(last.saturating_add(1))
        } else {
            let (first, last) = self.range;
            let upper = first + port_band(first, last);
            let held = self.held.iter().copied();
            held.chain((0..ranges::TRIES).map(|_| rand::random_range(upper..=last)))
                .chain(upper..=last)
                .chain(first..upper)
                .find(|port| self.is_free(*port, chosen))
        };
        chosen.extend(port);
        port
    }

    fn is_free(&self, port: u16, chosen: &[u16]) -> bool {
        (self.held.contains(&port) || !self.known.has(port)) && !chosen.contains(&port)
    }
}

/// Error for a port that a Service asks for, in the words of stock.
#[derive(Debug, thiserror::Error)]
enum PortError {
    #[error("provided port is not in the valid range. The range of valid ports is {first}-{last}")]
    OutOfRange { first: u16, last: u16 },
    #[error("provided port is already allocated")]
    Allocated,
}

/// How many ports at the beginning of a range are left to services that ask for
/// certain ones.
fn port_band(first: u16, last: u16) -> u16 {
    const LEAST: u16 = 16;
    let size = (last - first).saturating_add(1);
    if size <= LEAST {
        0
    } else {
        (size / 32).clamp(LEAST, 128)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_of_ports_are_those_of_kep_3668() {
        assert_eq!(port_band(30000, 32767), 86);
        assert_eq!(port_band(30000, 30015), 0);
        assert_eq!(port_band(30000, 30016), 16);
        assert_eq!(port_band(20000, 60000), 128);
    }
}
