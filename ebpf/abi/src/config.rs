//! The node's configuration for the packet programs, in one value.

use crate::{Address, Plain};

/// Key of the only entry of `CONFIG`, under which it is sealed. The map is an
/// array; its index is zero as well.
pub const CONFIG_KEY: u64 = 0;

/// Switches of [`Config`].
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct ConfigFlags(pub u32);

impl ConfigFlags {
    /// No flags.
    pub const NONE: Self = Self(0);
    /// Socket hooks translate for processes of the node's own namespace only.
    pub const HOST_SOCKETS_ONLY: Self = Self(1);
    /// Clients of cluster IPs are shown as this node, wherever they are
    /// (kube-proxy's `--masquerade-all`).
    pub const MASQUERADE_ALL: Self = Self(1 << 1);
    /// Node ports are not kept from being bound by processes.
    pub const NO_BIND_PROTECTION: Self = Self(1 << 2);
    /// TCP packets that neither open a connection nor belong to a known flow pass: while
    /// Services are taken over from kube-proxy, the kernel's connection tracking may
    /// translate them.
    pub const LEAVE_UNKNOWN_STREAMS: Self = Self(1 << 3);
    /// Flows that policy once allowed continue, whatever later policies say.
    pub const KEEP_ESTABLISHED: Self = Self(1 << 8);
}

flags!(ConfigFlags);

/// How remote backends of services with
/// [`DIRECT_RETURN`](crate::ServiceFlags::DIRECT_RETURN) get their packets.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct DirectReturn(pub u32);

impl DirectReturn {
    /// As for all other services: through this node, in both directions.
    pub const NONE: Self = Self(0);
    /// In an outer IP header to the backend's address (RFC 2003, RFC 2473).
    pub const IPIP: Self = Self(1);
    /// Unchanged, in a frame to the backend's node, which must be on the same link and
    /// choose the same backend ([`MAGLEV`](crate::ServiceFlags::MAGLEV)).
    pub const LINK: Self = Self(2);
}

/// After which silence a flow is over; seconds.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct Timeouts {
    /// TCP, until both sides have spoken.
    pub tcp_opening: u32,
    /// TCP, established.
    pub tcp_established: u32,
    /// TCP, one side has sent FIN.
    pub tcp_half_closed: u32,
    /// TCP, both sides have sent FIN.
    pub tcp_time_wait: u32,
    /// TCP, after RST.
    pub tcp_reset: u32,
    /// UDP, until the first answer.
    pub udp_unreplied: u32,
    /// UDP, answered.
    pub udp_replied: u32,
    /// SCTP.
    pub sctp: u32,
}

impl Timeouts {
    /// The kernel's own (`nf_conntrack-sysctl`), except where kube-proxy sets
    /// them: established 24 h and half closed 1 h.
    pub const DEFAULT: Self = Self {
        tcp_opening: 60,
        tcp_established: 86_400,
        tcp_half_closed: 3_600,
        tcp_time_wait: 120,
        tcp_reset: 10,
        udp_unreplied: 30,
        udp_replied: 120,
        sctp: 210,
    };
}

/// The node's configuration for the packet programs. Without a valid value, they pass all
/// packets.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct Config {
    /// The source address for external IPv4 clients towards remote backends;
    /// [`Address::UNSPECIFIED`] if there is none: such clients are refused.
    pub node_v4: Address,
    /// The same for IPv6.
    pub node_v6: Address,
    /// The cookie of the node's own network namespace (`SO_NETNS_COOKIE`).
    pub host_namespace: u64,
    /// Switches.
    pub flags: ConfigFlags,
    /// Direct return.
    pub direct_return: DirectReturn,
    /// The first port, in host order, of those that translated clients get. The
    /// range is not to overlap `net.ipv4.ip_local_port_range` nor node ports.
    pub first_port: u16,
    /// The last one.
    pub last_port: u16,
    /// Mixed into what packets choose, so that no client can foresee it.
    pub seed: u32,
    /// Timeouts.
    pub timeouts: Timeouts,
}

impl Config {
    /// A node without addresses, and defaults.
    pub const DEFAULT: Self = Self {
        node_v4: Address::UNSPECIFIED,
        node_v6: Address::UNSPECIFIED,
        host_namespace: 0,
        flags: ConfigFlags::NONE,
        direct_return: DirectReturn::NONE,
        first_port: 61_000,
        last_port: 65_535,
        seed: 0,
        timeouts: Timeouts::DEFAULT,
    };

    /// As whom clients that talk to this address's family are shown.
    #[inline(always)]
    #[must_use]
    pub const fn node(&self, family_of: Address) -> Address {
        if family_of.is_v4() {
            self.node_v4
        } else {
            self.node_v6
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::DEFAULT
    }
}

// SAFETY: 88 bytes: two Address (16), u64, two u32, two u16, u32, eight u32.
unsafe impl Plain for Config {}

const _: () = {
    assert!(size_of::<Timeouts>() == 32);
    assert!(size_of::<Config>() == 88);
};
