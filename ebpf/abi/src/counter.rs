//! Counters: what the programs did and why they refused.

/// Which hook decided.
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
    /// Refused: the service has no endpoint that may serve.
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
    /// A service or slot was read again because it changed meanwhile.
    Reread = 9, "reread";
    /// A client kept its backend by affinity.
    AffinityKept = 10, "affinity_kept";
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

    /// Is it a sign of a fault in the datapath or of a lack of room? The rest
    /// follows from what Services and EndpointSlices say.
    #[inline(always)]
    #[must_use]
    pub const fn is_fault(self) -> bool {
        matches!(
            self,
            Self::RefusedUnstable | Self::RefusedFamily | Self::OriginalNotStored
        )
    }

    /// The counter with a number, if there is one.
    #[must_use]
    pub fn of_index(index: u32) -> Option<Self> {
        Self::ALL.iter().copied().find(|it| it.index() == index)
    }

    /// Does it count refusals?
    #[must_use]
    pub const fn is_refusal(self) -> bool {
        matches!(
            self,
            Self::RefusedNoEndpoint
                | Self::RefusedNoLocalEndpoint
                | Self::RefusedUnstable
                | Self::RefusedFamily
        )
    }
}
