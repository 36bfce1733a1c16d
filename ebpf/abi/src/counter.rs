//! Counters of the programs' actions and of the reasons for refusals.

/// The hook that decided.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Hook {
    /// `connect(2)`.
    Connect = 0,
    /// `sendmsg(2)` of an unconnected socket.
    SendMsg = 1,
    /// `recvmsg(2)`.
    RecvMsg = 2,
    /// `getpeername(2)`.
    GetPeerName = 3,
    /// `bind(2)`.
    Bind = 4,
}

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident = $number:literal, $label:literal;)+) => {
        /// Something that is counted per processor. Numbers are never reused:
        /// they are read from maps that outlive the program.
        #[repr(u32)]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Counter {
            $($(#[doc = $doc])+ $name = $number,)+
        }

        impl Counter {
            /// All counters.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// For metrics and people.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self {
                    $(Self::$name => $label,)+
                }
            }
        }
    };
}

counters! {
    /// `connect` was sent to a backend.
    ConnectTranslated = 0, "connect_translated";
    /// A datagram of an unconnected socket was sent to a backend.
    SendTranslated = 1, "send_translated";
    /// A datagram's source was shown as the service.
    ReceiveTranslated = 2, "receive_translated";
    /// `getpeername` was answered with the service.
    PeerTranslated = 3, "peer_translated";
    /// Refused: the service has no usable endpoint.
    RefusedNoEndpoint = 4, "refused_no_endpoint";
    /// Refused: the traffic policy is `Local` and this node has no endpoint.
    RefusedNoLocalEndpoint = 5, "refused_no_local_endpoint";
    /// Refused: the service changed faster than it could be read.
    RefusedUnstable = 6, "refused_unstable";
    /// Refused: the backend is of another address family than the socket.
    RefusedFamily = 7, "refused_family";
    /// The socket's service could not be remembered: replies would carry the
    /// backend's address, so an unconnected socket is refused and a
    /// connected one only shows its backend in `getpeername`.
    OriginalNotStored = 8, "original_not_stored";
    /// A service or slot was read again because of a concurrent change.
    Reread = 9, "reread";
    /// A client kept its backend by affinity.
    AffinityKept = 10, "affinity_kept";
    /// A client's packet was sent to a backend.
    PacketTranslated = 11, "packet_translated";
    /// A backend's packet was sent to its client as the service's.
    ReplyTranslated = 12, "reply_translated";
    /// An ICMP error was translated.
    ErrorTranslated = 13, "icmp_error_translated";
    /// A flow began.
    FlowCreated = 14, "flow_created";
    /// A flow was over and its entries were reused or removed.
    FlowCollected = 15, "flow_collected";
    /// A packet was answered with TCP reset or ICMP port unreachable, since its service
    /// has no endpoint.
    PacketRefused = 16, "packet_refused";
    /// Dropped: no endpoint here that may serve from outside.
    DroppedEmpty = 17, "dropped_no_local_endpoint";
    /// Dropped: the client is in none of the service's source ranges.
    DroppedSource = 18, "dropped_source_range";
    /// Dropped: no room for another flow.
    DroppedFlowsFull = 19, "dropped_flows_full";
    /// Dropped: no port is free under which the client could be shown.
    DroppedNoPort = 20, "dropped_no_port";
    /// Dropped: this node has no address of the family to represent the client.
    DroppedNoAddress = 21, "dropped_no_node_address";
    /// Dropped: the service changed faster than it could be read.
    DroppedUnstable = 22, "dropped_unstable";
    /// Dropped: the backend is of another address family than the packet.
    DroppedFamily = 23, "dropped_family";
    /// Dropped: a fragment of an SCTP packet whose ports would change, and with them the
    /// checksum over the whole packet.
    DroppedSctpPort = 24, "dropped_sctp_port";
    /// Dropped: a later fragment whose first was not seen.
    DroppedFragment = 25, "dropped_fragment";
    /// Dropped: there is no route to the backend or the client.
    DroppedNoRoute = 26, "dropped_no_route";
    /// Dropped: a packet's time to live is over.
    DroppedExpired = 27, "dropped_hop_limit";
    /// Dropped: the kernel could not change the packet.
    DroppedUnwritable = 29, "dropped_unwritable";
    /// Dropped and answered: the packet is larger than the way to the backend
    /// takes.
    DroppedTooBig = 30, "dropped_too_big";
    /// A client's port was taken already at the backend and another was given.
    PortReplaced = 31, "port_replaced";
    /// A datagram flow, or a connection being opened, was moved to another backend, since
    /// its own was removed.
    FlowMoved = 32, "flow_moved";
    /// A packet was sent to its backend in an outer header.
    PacketEncapsulated = 33, "packet_encapsulated";
    /// An outer header was removed.
    PacketDecapsulated = 34, "packet_decapsulated";
    /// Refused: `bind` of a node port.
    RefusedBind = 35, "refused_bind";
    /// XDP left a packet of a service to the programs behind it.
    XdpPassed = 36, "xdp_passed";
    /// A pod's flow left the cluster as this node.
    Masqueraded = 37, "masqueraded";
    /// A flow began at a pod's interface, and policy allowed it.
    PolicyAllowed = 48, "policy_flow_allowed";
    /// Policy forbids a flow that it allowed before: it ended.
    PolicyEnded = 49, "policy_flow_ended";
    /// A flow that policy allowed could not be kept: its answers may be dropped.
    PolicyNotKept = 50, "policy_flow_not_kept";
    /// Dropped: policy does not let it in to the pod.
    DroppedIngress = 51, "dropped_policy_ingress";
    /// Dropped: policy does not let the pod send it.
    DroppedEgress = 52, "dropped_policy_egress";
    /// Dropped: the pod's rules are not known yet.
    DroppedClosed = 53, "dropped_policy_not_ready";
    /// Dropped: an entry of policy's maps is missing or was torn.
    DroppedBroken = 54, "dropped_policy_broken";
    /// Dropped: it belongs to a flow that policy ended.
    DroppedEnded = 55, "dropped_policy_flow_ended";
    /// Dropped: a pod sent it from an address that is not its own.
    DroppedSpoofed = 56, "dropped_spoofed";
    /// Dropped at a pod's interface: nothing can be decided on it, since its
    /// headers contradict themselves, are tagged, or miss the first fragment.
    DroppedUnreadable = 57, "dropped_unreadable";
    /// Dropped: a pod sent it from its own address, but from a hardware address
    /// that is not its own.
    DroppedHardware = 58, "dropped_spoofed_hardware";
    /// Dropped: a pod sent ARP or neighbour discovery for an address that is not its own.
    DroppedNeighbour = 59, "dropped_spoofed_neighbour";
    /// Dropped: it is more than the pod's bandwidth.
    DroppedBandwidth = 60, "dropped_bandwidth";
    /// A record of a verdict found no room in the ring.
    RecordLost = 62, "flow_record_lost";
}

