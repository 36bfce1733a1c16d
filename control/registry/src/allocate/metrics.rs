//! Metrics of the allocators, under kube-apiserver's names.

use control_metrics::{Kind, Page};
use ipnet::IpNet;

use super::{Allocators, allocated_addresses::lock, ranges};

impl Allocators {
    /// Writes how many addresses and ports there are and are taken.
    #[expect(clippy::cast_precision_loss, reason = "for metrics")]
    pub fn write(&self, page: &mut Page) {
        let taken: Vec<u64> = {
            let taken = lock(&self.taken);
            let of = |range: &IpNet| {
                let within = taken.addresses.iter().filter(|one| range.contains(*one));
                within.count() as u64
            };
            self.ranges.iter().map(of).collect()
        };
        for (name, help, free) in [
            (
                "kube_apiserver_clusterip_allocator_allocated_ips",
                "Gauge measuring the number of allocated IPs for Services",
                false,
            ),
            (
                "kube_apiserver_clusterip_allocator_available_ips",
                "Gauge measuring the number of available IPs for Services",
                true,
            ),
        ] {
            page.family(name, Kind::Gauge, help);
            for (range, taken) in self.ranges.iter().zip(&taken) {
                let cidr = range.to_string();
                let count = if free {
                    ranges::size(range).saturating_sub(*taken)
                } else {
                    *taken
                };
                page.sample(name, &[("cidr", &cidr)], count as f64);
            }
        }
        let known = self.ports.known();
        let (first, last) = self.ports.range();
        let all = u64::from(last) + 1 - u64::from(first);
        let taken = known.taken().count() as u64;
        for (name, help, count) in [
            (
                "kube_apiserver_nodeport_allocator_allocated_ports",
                "Gauge measuring the number of allocated NodePorts for Services",
                taken,
            ),
            (
                "kube_apiserver_nodeport_allocator_available_ports",
                "Gauge measuring the number of available NodePorts for Services",
                all.saturating_sub(taken),
            ),
        ] {
            page.family(name, Kind::Gauge, help);
            page.sample(name, &[], count as f64);
        }
    }
}
