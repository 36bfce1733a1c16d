//! How much a pod may send and get: from what the runtime says to rates and bursts.

use cni_addresses::wire::Bandwidth;
use node_agent_datapath::Rate;

/// Bursts from here on are nobody's choice: runtimes that know of none say the largest
/// number that they can (containerd 2^32 - 1, CRI-O 2^31 - 1).
const NO_BURST: u64 = i32::MAX as u64;
/// The least that goes at once, in bits: two packets of segments that are put together.
const LEAST: u64 = 8 * 2 * 65_536;

/// Bandwidth limits by direction; `None` means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BandwidthLimits {
    /// To the pod.
    pub ingress: Option<Rate>,
    /// From it.
    pub egress: Option<Rate>,
}

/// What the runtime says, with a second's worth as burst where it says none.
pub fn limits(bandwidth: Option<&Bandwidth>) -> BandwidthLimits {
    let limit = |rate: u64, burst: u64| {
        let burst = if burst == 0 || burst >= NO_BURST {
            rate.max(LEAST)
        } else {
            burst
        };
        (rate != 0).then_some(Rate { rate, burst })
    };
    bandwidth.map_or_else(BandwidthLimits::default, |it| BandwidthLimits {
        ingress: limit(it.ingress_rate, it.ingress_burst),
        egress: limit(it.egress_rate, it.egress_burst),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_those_asked_for_or_a_second_and_nothing_is_no_limit() {
        let rate = |rate, burst| Some(Rate { rate, burst });
        for (said, expected) in [
            ((0, 0), None),
            ((0, 5), None),
            ((10_000_000, 0), rate(10_000_000, 10_000_000)),
            (
                (10_000_000, u64::from(u32::MAX)),
                rate(10_000_000, 10_000_000),
            ),
            ((10_000_000, i32::MAX as u64), rate(10_000_000, 10_000_000)),
            ((10_000_000, 2_000_000), rate(10_000_000, 2_000_000)),
            ((1_000, 0), rate(1_000, LEAST)),
        ] {
            let (to, from) = (
                Bandwidth {
                    ingress_rate: said.0,
                    ingress_burst: said.1,
                    ..Bandwidth::default()
                },
                Bandwidth {
                    egress_rate: said.0,
                    egress_burst: said.1,
                    ..Bandwidth::default()
                },
            );
            let limits = |it| limits(Some(it));
            assert_eq!((limits(&to).ingress, limits(&to).egress), (expected, None));
            assert_eq!(
                (limits(&from).ingress, limits(&from).egress),
                (None, expected)
            );
        }
        assert_eq!(limits(None), BandwidthLimits::default());
    }
}