impl Counter {
    /// Entries of the counter map: room for those to come.
    pub const CAPACITY: u32 = 64;

    /// Its place in the counter map.
    #[inline(always)]
    #[must_use]
    pub const fn index(self) -> u32 {
        self as u32
    }

    /// Returns whether it indicates a fault in the datapath or a full table. The others
    /// follow from Services and EndpointSlices.
    #[inline(always)]
    #[must_use]
    pub const fn is_fault(self) -> bool {
        matches!(
            self,
            Self::RefusedUnstable
                | Self::RefusedFamily
                | Self::OriginalNotStored
                | Self::DroppedFlowsFull
                | Self::DroppedNoPort
                | Self::DroppedNoAddress
                | Self::DroppedUnstable
                | Self::DroppedFamily
                | Self::DroppedUnwritable
                | Self::DroppedBroken
                | Self::PolicyNotKept
        )
    }

    /// The counter with a number, if there is one.
    #[must_use]
    pub fn of_index(index: u32) -> Option<Self> {
        Self::ALL.iter().copied().find(|it| it.index() == index)
    }

    /// Returns whether it counts refusals.
    #[must_use]
    pub const fn is_refusal(self) -> bool {
        matches!(
            self,
            Self::RefusedNoEndpoint
                | Self::RefusedNoLocalEndpoint
                | Self::RefusedUnstable
                | Self::RefusedFamily
                | Self::RefusedBind
                | Self::PacketRefused
        )
    }

    /// Returns whether it counts dropped packets.
    #[must_use]
    pub const fn is_drop(self) -> bool {
        let number = self as u32;
        (Self::DroppedEmpty as u32 <= number && number <= Self::DroppedTooBig as u32)
            || (Self::DroppedIngress as u32 <= number && number <= Self::DroppedBandwidth as u32)
    }
}
