//! The steps of a packet's way: where it is seen, and the verdict.

/// The place where a packet is seen.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// It arrived from another machine.
    Device = 0,
    /// It was sent by a pod of this node.
    Pod = 1,
    /// It is about to leave through a device of the node, and a process of the
    /// node made it.
    Host = 2,
    /// It is about to leave, from elsewhere or to a pod: only answers of the
    /// node's own processes are looked for.
    Leaving = 3,
}

impl Origin {
    /// Returns whether the kernel has already routed it.
    #[inline(always)]
    #[must_use]
    pub const fn is_routed(self) -> bool {
        matches!(self, Self::Host | Self::Leaving)
    }
}

/// The verdict on a packet.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketVerdict {
    /// It is foreign and passes unchanged.
    Pass = 0,
    /// It belongs to no flow: it may begin one.
    Unknown = 1,
    /// It is translated to [`Work::to`](super::Work::to), and continues.
    Translate = 2,
    /// It gets [`Work::to`](super::Work::to), and the program sends it there.
    Forward = 3,
    /// It is an ICMP error about a packet of a flow: it gets what belongs to
    /// [`Work::entry`](super::Work::entry), and the program sends it.
    TranslateError = 4,
    /// It is dropped for [`Work::counter`](super::Work::counter).
    Drop = 5,
    /// Its sender is notified that nothing serves.
    Refuse = 6,
    /// It is sent in an outer header to [`Work::to`](super::Work::to)'s destination.
    Encapsulate = 7,
    /// It is sent unchanged, except for the hop count, to the machine of [`Work::to`](super::Work::to)'s
    /// destination: nodes that disagree temporarily would otherwise send it to and fro.
    Link = 8,
}

/// A step that is verified apart from who takes it, where that matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Find the flow of the packet that an error is about.
    Error,
    /// Find a later fragment's ports; [`PacketVerdict::Unknown`] if they are known.
    Recall,
    /// Keep a first fragment's ports.
    Keep,
    /// Find the packet's flow.
    Track,
    /// See whether it addresses a service; [`PacketVerdict::Unknown`] if so.
    Ask,
    /// See whether it leaves the cluster as the node; [`PacketVerdict::Unknown`] if so.
    Leave,
    /// Show the client of a service as the node, if its backend is outside.
    Hide,
    /// Choose a backend.
    Select,
    /// Make the flow's entries.
    Add,
    /// Add the client's entry.
    Forward,
    /// Add the entry for replies under one port.
    Reply,
    /// Search for a port that is free.
    Search,
    /// Look at some ports of a search.
    SearchRun,
    /// Remove a conflicting entry; [`PacketVerdict::Unknown`] if it is already removed.
    TakeOver,
    /// Remove the expired flow, since the packet's connection is served elsewhere.
    Forget,
    /// Collect expired flows.
    Collect,
    /// Collect more flows, since there is no room.
    MakeRoom,
}
