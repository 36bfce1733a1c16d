//! Services and their backends.

use crate::{Address, ChecksummedValue, Plain, Port, Protocol, Text};

/// The scope from which a service is reached under a given address and port.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct Scope(pub u8);

impl Scope {
    /// From inside the cluster: pods and processes of nodes. An entry of this scope
    /// serves outside clients too, unless it is [`SCOPED`](ServiceFlags::SCOPED).
    pub const INTERNAL: Self = Self(0);
    /// From outside the cluster, if `externalTrafficPolicy` requires a different set of
    /// backends.
    pub const EXTERNAL: Self = Self(1);
}

/// The destination of a client.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct ServiceKey {
    /// The service's address: a cluster IP, an external IP or a load balancer's.
    /// [`Address::wildcard`] stands for every address of its family that `NODES` marks
    /// [`PORTS`](crate::NodeFlags::PORTS): so a node port or host port is one entry per
    /// family, however many addresses the node has. An entry for the specific address
    /// takes precedence.
    pub address: Address,
    /// The service's port.
    pub port: Port,
    /// The protocol of this port.
    pub protocol: Protocol,
    /// The client's scope.
    pub scope: Scope,
    reserved: u32,
}

impl ServiceKey {
    /// A key of a scope.
    #[inline(always)]
    #[must_use]
    pub const fn new(address: Address, port: Port, protocol: Protocol, scope: Scope) -> Self {
        Self {
            address,
            port,
            protocol,
            scope,
            reserved: 0,
        }
    }

    /// A key for clients inside the cluster.
    #[inline(always)]
    #[must_use]
    pub const fn internal(address: Address, port: Port, protocol: Protocol) -> Self {
        Self {
            address,
            port,
            protocol,
            scope: Scope::INTERNAL,
            reserved: 0,
        }
    }
}

/// Properties of a service port.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct ServiceFlags(pub u32);

impl ServiceFlags {
    /// No flags.
    pub const NONE: Self = Self(0);
    /// A client keeps its backend (`sessionAffinity: ClientIP`).
    pub const AFFINITY: Self = Self(1);
    /// Only this node's backends are used, by a traffic policy `Local`: without any,
    /// clients are refused for another reason.
    pub const LOCAL_ONLY: Self = Self(1 << 1);
    /// Clients outside the cluster are served by the entry of the same key with
    /// scope [`EXTERNAL`](Scope::EXTERNAL) instead, and by none if it is missing.
    pub const SCOPED: Self = Self(1 << 2);
    /// Only clients whose address is in `SOURCES` under this entry's set
    /// (`loadBalancerSourceRanges`); others are dropped.
    pub const SOURCES: Self = Self(1 << 3);
    /// Backends are chosen by consistent hashing over `MAGLEV`, a table of
    /// [`table`](Service::table) places.
    pub const MAGLEV: Self = Self(1 << 4);
    /// Remote backends answer the client directly, instead of through this
    /// node.
    pub const DIRECT_RETURN: Self = Self(1 << 5);
    /// Without any backend, clients are dropped silently instead of refused:
    /// there are backends, but none that this node may use from outside
    /// (`externalTrafficPolicy: Local`), and a refusal would end connections
    /// that another node could serve.
    pub const DROP_EMPTY: Self = Self(1 << 6);
    /// A node port: no process of the node may bind it (`bind(2)`).
    pub const NODE_PORT: Self = Self(1 << 7);
    /// A cluster IP: addressed from outside, its clients are always shown as
    /// this node.
    pub const CLUSTER_IP: Self = Self(1 << 8);
}

flags!(ServiceFlags);

/// One service port: which backends, in which generation.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct Service {
    /// The set of backends; several keys may share one.
    pub set: u32,
    /// The generation of the set's slots.
    pub generation: u32,
    /// How many slots the generation has.
    pub count: u32,
    /// Properties.
    pub flags: ServiceFlags,
    /// How long an unused affinity lasts, in seconds.
    pub affinity_seconds: u32,
    /// Places of the set's table in `MAGLEV`, a prime; zero without one.
    pub table: u32,
}

