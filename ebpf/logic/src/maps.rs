//! What the decisions read and write.

use ebpf_abi::{
    Affinity, AffinityKey, Backend, Counter, MemberKey, Original, OriginalKey, Sealed, Service,
    ServiceKey, SlotKey,
};

/// The maps that the programs share with user space.
///
/// Values come as copies: sealed ones may be torn (see `ebpf_abi`), and the
/// decisions open them.
pub trait Maps {
    /// The entry of a service.
    fn service(&self, key: &ServiceKey) -> Option<Sealed<Service>>;
    /// The backend in a slot.
    fn slot(&self, key: &SlotKey) -> Option<Sealed<Backend>>;
    /// The slot of a backend, if it belongs to the generation.
    fn member(&self, key: &MemberKey) -> Option<u32>;
    /// What a socket asked for when it was sent to this peer.
    fn original(&self, key: &OriginalKey) -> Option<Sealed<Original>>;
    /// Remembers what a socket asked for; false if there is no room.
    fn remember(&self, key: &OriginalKey, value: &Sealed<Original>) -> bool;
    /// Forgets it.
    fn forget(&self, key: &OriginalKey);
    /// The backend that a client keeps.
    fn affinity(&self, key: &AffinityKey) -> Option<Sealed<Affinity>>;
    /// Keeps a backend for a client, as far as there is room.
    fn keep(&self, key: &AffinityKey, value: &Sealed<Affinity>);
    /// Counts.
    fn count(&self, counter: Counter);
    /// Tells people, if they want to know; never on the way of a call that
    /// goes on as it should.
    fn tell(&self, what: Counter, asked: &ServiceKey);
}

/// What the decisions take from outside that is no map: time and chance.
pub trait Entropy {
    /// A random number.
    fn random(&self) -> u32;
    /// Monotonic time in nanoseconds.
    fn now(&self) -> u64;
}
