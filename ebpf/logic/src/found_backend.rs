//! The result of a backend lookup.

use ebpf_abi::{Address, Backend, BackendFlags, Port, Service, ServiceFlags};

/// The service and backend of [`Choice::Backend`](crate::Choice::Backend).
///
/// It is beside the choice instead of in it: if a value exists only in some cases, the
/// compiler may move its use before the check of the case, which the verifier rejects as
/// a use of uninitialized memory.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "model", derive(Debug))]
pub struct FoundBackend {
    /// The service.
    pub service: Service,
    /// The backend.
    pub backend: Backend,
}

impl FoundBackend {
    /// The empty value.
    pub const NOTHING: Self = Self {
        service: Service {
            set: 0,
            generation: 0,
            count: 0,
            flags: ServiceFlags::NONE,
            affinity_seconds: 0,
            table: 0,
        },
        backend: Backend::new(Address::UNSPECIFIED, Port(0), BackendFlags::NONE),
    };
}