impl Service {
    /// The limit up to which a set's backends are searched slot by slot; those of a
    /// larger set are in `MEMBERS`.
    pub const WALKED: u32 = 32;

    /// Returns whether the set's backends are in `MEMBERS`.
    #[inline(always)]
    #[must_use]
    pub const fn has_members(&self) -> bool {
        self.flags.contains(ServiceFlags::AFFINITY) || self.is_large()
    }

    /// Returns whether the set is too large to be searched slot by slot. Its backends on
    /// this node are then also in `MEMBERS` by their address alone
    /// ([`MemberKey::of_address`]).
    #[inline(always)]
    #[must_use]
    pub const fn is_large(&self) -> bool {
        self.count > Self::WALKED
    }
}

/// The position of a backend.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct SlotKey {
    /// The set.
    pub set: u32,
    /// The set's generation.
    pub generation: u32,
    /// The slot, less than [`Service::count`].
    pub slot: u32,
    /// Zero.
    pub reserved: u32,
}

impl SlotKey {
    /// The key of a slot.
    #[inline(always)]
    #[must_use]
    pub const fn new(set: u32, generation: u32, slot: u32) -> Self {
        Self {
            set,
            generation,
            slot,
            reserved: 0,
        }
    }
}

/// Properties of a backend.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct BackendFlags(pub u16);

impl BackendFlags {
    /// No flags.
    pub const NONE: Self = Self(0);
    /// On this node.
    pub const LOCAL: Self = Self(1);
    /// Terminating, and serving only because no other backend is ready
    /// (KEP-1669).
    pub const TERMINATING: Self = Self(1 << 1);
}

flags!(BackendFlags);

/// The address of a backend.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct Backend {
    /// Its address, of the same family as the service's.
    pub address: Address,
    /// Its port.
    pub port: Port,
    /// Properties.
    pub flags: BackendFlags,
    /// Zero.
    pub reserved: u32,
}

impl Backend {
    /// A backend at an address.
    #[inline(always)]
    #[must_use]
    pub const fn new(address: Address, port: Port, flags: BackendFlags) -> Self {
        Self {
            address,
            port,
            flags,
            reserved: 0,
        }
    }
}

/// Asks whether a backend belongs to a generation of a set; answered with its
/// slot.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct MemberKey {
    /// The set.
    pub set: u32,
    /// The set's generation.
    pub generation: u32,
    /// The backend's address.
    pub address: Address,
    /// The backend's port.
    pub port: Port,
    reserved16: u16,
    reserved32: u32,
}

impl MemberKey {
    /// The key of a backend in a generation.
    #[inline(always)]
    #[must_use]
    pub const fn new(set: u32, generation: u32, address: Address, port: Port) -> Self {
        Self {
            set,
            generation,
            address,
            port,
            reserved16: 0,
            reserved32: 0,
        }
    }

    /// The key of this node's backend at an address, whatever its port. Of several, the
    /// one in the lowest slot has it.
    #[inline(always)]
    #[must_use]
    pub const fn of_address(set: u32, generation: u32, address: Address) -> Self {
        Self::new(set, generation, address, Port(0))
    }
}

/// The owner of a set, for people: `namespace/service:port`. Namespace (63), service
/// (63), port (15), and separators.
pub type SetName = Text<160>;

// SAFETY: 24 bytes: Address (16), Port, Protocol, Scope, u32; all integers.
unsafe impl Plain for ServiceKey {}
// SAFETY: six u32.
unsafe impl Plain for Service {}
// SAFETY: four u32.
unsafe impl Plain for SlotKey {}
// SAFETY: 24 bytes: Address (16), two u16, u32.
unsafe impl Plain for Backend {}
// SAFETY: 32 bytes: two u32, Address (16), two u16, u32.
unsafe impl Plain for MemberKey {}
const _: () = {
    assert!(size_of::<ServiceKey>() == 24);
    assert!(size_of::<Service>() == 24);
    assert!(size_of::<SlotKey>() == 16);
    assert!(size_of::<Backend>() == 24);
    assert!(size_of::<MemberKey>() == 32);
    assert!(size_of::<ChecksummedValue<Service>>() == 32);
    assert!(size_of::<ChecksummedValue<Backend>>() == 32);
};
