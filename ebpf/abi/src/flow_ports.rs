//! Ports under which there are no flows.
//!
//! Most packets belong to no flow. Looking up a missing entry costs a hash of the whole
//! key and accesses to cold memory; checking the ports is cheap, because there are few:
//! ports of services and backends, and those that clients are given.

use crate::{Plain, Port, Protocol, Tuple};

/// Eight ports of `FLOW_PORTS`, one byte each: 1 if no flow was ever created under the
/// port. They are bytes so that the writer of a flow does not overwrite other ports.
/// Unwritten bytes mean that there may be flows under the port.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct FlowPorts(pub u64);

/// The role of a port in a flow's key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub enum FlowPort {
    /// The one that the client addresses: destination of a forward key.
    Asked = 0,
    /// The one that the backend answers from: source of a reply's key.
    Answering = 1,
    /// The one that the backend answers to: destination of a reply's key.
    Answered = 2,
}

/// The position of a port in `FLOW_PORTS`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct FlowPortPlace {
    /// The element.
    pub element: u32,
    /// The byte in it.
    pub byte: u32,
}

const PORTS_AN_ELEMENT: u32 = 8;
const ELEMENTS_A_PROTOCOL: u32 = 65_536 / PORTS_AN_ELEMENT;
const PROTOCOLS: u32 = Protocol::ROWS.len() as u32;

impl FlowPorts {
    /// Elements of `FLOW_PORTS`.
    pub const ELEMENTS: u32 = 3 * PROTOCOLS * ELEMENTS_A_PROTOCOL;
    /// No flow was ever made under any of the ports.
    pub const NONE: Self = Self(0x0101_0101_0101_0101);

    /// Returns the position of a port; `None` for protocols whose flows have no ports.
    #[inline(always)]
    #[must_use]
    pub const fn place(which: FlowPort, protocol: Protocol, port: Port) -> Option<FlowPortPlace> {
        let Some(number) = protocol.row() else {
            return None;
        };
        let port = port.get() as u32;
        let row = which as u32 * PROTOCOLS + number;
        Some(FlowPortPlace {
            element: row * ELEMENTS_A_PROTOCOL + port / PORTS_AN_ELEMENT,
            byte: port % PORTS_AN_ELEMENT,
        })
    }

    /// The places of a flow's key that are to say that there may be flows.
    #[inline(always)]
    #[must_use]
    pub const fn for_flow(key: &Tuple, reply: bool) -> [Option<FlowPortPlace>; 2] {
        let protocol = key.protocol;
        if reply {
            [
                Self::place(FlowPort::Answering, protocol, key.source_port),
                Self::place(FlowPort::Answered, protocol, key.destination_port),
            ]
        } else {
            let asked = Self::place(FlowPort::Asked, protocol, key.destination_port);
            [asked, None]
        }
    }

    /// Returns whether there may be flows under the port of this byte.
    #[inline(always)]
    #[must_use]
    pub const fn may_be(self, byte: u32) -> bool {
        self.0.to_ne_bytes()[byte as usize & 7] != 1
    }

    /// The element once there may be flows under the port of this byte.
    #[must_use]
    pub const fn taken(self, byte: u32) -> Self {
        let mut bytes = self.0.to_ne_bytes();
        bytes[byte as usize & 7] = 0;
        Self(u64::from_ne_bytes(bytes))
    }
}

// SAFETY: one integer.
unsafe impl Plain for FlowPorts {}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::Address;

    const ALL: [FlowPort; 3] = [FlowPort::Asked, FlowPort::Answering, FlowPort::Answered];

    #[test]
    fn each_port_has_a_byte_of_its_own() {
        let mut seen = std::collections::BTreeSet::new();
        for which in ALL {
            for (protocol, port) in crate::testing::ports() {
                let place = FlowPorts::place(which, protocol, port).unwrap();
                assert!(place.element < FlowPorts::ELEMENTS);
                assert!(seen.insert(place), "{which:?} {protocol:?} {port:?}");
            }
        }
        assert_eq!(
            FlowPorts::place(FlowPort::Asked, Protocol(1), Port::new(80)),
            None
        );
    }

    #[test]
    fn a_taken_port_leaves_its_neighbours_alone() {
        for byte in 0..8 {
            let taken = FlowPorts::NONE.taken(byte);
            for other in 0..8 {
                assert_eq!(taken.may_be(other), other == byte, "{byte} {other}");
            }
            assert!(FlowPorts(0).may_be(byte), "nobody has said anything");
        }
    }

    #[test]
    fn keys_of_either_direction_stand_under_their_own_ports() {
        let (client, server) = (Address::v4([10, 0, 0, 1]), Address::v4([10, 0, 0, 2]));
        let key = Tuple::new(client, Port::new(5), server, Port::new(80), Protocol::TCP);
        let at = |which, port| FlowPorts::place(which, Protocol::TCP, Port::new(port));
        assert_eq!(
            FlowPorts::for_flow(&key, false),
            [at(FlowPort::Asked, 80), None]
        );
        assert_eq!(
            FlowPorts::for_flow(&key.reversed(), true),
            [at(FlowPort::Answering, 80), at(FlowPort::Answered, 5)]
        );
    }
}
