//! The maps that decisions read and write.

use ebpf_abi::policy::PolicyFlow;
use ebpf_abi::{
    Address, Affinity, AffinityKey, Backend, ChecksummedValue, Config, ConfigFlags, Counter,
    FlowEntry, FlowLogKey, FragmentKey, FragmentPorts, Life, MaglevKey, MemberKey, NodeFlags,
    Original, OriginalKey, Port, Protocol, Service, ServiceEntryKinds, ServiceKey, SlotKey, Tuple,
};

use crate::packet::{Origin, PacketVerdict, Step, Work};

/// The maps that the programs share with user space.
///
/// Values come as copies: sealed ones may be torn (see `ebpf_abi`), and the
/// decisions open them.
pub trait Maps {
    /// Returns which entries there may be under a port.
    fn served(&self, protocol: Protocol, port: Port) -> ServiceEntryKinds;
    /// The entry of a service.
    fn service(&self, key: &ServiceKey) -> Option<ChecksummedValue<Service>>;
    /// Returns whether there is an entry.
    #[inline(always)]
    fn is_service(&self, key: &ServiceKey) -> bool {
        self.service(key).is_some()
    }
    /// The backend in a slot.
    fn slot(&self, key: &SlotKey) -> Option<ChecksummedValue<Backend>>;
    /// The slot of a backend, if it belongs to the generation.
    fn member(&self, key: &MemberKey) -> Option<u32>;
    /// The slot at a place of a part of a table of consistent hashing, if the
    /// part is whole.
    fn place(&self, key: &MaglevKey, place: u32) -> Option<u16>;
    /// Returns the uses of an address of this node; `None` for other addresses.
    fn node(&self, address: &Address) -> Option<NodeFlags>;
    /// The node, if user space has told.
    fn config(&self) -> Option<Config>;
    /// The node's switches; none before user space has told. They are one word,
    /// which costs less than all that is known of the node.
    #[inline(always)]
    fn switches(&self) -> ConfigFlags {
        self.config()
            .map_or(ConfigFlags::NONE, |config| config.flags)
    }
    /// Returns the original destination of a socket that was redirected to this peer.
    fn original(&self, key: &OriginalKey) -> Option<ChecksummedValue<Original>>;
    /// Records the original destination of a socket; returns false if there is no room.
    fn remember(&self, key: &OriginalKey, value: &ChecksummedValue<Original>) -> bool;
    /// Forgets it.
    fn forget(&self, key: &OriginalKey);
    /// The backend that a client keeps.
    fn affinity(&self, key: &AffinityKey) -> Option<ChecksummedValue<Affinity>>;
    /// Stores a client's backend, if there is room.
    fn keep(&self, key: &AffinityKey, value: &ChecksummedValue<Affinity>);
    /// Counts.
    fn count(&self, counter: Counter);
    /// Logs an event for people, if enabled; never on the fast path.
    fn tell(&self, what: Counter, asked: &ServiceKey);
}

/// The outcome of inserting an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InsertOutcome {
    /// It is there.
    Yes,
    /// Another one is there under its key.
    Taken,
    /// There is no room.
    Full,
}

/// The maps that only packets need.
pub trait Flows: Maps + Entropy {
    /// A flow's entry in its map, for [`set_life`](Self::set_life).
    type Place: Copy;

    /// Copies the node's configuration to `into`; returns false if there is no intact
    /// one.
    fn read_config(&self, into: &mut ChecksummedValue<Config>) -> bool;
    /// Returns whether the address is in a range of pods.
    fn is_inside(&self, address: Address) -> bool;
    /// Returns whether pods reach the address with the node's address.
    fn leaves(&self, address: Address) -> bool;
    /// Returns which end began a flow of a pod, whose packets have this tuple; `None` if
    /// policy has not seen the flow.
    fn beginner(&self, of: &Tuple) -> Option<FlowBeginner>;
    /// Returns whether the address is in one of the set's source ranges.
    fn is_source(&self, set: u32, address: Address) -> bool;
    /// Returns whether there may be an entry under this key, if that is cheaper than a
    /// lookup; false only if there is none.
    #[inline(always)]
    fn may_be_flow(&self, _key: &Tuple) -> bool {
        true
    }
    /// Copies a flow's entry to `into`.
    fn flow(&self, key: &Tuple, into: &mut FlowEntry) -> Option<Self::Place>;
    /// Writes the changing part of an entry.
    fn set_life(&self, place: Self::Place, life: Life);
    /// Adds an entry.
    fn add_flow(&self, key: &Tuple, entry: &FlowEntry) -> InsertOutcome;
    /// Replaces an entry; returns false if there is none.
    fn replace_flow(&self, key: &Tuple, entry: &FlowEntry) -> bool;
    /// Removes an entry.
    fn remove_flow(&self, key: &Tuple);
    /// Appends a flow's key to the log; returns false if there is no room.
    fn log(&self, key: &FlowLogKey) -> bool;
    /// Copies the first key of the log; returns false if there is none.
    fn first_logged(&self, into: &mut FlowLogKey) -> bool;
    /// Takes the first key out of the log.
    fn unlog(&self, into: &mut FlowLogKey) -> bool;
    /// The ports of a first fragment.
    fn fragment(&self, key: &FragmentKey) -> Option<ChecksummedValue<FragmentPorts>>;
    /// Takes a step of a packet's way.
    fn step(&self, step: Step, origin: Origin, work: &mut Work) -> PacketVerdict;
    /// Stores the ports of a first fragment, if there is room.
    fn keep_fragment(&self, key: &FragmentKey, value: &ChecksummedValue<FragmentPorts>);
}

/// The end of a pod's flow that began it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowBeginner {
    /// The pod.
    Pod,
    /// Its peer.
    Peer,
}

impl FlowBeginner {
    /// Returns which end began the flow, unless policy has ended it.
    #[inline(always)]
    #[must_use]
    pub const fn from_flow(flow: &PolicyFlow) -> Option<Self> {
        if flow.has(PolicyFlow::ENDED) {
            None
        } else if flow.has(PolicyFlow::INGRESS) {
            Some(Self::Peer)
        } else {
            Some(Self::Pod)
        }
    }
}

/// Inputs of decisions besides maps: time and randomness.
pub trait Entropy {
    /// A random number.
    fn random(&self) -> u32;
    /// Monotonic time in nanoseconds.
    fn now(&self) -> u64;
    /// Monotonic time in ticks of [`Life`]; may lag by a few milliseconds.
    fn ticks(&self) -> u32;
}
