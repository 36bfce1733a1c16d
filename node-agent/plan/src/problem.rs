//! Parts of an object that are not in force, for events on it.

use std::fmt::{self, Display, Formatter};

use ebpf_abi::{Address, Protocol, Scope, ServiceKey};

use crate::compile::Family;

/// Something of a Service or Pod that this node does not do as written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Problem {
    /// The object.
    pub object: Object,
    /// What is not in force, and why.
    pub reason: Reason,
}

/// An object of the API.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Object {
    /// `Service` or `Pod`.
    pub kind: &'static str,
    /// Namespace.
    pub namespace: Box<str>,
    /// Name.
    pub name: Box<str>,
}

/// The reason why a part of an object is not in force.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The address and port belong to someone who goes before.
    Taken {
        /// The address and port.
        front: Front,
        /// The object that has it.
        by: Box<str>,
    },
    /// The node itself listens there.
    Reserved {
        /// The address and port.
        front: Front,
    },
    /// An external IP or load balancer's address is one of the node's own: its
    /// port leads to the Service instead of to the node.
    OwnAddress {
        /// The address.
        address: Address,
    },
    /// No address, or one that no Service can have.
    BadAddress {
        /// The field.
        field: &'static str,
        /// Its content.
        text: Box<str>,
    },
    /// An address of a family in which the Service has no cluster IP.
    WrongFamily {
        /// The field.
        field: &'static str,
        /// The address.
        address: Address,
    },
    /// No range of addresses.
    BadRange {
        /// The given text.
        text: Box<str>,
    },
    /// An invalid port, an unknown protocol, or a duplicate.
    BadPort {
        /// Its name, or its number if it has none.
        port: Box<str>,
    },
    /// Endpoints whose address is none, of another family than their slice, or
    /// one at which no endpoint of a Service can be (loopback, link-local,
    /// multicast, unspecified).
    BadEndpoints {
        /// How many.
        count: usize,
        /// An example.
        example: Box<str>,
    },
    /// More endpoints than a Service may have here; the first ones serve.
    TooManyEndpoints {
        /// How many there are.
        found: usize,
        /// How many serve.
        most: usize,
        /// In which family.
        family: Family,
    },
    /// More ports than a Service may have here; the first ones count.
    TooManyPorts {
        /// How many there are.
        found: usize,
        /// How many count.
        most: usize,
    },
    /// More addresses than a Service of so many ports may have here: the cluster
    /// IPs and the first of the others count.
    TooManyAddresses {
        /// How many there are.
        found: usize,
        /// How many count.
        most: usize,
    },
    /// More source ranges than a Service may have here; the first ones count.
    TooManyRanges {
        /// How many there are.
        found: usize,
        /// How many count.
        most: usize,
    },
    /// The datapath's maps have no room for the Service's endpoints.
    NoRoom {
        /// How many entries it needs.
        needed: usize,
    },
}

/// An address and port, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Front {
    /// The address, unspecified for all of the node's.
    pub address: Address,
    /// The port.
    pub port: u16,
    /// The protocol.
    pub protocol: Protocol,
}

// === impl Problem ===

impl Display for Problem {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Object {
            kind,
            namespace,
            name,
        } = &self.object;
        write!(f, "{kind} {namespace}/{name}: {}", self.reason)
    }
}

// === impl Reason ===

impl Reason {
    /// One word for an event's `reason`.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Taken { .. } => "AddressTaken",
            Self::Reserved { .. } => "PortReserved",
            Self::OwnAddress { .. } => "NodeAddressUsed",
            Self::BadAddress { .. } | Self::WrongFamily { .. } => "BadAddress",
            Self::BadRange { .. } => "BadSourceRange",
            Self::BadPort { .. } => "BadPort",
            Self::BadEndpoints { .. } => "BadEndpoints",
            Self::TooManyEndpoints { .. } => "TooManyEndpoints",
            Self::TooManyPorts { .. } => "TooManyPorts",
            Self::TooManyAddresses { .. } => "TooManyAddresses",
            Self::TooManyRanges { .. } => "TooManySourceRanges",
            Self::NoRoom { .. } => "NoRoom",
        }
    }

    /// Returns whether it is only a notice, and everything is in force as written.
    #[must_use]
    pub const fn is_notice(&self) -> bool {
        matches!(self, Self::OwnAddress { .. })
    }
}

impl Display for Reason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken { front, by } => {
                write!(
                    f,
                    "{front} belongs to {by}; give this one another address or port"
                )
            }
            Self::Reserved { front } => write!(
                f,
                "at {front} the node itself listens; give this one another address or port"
            ),
            Self::OwnAddress { address } => {
                write!(
                    f,
                    "{address} is an address of the node, whose ports of the same numbers are out of reach"
                )
            }
            Self::BadAddress { field, text } => {
                write!(
                    f,
                    "`{text}` in {field} is no address that a Service can have; it is left out"
                )
            }
            Self::WrongFamily { field, address } => write!(
                f,
                "{address} in {field} is of a family in which the Service has no cluster IP; it is left out"
            ),
            Self::BadRange { text } => {
                write!(
                    f,
                    "`{text}` in loadBalancerSourceRanges is no range of addresses; nobody is let in by it"
                )
            }
            Self::BadPort { port } => write!(
                f,
                "port {port} is out of range, of an unknown protocol, or there twice; it is left out"
            ),
            Self::BadEndpoints { count, example } => write!(
                f,
                "{count} endpoints, `{example}` among them, are at addresses where no endpoint can be; they are left out"
            ),
            Self::TooManyEndpoints {
                found,
                most,
                family,
            } => write!(
                f,
                "of {found} {family} endpoints the first {most} serve, more are not supported; split the Service"
            ),
            Self::TooManyPorts { found, most } => write!(
                f,
                "of {found} ports the first {most} count, more are not supported; split the Service"
            ),
            Self::TooManyAddresses { found, most } => write!(
                f,
                "of {found} addresses the first {most} count, more are not supported for so many ports; split the Service"
            ),
            Self::TooManyRanges { found, most } => write!(
                f,
                "of {found} source ranges the first {most} count, more are not supported; join them"
            ),
            Self::NoRoom { needed } => write!(
                f,
                "the node's maps have no room for {needed} more endpoints; give the node agent larger maps"
            ),
        }
    }
}

// === impl Front ===

impl Front {
    pub(crate) const fn from_key(key: &ServiceKey) -> Self {
        Self {
            address: key.address,
            port: key.port.get(),
            protocol: key.protocol,
        }
    }

    /// Returns whether a key is reported: that of inside clients stands for both scopes.
    pub(crate) fn is_told(key: &ServiceKey) -> bool {
        key.scope == Scope::INTERNAL
    }
}

impl Display for Front {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.address == self.address.wildcard() {
            write!(f, "{} port {} of the node", self.protocol, self.port)
        } else {
            write!(f, "{} {} port {}", self.protocol, self.address, self.port)
        }
    }
}
